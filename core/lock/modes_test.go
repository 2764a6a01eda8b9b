package lock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
)

var (
	fair    = lock.WithMode(lock.Fair)
	reading = lock.WithMode(lock.Read)
	writing = lock.WithMode(lock.Write)
)

// kinds are ways to ask for a key so that one holder keeps the next out.
var kinds = []struct {
	name string
	opt  lock.Option
}{
	{"exclusive", lock.WithMode(lock.Exclusive)},
	{"fair", fair},
	{"write", writing},
	{"semaphore", lock.WithPermits(1, 1)},
}

// start runs an acquisition in the background, up to where it waits.
func start(t *testing.T, l *lock.Locker, ctx context.Context, opts ...lock.Option) <-chan outcome {
	t.Helper()
	done := make(chan outcome, 1)
	go func() {
		lease, err := l.Acquire(ctx, "k", opts...)
		done <- outcome{lease, err, time.Now()}
	}()
	synctest.Wait()
	return done
}

type outcome struct {
	lease *lock.Lease
	err   error
	at    time.Time
}

// waits fails if the acquisition has ended.
func waits(t *testing.T, who string, done <-chan outcome) {
	t.Helper()
	synctest.Wait()
	select {
	case o := <-done:
		t.Fatalf("%s does not wait: %v, %v", who, o.lease, o.err)
	default:
	}
}

// granted fails if the acquisition has no lease by now.
func granted(t *testing.T, who string, done <-chan outcome) *lock.Lease {
	t.Helper()
	synctest.Wait()
	select {
	case o := <-done:
		if o.err != nil {
			t.Fatalf("%s: %v", who, o.err)
		}
		return o.lease
	default:
		t.Fatalf("%s still waits", who)
		return nil
	}
}

func empty(t *testing.T, store *memstore.Store) {
	t.Helper()
	synctest.Wait()
	if n := store.Len(); n != 0 {
		t.Errorf("%d keys left", n)
	}
}

// counting counts the calls that reach a store.
type counting struct {
	*memstore.Store
	acquires atomic.Int32
}

func (c *counting) Acquire(ctx context.Context, claim lock.Claim, by time.Time, answer lock.Answer) {
	c.acquires.Add(1)
	c.Store.Acquire(ctx, claim, by, answer)
}

func TestFairWaitersOfTwoLockersAreServedInOrderWithOneCallEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 64
		store := &counting{Store: memstore.New()}
		lockers := []*lock.Locker{newLocker(t, store), newLocker(t, store)}
		holder := acquire(t, lockers[0], t.Context(), "k", fair)
		var waiting []<-chan outcome
		for i := range n {
			waiting = append(waiting, start(t, lockers[i%2], t.Context(), fair))
		}
		before := store.acquires.Load()
		for i := range n {
			release(t, holder)
			holder = granted(t, fmt.Sprint("waiter ", i), waiting[i])
			if i+1 < n {
				waits(t, fmt.Sprint("waiter ", i+1), waiting[i+1])
			}
		}
		if calls := store.acquires.Load() - before; calls > n {
			t.Errorf("%d calls for %d grants", calls, n)
		}
		release(t, holder)
		empty(t, store.Store)
	})
}

// Whatever their number, the waiters of a process cost the store one call in each
// poll interval and one subscription, and keep their places.
func TestFairWaitersOfAProcessAskAsOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n, wait = 64, 20 * time.Second
		store := newFaulty()
		l := newLocker(t, store, fair)
		for name, locker := range map[string]*lock.Locker{"held here": l, "held elsewhere": newLocker(t, store, fair)} {
			holder := acquire(t, locker, t.Context(), "k")
			asked, watched := store.count("acquire"), store.count("watch")
			var waiting []<-chan outcome
			for range n {
				waiting = append(waiting, start(t, l, t.Context()))
			}
			time.Sleep(wait)
			synctest.Wait()
			// Each takes its place, and the first looks again after it has subscribed.
			if calls := store.count("acquire") - asked; calls > n+1+int(wait/lock.DefaultPoll) {
				t.Errorf("%s: %d calls for %d waiters in %v", name, calls, n, wait)
			}
			if watches := store.count("watch") - watched; watches != 1 {
				t.Errorf("%s: %d subscriptions for one key", name, watches)
			}
			if state, _ := store.Inspect(t.Context(), "k"); len(state.Waiters) != n {
				t.Errorf("%s: %d places for %d waiters", name, len(state.Waiters), n)
			}
			for i := range n {
				release(t, holder)
				holder = granted(t, fmt.Sprint("waiter ", i), waiting[i])
			}
			release(t, holder)
			time.Sleep(time.Second) // the subscription ends
		}
	})
}

// A place that a call of another waiter took leaves with its owner, whatever has
// become of that call.
func TestAPlaceThatAnotherCallNamedGoesWithItsOwner(t *testing.T) {
	for name, heal := range map[string]time.Duration{"answered late": time.Second, "run after its owner has left": 3 * time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newFaulty()
				l := newLocker(t, store, fair, lock.WithCallTimeout(500*time.Millisecond))
				holder := acquire(t, newLocker(t, store.Store, fair), t.Context(), "k")
				first := start(t, l, t.Context())
				slow := time.Now().Add(heal)
				store.set(only("acquire", func(c lock.Claim) error {
					if len(c.Places) > 1 {
						time.Sleep(time.Until(slow))
					}
					return nil
				}), nil)
				ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
				defer cancel()
				_, err := l.Acquire(ctx, "k")
				wantErr(t, err, context.DeadlineExceeded)
				time.Sleep(heal + 3*time.Second)
				if state, _ := store.Inspect(t.Context(), "k"); len(state.Waiters) != 1 {
					t.Errorf("%d places for one waiter", len(state.Waiters))
				}
				release(t, holder)
				release(t, granted(t, "the first", first))
			})
		})
	}
}

func TestFairWaitersThatLeaveDelayNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		hour := lock.WithPoll(time.Hour) // the next is woken, or never comes
		here, there := newLocker(t, store, hour, fair), newLocker(t, store, hour, fair)
		holder := acquire(t, there, t.Context(), "k", lock.WithWatchdog(3*time.Hour))
		ctx, cancel := context.WithCancel(t.Context())
		cancelled := start(t, here, ctx)
		timedOut := start(t, here, t.Context(), lock.WithWait(time.Second))
		last := start(t, here, t.Context())
		time.Sleep(2 * time.Second)
		wantErr(t, (<-timedOut).err, lock.ErrBusy, context.DeadlineExceeded)
		freed := time.Now()
		cancel() // its turn and its end come together
		release(t, holder)
		wantErr(t, (<-cancelled).err, context.Canceled)
		o := <-last
		if o.err != nil || o.at.Sub(freed) > 0 {
			t.Fatalf("the last: %v, after %v", o.err, o.at.Sub(freed))
		}
		release(t, o.lease)
		empty(t, store)
	})
}

// slowUndo is the way to a store of a place that is being removed.
var slowUndo = only("release", func(c lock.Claim) error {
	if c.Undo {
		time.Sleep(5 * time.Millisecond)
	}
	return nil
})

// servedBefore fails unless the second has the key by now, and the third gets it next.
func servedBefore(t *testing.T, second, third <-chan outcome) {
	t.Helper()
	lease := granted(t, "the second", second)
	waits(t, "the third", third)
	release(t, lease)
	release(t, granted(t, "the third", third))
}

// A waiter that leaves takes its place along, and no other of its process is served in
// it, even if the removal is slow, and the key becomes free at that moment.
func TestAFairWaiterThatLeavesHandsItsPlaceToNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		here, there := newLocker(t, store, fair), newLocker(t, store, fair)
		holder := acquire(t, newLocker(t, store, fair), t.Context(), "k")
		ctx, cancel := context.WithCancel(t.Context())
		leaves := start(t, here, ctx)
		second := start(t, there, t.Context())
		third := start(t, here, t.Context())
		store.set(slowUndo, nil)
		cancel()
		release(t, holder)
		wantErr(t, (<-leaves).err, context.Canceled)
		time.Sleep(10 * time.Millisecond)
		servedBefore(t, second, third)
	})
}

// It came to the head of its process's queue when another left, and has not called by
// itself: the call of the other took its place.
func TestAFairWaiterWhosePlaceAnotherTookHandsItToNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		here, there := newLocker(t, store, fair), newLocker(t, store, fair)
		holder := acquire(t, newLocker(t, store, fair), t.Context(), "k")
		ctx0, cancel0 := context.WithCancel(t.Context())
		ctx, cancel := context.WithCancel(t.Context())
		first := start(t, here, ctx0)
		leaves := start(t, here, ctx)
		second := start(t, there, t.Context())
		third := start(t, here, t.Context())
		cancel0()
		wantErr(t, (<-first).err, context.Canceled)
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		store.set(slowUndo, nil)
		cancel()
		release(t, holder)
		wantErr(t, (<-leaves).err, context.Canceled)
		time.Sleep(10 * time.Millisecond)
		servedBefore(t, second, third)
	})
}

// The undo of one place says nothing of another.
func TestTheEndOfOnePlaceIsNotThatOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		here, there := newLocker(t, store, fair), newLocker(t, store, fair)
		holder := acquire(t, newLocker(t, store, fair), t.Context(), "k")
		ctx, cancel := context.WithCancel(t.Context())
		ctx4, cancel4 := context.WithCancel(t.Context())
		leaves := start(t, here, ctx)
		second := start(t, there, t.Context())
		third := start(t, here, t.Context())
		fourth := start(t, here, ctx4)
		undos := 0
		store.set(only("release", func(c lock.Claim) error {
			if c.Undo {
				undos++
				time.Sleep(time.Duration(undos*5) * time.Millisecond)
			}
			return nil
		}), nil)
		cancel4()
		wantErr(t, (<-fourth).err, context.Canceled)
		synctest.Wait()
		cancel()
		release(t, holder)
		wantErr(t, (<-leaves).err, context.Canceled)
		time.Sleep(20 * time.Millisecond)
		servedBefore(t, second, third)
	})
}

// It leaves while the one before it is granted the key, and released.
func TestAFairWaiterThatLeavesInTheMiddleHandsItsPlaceToNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		here, there := newLocker(t, store, fair), newLocker(t, store, fair)
		holder := acquire(t, newLocker(t, store, fair), t.Context(), "k")
		ctx, cancel := context.WithCancel(t.Context())
		first := start(t, here, t.Context())
		leaves := start(t, here, ctx)
		second := start(t, there, t.Context())
		third := start(t, here, t.Context())
		store.set(slowUndo, nil)
		cancel()
		wantErr(t, (<-leaves).err, context.Canceled)
		release(t, holder)
		release(t, granted(t, "the first", first))
		time.Sleep(10 * time.Millisecond)
		servedBefore(t, second, third)
	})
}

func TestADeadFairWaiterIsPassedOverWithinItsGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		l := newLocker(t, store, fair)
		holder := acquire(t, l, t.Context(), "k")
		dead := lock.Claim{Key: "k", Owner: "dead:1", Mode: lock.Fair, TTL: time.Minute, Places: []string{"dead:1"}}
		if _, err := lock.Blocking(store).Acquire(t.Context(), dead); !errors.Is(err, lock.ErrBusy) {
			t.Fatal(err)
		}
		waiter := start(t, l, t.Context())
		freed := time.Now()
		release(t, holder)
		o := <-waiter
		if waited := o.at.Sub(freed); o.err != nil || waited < 5*time.Second || waited > 6*time.Second {
			t.Errorf("got %v after %v, want the key after 5s", o.err, waited)
		}
		release(t, o.lease)
		empty(t, store)
	})
}

func TestAFairTryTakesNoPlaceAndPassesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		here, there := newLocker(t, store, fair), newLocker(t, store, fair)
		holder := acquire(t, here, t.Context(), "k")
		for _, l := range []*lock.Locker{here, there} {
			_, err := l.TryAcquire(t.Context(), "k")
			wantErr(t, err, lock.ErrBusy)
			_, err = l.Acquire(t.Context(), "k", lock.WithWait(0))
			wantErr(t, err, lock.ErrBusy)
		}
		if state, _ := store.Inspect(t.Context(), "k"); len(state.Waiters) != 0 {
			t.Errorf("waiters %v", state.Waiters)
		}
		dead := lock.Claim{Key: "k", Owner: "dead:1", Mode: lock.Fair, TTL: time.Minute, Places: []string{"dead:1"}}
		_, err := lock.Blocking(store).Acquire(t.Context(), dead)
		wantErr(t, err, lock.ErrBusy)
		release(t, holder)
		_, err = here.TryAcquire(t.Context(), "k") // free, but another's turn
		wantErr(t, err, lock.ErrBusy)
	})
}

func TestReadersShareAndTakeTurnsWithWriters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		hour := lock.WithPoll(time.Hour)
		here, there := newLocker(t, store, hour), newLocker(t, store, hour)
		lockers := []*lock.Locker{here, there}
		var readers []*lock.Lease
		for i := range 8 {
			readers = append(readers, granted(t, "a reader", start(t, lockers[i%2], t.Context(), reading)))
		}
		writer := start(t, here, t.Context(), writing)
		for _, r := range readers {
			waits(t, "the writer", writer)
			release(t, r)
		}
		w := granted(t, "the writer", writer)
		var next []<-chan outcome
		for i := range 8 {
			next = append(next, start(t, lockers[i%2], t.Context(), reading))
			waits(t, "a reader", next[i])
		}
		release(t, w)
		for _, r := range next {
			defer release(t, granted(t, "a reader", r))
		}
	})
}

func TestReadersOfAProcessDoNotPassAWriterThatCameFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLocker(t, memstore.New())
		first := acquire(t, l, t.Context(), "k", reading)
		writer := start(t, l, t.Context(), writing)
		second := start(t, l, t.Context(), reading)
		waits(t, "the reader behind a writer", second)
		release(t, first)
		w := granted(t, "the writer", writer)
		waits(t, "the reader behind a writer", second)
		release(t, w)
		release(t, granted(t, "the reader", second))
	})
}

func TestWaitingForOneselfIsRefused(t *testing.T) {
	tests := []struct{ held, wanted lock.Option }{
		{reading, writing},
		{reading, fair},
		{writing, fair},
		{fair, reading},
		{fair, lock.WithMode(lock.Exclusive)},
		{lock.WithMode(lock.Exclusive), writing},
		{lock.WithMode(lock.Exclusive), reading},
	}
	for i, tt := range tests {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			l := newLocker(t, memstore.New(), lock.WithWait(time.Second))
			lease := acquire(t, l, t.Context(), "k", tt.held)
			_, err := l.Acquire(lease.Context(), "k", tt.wanted)
			wantErr(t, err, lock.ErrInvalid)
			_, err = l.TryAcquire(lease.Context(), "k", tt.wanted)
			wantErr(t, err, lock.ErrInvalid)
		})
	}
}

func TestWithoutReentryIsBusyInEveryMode(t *testing.T) {
	for _, kind := range []lock.Option{lock.WithMode(lock.Exclusive), fair, reading, writing} {
		l := newLocker(t, memstore.New(), kind, lock.WithoutReentry())
		lease := acquire(t, l, t.Context(), "k")
		_, err := l.Acquire(lease.Context(), "k")
		wantErr(t, err, lock.ErrBusy)
		if lease.Mode() == lock.Write {
			_, err = l.Acquire(lease.Context(), "k", reading)
			wantErr(t, err, lock.ErrBusy)
		}
		_, err = l.TryAcquire(lease.Context(), "k")
		wantErr(t, err, lock.ErrBusy)
		release(t, lease)
		release(t, acquire(t, l, t.Context(), "k"))
	}
}

// spied sees the claims that reach a store.
type spied struct {
	*memstore.Store
	last lock.Claim
}

func (s *spied) Acquire(ctx context.Context, c lock.Claim, by time.Time, answer lock.Answer) {
	s.last = c
	s.Store.Acquire(ctx, c, by, answer)
}

func TestALockOfASemaphoreLockerAsksForNoPermits(t *testing.T) {
	store := &spied{Store: memstore.New()}
	l := newLocker(t, store, lock.WithPermits(2, 3))
	release(t, acquire(t, l, t.Context(), "k", reading))
	if store.last.Permits != 0 || store.last.Size != 0 {
		t.Errorf("claim %+v", store.last)
	}
}

func TestTheWatchdogKeepsEachHoldForItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		here, dying := newLocker(t, store), lock.New(&mortal{Store: store})
		for i, kind := range []lock.Option{reading, lock.WithPermits(1, 3)} {
			key := fmt.Sprint("k", i)
			acquire(t, here, t.Context(), key, kind)
			acquire(t, dying, t.Context(), key, kind)
		}
		time.Sleep(29 * time.Second)
		for i := range 2 {
			if state, _ := store.Inspect(t.Context(), fmt.Sprint("k", i)); len(state.Owners) != 2 {
				t.Errorf("after 29s: %+v", state)
			}
		}
		time.Sleep(10 * lock.DefaultWatchdog)
		for i := range 2 {
			state, _ := store.Inspect(t.Context(), fmt.Sprint("k", i))
			if len(state.Owners) != 1 || state.TTL < 20*time.Second {
				t.Errorf("after ten leases: %+v", state)
			}
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = dying.Close(ctx)
	})
}

// mortal is a store that a process can reach no more after its first calls.
type mortal struct{ *memstore.Store }

func (*mortal) Renew(_ context.Context, claims []lock.Claim, report func(int, error)) {
	for i := range claims {
		report(i, errLineCut)
	}
}

func TestASemaphoreAdmitsItsSizeAndNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const workers, size = 20, 3
		store := memstore.New()
		lockers := []*lock.Locker{newLocker(t, store), newLocker(t, store)}
		var inside, most atomic.Int32
		var wg sync.WaitGroup
		begin := time.Now()
		for i := range workers {
			wg.Go(func() {
				err := lockers[i%2].Do(t.Context(), "k", func(context.Context) error {
					n := inside.Add(1)
					defer inside.Add(-1)
					for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
					}
					time.Sleep(time.Second)
					return nil
				}, lock.WithPermits(1, size))
				if err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if most.Load() != size {
			t.Errorf("at most %d inside, want %d", most.Load(), size)
		}
		// Permits never lie idle while somebody waits.
		if took := time.Since(begin); took != (workers+size-1)/size*time.Second {
			t.Errorf("took %v", took)
		}
		empty(t, store)
	})
}

func TestPermitsAreTakenTogetherAndComeBackFromTheDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		l, dying := newLocker(t, store), lock.New(&mortal{Store: store})
		acquire(t, dying, t.Context(), "k", lock.WithPermits(2, 3))
		_, err := l.TryAcquire(t.Context(), "k", lock.WithPermits(2, 3))
		wantErr(t, err, lock.ErrBusy)
		one := acquire(t, l, t.Context(), "k", lock.WithPermits(1, 3))
		begin := time.Now()
		two := acquire(t, l, t.Context(), "k", lock.WithPermits(2, 3))
		if waited := time.Since(begin); waited > lock.DefaultWatchdog+time.Second {
			t.Errorf("waited %v for a dead locker's permits", waited)
		}
		_, err = l.TryAcquire(t.Context(), "k", lock.WithPermits(1, 3))
		wantErr(t, err, lock.ErrBusy)
		release(t, one)
		release(t, two)
		empty(t, store)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = dying.Close(ctx)
	})
}

func TestATryNeverWaitsInAnyMode(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memstore.New()
				here, there := newLocker(t, store, kind.opt), newLocker(t, store, kind.opt)
				begin := time.Now()
				lease := acquire(t, here, t.Context(), "k")
				for _, l := range []*lock.Locker{here, there} {
					_, err := l.TryAcquire(t.Context(), "k")
					wantErr(t, err, lock.ErrBusy)
				}
				release(t, lease)
				lease, err := there.TryAcquire(t.Context(), "k")
				if err != nil {
					t.Fatal(err)
				}
				release(t, lease)
				if took := time.Since(begin); took > 0 {
					t.Errorf("took %v", took)
				}
				empty(t, store)
			})
		})
	}
}

func TestCloseEndsWaitersOfEveryModeAndLeavesNothing(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memstore.New()
				l, other := lock.New(store, kind.opt), newLocker(t, store, kind.opt)
				holder := acquire(t, other, t.Context(), "k")
				var waiting []<-chan outcome
				for range 8 {
					waiting = append(waiting, start(t, l, t.Context()))
				}
				if err := l.Close(t.Context()); err != nil {
					t.Fatal(err)
				}
				for _, w := range waiting {
					wantErr(t, (<-w).err, lock.ErrClosed)
				}
				if state, _ := store.Inspect(t.Context(), "k"); len(state.Waiters) != 0 || !state.Held {
					t.Errorf("after Close: %+v", state)
				}
				release(t, holder)
				empty(t, store)
			})
		})
	}
}

func TestForceReleaseEndsEveryModeAndWakes(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memstore.New()
				hour := lock.WithPoll(time.Hour)
				here, there := newLocker(t, store, kind.opt, hour), newLocker(t, store, kind.opt, hour)
				lease := acquire(t, here, t.Context(), "k")
				waiter := start(t, there, t.Context())
				if freed, err := here.ForceRelease(t.Context(), "k"); err != nil || !freed {
					t.Fatal(freed, err)
				}
				if cause := context.Cause(lease.Context()); !errors.Is(cause, lock.ErrLost) {
					t.Errorf("the lease ended with %v", cause)
				}
				next := granted(t, "the waiter", waiter)
				if next.Fence() <= lease.Fence() {
					t.Errorf("fence %d after %d", next.Fence(), lease.Fence())
				}
				wantErr(t, lease.Release(t.Context()), lock.ErrLost)
				release(t, next)
				empty(t, store)
			})
		})
	}
}

// A storm of acquisitions that are cancelled at any moment leaves no key, no
// place and, by TestMain, no goroutine; and strands nobody.
func TestACancelStormLeavesNothingInAnyMode(t *testing.T) {
	storms := append(slices.Clone(kinds), struct {
		name string
		opt  lock.Option
	}{"three permits", lock.WithPermits(1, 3)})
	for _, kind := range storms {
		t.Run(kind.name, func(t *testing.T) { cancelStorm(t, func() lock.Option { return kind.opt }) })
	}
	t.Run("read and write", func(t *testing.T) {
		cancelStorm(t, func() lock.Option {
			if rand.N(3) == 0 {
				return writing
			}
			return reading
		})
	})
}

func cancelStorm(t *testing.T, kind func() lock.Option) {
	t.Helper()
	store := memstore.New()
	// No poll may hide a lost wake-up, nor a fair grace a place left behind.
	hours := []lock.Option{lock.WithPoll(time.Hour), lock.WithWatchdog(3 * time.Hour)}
	lockers := []*lock.Locker{lock.New(store, hours...), lock.New(store, hours...)}
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for range 100 {
				ctx, cancel := context.WithCancel(t.Context())
				if rand.N(2) == 0 {
					time.AfterFunc(rand.N(500*time.Microsecond), cancel)
				}
				lease, err := lockers[i%2].Acquire(ctx, "k", kind())
				switch {
				case err == nil:
					if err := lease.Release(ctx); err != nil {
						t.Errorf("Release: %v", err)
					}
				case !errors.Is(err, context.Canceled):
					t.Errorf("Acquire: %v", err)
				}
				cancel()
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("somebody is stranded")
	}
	for _, l := range lockers {
		if err := l.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}
	if n := store.Len(); n != 0 {
		t.Errorf("%d keys left", n)
	}
}

// Readers that follow each other call the store side by side.
func TestReadersThatAreWokenCallTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const call, n = 100 * time.Millisecond, 20
		store := far(call)
		l, other := newLocker(t, store, reading), newLocker(t, store.Store, writing)
		writer := acquire(t, other, t.Context(), "k")
		var readers []*waiter
		for range n {
			readers = append(readers, await(t.Context(), l, "k"))
		}
		time.Sleep(time.Second / 2)
		release(t, writer)
		time.Sleep(4 * call)
		leases := make([]*lock.Lease, n)
		for i, reader := range readers {
			leases[i] = reader.got(t)
		}
		for _, lease := range leases {
			release(t, lease)
		}
	})
}

// A claim of permits hears of a release while its call, which ran before it, is not
// answered yet, by the waiter before it, which gives up.
func TestAHintForPermitsIsPassedToAWaiterThatIsCalling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, looks := newFaulty(), make(chan struct{})
		one := lock.WithPermits(1, 1)
		l := newLocker(t, store, one, lock.WithPoll(time.Hour), lock.WithHooks(lock.Hooks{
			Waiting: func(context.Context, lock.Event) func() { <-looks; return nil },
		}))
		held := acquire(t, newLocker(t, store.Store), t.Context(), "k", one, lock.WithWatchdog(2*time.Hour))
		var answers [2]chan struct{}
		for i := range answers {
			answers[i] = make(chan struct{})
		}
		var calls atomic.Int32
		store.set(nil, only("acquire", func(lock.Claim) error {
			if n := int(calls.Add(1)); n <= len(answers) {
				<-answers[n-1]
			}
			return nil
		}))
		ctx, cancel := context.WithCancel(t.Context())
		first, second := await(ctx, l, "k"), await(t.Context(), l, "k")
		close(answers[0])
		synctest.Wait() // the first has subscribed and called again, and is about to sleep
		release(t, held)
		cancel()
		close(looks)
		<-first.done
		synctest.Wait()
		close(answers[1])
		release(t, second.got(t))
	})
}

// A claim of permits that was refused is not passed by one that comes later, also while it
// calls again.
func TestARefusedClaimOfPermitsIsNotPassed(t *testing.T) {
	for name, calling := range map[string]bool{"while it sleeps": false, "while it calls": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const size = 4
				store, refuse, answer, again := newFaulty(), make(chan struct{}), make(chan struct{}), make(chan struct{})
				l, one := newLocker(t, store, lock.WithPoll(time.Hour)), lock.WithPermits(1, size)
				held := acquire(t, newLocker(t, store.Store), t.Context(), "k", one)
				large := 0
				store.set(nil, only("acquire", func(c lock.Claim) error {
					switch {
					case c.Permits == 1:
						<-answer
					case large == 0:
						<-refuse
					case large == 2: // after its subscription, and a release
						<-again
					}
					if c.Permits == size {
						large++
					}
					return nil
				}))
				head := start(t, l, t.Context(), lock.WithPermits(size, size))
				abreast := []<-chan outcome{start(t, l, t.Context(), one), start(t, l, t.Context(), one)}
				close(refuse)
				synctest.Wait()
				close(answer)
				first, second := granted(t, "one abreast", abreast[0]), granted(t, "one abreast", abreast[1])
				if calling {
					release(t, first)
				}
				late := start(t, l, t.Context(), one)
				waits(t, "a later one", late)
				close(again)
				if !calling {
					release(t, first)
				}
				release(t, second)
				release(t, held)
				release(t, granted(t, "the large one", head))
				release(t, granted(t, "the later one", late))
			})
		})
	}
}

// Two sizes of one semaphore would let in as many as the larger says.
func TestAnotherSizeOfASemaphoreIsRefusedWhilePermitsAreHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLocker(t, memstore.New())
		first := acquire(t, l, t.Context(), "k", lock.WithPermits(1, 3))
		second := acquire(t, l, t.Context(), "k", lock.WithPermits(1, 3))
		_, err := l.TryAcquire(t.Context(), "k", lock.WithPermits(1, 5))
		wantErr(t, err, lock.ErrInvalid)
		if !strings.Contains(err.Error(), "WithPermits(1, 5): permits of the key are held that are of 3") {
			t.Error(err)
		}
		release(t, first)
		_, err = l.Acquire(t.Context(), "k", lock.WithPermits(1, 2))
		wantErr(t, err, lock.ErrInvalid)
		release(t, acquire(t, l, t.Context(), "other", lock.WithPermits(1, 5)))
		if _, err := l.ForceRelease(t.Context(), "k"); err != nil { // a hold that is lost names no size
			t.Fatal(err)
		}
		<-second.Context().Done()
		release(t, acquire(t, l, t.Context(), "k", lock.WithPermits(1, 5)))
		release(t, acquire(t, l, t.Context(), "k", lock.WithPermits(1, 3)))
	})
}
