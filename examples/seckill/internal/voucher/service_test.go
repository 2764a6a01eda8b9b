package voucher_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/redlatch/redlatch/core/fence"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
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

func (s *shelf) Ordered(_ context.Context, voucherID, userID string) (bool, error) {
	ordered := func(o voucher.Order) bool { return o.VoucherID == voucherID && o.UserID == userID }
	return slices.ContainsFunc(s.placed, ordered), s.refuse
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

// limit is how long a call of the services here may take.
const limit = time.Minute

func draft() voucher.Draft {
	return voucher.Draft{Title: "Half price", Stock: 10, BeginAt: begin, EndAt: end}
}

func TestCreateKeepsWhatDatabasesKeep(t *testing.T) {
	s := &shelf{}
	d := draft()
	d.BeginAt = begin.Add(1234567).In(time.FixedZone("", 8*3600))
	v, err := voucher.NewService(s, limit).Create(t.Context(), d)
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
		{"ends in the microsecond in which it begins", func(d *voucher.Draft) { d.BeginAt, d.EndAt = begin.Add(100), begin.Add(900) }, []string{"endAt"}},
		{"ends a microsecond later", func(d *voucher.Draft) { d.EndAt = d.BeginAt.Add(time.Microsecond) }, nil},
		{"ends before it begins", func(d *voucher.Draft) { d.EndAt = d.BeginAt.Add(-1) }, []string{"endAt"}},
		{"year 1", func(d *voucher.Draft) { d.BeginAt = time.Time{}.Add(1) }, []string{"beginAt"}},
		{"year 9999", func(d *voucher.Draft) { d.EndAt = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC) }, []string{"endAt"}},
	} {
		d := draft()
		tt.change(&d)
		_, err := voucher.NewService(&shelf{}, limit).Create(t.Context(), d)
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
		service := voucher.NewServiceAt(s, limit, func() time.Time { return tt.now })
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

// An order of the last moment that wasn't confirmed is sent again when the sale has ended.
func TestWhoHasOrderedFindsTheOrderWhenTheSaleHasEnded(t *testing.T) {
	now := end.Add(-1)
	s := &shelf{v: voucher.Voucher{ID: "v", Stock: 2, Remaining: 2, BeginAt: begin, EndAt: end}}
	service := voucher.NewServiceAt(s, limit, func() time.Time { return now })
	if _, err := service.Place(t.Context(), "v", "ann", fence.New(7, "o:1")); err != nil {
		t.Fatal(err)
	}
	now = end
	for user, want := range map[string]error{"ann": voucher.ErrAlreadyOrdered, "bob": voucher.ErrEnded} {
		if _, err := service.Place(t.Context(), "v", user, fence.New(8, "o:2")); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", user, err, want)
		}
	}
	s.refuse = voucher.ErrStoreUnavailable
	if _, err := service.Place(t.Context(), "v", "bob", fence.New(9, "o:3")); !errors.Is(err, s.refuse) {
		t.Errorf("a database that doesn't answer: %v, want %v", err, s.refuse)
	}
}

func TestPlaceSaysWhatTheStoreSays(t *testing.T) {
	now := func() time.Time { return begin }
	s := &shelf{v: voucher.Voucher{ID: "v", BeginAt: begin, EndAt: end}}
	if _, err := voucher.NewServiceAt(s, limit, now).Place(t.Context(), "w", "u", voucher.Fence{}); !errors.Is(err, voucher.ErrVoucherNotFound) {
		t.Errorf("unknown voucher: %v", err)
	}
	for _, want := range []error{voucher.ErrSoldOut, voucher.ErrAlreadyOrdered, voucher.ErrStaleFence, voucher.ErrStoreUnavailable} {
		s.refuse = want
		if o, err := voucher.NewServiceAt(s, limit, now).Place(t.Context(), "v", "u", voucher.Fence{}); !errors.Is(err, want) || o != (voucher.Order{}) {
			t.Errorf("%+v, %v, want %v", o, err, want)
		}
	}
}

// hanging is a database that takes a call and never answers it.
type hanging struct{}

func hang(ctx context.Context) error {
	<-ctx.Done()
	return fmt.Errorf("no answer: %w", context.Cause(ctx))
}

func (hanging) Voucher(ctx context.Context, _ string) (voucher.Voucher, error) {
	return voucher.Voucher{}, hang(ctx)
}

func (hanging) Vouchers(ctx context.Context, _ int) ([]voucher.Voucher, error) {
	return nil, hang(ctx)
}

func (hanging) Order(ctx context.Context, _ string) (voucher.Order, error) {
	return voucher.Order{}, hang(ctx)
}

func (hanging) Orders(ctx context.Context, _ string, _ int) ([]voucher.Order, error) {
	return nil, hang(ctx)
}

func (hanging) Count(ctx context.Context, _ string) (voucher.Report, error) {
	return voucher.Report{}, hang(ctx)
}

func (hanging) Ordered(ctx context.Context, _, _ string) (bool, error) { return false, hang(ctx) }

func (hanging) CreateVoucher(ctx context.Context, _ voucher.Voucher) error { return hang(ctx) }

func (hanging) PlaceOrder(ctx context.Context, _ voucher.Order) error { return hang(ctx) }

func (hanging) CancelOrder(ctx context.Context, _, _ string, _ voucher.Fence) error {
	return hang(ctx)
}

// calls are all that a sale can do, with a lock where they need one.
func calls(s voucher.Sale, locker *lock.Locker) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"Voucher":  func(ctx context.Context) error { _, err := s.Voucher(ctx, "v"); return err },
		"Vouchers": func(ctx context.Context) error { _, err := s.Vouchers(ctx, 1); return err },
		"Order":    func(ctx context.Context) error { _, err := s.Order(ctx, "o"); return err },
		"Orders":   func(ctx context.Context) error { _, err := s.Orders(ctx, "v", 1); return err },
		"Look":     func(ctx context.Context) error { _, _, err := s.Look(ctx, "v", 0); return err },
		"Newest":   func(ctx context.Context) error { _, _, err := s.Newest(ctx, 0); return err },
		"Create":   func(ctx context.Context) error { _, err := s.Create(ctx, draft()); return err },
		"Place":    func(ctx context.Context) error { _, err := s.Place(ctx, "v", "u", voucher.Fence{}); return err },
		"Cancel": func(ctx context.Context) error {
			return locker.Do(ctx, "lock:order:u", func(ctx context.Context) error { return s.Cancel(ctx, "o", "u") })
		},
	}
}

func TestADatabaseThatHangsIsUnavailableWhenTheTimeOfACallIsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker := lock.New(memstore.New())
		defer locker.Close(context.Background())
		for name, call := range calls(voucher.NewService(hanging{}, limit), locker) {
			sent := time.Now()
			if err := call(t.Context()); !errors.Is(err, voucher.ErrStoreUnavailable) || time.Since(sent) != limit {
				t.Errorf("%s: %v after %v, want the database blamed after %v", name, err, time.Since(sent), limit)
			}
			left, cancel := context.WithTimeout(t.Context(), limit/2)
			if err := call(left); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, voucher.ErrStoreUnavailable) {
				t.Errorf("%s: a client that has left: %v, want the error of its context", name, err)
			}
			cancel()
		}
	})
}

// late is a database that carries out what it was sent, however long it takes.
type late struct{ *shelf }

func (l late) PlaceOrder(ctx context.Context, o voucher.Order) error {
	time.Sleep(2 * limit)
	return l.shelf.PlaceOrder(ctx, o)
}

func TestAnOrderThatIsPlacedLateIsPlaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{v: voucher.Voucher{ID: "v", Stock: 1, Remaining: 1, BeginAt: time.Now(), EndAt: time.Now().Add(time.Hour)}}
		if _, err := voucher.NewService(late{s}, limit).Place(t.Context(), "v", "u", fence.New(7, "o:1")); err != nil {
			t.Error(err)
		}
	})
}

// The shelf has no cancellations: to get to it is a panic.
func TestNothingIsCanceledWithoutALockThatHasAFence(t *testing.T) {
	locker := lock.New(memstore.New())
	defer locker.Close(context.Background())
	service := voucher.NewService(&shelf{}, limit)
	if err := service.Cancel(t.Context(), "o", "u"); !errors.Is(err, voucher.ErrNoLock) {
		t.Errorf("without a lock: %v, want %v", err, voucher.ErrNoLock)
	}
	err := locker.Do(t.Context(), "lock:order:u", func(ctx context.Context) error { return service.Cancel(ctx, "o", "u") }, lock.WithMode(lock.Read))
	if !errors.Is(err, voucher.ErrNoLock) {
		t.Errorf("with a lock that several hold: %v, want %v", err, voucher.ErrNoLock)
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
