package store_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/redlatch/redlatch/core/fence"
	"github.com/redlatch/redlatch/examples/seckill/internal/store"
	"github.com/redlatch/redlatch/examples/seckill/internal/voucher"
)

// databases lists SQLite and the servers that the environment names:
// SECKILL_TEST_MYSQL and SECKILL_TEST_POSTGRES. The integration tests of the
// root module start them and run these tests again.
func databases(t *testing.T) iter.Seq2[string, string] {
	t.Helper()
	return func(yield func(name, address string) bool) {
		if !yield("sqlite", sqliteFile(t)) {
			return
		}
		for _, name := range []string{"mysql", "postgres"} {
			url := os.Getenv("SECKILL_TEST_" + strings.ToUpper(name))
			if url != "" && !yield(name, url) {
				return
			}
		}
	}
}

func sqliteFile(t *testing.T) string {
	t.Helper()
	return "sqlite:" + filepath.Join(t.TempDir(), "sale #% 半价.db")
}

func open(t *testing.T, address string) *store.Store {
	t.Helper()
	s, err := tryOpen(t, address)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func tryOpen(t *testing.T, address string) (*store.Store, error) {
	t.Helper()
	parsed, err := store.ParseAddress(address)
	if err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(t.Context(), parsed)
	if err == nil {
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		})
	}
	return s, err
}

func newID(t *testing.T) string {
	t.Helper()
	return uuid.Must(uuid.NewV7()).String()
}

// onSale puts a voucher on sale.
func onSale(t *testing.T, s *store.Store, stock int64) voucher.Voucher {
	t.Helper()
	now := time.Now().UTC().Truncate(time.Microsecond)
	v := voucher.Voucher{
		ID: newID(t), Title: "Half price 半价 🎟", Stock: stock, Remaining: stock,
		BeginAt: now.Add(-time.Hour), EndAt: now.Add(time.Hour), CreatedAt: now,
	}
	if err := s.CreateVoucher(t.Context(), v); err != nil {
		t.Fatal(err)
	}
	return v
}

func orderOf(t *testing.T, v voucher.Voucher, user string, token uint64, owner string) voucher.Order {
	t.Helper()
	return voucher.Order{
		ID: newID(t), VoucherID: v.ID, UserID: user,
		Fence:     fence.New(token, owner),
		CreatedAt: time.Now().UTC().Truncate(time.Microsecond),
	}
}

// someone is a user that no other test knows.
func someone(t *testing.T) string {
	t.Helper()
	return "u-" + uuid.NewString()
}

func wantReport(t *testing.T, s *store.Store, v voucher.Voucher, want voucher.Report) {
	t.Helper()
	want.Stock = v.Stock
	got, err := s.Count(t.Context(), v.ID)
	if err != nil {
		t.Fatal(err)
	}
	if got != want {
		t.Errorf("orders: %+v, want %+v", got, want)
	}
	now, err := s.Voucher(t.Context(), v.ID)
	if err != nil {
		t.Fatal(err)
	}
	if counters := now.Report(); counters != want {
		t.Errorf("counters: %+v, want %+v", counters, want)
	}
}

// wantErr checks an error, and that the database is blamed for its failures only.
func wantErr(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) || errors.Is(err, voucher.ErrStoreUnavailable) != errors.Is(want, voucher.ErrStoreUnavailable) {
		t.Errorf("error %v, want %v", err, want)
	}
}

func TestWhatIsStoredReadsTheSame(t *testing.T) {
	for name, address := range databases(t) {
		t.Run(name, func(t *testing.T) {
			s := open(t, address)
			v := onSale(t, s, 3)
			if got, err := s.Voucher(t.Context(), v.ID); err != nil || got != v {
				t.Errorf("voucher: %+v, %v, want %+v", got, err, v)
			}
			// The largest fence there is.
			o := orderOf(t, v, someone(t), 1<<53-1, "owner:1")
			if err := s.PlaceOrder(t.Context(), o); err != nil {
				t.Fatal(err)
			}
			o.Fence.Owner = "" // is kept in the guard only
			if got, err := s.Order(t.Context(), o.ID); err != nil || got != o {
				t.Errorf("order: %+v, %v, want %+v", got, err, o)
			}
			if got, err := s.Voucher(t.Context(), v.ID); err != nil || got.Remaining != 2 {
				t.Errorf("after one order: %+v, %v, want 2 remaining", got, err)
			}
			wantReport(t, s, v, voucher.Report{Sold: 1, Orders: 1, DistinctUsers: 1})
			if err := s.Ping(t.Context()); err != nil {
				t.Errorf("ping: %v", err)
			}
		})
	}
}

func TestListsAreNewestFirstAndBounded(t *testing.T) {
	for name, address := range databases(t) {
		t.Run(name, func(t *testing.T) {
			s := open(t, address)
			older, newer := onSale(t, s, 9), onSale(t, s, 9)
			list, err := s.Vouchers(t.Context(), 2)
			if err != nil || len(list) != 2 || list[0].ID != newer.ID || list[1].ID != older.ID {
				t.Errorf("vouchers: %v, %v, want %s and %s", list, err, newer.ID, older.ID)
			}
			var ids []string
			for range 3 {
				o := orderOf(t, newer, someone(t), 1, "o:1")
				if err := s.PlaceOrder(t.Context(), o); err != nil {
					t.Fatal(err)
				}
				ids = append(ids, o.ID)
			}
			orders, err := s.Orders(t.Context(), newer.ID, 2)
			if err != nil || len(orders) != 2 || orders[0].ID != ids[2] || orders[1].ID != ids[1] {
				t.Errorf("orders: %v, %v, want the last two of %v", orders, err, ids)
			}
			if orders, err := s.Orders(t.Context(), older.ID, 10); err != nil || len(orders) != 0 {
				t.Errorf("orders of an unsold voucher: %v, %v", orders, err)
			}
		})
	}
}

func TestUnknownIDsAreNotFoundWhateverTheyAre(t *testing.T) {
	for name, address := range databases(t) {
		t.Run(name, func(t *testing.T) {
			s := open(t, address)
			known := onSale(t, s, 1).ID
			for _, id := range []string{
				newID(t), "", "1", "x\x00y", "半价", "' OR 1=1 --", strings.ToUpper(known) + "x",
				strings.ToUpper(known[:8]) + strings.ToUpper(known[8:]), "{" + known + "}", known + " ",
			} {
				if id == known {
					continue // a number without letters
				}
				_, err := s.Voucher(t.Context(), id)
				wantErr(t, err, voucher.ErrVoucherNotFound)
				_, err = s.Order(t.Context(), id)
				wantErr(t, err, voucher.ErrOrderNotFound)
				_, err = s.Orders(t.Context(), id, 1)
				wantErr(t, err, voucher.ErrVoucherNotFound)
				_, err = s.Count(t.Context(), id)
				wantErr(t, err, voucher.ErrVoucherNotFound)
			}
			o := orderOf(t, voucher.Voucher{ID: newID(t)}, someone(t), 1, "o:1")
			wantErr(t, s.PlaceOrder(t.Context(), o), voucher.ErrVoucherNotFound)
		})
	}
}

func TestAUserGetsOneAndNobodyGetsMoreThanThereIs(t *testing.T) {
	for name, address := range databases(t) {
		t.Run(name, func(t *testing.T) {
			s := open(t, address)
			v := onSale(t, s, 1)
			first, second := someone(t), someone(t)
			o := orderOf(t, v, first, 1, "o:1")
			if err := s.PlaceOrder(t.Context(), o); err != nil {
				t.Fatal(err)
			}
			for user, want := range map[string]bool{first: true, second: false} {
				if got, err := s.Ordered(t.Context(), v.ID, user); err != nil || got != want {
					t.Errorf("%s has ordered: %v, %v, want %v", user, got, err, want)
				}
			}
			if err := s.PlaceOrder(t.Context(), o); err != nil {
				t.Errorf("the same order again: %v, want nil: its answer may have been lost", err)
			}
			// That the user has one already is the better answer, also when none is left.
			wantErr(t, s.PlaceOrder(t.Context(), orderOf(t, v, first, 2, "o:2")), voucher.ErrAlreadyOrdered)
			wantErr(t, s.PlaceOrder(t.Context(), orderOf(t, v, second, 3, "o:3")), voucher.ErrSoldOut)
			wantReport(t, s, v, voucher.Report{Sold: 1, Orders: 1, DistinctUsers: 1})
		})
	}
}

func TestACancelledOrderIsBackInTheStockAndMayBePlacedAgain(t *testing.T) {
	for name, address := range databases(t) {
		t.Run(name, func(t *testing.T) {
			s := open(t, address)
			v, user := onSale(t, s, 1), someone(t)
			o := orderOf(t, v, user, 10, "a")
			if err := s.PlaceOrder(t.Context(), o); err != nil {
				t.Fatal(err)
			}
			for title, tt := range map[string]struct {
				user  string
				token fence.Token
				want  error
			}{
				"another user's":  {someone(t), fence.New(11, "b"), voucher.ErrOrderNotFound},
				"a late holder's": {user, fence.New(9, "z"), voucher.ErrStaleFence},
			} {
				if err := s.CancelOrder(t.Context(), o.ID, tt.user, tt.token); !errors.Is(err, tt.want) {
					t.Errorf("%s: %v, want %v", title, err, tt.want)
				}
			}
			wantReport(t, s, v, voucher.Report{Sold: 1, Orders: 1, DistinctUsers: 1})
			if err := s.CancelOrder(t.Context(), o.ID, user, fence.New(12, "c")); err != nil {
				t.Fatal(err)
			}
			wantReport(t, s, v, voucher.Report{})
			if err := s.CancelOrder(t.Context(), o.ID, user, fence.New(13, "d")); !errors.Is(err, voucher.ErrOrderNotFound) {
				t.Errorf("once more: %v", err)
			}
			if err := s.PlaceOrder(t.Context(), orderOf(t, v, user, 14, "e")); err != nil {
				t.Errorf("placed again: %v", err)
			}
			wantReport(t, s, v, voucher.Report{Sold: 1, Orders: 1, DistinctUsers: 1})
		})
	}
}

func TestUsersDifferByCase(t *testing.T) {
	for name, address := range databases(t) {
		t.Run(name, func(t *testing.T) {
			s := open(t, address)
			v := onSale(t, s, 5)
			id := uuid.NewString()
			for _, user := range []string{"a" + id, "A" + id} {
				if err := s.PlaceOrder(t.Context(), orderOf(t, v, user, 1, "o:1")); err != nil {
					t.Errorf("order of %s: %v", user, err)
				}
			}
			wantReport(t, s, v, voucher.Report{Sold: 2, Orders: 2, DistinctUsers: 2})
		})
	}
}

func TestAnOlderFenceIsRefusedAndWritesNothing(t *testing.T) {
	for name, address := range databases(t) {
		t.Run(name, func(t *testing.T) {
			s := open(t, address)
			user := someone(t)
			if err := s.PlaceOrder(t.Context(), orderOf(t, onSale(t, s, 5), user, 10, "new:1")); err != nil {
				t.Fatal(err)
			}
			for _, tt := range []struct {
				name  string
				token uint64
				owner string
				want  error
			}{
				{"older", 9, "old:1", voucher.ErrStaleFence},
				{"older of the same owner", 9, "new:1", voucher.ErrStaleFence},
				{"none", 0, "", voucher.ErrStaleFence},
				{"equal of another owner", 10, "other:1", voucher.ErrStaleFence},
				{"equal of the same owner", 10, "new:1", nil},
				{"newer", 11, "newer:1", nil},
				{"older than the newer", 10, "new:1", voucher.ErrStaleFence},
			} {
				v := onSale(t, s, 5)
				err := s.PlaceOrder(t.Context(), orderOf(t, v, user, tt.token, tt.owner))
				want := voucher.Report{}
				if tt.want == nil {
					want = voucher.Report{Sold: 1, Orders: 1, DistinctUsers: 1}
				}
				if !errors.Is(err, tt.want) {
					t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
				}
				wantReport(t, s, v, want)
			}
		})
	}
}

func TestARefusedOrderDoesNotRaiseTheGuard(t *testing.T) {
	for name, address := range databases(t) {
		t.Run(name, func(t *testing.T) {
			s := open(t, address)
			user := someone(t)
			absent := voucher.Voucher{ID: newID(t)}
			wantErr(t, s.PlaceOrder(t.Context(), orderOf(t, absent, user, 20, "late:1")), voucher.ErrVoucherNotFound)
			if err := s.PlaceOrder(t.Context(), orderOf(t, onSale(t, s, 1), user, 10, "o:1")); err != nil {
				t.Errorf("order after a refusal with a newer fence: %v", err)
			}
		})
	}
}

// Every order here comes without a lock: what holds is the database's doing.
func TestInvariantsHoldWithoutAnyLock(t *testing.T) {
	const stock, users, clicks = 30, 60, 4
	for name, address := range databases(t) {
		t.Run(name, func(t *testing.T) {
			instances := []*store.Store{open(t, address), open(t, address)}
			v := onSale(t, instances[0], stock)
			crowd := someone(t)[:20]
			var (
				wg      sync.WaitGroup
				mu      sync.Mutex
				answers = make(map[string]int)
			)
			for n := range users * clicks {
				o := orderOf(t, v, fmt.Sprint(crowd, n/clicks), 0, "")
				o.Fence = fence.New(uint64(n+1), fmt.Sprint("o:", n))
				wg.Go(func() {
					err := instances[n%2].PlaceOrder(t.Context(), o)
					mu.Lock()
					defer mu.Unlock()
					switch {
					case err == nil:
						answers["placed"]++
					case errors.Is(err, voucher.ErrAlreadyOrdered), errors.Is(err, voucher.ErrSoldOut), errors.Is(err, voucher.ErrStaleFence):
						answers["refused"]++
					default:
						t.Errorf("order %d: %v", n, err)
					}
				})
			}
			wg.Wait()
			if answers["placed"] != stock {
				t.Errorf("answers: %v, want %d placed", answers, stock)
			}
			wantReport(t, instances[1], v, voucher.Report{Sold: stock, Orders: stock, DistinctUsers: stock})
		})
	}
}

func TestClicksOfOneUserAtOnceMakeOneOrder(t *testing.T) {
	for name, address := range databases(t) {
		t.Run(name, func(t *testing.T) {
			s := open(t, address)
			v, user := onSale(t, s, 100), someone(t)
			var wg sync.WaitGroup
			for n := range 50 {
				o := orderOf(t, v, user, uint64(n+1), fmt.Sprint("o:", n))
				wg.Go(func() { _ = s.PlaceOrder(t.Context(), o) })
			}
			wg.Wait()
			wantReport(t, s, v, voucher.Report{Sold: 1, Orders: 1, DistinctUsers: 1})
		})
	}
}

// server is a database server that keeps its connections, whatever becomes of it.
type server struct {
	driver.Connector
	connected int
}

func (s *server) Connect(context.Context) (driver.Conn, error) {
	s.connected++
	return connection{}, nil
}

type connection struct{ driver.Conn }

func (connection) Close() error               { return nil }
func (connection) Ping(context.Context) error { return nil }

func TestABusyConnectionIsRenewedAllTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &server{}
		db := store.Sized(sql.OpenDB(to), 1)
		defer db.Close()
		for range 3 * store.MaxLifetime / time.Second {
			if err := db.PingContext(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		if to.connected < 3 {
			t.Errorf("%d connections in %v, want a new one every %v", to.connected, 3*store.MaxLifetime, store.MaxLifetime)
		}
	})
}

func TestInstancesThatStartTogetherMigrateOnce(t *testing.T) {
	for name, address := range databases(t) {
		t.Run(name, func(t *testing.T) {
			first := open(t, address)
			for _, table := range []string{"order_guards", "orders", "vouchers", "goose_db_version"} {
				if err := first.Exec(t.Context(), "DROP TABLE "+table); err != nil {
					t.Fatal(err)
				}
			}
			var wg sync.WaitGroup
			for range 6 {
				wg.Go(func() {
					if _, err := tryOpen(t, address); err != nil {
						t.Errorf("open: %v", err)
					}
				})
			}
			wg.Wait()
			v := onSale(t, first, 1)
			wantReport(t, first, v, voucher.Report{})
		})
	}
}

func TestAnEndedContextPlacesNothing(t *testing.T) {
	for name, address := range databases(t) {
		t.Run(name, func(t *testing.T) {
			s := open(t, address)
			v := onSale(t, s, 1)
			lost := errors.New("lease is lost")
			ctx, cancel := context.WithCancelCause(t.Context())
			cancel(lost)
			err := s.PlaceOrder(ctx, orderOf(t, v, someone(t), 1, "o:1"))
			wantErr(t, err, lost)
			wantReport(t, s, v, voucher.Report{})
		})
	}
}

func TestAClosedDatabaseIsUnavailable(t *testing.T) {
	for name, address := range databases(t) {
		t.Run(name, func(t *testing.T) {
			s := open(t, address)
			v := onSale(t, s, 1)
			o := orderOf(t, v, someone(t), 1, "o:1")
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			for call, do := range map[string]func(context.Context) error{
				"Voucher":       func(ctx context.Context) error { _, err := s.Voucher(ctx, v.ID); return err },
				"Vouchers":      func(ctx context.Context) error { _, err := s.Vouchers(ctx, 1); return err },
				"Order":         func(ctx context.Context) error { _, err := s.Order(ctx, o.ID); return err },
				"Orders":        func(ctx context.Context) error { _, err := s.Orders(ctx, v.ID, 1); return err },
				"Ordered":       func(ctx context.Context) error { _, err := s.Ordered(ctx, v.ID, o.UserID); return err },
				"Count":         func(ctx context.Context) error { _, err := s.Count(ctx, v.ID); return err },
				"CreateVoucher": func(ctx context.Context) error { return s.CreateVoucher(ctx, v) },
				"PlaceOrder":    func(ctx context.Context) error { return s.PlaceOrder(ctx, o) },
				"CancelOrder":   func(ctx context.Context) error { return s.CancelOrder(ctx, o.ID, o.UserID, o.Fence) },
			} {
				if err := do(t.Context()); !errors.Is(err, voucher.ErrStoreUnavailable) {
					t.Errorf("%s: %v, want %v", call, err, voucher.ErrStoreUnavailable)
				}
			}
			if s.Ping(t.Context()) == nil {
				t.Error("ping of a closed database says nil")
			}
		})
	}
}

func TestABusyFileIsUnavailableAfterAWhileAndThenWorks(t *testing.T) {
	address := sqliteFile(t)
	s, other := open(t, address), open(t, address)
	v, user := onSale(t, s, 1), someone(t)
	if err := other.Exec(t.Context(), "BEGIN EXCLUSIVE"); err != nil {
		t.Fatal(err)
	}
	order := orderOf(t, v, user, 1, "o:1")
	_, err := voucher.NewService(s, 200*time.Millisecond).Place(t.Context(), v.ID, user, order.Fence)
	wantErr(t, err, voucher.ErrStoreUnavailable)
	wantReport(t, s, v, voucher.Report{}) // readers do not wait for the writer

	if err := other.Exec(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	if err := s.PlaceOrder(t.Context(), order); err != nil {
		t.Errorf("order after the file is free: %v", err)
	}
}

// The file is busy for longer than SQLite itself waits.
func TestAnOrderOutwaitsABusyFile(t *testing.T) {
	address := sqliteFile(t)
	s, other := open(t, address), open(t, address)
	v := onSale(t, s, 1)
	if err := other.Exec(t.Context(), "BEGIN EXCLUSIVE"); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	time.AfterFunc(1500*time.Millisecond, func() { ended <- other.Exec(context.Background(), "ROLLBACK") })
	if err := s.PlaceOrder(t.Context(), orderOf(t, v, someone(t), 1, "o:1")); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	wantReport(t, s, v, voucher.Report{Sold: 1, Orders: 1, DistinctUsers: 1})
}
