package memstore_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
	"github.com/redlatch/redlatch/core/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) {
	storetest.Run(t, func(*testing.T) lock.Store { return memstore.New() },
		storetest.Require(lock.Fair, lock.Read, lock.Write, lock.Semaphore))
}

// A store may leave modes out, if it says so.
func TestConformanceOfAStoreWithOneMode(t *testing.T) {
	storetest.Run(t, func(*testing.T) lock.Store { return exclusiveOnly{memstore.New()} })
}

type exclusiveOnly struct{ *memstore.Store }

func refuse(c lock.Claim) error {
	if c.Mode != lock.Exclusive {
		return fmt.Errorf("%w: mode %s", lock.ErrUnsupported, c.Mode)
	}
	return nil
}

func (s exclusiveOnly) Acquire(ctx context.Context, c lock.Claim) (uint64, error) {
	if err := refuse(c); err != nil {
		return 0, err
	}
	return s.Store.Acquire(ctx, c)
}

func (s exclusiveOnly) Renew(ctx context.Context, claims []lock.Claim, report func(int, error)) {
	if err := refuse(claims[0]); err != nil {
		report(0, err)
		return
	}
	s.Store.Renew(ctx, claims, report)
}

func (s exclusiveOnly) Release(ctx context.Context, c lock.Claim) error {
	if err := refuse(c); err != nil {
		return err
	}
	return s.Store.Release(ctx, c)
}

func (s exclusiveOnly) Watch(ctx context.Context, c lock.Claim, wake func()) (func(), error) {
	if err := refuse(c); err != nil {
		return nil, err
	}
	return s.Store.Watch(ctx, c, wake)
}

var place = lock.Claim{Key: "k", Owner: "a:1", Mode: lock.Fair, Holds: 1, TTL: time.Minute}

func wait(t *testing.T, store *memstore.Store, owner string) lock.Claim {
	t.Helper()
	c := place
	c.Owner, c.Places = owner, []string{owner}
	if _, err := store.Acquire(t.Context(), c); !errors.Is(err, lock.ErrBusy) {
		t.Fatalf("got %v, want ErrBusy", err)
	}
	return c
}

func TestAPlaceLastsForFifteenSecondsSinceItsOwnerCame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		if _, err := store.Acquire(t.Context(), place); err != nil {
			t.Fatal(err)
		}
		wait(t, store, "b:1")
		wait(t, store, "c:1")
		time.Sleep(8 * time.Second)
		wait(t, store, "c:1")
		time.Sleep(8 * time.Second)
		state, err := store.Inspect(t.Context(), "k")
		if err != nil || len(state.Waiters) != 1 || state.Waiters[0] != "c:1" {
			t.Errorf("got %+v, %v; want c:1 alone to wait", state, err)
		}
		time.Sleep(time.Minute)
		if _, err := store.Inspect(t.Context(), "k"); err != nil || store.Len() != 0 {
			t.Errorf("%d keys, %v, when all has ended", store.Len(), err)
		}
	})
}

func TestEachDeadFirstHasFiveSecondsAndTheNextIsWoken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		if _, err := store.Acquire(t.Context(), place); err != nil {
			t.Fatal(err)
		}
		wait(t, store, "b:1")
		wait(t, store, "c:1")
		last := wait(t, store, "d:1")
		woken := 0
		stop, err := store.Watch(t.Context(), last, func() { woken++ })
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		released := place
		released.Holds = 0
		if err := store.Release(t.Context(), released); err != nil {
			t.Fatal(err)
		}
		for range 99 {
			wait(t, store, "d:1")
			time.Sleep(100 * time.Millisecond)
		}
		if woken != 0 {
			t.Errorf("woken %d times before its turn", woken)
		}
		time.Sleep(100 * time.Millisecond)
		if _, err := store.Acquire(t.Context(), last); err != nil || woken != 1 {
			t.Errorf("after 2 graces: %v, woken %d times", err, woken)
		}
	})
}

func TestExpiredHoldsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		for i := range 10_000 {
			claim := lock.Claim{Key: fmt.Sprint("key:", i), Owner: "a:1", Holds: 1, TTL: time.Second}
			if _, err := store.Acquire(t.Context(), claim); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Millisecond)
		}
		if held := store.Len(); held > 500 {
			t.Errorf("%d entries for 100 live holds", held)
		}
	})
}

func TestEndedContextChangesNothing(t *testing.T) {
	store := memstore.New()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := store.Acquire(ctx, lock.Claim{Key: "k", Owner: "a:1", Holds: 1, TTL: time.Second})
	var failed *lock.StoreError
	if !errors.As(err, &failed) || failed.Outcome != lock.OutcomeNotExecuted || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled with OutcomeNotExecuted", err)
	}
	if state, _ := store.Inspect(t.Context(), "k"); state.Held {
		t.Error("the key is held")
	}
}

func ExampleNew() {
	store := memstore.New()
	here, there := lock.New(store), lock.New(store) // two "processes"
	ctx := context.Background()

	lease, _ := here.Acquire(ctx, "order:42")
	_, err := there.TryAcquire(ctx, "order:42")
	fmt.Println(errors.Is(err, lock.ErrBusy))

	_ = lease.Release(ctx)
	_, err = there.TryAcquire(ctx, "order:42")
	fmt.Println(err)

	_ = here.Close(ctx)
	_ = there.Close(ctx)
	// Output:
	// true
	// <nil>
}

// Permits that come back wake the fair waiters of the key, which queue behind them.
func TestAFairWaiterBehindPermitsIsWoken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		here, there := lock.New(store), lock.New(store, lock.WithPoll(time.Hour))
		permits, err := here.Acquire(t.Context(), "k", lock.WithPermits(1, 2))
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Second, func() { _ = permits.Release(context.Background()) })
		began := time.Now()
		lease, err := there.Acquire(t.Context(), "k", lock.WithMode(lock.Fair))
		if took := time.Since(began); err != nil || took != time.Second {
			t.Errorf("got %v, %v after %v, want the lease after 1s", lease, err, took)
		}
		for _, l := range []*lock.Locker{here, there} {
			if err := l.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
}
