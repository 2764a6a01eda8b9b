package memstore_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
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

func (s exclusiveOnly) Acquire(ctx context.Context, c lock.Claim, by time.Time, answer lock.Answer) {
	if err := refuse(c); err != nil {
		answer.Answered(0, err)
		return
	}
	s.Store.Acquire(ctx, c, by, answer)
}

func (s exclusiveOnly) Renew(ctx context.Context, claims []lock.Claim, report func(int, error)) {
	if err := refuse(claims[0]); err != nil {
		report(0, err)
		return
	}
	s.Store.Renew(ctx, claims, report)
}

func (s exclusiveOnly) Release(ctx context.Context, c lock.Claim, by time.Time, answer lock.Answer) {
	if err := refuse(c); err != nil {
		answer.Answered(0, err)
		return
	}
	s.Store.Release(ctx, c, by, answer)
}

func (s exclusiveOnly) Lower(_ context.Context, c lock.Claim, _ time.Time, answer lock.Answer) {
	answer.Answered(0, refuse(c))
}

func (s exclusiveOnly) Watch(ctx context.Context, c lock.Claim, wake func()) (func(), error) {
	if err := refuse(c); err != nil {
		return nil, err
	}
	return s.Store.Watch(ctx, c, wake)
}

var place = lock.Claim{Key: "k", Owner: "a:1", Mode: lock.Fair, TTL: time.Minute}

func wait(t *testing.T, store *memstore.Store, owner string) lock.Claim {
	t.Helper()
	c := place
	c.Owner, c.Places = owner, []string{owner}
	if _, err := lock.Blocking(store).Acquire(t.Context(), c); !errors.Is(err, lock.ErrBusy) {
		t.Fatalf("got %v, want ErrBusy", err)
	}
	return c
}

func TestAPlaceLastsForFifteenSecondsSinceItsOwnerCame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		if _, err := lock.Blocking(store).Acquire(t.Context(), place); err != nil {
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
		if _, err := lock.Blocking(store).Acquire(t.Context(), place); err != nil {
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
		if err := lock.Blocking(store).Release(t.Context(), place); err != nil {
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
		if _, err := lock.Blocking(store).Acquire(t.Context(), last); err != nil || woken != 1 {
			t.Errorf("after 2 graces: %v, woken %d times", err, woken)
		}
	})
}

func TestExpiredHoldsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		for i := range 10_000 {
			claim := lock.Claim{Key: fmt.Sprint("key:", i), Owner: "a:1", TTL: time.Second}
			if _, err := lock.Blocking(store).Acquire(t.Context(), claim); err != nil {
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
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	held := lock.Claim{Key: "k", Owner: "a:1", TTL: time.Minute}
	for name, call := range map[string]func(store *memstore.Store) error{
		"acquire": func(store *memstore.Store) error {
			_, err := lock.Blocking(store).Acquire(gone, lock.Claim{Key: "free", Owner: "a:1", TTL: time.Second})
			return err
		},
		"renew": func(store *memstore.Store) (err error) {
			longer := held
			longer.TTL = time.Hour
			store.Renew(gone, []lock.Claim{longer}, func(_ int, result error) { err = result })
			return err
		},
		"release": func(store *memstore.Store) error {
			return lock.Blocking(store).Release(gone, held)
		},
		"lower": func(store *memstore.Store) error {
			longer := held
			longer.TTL = time.Hour
			return lock.Blocking(store).Lower(gone, longer)
		},
		"force release": func(store *memstore.Store) error { _, err := store.ForceRelease(gone, "k"); return err },
		"inspect":       func(store *memstore.Store) error { _, err := store.Inspect(gone, "k"); return err },
		"watch":         func(store *memstore.Store) error { _, err := store.Watch(gone, held, func() {}); return err },
	} {
		store := memstore.New()
		if _, err := lock.Blocking(store).Acquire(t.Context(), held); err != nil {
			t.Fatal(err)
		}
		err := call(store)
		var failed *lock.StoreError
		if !errors.As(err, &failed) || failed.Outcome != lock.OutcomeNotExecuted || !errors.Is(err, context.Canceled) {
			t.Errorf("%s: got %v, want context.Canceled with OutcomeNotExecuted", name, err)
		}
		state, err := store.Inspect(t.Context(), "k")
		if err != nil || !state.Held || state.TTL > time.Minute || store.Len() != 1 {
			t.Errorf("%s: %+v, %v, and %d keys; want the hold as it was", name, state, err, store.Len())
		}
	}
}

func TestClaimsThatCannotBeKeptAreRefused(t *testing.T) {
	good := lock.Claim{Key: "k", Owner: "a:1", TTL: time.Minute}
	for name, change := range map[string]func(c *lock.Claim){
		"no owner":              func(c *lock.Claim) { c.Owner = "" },
		"no TTL":                func(c *lock.Claim) { c.TTL = 0 },
		"a TTL that has passed": func(c *lock.Claim) { c.TTL = -time.Second },
		"a TTL beyond all":      func(c *lock.Claim) { c.TTL = lock.MaxDuration + 1 },
		"no permit":             func(c *lock.Claim) { c.Mode, c.Permits, c.Size = lock.Semaphore, 0, 1 },
		"more than there are":   func(c *lock.Claim) { c.Mode, c.Permits, c.Size = lock.Semaphore, 2, 1 },
		"too many permits":      func(c *lock.Claim) { c.Mode, c.Permits, c.Size = lock.Semaphore, 1, lock.MaxPermits+1 },
	} {
		store, c := memstore.New(), good
		change(&c)
		if _, err := lock.Blocking(store).Acquire(t.Context(), c); !errors.Is(err, lock.ErrInvalid) || store.Len() != 0 {
			t.Errorf("%s: got %v, and %d keys, want ErrInvalid", name, err, store.Len())
		}
		if err := lock.Blocking(store).Lower(t.Context(), c); !errors.Is(err, lock.ErrInvalid) {
			t.Errorf("%s: Lower got %v, want ErrInvalid", name, err)
		}
	}
}

// Keys that are waited for once leave nothing.
func TestSubscriptionsThatEndedCostNoMemory(t *testing.T) {
	const keys = 3000
	store := memstore.New()
	before := objects()
	for i := range keys {
		stop, err := store.Watch(t.Context(), lock.Claim{Key: fmt.Sprint("key:", i), Owner: "a:1"}, func() {})
		if err != nil {
			t.Fatal(err)
		}
		stop()
	}
	if kept := objects() - before; kept > keys/2 {
		t.Errorf("%d objects are kept after %d subscriptions", kept, keys)
	}
	runtime.KeepAlive(store)
}

// objects is the number of objects that are in use.
func objects() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapObjects)
}

func TestAModeThatThereIsNotIsUnsupported(t *testing.T) {
	store := memstore.New()
	c := lock.Claim{Key: "k", Owner: "a:1", Mode: lock.Semaphore + 1, TTL: time.Minute}
	_, acquired := lock.Blocking(store).Acquire(t.Context(), c)
	var renewed error
	store.Renew(t.Context(), []lock.Claim{c}, func(_ int, err error) { renewed = err })
	_, watched := store.Watch(t.Context(), c, func() {})
	for call, err := range map[string]error{
		"acquire": acquired, "renew": renewed, "watch": watched, "release": lock.Blocking(store).Release(t.Context(), c),
		"lower": lock.Blocking(store).Lower(t.Context(), c),
	} {
		if !errors.Is(err, lock.ErrUnsupported) {
			t.Errorf("%s: got %v, want ErrUnsupported", call, err)
		}
	}
}

// Exclusive and fair claims differ in how they wait. What they hold is the same.
func TestAHoldIsFoundInTheOtherPlainMode(t *testing.T) {
	for took, other := range map[lock.Mode]lock.Mode{lock.Exclusive: lock.Fair, lock.Fair: lock.Exclusive} {
		store := memstore.New()
		c := lock.Claim{Key: "k", Owner: "a:1", Mode: took, TTL: time.Minute}
		_, acquired := lock.Blocking(store).Acquire(t.Context(), c)
		c.Mode = other
		_, reentered := lock.Blocking(store).Acquire(t.Context(), c)
		var renewed error
		store.Renew(t.Context(), []lock.Claim{c}, func(_ int, err error) { renewed = err })
		if err := errors.Join(acquired, reentered, renewed, lock.Blocking(store).Release(t.Context(), c)); err != nil || store.Len() != 0 {
			t.Errorf("taken as %v, then %v: %v, and %d keys are left", took, other, err, store.Len())
		}
	}
}

// Waiters know for how long the key was to be held. It ends earlier now.
func TestAReleaseUnderAMinimumWakesWaiters(t *testing.T) {
	for _, mode := range []lock.Mode{lock.Exclusive, lock.Fair, lock.Read, lock.Write} {
		t.Run(mode.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memstore.New()
				c := lock.Claim{Key: "k", Owner: "a:1", Mode: lock.Write, TTL: time.Minute}
				if _, err := lock.Blocking(store).Acquire(t.Context(), c); err != nil {
					t.Fatal(err)
				}
				waiter := lock.Claim{Key: "k", Owner: "b:1", Mode: mode, TTL: time.Minute}
				if mode == lock.Fair {
					waiter.Places = []string{waiter.Owner}
				}
				woken := 0
				stop, err := store.Watch(t.Context(), waiter, func() { woken++ })
				if err != nil {
					t.Fatal(err)
				}
				defer stop()
				wants := func(ttl time.Duration) {
					t.Helper()
					var busy *lock.BusyError
					if _, err := lock.Blocking(store).Acquire(t.Context(), waiter); !errors.As(err, &busy) || busy.TTL != ttl {
						t.Errorf("got %v, %+v, want busy for %v", err, busy, ttl)
					}
				}
				wants(time.Minute)
				c.Keep = time.Now().Add(time.Second)
				if err := lock.Blocking(store).Release(t.Context(), c); err != nil || woken != 1 {
					t.Errorf("released: %v, and the waiter was woken %d times, want once", err, woken)
				}
				wants(time.Second)
				// The last owner is one like others.
				again := waiter
				again.Owner, again.Places = c.Owner, nil
				if _, err := lock.Blocking(store).Acquire(t.Context(), again); !errors.Is(err, lock.ErrBusy) {
					t.Errorf("the owner that released it: got %v, want ErrBusy", err)
				}
				time.Sleep(time.Second)
				if _, err := lock.Blocking(store).Acquire(t.Context(), waiter); err != nil {
					t.Error(err)
				}
			})
		})
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
