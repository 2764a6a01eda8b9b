package voucher_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/redlatch/redlatch/core/fence"
	"github.com/redlatch/redlatch/examples/seckill/internal/voucher"
)

// shelf is a store that remembers one voucher and the orders placed.
type shelf struct {
	voucher.Store
	v      voucher.Voucher
	placed []voucher.Order
	refuse error
}

func (s *shelf) CreateVoucher(_ context.Context, v voucher.Voucher) error {
	s.v = v
	return s.refuse
}

func (s *shelf) Voucher(_ context.Context, id string) (voucher.Voucher, error) {
	if id != s.v.ID {
		return voucher.Voucher{}, voucher.ErrVoucherNotFound
	}
	return s.v, nil
}

func (s *shelf) PlaceOrder(_ context.Context, o voucher.Order) error {
	if s.refuse == nil {
		s.placed = append(s.placed, o)
	}
	return s.refuse
}

var (
	begin = time.Date(2026, 11, 11, 0, 0, 0, 0, time.UTC)
	end   = begin.Add(time.Hour)
)

func draft() voucher.Draft {
	return voucher.Draft{Title: "Half price", Stock: 10, BeginAt: begin, EndAt: end}
}

func TestCreateKeepsWhatDatabasesKeep(t *testing.T) {
	s := &shelf{}
	d := draft()
	d.BeginAt = begin.Add(1234567).In(time.FixedZone("", 8*3600))
	v, err := voucher.NewService(s).Create(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	if v != s.v || v.Remaining != 10 || !v.BeginAt.Equal(begin.Add(1234*time.Microsecond)) || v.BeginAt.Location() != time.UTC {
		t.Errorf("created %+v, stored %+v", v, s.v)
	}
	if id, err := uuid.Parse(v.ID); err != nil || id.Version() != 7 {
		t.Errorf("id %q: %v, want a UUID of version 7", v.ID, err)
	}
}

func TestADraftIsRefusedWithEverythingThatIsWrong(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*voucher.Draft)
		want   []string
	}{
		{"empty", func(d *voucher.Draft) { *d = voucher.Draft{} }, []string{"title", "stock", "beginAt", "endAt"}},
		{"blank title", func(d *voucher.Draft) { d.Title = " \u2003" }, []string{"title"}},
		{"title too long", func(d *voucher.Draft) { d.Title = strings.Repeat("半", 201) }, []string{"title"}},
		{"longest title", func(d *voucher.Draft) { d.Title = strings.Repeat("半", 200) }, nil},
		{"control byte", func(d *voucher.Draft) { d.Title = "a\x00b" }, []string{"title"}},
		{"no stock", func(d *voucher.Draft) { d.Stock = 0 }, []string{"stock"}},
		{"negative stock", func(d *voucher.Draft) { d.Stock = -1 }, []string{"stock"}},
		{"largest stock", func(d *voucher.Draft) { d.Stock = voucher.MaxStock }, nil},
		{"stock too large", func(d *voucher.Draft) { d.Stock++; d.Stock = voucher.MaxStock + 1 }, []string{"stock"}},
		{"ends as it begins", func(d *voucher.Draft) { d.EndAt = d.BeginAt }, []string{"endAt"}},
		{"ends before it begins", func(d *voucher.Draft) { d.EndAt = d.BeginAt.Add(-1) }, []string{"endAt"}},
		{"year 1", func(d *voucher.Draft) { d.BeginAt = time.Time{}.Add(1) }, []string{"beginAt"}},
		{"year 9999", func(d *voucher.Draft) { d.EndAt = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC) }, []string{"endAt"}},
	} {
		d := draft()
		tt.change(&d)
		_, err := voucher.NewService(&shelf{}).Create(t.Context(), d)
		var (
			invalid *voucher.InvalidError
			got     []string
		)
		if errors.As(err, &invalid) {
			for _, f := range invalid.Faults {
				got = append(got, f.Field)
				if !strings.Contains(err.Error(), f.Field+": "+f.Reason) {
					t.Errorf("%s: %q does not tell %v", tt.name, err, f)
				}
			}
		}
		if !slices.Equal(got, tt.want) || (err == nil) != (tt.want == nil) {
			t.Errorf("%s: faults in %v (%v), want %v", tt.name, got, err, tt.want)
		}
	}
}

func TestAnOrderIsPlacedInItsTimeOnly(t *testing.T) {
	for _, tt := range []struct {
		name string
		now  time.Time
		want error
	}{
		{"before", begin.Add(-1), voucher.ErrNotStarted},
		{"as it begins", begin, nil},
		{"last moment", end.Add(-1), nil},
		{"as it ends", end, voucher.ErrEnded},
		{"after", end.Add(time.Hour), voucher.ErrEnded},
	} {
		s := &shelf{v: voucher.Voucher{ID: "v", Stock: 1, Remaining: 1, BeginAt: begin, EndAt: end}}
		service := voucher.NewServiceAt(s, func() time.Time { return tt.now })
		o, err := service.Place(t.Context(), "v", "u", fence.New(7, "o:1"))
		if !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
		if tt.want != nil {
			if s.placed != nil {
				t.Errorf("%s: placed %v", tt.name, s.placed)
			}
			continue
		}
		if len(s.placed) != 1 || s.placed[0] != o || o.VoucherID != "v" || o.UserID != "u" || o.Fence != fence.New(7, "o:1") {
			t.Errorf("%s: returned %+v, placed %+v", tt.name, o, s.placed)
		}
	}
}

func TestPlaceSaysWhatTheStoreSays(t *testing.T) {
	now := func() time.Time { return begin }
	s := &shelf{v: voucher.Voucher{ID: "v", BeginAt: begin, EndAt: end}}
	if _, err := voucher.NewServiceAt(s, now).Place(t.Context(), "w", "u", voucher.Fence{}); !errors.Is(err, voucher.ErrVoucherNotFound) {
		t.Errorf("unknown voucher: %v", err)
	}
	for _, want := range []error{voucher.ErrSoldOut, voucher.ErrAlreadyOrdered, voucher.ErrStaleFence, voucher.ErrStoreUnavailable} {
		s.refuse = want
		if o, err := voucher.NewServiceAt(s, now).Place(t.Context(), "v", "u", voucher.Fence{}); !errors.Is(err, want) || o != (voucher.Order{}) {
			t.Errorf("%+v, %v, want %v", o, err, want)
		}
	}
}

func TestAReportSaysWhatIsWrong(t *testing.T) {
	for _, tt := range []struct {
		r          voucher.Report
		oversold   bool
		duplicates int64
	}{
		{voucher.Report{Stock: 5, Sold: 5, Orders: 5, DistinctUsers: 5}, false, 0},
		{voucher.Report{Stock: 5, Sold: 5, Orders: 6, DistinctUsers: 6}, true, 0},
		{voucher.Report{Stock: 5, Sold: 6, Orders: 5, DistinctUsers: 5}, true, 0},
		{voucher.Report{Stock: 5, Sold: 3, Orders: 5, DistinctUsers: 3}, false, 2},
	} {
		if tt.r.Oversold() != tt.oversold || tt.r.DuplicateOrders() != tt.duplicates {
			t.Errorf("%+v: oversold %v, %d duplicates", tt.r, tt.r.Oversold(), tt.r.DuplicateOrders())
		}
	}
}
