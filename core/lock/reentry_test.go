package lock_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
)

// reentries are ways to take a key again, by the holder's context.
var reentries = []struct {
	name         string
	outer, inner lock.Option
}{
	{"exclusive", lock.WithMode(lock.Exclusive), lock.WithMode(lock.Exclusive)},
	{"fair", fair, fair},
	{"a reader", reading, reading},
	{"a writer", writing, writing},
	{"a writer that reads", writing, reading},
}

// The store knows one hold, and hears of its beginning and of its end.
func TestAReentryMakesNoCall(t *testing.T) {
	for _, kind := range reentries {
		t.Run(kind.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newFaulty()
				l := newLocker(t, store)
				outer := acquire(t, l, t.Context(), "k", kind.outer)
				before := store.total()
				inner := acquire(t, l, outer.Context(), "k", kind.inner)
				tried, err := l.TryAcquire(inner.Context(), "k", kind.inner, lock.WithName("other"))
				if err != nil {
					t.Fatal(err)
				}
				done := l.Do(tried.Context(), "k", func(ctx context.Context) error { return lock.AssertHeld(ctx, "k") }, kind.inner)
				wantErr(t, done, nil)
				for _, lease := range []*lock.Lease{inner, tried} {
					if lease.Owner() != outer.Owner() || lease.Fence() != outer.Fence() {
						t.Error("a re-entry has another owner, or another fence")
					}
				}
				if n := holds(t, store, "k"); n != 1 {
					t.Errorf("the store counts %d", n)
				}
				release(t, tried)
				release(t, inner)
				if n := store.total() - before; n != 0 {
					t.Errorf("%d calls", n)
				}
				release(t, outer)
				if n := store.total() - before; n != 1 || holds(t, store, "k") != 0 {
					t.Errorf("%d calls, want the release, and %d holds", n, holds(t, store, "k"))
				}
			})
		})
	}
}

// A lease that is trusted is enough to take the key again.
func TestAReentryNeedsNoStore(t *testing.T) {
	for name, ill := range map[string]func() error{
		"away":          func() error { return errLineCut },
		"silent":        func() error { time.Sleep(time.Hour); return errLineCut },
		"out of memory": func() error { return &lock.StoreError{Outcome: lock.OutcomeRefused, Err: errors.New("OOM")} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newFaulty()
				l := newLocker(t, store)
				for _, kind := range reentries {
					outer := acquire(t, l, t.Context(), "k", kind.outer)
					store.set(func(string, lock.Claim) error { return ill() }, nil)
					began := time.Now()
					release(t, acquire(t, l, outer.Context(), "k", kind.inner))
					if took := time.Since(began); took != 0 {
						t.Errorf("%s: it took %v", kind.name, took)
					}
					store.set(nil, nil)
					release(t, outer)
				}
			})
		})
	}
}

// Only a lease that asks for more time than the hold has calls: once, with an extension.
func TestALongerReentryExtendsTheHoldOnce(t *testing.T) {
	for name, tt := range map[string]struct {
		held, wanted lock.Option
		calls        int
		lasts        time.Duration // in the store, at least
	}{
		"as long":                          {lock.WithWatchdog(time.Minute), lock.WithWatchdog(time.Minute), 0, time.Minute},
		"a longer watchdog":                {lock.WithWatchdog(20 * time.Second), lock.WithWatchdog(time.Minute), 1, time.Minute},
		"a shorter watchdog":               {lock.WithWatchdog(time.Minute), lock.WithWatchdog(20 * time.Second), 0, time.Minute},
		"a longer fixed lease":             {lock.WithWatchdog(time.Minute), lock.WithLease(time.Hour), 1, time.Hour},
		"a shorter fixed lease":            {lock.WithWatchdog(time.Minute), lock.WithLease(20 * time.Second), 0, time.Minute},
		"a longer lease of a fixed one":    {lock.WithLease(time.Minute), lock.WithLease(time.Hour), 1, time.Hour},
		"a shorter lease of a fixed one":   {lock.WithLease(time.Hour), lock.WithLease(time.Minute), 0, time.Hour},
		"a watchdog in a long fixed lease": {lock.WithLease(time.Hour), lock.WithWatchdog(time.Minute), 0, time.Hour},
		"a watchdog in a short one":        {lock.WithLease(20 * time.Second), lock.WithWatchdog(time.Minute), 1, time.Minute},
		"a longer minimum":                 {lock.WithWatchdog(time.Minute), lock.WithMinHold(time.Hour), 1, time.Hour},
		"a shorter minimum":                {lock.WithWatchdog(time.Minute), lock.WithMinHold(20 * time.Second), 0, time.Minute},
		"more than the limit":              {lock.WithMaxHold(10 * time.Minute), lock.WithLease(time.Hour), 1, 10 * time.Minute},
		"at the limit":                     {lock.WithMaxHold(20 * time.Second), lock.WithLease(time.Hour), 0, 20 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newFaulty()
				l := newLocker(t, store)
				outer := acquire(t, l, t.Context(), "k", tt.held)
				before, deadline := store.total(), outer.Deadline()
				var inner []*lock.Lease
				for range 3 { // the second and the third have what the first asked for
					inner = append(inner, acquire(t, l, outer.Context(), "k", tt.wanted))
				}
				if n := store.total() - before; n != tt.calls {
					t.Errorf("%d calls, want %d", n, tt.calls)
				}
				if lasts := remains(t, store, "k"); lasts < tt.lasts {
					t.Errorf("it lasts %v in the store, want %v", lasts, tt.lasts)
				}
				if outer.Deadline().Before(deadline) {
					t.Errorf("the trust was shortened by %v", deadline.Sub(outer.Deadline()))
				}
				for _, lease := range append(inner, outer) {
					release(t, lease)
				}
			})
		})
	}
}

// Its caller gets an error, and has what it had. Nothing is left of the lease that nobody
// got: the release that follows is the last.
func TestAReentryThatGetsNoLengthLeavesNothing(t *testing.T) {
	for _, kind := range reentries {
		t.Run(kind.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newFaulty()
				l := newLocker(t, store)
				outer := acquire(t, l, t.Context(), "k", kind.outer)
				store.set(only("renew", func(lock.Claim) error { return errLineCut }), nil)
				_, err := l.Acquire(outer.Context(), "k", kind.inner, lock.WithLease(time.Hour))
				wantErr(t, err, lock.ErrUnavailable)
				wantErr(t, lock.AssertHeld(outer.Context(), "k"), nil)
				store.set(nil, nil)
				release(t, outer)
				if n := holds(t, store, "k"); n != 0 {
					t.Errorf("released, and %d holds are left", n)
				}
			})
		})
	}
}

// Whichever lease is released first, the hold lasts until the last is.
func TestAHoldLastsAsLongAsItsLastLease(t *testing.T) {
	for _, kind := range reentries {
		for name, order := range map[string][]int{"inner first": {2, 1, 0}, "outer first": {0, 1, 2}, "mixed": {1, 2, 0}} {
			t.Run(kind.name+", "+name, func(t *testing.T) {
				store := memstore.New()
				l := newLocker(t, store)
				leases := []*lock.Lease{acquire(t, l, t.Context(), "k", kind.outer)}
				for range 2 {
					leases = append(leases, acquire(t, l, leases[len(leases)-1].Context(), "k", kind.inner))
				}
				for _, i := range order {
					if n := holds(t, store, "k"); n != 1 {
						t.Errorf("%d holds before the release of %d", n, i)
					}
					release(t, leases[i])
				}
				if store.Len() != 0 {
					t.Errorf("%d keys are left", store.Len())
				}
			})
		}
	}
}

func TestReentriesAtOnceShareOneHold(t *testing.T) {
	for _, kind := range reentries {
		t.Run(kind.name, func(t *testing.T) {
			store := memstore.New()
			l := newLocker(t, store)
			outer := acquire(t, l, t.Context(), "k", kind.outer)
			var all sync.WaitGroup
			for range 50 {
				all.Go(func() {
					inner, err := l.Acquire(outer.Context(), "k", kind.inner)
					if err == nil {
						err = inner.Release(context.Background())
					}
					if err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			if n := holds(t, store, "k"); n != 1 {
				t.Errorf("%d holds", n)
			}
			release(t, outer)
			if store.Len() != 0 {
				t.Errorf("%d keys are left", store.Len())
			}
		})
	}
}

// A re-entry and the last release come together: who gets a lease has the key, by the hold
// that there was or by a new one.
func TestAReentryThatMeetsTheLastReleaseHasTheKeyOrNothing(t *testing.T) {
	for name, open := range map[string]func() inspected{
		"at once": func() inspected { return memstore.New() },
		"calls":   func() inspected { return newRemote() },
	} {
		t.Run(name, func(t *testing.T) {
			store := open()
			l := newLocker(t, store)
			joined, anew := 0, 0
			for range 500 {
				outer := acquire(t, l, t.Context(), "k")
				ctx := context.WithoutCancel(outer.Context())
				var all sync.WaitGroup
				all.Go(func() { release(t, outer) })
				inner, err := l.Acquire(ctx, "k", lock.WithWait(time.Minute))
				all.Wait()
				if err != nil {
					t.Fatal(err)
				}
				if inner.Owner() == outer.Owner() {
					joined++
				} else {
					anew++
				}
				if n := holds(t, store, "k"); n != 1 {
					t.Fatalf("%d holds of a lease", n)
				}
				release(t, inner)
				if n := holds(t, store, "k"); n != 0 {
					t.Fatalf("%d holds are left", n)
				}
			}
			t.Logf("%d joined the hold, %d made one", joined, anew)
		})
	}
}

// A context that carries a lease looks at its hold, which takes the lock of the locker.
func TestAContextMayLookAtItsLeaseDuringAReentry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLocker(t, newFaulty())
		outer := acquire(t, l, t.Context(), "k")
		ctx := asked{outer.Context(), func() { l.Suspend(time.Hour) }} // so that the look takes the lock
		inner, err := l.Acquire(ctx, "k")
		if err != nil {
			t.Fatal(err)
		}
		release(t, inner)
		release(t, outer)
	})
}

// asked is a context that notes each time that it is asked for its end.
type asked struct {
	context.Context
	note func()
}

func (c asked) Err() error {
	c.note()
	return c.Context.Err()
}

// The end of the hold is the end of all its leases.
func TestALossEndsAllLeasesOfAHold(t *testing.T) {
	for _, kind := range reentries {
		t.Run(kind.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newFaulty()
				var lost atomic.Int32
				l := newLocker(t, store, lock.WithHooks(lock.Hooks{Lost: func(lock.LossEvent) { lost.Add(1) }}))
				outer := acquire(t, l, t.Context(), "k", kind.outer)
				inner := acquire(t, l, context.WithoutCancel(outer.Context()), "k", kind.inner)
				if _, err := store.Store.ForceRelease(t.Context(), "k"); err != nil {
					t.Fatal(err)
				}
				time.Sleep(lock.DefaultWatchdog)
				for _, lease := range []*lock.Lease{outer, inner} {
					wantErr(t, context.Cause(lease.Context()), lock.ErrTaken)
					wantErr(t, lease.Release(t.Context()), lock.ErrTaken)
				}
				if n := lost.Load(); n != 1 {
					t.Errorf("%d losses of one hold", n)
				}
			})
		})
	}
}

// Somebody else may release what a caller waits for, and has itself.
func TestACallerThatWaitsForItselfIsServedWhenAnotherReleasesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLocker(t, newFaulty(), lock.WithPermits(2, 3))
		outer := acquire(t, l, t.Context(), "k")
		more := await(context.WithoutCancel(outer.Context()), l, "k")
		release(t, outer)
		release(t, more.got(t))
	})
}
