package integration_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/fx"
	"go.uber.org/fx/fxtest"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
	"github.com/redlatch/redlatch/test/internal/redistest"
)

//go:generate go run github.com/redlatch/redlatch/annotations/cmd/lockgen

// accounts is what an application has, with a lock for each of two accounts.
type accounts interface {
	// Move calls work instead of moving anything.
	//
	//redlatch:lock lock:account:<from> wait=30s
	//redlatch:lock lock:account:<to>
	Move(ctx context.Context, from, to string, work func(context.Context) error) error
}

type bank struct{}

func (bank) Move(ctx context.Context, _, _ string, work func(context.Context) error) error {
	return work(ctx)
}

// newBank returns the decorator that lockgen wrote.
func newBank(t *testing.T, l *lock.Locker) accounts {
	t.Helper()
	locked, err := newAccountsLock(bank{}, guard.Must(guard.New(l)))
	if err != nil {
		t.Fatal(err)
	}
	return locked
}

func TestAnnotatedMethodsKeepTheirPromisesOnRedis(t *testing.T) {
	server := redistest.Standalone(t)
	rdb := server.Admin(t)

	t.Run("two instances move money both ways at once, and none is lost", func(t *testing.T) {
		const all, moves = 4, 25
		var balances [all]int64 // read and written back in steps: only the locks keep them right
		for i := range balances {
			balances[i] = 100
		}
		var callers sync.WaitGroup
		for instance := range 2 {
			locked := newBank(t, newLocker(t, server.Client(t)))
			for worker := range 4 {
				callers.Go(func() {
					for i := range moves {
						from, to := (worker+i)%all, (worker+2*i+instance+1)%all
						err := locked.Move(t.Context(), fmt.Sprint(from), fmt.Sprint(to), func(context.Context) error {
							left := atomic.LoadInt64(&balances[from])
							atomic.StoreInt64(&balances[from], left-1)
							got := atomic.LoadInt64(&balances[to])
							atomic.StoreInt64(&balances[to], got+1)
							return nil
						})
						if err != nil {
							t.Errorf("from %d to %d: %v", from, to, err)
						}
					}
				})
			}
		}
		callers.Wait()
		sum := int64(0)
		for _, b := range balances {
			sum += b
		}
		if sum != 100*all {
			t.Errorf("%v are %d in all, want %d", balances, sum, 100*all)
		}
		for i := range all {
			if fields := hash(t, rdb, fmt.Sprint("lock:account:", i)); len(fields) != 0 {
				t.Errorf("account %d is still locked: %v", i, fields)
			}
		}
	})

	t.Run("all or nothing", func(t *testing.T) {
		locked := newBank(t, newLocker(t, server.Client(t)))
		lease := acquire(t, newLocker(t, server.Client(t)), "lock:account:y")
		ctx, cancel := context.WithTimeout(t.Context(), short)
		defer cancel()
		err := locked.Move(ctx, "x", "y", func(context.Context) error { return errors.New("the work ran") })
		if guard.KindOf(err) != guard.Canceled || !errors.Is(err, lock.ErrBusy) {
			t.Errorf("got %v, want Canceled while busy", err)
		}
		eventually(t, func() error {
			if fields := hash(t, rdb, "lock:account:x"); len(fields) != 0 {
				return fmt.Errorf("the free one was kept: %v", fields)
			}
			return nil
		})
		release(t, lease)
	})

	t.Run("a key that is taken away ends the work and is reported", func(t *testing.T) {
		locked := newBank(t, newLocker(t, server.Client(t), lock.WithWatchdog(3*time.Second)))
		err := locked.Move(t.Context(), "p", "q", func(ctx context.Context) error {
			if err := rdb.Del(ctx, "lock:account:q").Err(); err != nil {
				return err
			}
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(patience):
				return errors.New("the work was not ended")
			}
		})
		if guard.KindOf(err) != guard.Lost {
			t.Errorf("got %v, want Lost although the work returned nil", err)
		}
	})

	t.Run("without Redis the work does not run", func(t *testing.T) {
		locked := newBank(t, newLocker(t, server.Client(t), lock.WithCallTimeout(200*time.Millisecond)))
		server.Kill()
		err := locked.Move(t.Context(), "a", "b", func(context.Context) error {
			t.Error("the work ran")
			return nil
		})
		if guard.KindOf(err) != guard.Unavailable {
			t.Errorf("got %v, want Unavailable", err)
		}
	})
}

func TestADecoratorFitsFxDecorate(t *testing.T) {
	var decorated accounts
	app := fxtest.New(t,
		fx.NopLogger,
		fx.Provide(
			func() accounts { return bank{} },
			func() *lock.Locker { return lock.New(memstore.New()) },
			func(l *lock.Locker) (*guard.Guard, error) { return guard.New(l) },
		),
		fx.Decorate(newAccountsLock),
		fx.Populate(&decorated),
		fx.Invoke(func(lc fx.Lifecycle, l *lock.Locker) { lc.Append(fx.StopHook(l.Close)) }),
	)
	defer app.RequireStart().RequireStop()
	if _, ok := decorated.(*accountsLock); !ok {
		t.Errorf("got a %T, want the decorator", decorated)
	}
}
