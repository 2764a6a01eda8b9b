package lock_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
)

// far makes a healthy store that is some way off.
func far(d time.Duration) *faulty {
	store := newFaulty()
	store.set(func(string, lock.Claim) error { time.Sleep(d); return nil }, nil)
	return store
}

// A limit of the wait bounds the waiting for others: it ends no call.
func TestAFreeKeyIsGrantedHoweverShortTheWait(t *testing.T) {
	for _, kind := range []lock.Option{lock.WithMode(lock.Exclusive), fair, reading, writing, lock.WithPermits(1, 2)} {
		synctest.Test(t, func(t *testing.T) {
			l := newLocker(t, far(30*time.Millisecond), kind)
			for _, wait := range []time.Duration{0, 1, time.Millisecond, 20 * time.Millisecond, time.Second} {
				for _, limit := range []lock.Option{lock.WithWait(wait), lock.WithMaxWait(wait + 1)} {
					release(t, acquire(t, l, t.Context(), "k", limit))
				}
			}
		})
	}
}

// The test that everybody writes first: a crowd comes at once and waits for less
// than a call takes. One gets the key, and all others learn that it is taken.
func TestOfAThousandAtOnceOneGetsItAndAllOthersAreBusy(t *testing.T) {
	for range 100 {
		synctest.Test(t, func(t *testing.T) {
			l := newLocker(t, far(30*time.Millisecond))
			leases := make(chan *lock.Lease, 1000)
			var all sync.WaitGroup
			for range 1000 {
				all.Go(func() {
					lease, err := l.Acquire(t.Context(), "k", lock.WithWait(10*time.Millisecond))
					if err == nil {
						leases <- lease
						return
					}
					if !errors.Is(err, lock.ErrBusy) || !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("a loser got %v", err)
					}
				})
			}
			all.Wait()
			if len(leases) != 1 {
				t.Fatalf("%d got the key", len(leases))
			}
			lease := <-leases
			if lease.Context().Err() != nil {
				t.Error("the winner lost it")
			}
			release(t, lease)
		})
	}
}

// What one caller asks for itself, a short lease or little patience with the
// store, says nothing to those behind it.
func TestAPrivateSettingOfTheHeadFailsNobodyElse(t *testing.T) {
	for name, opt := range map[string]lock.Option{
		"a short lease":        lock.WithLease(20 * time.Millisecond),
		"a short call timeout": lock.WithCallTimeout(10 * time.Millisecond),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLocker(t, far(30*time.Millisecond))
				var all sync.WaitGroup
				all.Go(func() {
					_, err := l.Acquire(t.Context(), "k", opt)
					wantErr(t, err, lock.ErrUnavailable)
				})
				synctest.Wait()
				for range 20 {
					all.Go(func() {
						lease, err := l.Acquire(t.Context(), "k", lock.WithWait(10*time.Second))
						if err != nil {
							t.Error(err)
							return
						}
						release(t, lease)
					})
				}
				all.Wait()
			})
		})
	}
}

// Callers who try again and again must not keep a waiter out.
func TestATryDoesNotOvertakeAWaiterOfTheProcess(t *testing.T) {
	for name, c := range map[string]struct{ waits, tries []lock.Option }{
		"exclusive":      {nil, nil},
		"no wait at all": {nil, []lock.Option{lock.WithWait(0)}},
		"write and read": {[]lock.Option{writing}, []lock.Option{reading}},
		"permits":        {[]lock.Option{lock.WithPermits(3, 3)}, []lock.Option{lock.WithPermits(1, 3)}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memstore.New()
				l, other := newLocker(t, store), newLocker(t, store)
				blocker := acquire(t, other, t.Context(), "k", append(c.tries, lock.WithWatchdog(time.Hour))...)
				got := start(t, l, t.Context(), c.waits...)
				waits(t, "the waiter", got)
				// The blocker goes, and nothing wakes: tries come first now.
				_, err := l.TryAcquire(t.Context(), "k", c.tries...)
				wantErr(t, err, lock.ErrBusy)
				release(t, blocker)
				_, err = l.Acquire(t.Context(), "k", append(c.tries, lock.WithWait(0))...)
				wantErr(t, err, lock.ErrBusy)
				release(t, granted(t, "the waiter", got))
				release(t, acquire(t, l, t.Context(), "k", append(c.tries, lock.WithWait(0))...))
			})
		})
	}
}

// Readers share, in any order of arrival.
func TestATryToReadSharesWithReadersThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := far(30 * time.Millisecond)
		l := newLocker(t, store)
		first := start(t, l, t.Context(), reading)
		synctest.Wait()
		lease, err := l.TryAcquire(t.Context(), "k", reading)
		if err != nil {
			t.Fatal(err)
		}
		release(t, lease)
		release(t, granted(t, "the first reader", first))
	})
}

// Permits that are free are given to a try although another call is under way.
func TestATryTakesPermitsThatNobodyWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLocker(t, far(30*time.Millisecond), lock.WithPermits(1, 2))
		first := start(t, l, t.Context())
		lease, err := l.TryAcquire(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		release(t, lease)
		release(t, granted(t, "the first", first))
	})
}

// The store never sees an owner again whose hold has ended: nothing that
// arrives late can be about another's.
func TestTheStoreNeverSeesAnOwnerForTwoHolds(t *testing.T) {
	for _, kind := range []lock.Option{lock.WithMode(lock.Exclusive), fair, reading, writing} {
		synctest.Test(t, func(t *testing.T) {
			store := newFaulty()
			ended := make(map[string]bool)
			store.set(func(op string, c lock.Claim) error {
				if op == "acquire" && ended[c.Owner] {
					t.Errorf("the owner of a hold that was released is back")
				}
				return nil
			}, func(op string, c lock.Claim) error {
				if op == "release" && c.Holds == 0 {
					ended[c.Owner] = true
				}
				return nil
			})
			l := newLocker(t, store, kind, lock.WithOwner("me"))
			for range 3 {
				outer := acquire(t, l, t.Context(), "k")
				inner := acquire(t, l, t.Context(), "k")
				if outer.Owner() != inner.Owner() {
					t.Error("the same name did not re-enter")
				}
				release(t, outer)
				release(t, inner)
			}
		})
	}
}

// A release that was stuck in the network takes nothing from the next hold of
// the same name.
func TestALateReleaseOfANamedOwnerTouchesNoLaterHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		l := newLocker(t, store, lock.WithOwner("me"))
		lease := acquire(t, l, t.Context(), "k")
		var late lock.Claim
		store.set(nil, only("release", func(c lock.Claim) error { late = c; return nil }))
		release(t, lease)
		store.set(nil, nil)
		next := acquire(t, l, t.Context(), "k")
		if err := store.Release(t.Context(), late); !errors.Is(err, lock.ErrNotHeld) {
			t.Errorf("the late release: %v", err)
		}
		if holds(t, store, "k") != 1 {
			t.Error("it took away the hold of the next lease")
		}
		release(t, next)
	})
}

// A writer that reads has one owner for both, so its read hold stays in the
// store until nothing of that owner is held.
func TestTheReadHoldOfAWriterLeavesWithItsLastLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		l := newLocker(t, store)
		write := acquire(t, l, t.Context(), "k", writing)
		for range 3 {
			release(t, acquire(t, l, write.Context(), "k", reading))
		}
		if n := store.count("release"); n != 0 {
			t.Errorf("%d releases while the writer holds on", n)
		}
		read := acquire(t, l, write.Context(), "k", reading)
		release(t, write)
		if _, err := l.TryAcquire(t.Context(), "k", writing); !errors.Is(err, lock.ErrBusy) {
			t.Errorf("a writer next to the reader: %v", err)
		}
		release(t, read)
		if holds(t, store, "k") != 0 {
			t.Error("something is left")
		}
		// Also when a call has no answer, and when the locker closes.
		write = acquire(t, l, t.Context(), "k", writing)
		store.set(nil, only("acquire", func(lock.Claim) error { return errLineCut }))
		_, err := l.Acquire(write.Context(), "k", reading)
		wantErr(t, err, lock.ErrUnavailable)
		store.set(nil, nil)
		release(t, write)
		time.Sleep(5 * time.Second)
		if holds(t, store, "k") != 0 {
			t.Error("something is left of a read without an answer")
		}
		write = acquire(t, l, t.Context(), "k", writing)
		release(t, acquire(t, l, write.Context(), "k", reading))
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if holds(t, store, "k") != 0 {
			t.Error("something is left after Close")
		}
	})
}

// A release waits for no re-entry but the one that is under way.
func TestAReleaseGoesFirst(t *testing.T) {
	for _, last := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			store := newFaulty()
			me := lock.WithOwner("me")
			const timeout = 300 * time.Millisecond
			l := newLocker(t, store, lock.WithCallTimeout(timeout))
			lease := acquire(t, l, t.Context(), "k", me)
			if !last {
				lease = acquire(t, l, t.Context(), "k", me)
			}
			store.set(only("acquire", func(lock.Claim) error { time.Sleep(time.Minute); return errLineCut }), nil)
			var all sync.WaitGroup
			for range 12 {
				all.Go(func() { _, _ = l.Acquire(t.Context(), "k", me, lock.WithWait(10*time.Second)) })
			}
			time.Sleep(time.Millisecond) // the call under way came first
			began := time.Now()
			release(t, lease)
			if took := time.Since(began); took > timeout {
				t.Errorf("the release took %v behind 12 re-entries (last: %v)", took, last)
			}
			all.Wait()
		})
	}
}

// A crowd of re-entries that are answered one by one lets a release go before them.
func TestAReleaseGoesBeforeACrowdOfReentries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const trip = 10 * time.Millisecond
		l := newLocker(t, distant(trip), lock.WithOwner("me"))
		outer := acquire(t, l, t.Context(), "k")
		inner := acquire(t, l, t.Context(), "k")
		time.AfterFunc(5*trip, func() {
			began := time.Now()
			wantErr(t, inner.Release(context.Background()), nil)
			if took := time.Since(began); took > 3*trip {
				t.Errorf("the release took %v", took)
			}
		})
		leases, failed := atOnce(50, func() (*lock.Lease, error) { return l.Acquire(t.Context(), "k") })
		for _, err := range failed {
			t.Error(err)
		}
		for _, lease := range append(leases, outer) {
			go func() { _ = lease.Release(context.Background()) }()
		}
	})
}

// A re-entry that gets its turn when the hold has been released calls nobody: its
// claim would make a hold anew, as an owner that has gone.
func TestAReentryThatComesTooLateCallsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		l := newLocker(t, store, lock.WithCallTimeout(300*time.Millisecond))
		lease := acquire(t, l, t.Context(), "k")
		inside := context.WithoutCancel(lease.Context())
		var calls atomic.Int32
		store.set(only("acquire", func(lock.Claim) error {
			calls.Add(1)
			time.Sleep(time.Minute)
			return errLineCut
		}), nil)
		var first, second error
		for _, result := range []*error{&first, &second} {
			go func() { _, *result = l.Acquire(inside, "k") }()
			time.Sleep(time.Millisecond) // the first is under way, and the second waits for it
		}
		release(t, lease)
		time.Sleep(time.Second)
		synctest.Wait()
		wantErr(t, first, lock.ErrUnavailable)
		wantErr(t, second, lock.ErrReleased)
		if n := calls.Load(); n != 1 {
			t.Errorf("%d calls, want that of the first", n)
		}
	})
}

// An acquire that is stuck on its way arrives after Close. It makes a key that
// lasts for 30 s at most, whatever the lease.
func TestAnAcquireWritesThirtySecondsAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		var longest time.Duration
		store.set(only("acquire", func(c lock.Claim) error { longest = max(longest, c.TTL); return nil }), nil)
		l := newLocker(t, store)
		for _, opt := range []lock.Option{lock.WithLease(10 * time.Minute), lock.WithWatchdog(time.Hour)} {
			outer := acquire(t, l, t.Context(), "k", opt)
			inner := acquire(t, l, outer.Context(), "k", opt)
			all, err := lock.AcquireAll(t.Context(), l.Request("a", opt), l.Request("b", opt))
			if err != nil {
				t.Fatal(err)
			}
			for _, lease := range append(all.Each(), outer, inner) {
				if left := time.Until(lease.Deadline()); left < 9*time.Minute {
					t.Errorf("%s is trusted for %v", lease.Key(), left)
				}
			}
			time.Sleep(9 * time.Minute)
			for _, lease := range append(all.Each(), inner, outer) {
				if lease.Context().Err() != nil {
					t.Errorf("%s: %v", lease.Key(), context.Cause(lease.Context()))
				}
			}
			for _, lease := range append(all.Each(), inner, outer) {
				release(t, lease)
			}
		}
		if longest > 30*time.Second {
			t.Errorf("an acquire asked for %v", longest)
		}
		// One that cannot be made longer is not returned, and leaves nothing.
		store.set(only("renew", func(lock.Claim) error { return errLineCut }), nil)
		_, err := l.Acquire(t.Context(), "k", lock.WithLease(time.Hour))
		wantErr(t, err, lock.ErrUnavailable)
		synctest.Wait()
		if holds(t, store, "k") != 0 {
			t.Error("a lease that nobody got is still there")
		}
	})
}

// A caller whose lease cannot get its length isn't kept for its release as well.
func TestAnAcquireDoesNotWaitForTheEndOfALeaseThatStaysShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		l := newLocker(t, store)
		store.set(func(op string, _ lock.Claim) error {
			if op == "acquire" {
				return nil
			}
			return errLineCut
		}, nil)
		start := time.Now()
		_, err := l.Acquire(t.Context(), "k", lock.WithLease(time.Hour))
		wantErr(t, err, lock.ErrUnavailable)
		if took := time.Since(start); took > lock.DefaultCallTimeout {
			t.Errorf("took %v", took)
		}
		store.set(nil, nil)
		time.Sleep(lock.DefaultCallTimeout)
		if holds(t, store, "k") != 0 {
			t.Error("a lease that nobody got is still there")
		}
	})
}

// single is a store whose server serves one call at a time, and so many in a
// second. A call that is sent is served, whether or not anybody waits for it.
type single struct {
	lock.Store
	mu    sync.Mutex
	free  time.Time // when it has served what was sent so far
	cost  time.Duration
	conns chan struct{} // connections of the client's pool
	calls int
}

func newSingle(rate, conns int) *single {
	return &single{Store: memstore.New(), cost: time.Second / time.Duration(rate), conns: make(chan struct{}, conns)}
}

func (s *single) stall(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free = time.Now().Add(d)
}

func (s *single) serve(ctx context.Context) error {
	select {
	case s.conns <- struct{}{}:
	case <-ctx.Done():
		return &lock.StoreError{Outcome: lock.OutcomeNotExecuted, Err: ctx.Err()}
	}
	defer func() { <-s.conns }()
	s.mu.Lock()
	s.calls++
	if now := time.Now(); s.free.Before(now) {
		s.free = now
	}
	s.free = s.free.Add(s.cost)
	wait := time.Until(s.free)
	s.mu.Unlock()
	const readTimeout = 3 * time.Second // of the client
	time.Sleep(min(wait, readTimeout))
	if wait > readTimeout {
		return &lock.StoreError{Unreachable: true, Err: errLineCut}
	}
	return nil
}

func (s *single) Acquire(ctx context.Context, c lock.Claim) (uint64, error) {
	if err := s.serve(ctx); err != nil {
		return 0, err
	}
	return s.Store.Acquire(context.Background(), c)
}

func (s *single) Release(ctx context.Context, c lock.Claim) error {
	if err := s.serve(ctx); err != nil {
		return err
	}
	return s.Store.Release(context.Background(), c)
}

// A store that was away comes back to full service by itself, at any load that
// it could serve before: what its callers gave up costs no more than the work.
func TestAfterAStallServiceComesBackInFull(t *testing.T) {
	const rate, load, stall = 833, 250, 2 * time.Second
	for _, kind := range []lock.Option{lock.WithMode(lock.Exclusive), fair} {
		for _, wait := range []time.Duration{5 * time.Millisecond, 20 * time.Millisecond, 90 * time.Millisecond, 300 * time.Millisecond, time.Second} {
			for _, cancelled := range []bool{false, true} {
				t.Run(fmt.Sprint(wait, " cancelled=", cancelled), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { stallUnder(t, rate, load, stall, wait, cancelled, kind) })
				})
			}
		}
	}
}

// goroutines counts them. In the middle of a collection the runtime counts ended ones
// as well, so what is above the limit is counted once more after one.
func goroutines(limit int) int {
	n := runtime.NumGoroutine()
	if n > limit {
		runtime.GC()
		n = min(n, runtime.NumGoroutine())
	}
	return n
}

func stallUnder(t *testing.T, rate, load int, stall, wait time.Duration, cancelled bool, kind lock.Option) {
	t.Helper()
	store := newSingle(rate, 20)
	var backlog, backlogMax int
	var mu sync.Mutex
	l := newLocker(t, store, kind, lock.WithHooks(lock.Hooks{Backlog: func(n int) {
		mu.Lock()
		defer mu.Unlock()
		backlog, backlogMax = n, max(backlogMax, n)
	}}))
	var all sync.WaitGroup
	granted := make([]int, 14) // by second
	most, limit := 0, 8*load   // 2 s of callers that wait for a call, two for each
	began := time.Now()
	for i := range load * len(granted) {
		if i == 5*load {
			store.stall(stall)
		}
		all.Go(func() {
			second := int(time.Since(began) / time.Second)
			ctx, opts := t.Context(), []lock.Option{lock.WithWait(wait)}
			if cancelled {
				var cancel context.CancelFunc
				ctx, cancel = context.WithCancel(ctx)
				defer cancel()
				defer time.AfterFunc(wait, cancel).Stop()
				opts = nil
			}
			lease, err := l.Acquire(ctx, fmt.Sprint("k:", i), opts...)
			if err != nil {
				return
			}
			mu.Lock()
			granted[second]++
			mu.Unlock()
			_ = lease.Release(context.Background())
		})
		most = max(most, goroutines(limit))
		time.Sleep(time.Second / time.Duration(load))
	}
	all.Wait()
	time.Sleep(10 * time.Second)
	synctest.Wait()
	for second, n := range granted {
		if (second < 5 || second >= 5+int(stall/time.Second)+3) && n < load {
			t.Errorf("second %d: %d of %d granted; all: %v", second, n, load, granted)
			break
		}
	}
	if most > limit {
		t.Errorf("%d goroutines", most)
	}
	mu.Lock()
	defer mu.Unlock()
	if backlog != 0 {
		t.Errorf("%d wait to be undone in the end (at most %d)", backlog, backlogMax)
	}
	for i := range load * len(granted) {
		if holds(t, store.Store, fmt.Sprint("k:", i)) != 0 {
			t.Fatalf("key %d is still held", i)
		}
	}
}

// lingering is a context of a caller that is slow to see that it has ended.
type lingering struct{ context.Context }

func (c lingering) Err() error {
	err := c.Context.Err()
	if err != nil {
		time.Sleep(time.Millisecond)
	}
	return err
}

// The caller leaves, and its call is answered before it has left.
func TestACancelThatMeetsTheAnswerLeavesNothing(t *testing.T) {
	for _, kind := range []lock.Option{lock.WithMode(lock.Exclusive), fair, reading, lock.WithPermits(1, 2)} {
		for _, after := range []time.Duration{0, 500 * time.Microsecond, 5 * time.Millisecond} {
			synctest.Test(t, func(t *testing.T) {
				store := newFaulty()
				l := newLocker(t, store, kind)
				for i := range 100 {
					ctx, cancel := context.WithCancel(t.Context())
					store.set(nil, only("acquire", func(lock.Claim) error { cancel(); time.Sleep(after); return nil }))
					call := l.Acquire
					if i%2 == 0 {
						call = l.TryAcquire
					}
					if lease, err := call(lingering{ctx}, "k"); err == nil {
						release(t, lease)
					}
					time.Sleep(time.Second)
					if holds(t, store, "k") != 0 {
						t.Fatalf("run %d left a hold", i)
					}
				}
			})
		}
	}
}

// The keys that wait to be cleaned up are bounded: no place, no acquire.
func TestNoPlaceToCleanUpMeansNoAcquire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		heal := make(chan struct{})
		store.set(only("acquire", func(lock.Claim) error { <-heal; return nil }), nil)
		l := newLocker(t, store)
		var all sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		for i := range 1 << 14 {
			all.Go(func() { _, _ = l.TryAcquire(ctx, fmt.Sprint("k:", i)) })
		}
		synctest.Wait()
		cancel()
		all.Wait()
		_, err := l.TryAcquire(t.Context(), "one more")
		wantErr(t, err, lock.ErrUnavailable)
		if n := store.count("acquire"); n > 1<<14 {
			t.Errorf("%d calls were sent", n)
		}
		close(heal)
		time.Sleep(time.Minute)
		release(t, acquire(t, l, t.Context(), "one more"))
	})
}

// A fair waiter keeps its place: it repeats its claim well before the store
// gives it up, whatever its poll interval.
func TestAFairWaiterKeepsItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		var came []time.Duration
		began := time.Now()
		l := newLocker(t, store, fair, lock.WithPoll(time.Hour), lock.WithWatchdog(2*time.Hour))
		blocker := acquire(t, l, t.Context(), "k")
		store.set(only("acquire", func(lock.Claim) error { came = append(came, time.Since(began)); return nil }), nil)
		got := start(t, l, t.Context())
		time.Sleep(time.Minute)
		synctest.Wait()
		for i := range slices.Backward(came[1:]) {
			if gap := came[i+1] - came[i]; gap > 6*time.Second {
				t.Errorf("a gap of %v between two claims", gap)
			}
		}
		if len(came) < 10 {
			t.Errorf("%d claims in a minute", len(came))
		}
		release(t, blocker)
		release(t, granted(t, "the waiter", got))
	})
}

// A forced release ends the leases that were there, and none that was granted
// while it was under way.
func TestAForcedReleaseEndsNoLeaseThatCameAfterIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &forcing{Store: memstore.New()}
		l := newLocker(t, store, reading)
		old := acquire(t, l, t.Context(), "k")
		var next *lock.Lease
		store.after = func() { next = acquire(t, l, t.Context(), "k") }
		if freed, err := l.ForceRelease(t.Context(), "k"); !freed || err != nil {
			t.Fatal(freed, err)
		}
		wantErr(t, context.Cause(old.Context()), lock.ErrForced)
		if err := next.Context().Err(); err != nil {
			t.Errorf("the lease that came after it: %v", context.Cause(next.Context()))
		}
		release(t, next)
	})
}

// forcing is a store whose answer to ForceRelease takes its time.
type forcing struct {
	lock.Store
	after func()
}

func (s *forcing) ForceRelease(ctx context.Context, key string) (bool, error) {
	freed, err := s.Store.ForceRelease(ctx, key)
	s.after()
	return freed, err
}

// Two callers with the same keys of the same two stores, in opposite order,
// would wait for each other.
func TestAKeyOfTwoLockersIsRefused(t *testing.T) {
	a, b := newLocker(t, memstore.New()), newLocker(t, memstore.New())
	for _, order := range [][]lock.Request{{a.Request("k"), b.Request("k")}, {b.Request("k"), a.Request("k")}} {
		_, err := lock.AcquireAll(t.Context(), append(order, a.Request("j"))...)
		wantErr(t, err, lock.ErrInvalid)
	}
	all, err := lock.AcquireAll(t.Context(), a.Request("k"), b.Request("l"), a.Request("k"))
	if err != nil {
		t.Fatal(err)
	}
	if err := all.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

// However many holds there are to renew, no round is of more than a thousand:
// the locker's mutex is not held for long.
func TestRenewalsComeInRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &rounds{Store: memstore.New()}
		l := newLocker(t, store)
		for i := range 3500 {
			acquire(t, l, t.Context(), fmt.Sprint("k:", i))
		}
		time.Sleep(11 * time.Second)
		synctest.Wait()
		if store.largest > 1000 || store.claims < 3500 {
			t.Errorf("%d claims, up to %d at once", store.claims, store.largest)
		}
	})
}

type rounds struct {
	lock.Store
	mu              sync.Mutex
	largest, claims int
}

func (s *rounds) Renew(ctx context.Context, claims []lock.Claim, report func(int, error)) {
	s.mu.Lock()
	s.largest, s.claims = max(s.largest, len(claims)), s.claims+len(claims)
	s.mu.Unlock()
	s.Store.Renew(ctx, claims, report)
}

// A larger margin leaves work more time to notice that its lease has ended.
func TestTheMarginIsASetting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const margin = 50 * time.Millisecond
		l := newLocker(t, memstore.New(), lock.WithMargin(margin))
		lease := acquire(t, l, t.Context(), "k", lock.WithLease(time.Second))
		if left, want := time.Until(lease.Deadline()), time.Second-10*time.Millisecond-margin; left != want {
			t.Errorf("trusted for %v, want %v", left, want)
		}
		release(t, lease)
		_, err := l.Acquire(t.Context(), "k", lock.WithLease(2*margin))
		wantErr(t, err, lock.ErrInvalid)
	})
}

// A read that was sent as the writer's, and is granted when the writer has been
// released, is no lease: the release of what the writer has read may follow.
func TestAReadIsNotGrantedAsAWriterThatHasGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		l := newLocker(t, store, lock.WithOwner("me"))
		write := acquire(t, l, t.Context(), "k", writing)
		release(t, acquire(t, l, t.Context(), "k", reading)) // stays in the store
		store.set(func(op string, c lock.Claim) error {
			if op == "release" && c.Mode == lock.Read {
				time.Sleep(20 * time.Millisecond) // a slow packet
			}
			return nil
		}, only("acquire", func(c lock.Claim) error {
			if c.Mode == lock.Read {
				time.Sleep(10 * time.Millisecond)
			}
			return nil
		}))
		got := start(t, l, t.Context(), reading)
		release(t, write)
		time.Sleep(time.Second)
		synctest.Wait()
		read := granted(t, "the reader", got)
		if err := lock.AssertHeld(read.Context(), "k"); err != nil {
			t.Error(err)
		}
		if holds(t, store, "k") != 1 {
			t.Error("a lease that is trusted is not in the store")
		}
		release(t, read)
	})
}

// Neither is it a refusal for good: it waits, or is tried once, as any other.
func TestAReaderWhoseWriterHasGoneWaits(t *testing.T) {
	for name, tries := range map[string]bool{"Acquire": false, "TryAcquire": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newFaulty()
				l, other := newLocker(t, store), newLocker(t, store)
				write := acquire(t, l, t.Context(), "k", writing)
				store.set(only("acquire", func(c lock.Claim) error {
					if c.Mode == lock.Read {
						time.Sleep(20 * time.Millisecond) // a slow packet
					}
					return nil
				}), nil)
				opts := []lock.Option{reading}
				if tries {
					opts = append(opts, lock.WithWait(0))
				}
				got := start(t, l, context.WithoutCancel(write.Context()), opts...)
				release(t, write)
				next := acquire(t, other, t.Context(), "k", writing)
				time.Sleep(time.Second)
				synctest.Wait()
				if tries {
					wantErr(t, (<-got).err, lock.ErrBusy)
				} else {
					waits(t, "the reader", got)
				}
				release(t, next)
				time.Sleep(time.Second)
				if !tries {
					release(t, granted(t, "the reader", got))
				}
				time.Sleep(time.Minute)
				if holds(t, store, "k") != 0 {
					t.Error("something is left")
				}
			})
		})
	}
}

// All that a writer reads is of one owner. The release of a read lease that was lost
// takes nothing from the read that came after it.
func TestTheReleaseOfALostReadLeavesTheWritersNextReadAlone(t *testing.T) {
	for name, again := range map[string]bool{"which reads again": true, "which does not": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newFaulty()
				l, other := newLocker(t, store, lock.WithOwner("me")), newLocker(t, store)
				write := acquire(t, l, t.Context(), "k", writing)
				short := acquire(t, l, t.Context(), "k", reading, lock.WithLease(100*time.Millisecond))
				store.set(only("release", func(lock.Claim) error { return errLineCut }), nil)
				time.Sleep(time.Second)
				var read *lock.Lease
				if again {
					read = acquire(t, l, t.Context(), "k", reading)
				}
				store.set(nil, nil)
				wantErr(t, short.Release(t.Context()), lock.ErrLeaseOver)
				time.Sleep(time.Second) // the undo
				release(t, write)
				if again {
					_, err := other.TryAcquire(t.Context(), "k", writing)
					wantErr(t, err, lock.ErrBusy)
					if err := lock.AssertHeld(read.Context(), "k"); err != nil {
						t.Error(err)
					}
					release(t, read)
				}
				time.Sleep(10 * time.Second)
				if holds(t, store, "k") != 0 {
					t.Error("something is left")
				}
			})
		})
	}
}

// A read of a writer has no answer, and another is granted as the same owner.
// What becomes of the first takes nothing from it.
func TestALateReadOfAWriterLeavesTheNextAlone(t *testing.T) {
	for name, c := range map[string]struct {
		after      time.Duration // when the first fails
		writerGoes bool          // first
	}{
		"late, and the writer stays":    {3 * time.Second, false},
		"late, and the writer goes":     {3 * time.Second, true},
		"at once, and the writer stays": {0, false},
		"at once, and the writer goes":  {0, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newFaulty()
				l := newLocker(t, store, lock.WithOwner("me"), lock.WithCallTimeout(time.Second))
				write := acquire(t, l, t.Context(), "k", writing)
				store.set(nil, only("acquire", func(lock.Claim) error { time.Sleep(c.after); return errLineCut }))
				_, err := l.TryAcquire(t.Context(), "k", reading)
				wantErr(t, err, lock.ErrUnavailable)
				store.set(nil, nil)
				read := acquire(t, l, t.Context(), "k", reading)
				if c.writerGoes {
					release(t, write)
				}
				time.Sleep(10 * time.Second) // the first has failed
				if !c.writerGoes {
					release(t, write)
				}
				time.Sleep(time.Second)
				if err := lock.AssertHeld(read.Context(), "k"); err != nil {
					t.Error(err)
				}
				if holds(t, store, "k") != 1 {
					t.Error("a lease that is trusted is not in the store")
				}
				release(t, read)
				time.Sleep(time.Minute)
				if holds(t, store, "k") != 0 {
					t.Error("something is left")
				}
			})
		})
	}
}

// The same, where the reader goes on as a separate owner, as its writer has gone.
func TestALateReadOfAWriterThatHasGoneIsUndone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		l, other := newLocker(t, store, lock.WithOwner("me")), newLocker(t, store)
		theirs := acquire(t, other, t.Context(), "k", writing)
		w, r := start(t, l, t.Context(), writing), start(t, l, t.Context(), reading)
		late, first := make(chan struct{}), times(1, errLineCut)
		store.set(only("acquire", func(c lock.Claim) error {
			if c.Mode == lock.Read {
				if first(c) != nil {
					<-late
				} else {
					time.Sleep(10 * time.Millisecond)
				}
			}
			return nil
		}), nil)
		release(t, theirs)
		write := granted(t, "the writer", w)
		time.Sleep(time.Second)
		release(t, write)
		theirs = acquire(t, other, t.Context(), "k", writing)
		time.Sleep(3 * time.Second) // the first call is given up, the second is busy
		waits(t, "the reader", r)
		release(t, theirs)
		close(late) // arrives before the reader's own call, which takes 10 ms
		time.Sleep(time.Second)
		release(t, granted(t, "the reader", r))
		time.Sleep(10 * time.Second)
		if holds(t, store, "k") != 0 {
			t.Error("something is left")
		}
	})
}

// A grant that comes before the reader goes on as a separate owner is undone as well.
func TestALateGrantOfAWriterThatHasGoneIsUndone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		l := newLocker(t, store, lock.WithOwner("me"), lock.WithCallTimeout(time.Second))
		other := newLocker(t, store)
		theirs := acquire(t, other, t.Context(), "k", writing)
		w, r := start(t, l, t.Context(), writing), start(t, l, t.Context(), reading)
		var sent, answered atomic.Int32
		store.set(only("acquire", func(c lock.Claim) error {
			if c.Mode == lock.Read && sent.Add(1) == 1 {
				time.Sleep(1500 * time.Millisecond)
			}
			return nil
		}), only("acquire", func(c lock.Claim) error {
			if c.Mode == lock.Read && answered.Add(1) == 1 { // the second call, which is busy
				time.Sleep(700 * time.Millisecond)
			}
			return nil
		}))
		release(t, theirs)
		write := granted(t, "the writer", w)
		release(t, write)
		theirs = acquire(t, other, t.Context(), "k", writing)
		time.Sleep(1200 * time.Millisecond)
		waits(t, "the reader", r)
		release(t, theirs)
		time.Sleep(time.Second)
		release(t, granted(t, "the reader", r))
		time.Sleep(10 * time.Second)
		if holds(t, store, "k") != 0 {
			t.Error("something is left")
		}
	})
}

// What is undone was the reader's own owner, if it reads as a writer meanwhile. It
// doesn't come back as that.
func TestAReaderNeverComesBackAsWhoWasUndone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		l, other := newLocker(t, store, lock.WithOwner("me")), newLocker(t, store)
		theirs := acquire(t, other, t.Context(), "k", writing)
		w0, w2 := start(t, l, t.Context(), writing), start(t, l, t.Context(), writing)
		var reads atomic.Int32
		store.set(only("acquire", func(c lock.Claim) error {
			if c.Holds > 1 {
				time.Sleep(50 * time.Millisecond)
			}
			if c.Mode == lock.Read {
				switch reads.Add(1) {
				case 1:
					return errLineCut
				case 3:
					time.Sleep(50 * time.Millisecond)
				}
			}
			return nil
		}), nil)
		release(t, theirs)
		write := granted(t, "the first writer", w0)
		r := start(t, l, t.Context(), reading)
		release(t, write)
		theirs = acquire(t, other, t.Context(), "k", writing)
		time.Sleep(200 * time.Millisecond)
		waits(t, "the second writer", w2)
		waits(t, "the reader", r)
		release(t, theirs)
		release(t, granted(t, "the second writer", w2)) // the reader reads as it meanwhile
		time.Sleep(200 * time.Millisecond)
		read := granted(t, "the reader", r)
		time.Sleep(200 * time.Millisecond)
		_, err := other.TryAcquire(t.Context(), "k", writing)
		wantErr(t, err, lock.ErrBusy)
		if err := lock.AssertHeld(read.Context(), "k"); err != nil {
			t.Error(err)
		}
		release(t, read)
	})
}

// A read that was released while a writer joined it is no end of the writer's.
func TestAWriterReadsAgainWhenWhatItWouldJoinIsReleased(t *testing.T) {
	for name, wait := range map[string]lock.Option{"Acquire": lock.WithWait(time.Minute), "TryAcquire": lock.WithWait(0)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newFaulty()
				l := newLocker(t, store)
				write := acquire(t, l, t.Context(), "k", writing)
				read := acquire(t, l, write.Context(), "k", reading)
				store.set(only("acquire", func(c lock.Claim) error {
					if c.Holds > 1 {
						time.Sleep(20 * time.Millisecond)
					}
					return nil
				}), nil)
				got := start(t, l, write.Context(), reading, wait)
				release(t, read)
				time.Sleep(time.Second)
				release(t, granted(t, "the second reader", got))
				release(t, write)
				time.Sleep(10 * time.Second)
				if holds(t, store, "k") != 0 {
					t.Error("something is left")
				}
			})
		})
	}
}

// A reader whose writer is released while it waits for its turn comes after the callers that
// wait by then; who tries only once is refused.
func TestAReaderWhoseWriterHasGoneComesAfterThoseWhoWait(t *testing.T) {
	for name, c := range map[string]struct{ tries, named bool }{
		"Acquire":            {false, false},
		"TryAcquire":         {true, false},
		"Acquire by name":    {false, true},
		"TryAcquire by name": {true, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newFaulty()
				l := newLocker(t, store)
				me := lock.WithOwner("me")
				write := acquire(t, l, t.Context(), "k", writing, me)
				ctx, opts := context.WithoutCancel(write.Context()), []lock.Option{reading}
				if c.named {
					ctx, opts = t.Context(), append(opts, me)
				}
				if c.tries {
					opts = append(opts, lock.WithWait(0))
				}
				var q <-chan outcome
				if !c.named {
					q = start(t, l, t.Context(), writing)
				}
				var reads atomic.Int32
				store.set(only("acquire", func(c lock.Claim) error {
					if c.Mode == lock.Read && reads.Add(1) == 1 {
						time.Sleep(50 * time.Millisecond)
					}
					return nil
				}), only("release", func(lock.Claim) error {
					time.Sleep(100 * time.Millisecond)
					return nil
				}))
				r1 := start(t, l, ctx, opts...)
				r2 := start(t, l, ctx, opts...)
				if c.named { // a try would be refused at once
					q = start(t, l, t.Context(), writing)
				}
				go func() { _ = write.Release(ctx) }()
				time.Sleep(80 * time.Millisecond)
				if !c.tries {
					waits(t, "the second reader", r2)
				}
				time.Sleep(120 * time.Millisecond)
				second := granted(t, "the writer that waited", q)
				store.set(nil, nil)
				release(t, second)
				time.Sleep(time.Second)
				for i, r := range []<-chan outcome{r1, r2} {
					if c.tries {
						wantErr(t, (<-r).err, lock.ErrBusy)
					} else {
						release(t, granted(t, fmt.Sprint("reader ", i), r))
					}
				}
			})
		})
	}
}

// A reader by the name of a writer that isn't granted yet reads as that writer, who is
// released before the store grants it. The reader comes after who waits before it: a try is
// refused, and what the store granted is in nobody's way.
func TestAReaderOfAWriterThatCameAndWentComesAfterThoseWhoWait(t *testing.T) {
	for name, tries := range map[string]bool{"Acquire": false, "TryAcquire": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newFaulty()
				l := newLocker(t, store)
				me := lock.WithOwner("me")
				var writes atomic.Int32
				store.set(only("acquire", func(c lock.Claim) error {
					if c.Mode == lock.Read || writes.Add(1) == 1 {
						time.Sleep(20 * time.Millisecond)
					} else {
						time.Sleep(100 * time.Millisecond)
					}
					return nil
				}), nil)
				var w, r, q <-chan outcome
				if tries { // nobody waits yet, or it would be refused at once
					w = start(t, l, t.Context(), writing, me, lock.WithWait(0))
					r = start(t, l, t.Context(), reading, me, lock.WithWait(0))
					q = start(t, l, t.Context(), writing)
				} else {
					w = start(t, l, t.Context(), writing, me)
					q = start(t, l, t.Context(), writing)
					r = start(t, l, t.Context(), reading, me)
				}
				time.Sleep(30 * time.Millisecond)
				release(t, granted(t, "the first writer", w)) // its reader calls
				time.Sleep(time.Second)
				release(t, granted(t, "the second writer", q))
				if tries {
					wantErr(t, (<-r).err, lock.ErrBusy)
					return
				}
				time.Sleep(time.Second)
				release(t, granted(t, "the reader", r))
			})
		})
	}
}

// A try that would join a sibling, which is released meanwhile, gets a key that nobody else
// wants.
func TestATryWhoseSiblingHasGoneGetsAFreeKey(t *testing.T) {
	for name, mode := range map[string]lock.Option{"as a reader": reading, "in the same mode": writing} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLocker(t, far(20*time.Millisecond), lock.WithOwner("me"))
				sibling := start(t, l, t.Context(), writing, lock.WithWait(0))
				try := start(t, l, t.Context(), mode, lock.WithWait(0))
				time.Sleep(30 * time.Millisecond)
				release(t, granted(t, "the sibling", sibling)) // the try calls
				time.Sleep(time.Second)
				release(t, granted(t, "the try", try))
			})
		})
	}
}

// Why a caller gives up is no answer of the store, whatever it says.
func TestACallThatIsGivenUpIsNoAnswer(t *testing.T) {
	for name, call := range map[string]func(ctx context.Context, l *lock.Locker, lease *lock.Lease) error{
		"a read of the writer": func(ctx context.Context, l *lock.Locker, _ *lock.Lease) error {
			_, err := l.Acquire(ctx, "k", reading)
			return err
		},
		"a re-entry": func(ctx context.Context, l *lock.Locker, _ *lock.Lease) error {
			_, err := l.Acquire(ctx, "k", writing)
			return err
		},
		"an extension": func(ctx context.Context, _ *lock.Locker, lease *lock.Lease) error {
			return lease.Extend(ctx, time.Hour)
		},
	} {
		for _, cause := range []error{lock.ErrBusy, lock.ErrNotHeld} {
			t.Run(fmt.Sprint(name, ", ", cause), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					store := newFaulty()
					l := newLocker(t, store)
					write := acquire(t, l, t.Context(), "k", writing)
					store.set(func(string, lock.Claim) error { time.Sleep(50 * time.Millisecond); return nil }, nil)
					ctx, cancel := context.WithCancelCause(write.Context())
					failed := make(chan error)
					go func() { failed <- call(ctx, l, write) }()
					synctest.Wait()
					cancel(fmt.Errorf("another part failed: %w", cause))
					wantErr(t, <-failed, context.Canceled)
					if err := lock.AssertHeld(write.Context(), "k"); err != nil {
						t.Error(err)
					}
					time.Sleep(time.Second)
					release(t, write)
				})
			})
		}
	}
}

// A try comes before those of its owner that came after it.
func TestATryOfANameDoesNotYieldToWhoCameLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		l := newLocker(t, store, lock.WithOwner("me"))
		var calls atomic.Int32
		store.set(only("acquire", func(lock.Claim) error {
			if calls.Add(1) > 3 {
				return nil
			}
			time.Sleep(50 * time.Millisecond)
			return &lock.StoreError{Outcome: lock.OutcomeNotExecuted, Class: "test", Err: errLineCut}
		}), nil)
		first, second := start(t, l, t.Context(), lock.WithWait(0)), start(t, l, t.Context(), lock.WithWait(0))
		third := start(t, l, t.Context())
		time.Sleep(time.Second)
		wantErr(t, (<-first).err, lock.ErrUnavailable)
		release(t, granted(t, "the second try", second))
		release(t, granted(t, "who waits", third))
	})
}

// slowReentry has no mutex between calls that would hide a race.
type slowReentry struct{ *memstore.Store }

func (s slowReentry) Acquire(ctx context.Context, c lock.Claim) (uint64, error) {
	if c.Holds > 1 {
		time.Sleep(5 * time.Second)
	}
	return s.Store.Acquire(ctx, c)
}

// The places of all are named by the call of one, while another of them re-enters.
func TestAPlaceIsNamedWhileItsWaiterReenters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := slowReentry{memstore.New()}
		l := newLocker(t, store)
		fair := func(owner string) <-chan outcome {
			return start(t, l, t.Context(), lock.WithMode(lock.Fair), lock.WithOwner(owner))
		}
		theirs := acquire(t, newLocker(t, store), t.Context(), "k", lock.WithMode(lock.Fair))
		first, second, third := fair("a"), fair("b"), fair("a")
		release(t, theirs)
		time.Sleep(4 * time.Second) // the second names the place of the third
		release(t, granted(t, "the first", first))
		time.Sleep(10 * time.Second)
		release(t, granted(t, "the second", second))
		time.Sleep(10 * time.Second)
		release(t, granted(t, "the third, which re-entered too late", third))
	})
}

// Acquisitions of one name wait for each other's calls, and not for all of them.
func TestATryOfANameThatHangsEndsWithOneCallTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		heal := make(chan struct{})
		store.set(only("acquire", func(lock.Claim) error { <-heal; return errLineCut }), nil)
		const timeout = 300 * time.Millisecond
		l := newLocker(t, store, lock.WithOwner("me"), lock.WithCallTimeout(timeout))
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				began := time.Now()
				_, err := l.TryAcquire(t.Context(), "k")
				wantErr(t, err, lock.ErrUnavailable)
				if took := time.Since(began); took > 2*timeout {
					t.Errorf("a try took %v", took)
				}
			})
		}
		all.Wait()
		close(heal)
	})
}

// So do re-entries of one hold, which take turns.
func TestReentriesThatHangEndWithOneCallTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		const timeout = 300 * time.Millisecond
		l := newLocker(t, store, lock.WithCallTimeout(timeout))
		lease := acquire(t, l, t.Context(), "k")
		heal := make(chan struct{})
		store.set(only("acquire", func(lock.Claim) error { <-heal; return errLineCut }), nil)
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				began := time.Now()
				_, err := l.Acquire(lease.Context(), "k")
				wantErr(t, err, lock.ErrUnavailable)
				if took := time.Since(began); took > 2*timeout {
					t.Errorf("a re-entry took %v", took)
				}
			})
		}
		all.Wait()
		close(heal)
		synctest.Wait()
		release(t, lease)
	})
}

// atOnce has n callers acquire at once, and returns what each got.
func atOnce(n int, call func() (*lock.Lease, error)) (leases []*lock.Lease, failed []error) {
	var mu sync.Mutex
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			lease, err := call()
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed = append(failed, err)
				return
			}
			leases = append(leases, lease)
		})
	}
	all.Wait()
	return leases, failed
}

// distant is a store that answers every call after the time of a trip.
func distant(trip time.Duration) *faulty {
	store := newFaulty()
	store.set(func(string, lock.Claim) error { time.Sleep(trip); return nil }, nil)
	return store
}

// Calls for one owner go one after the other. The last of a crowd waits for longer than
// a call timeout, and the store has answered all along.
func TestACrowdOfReentriesIsNoOutage(t *testing.T) {
	const n, trip = 400, 10 * time.Millisecond
	for name, opts := range map[string][]lock.Option{"by its context": nil, "by its name": {lock.WithOwner("me")}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := distant(trip)
				l := newLocker(t, store)
				outer := acquire(t, l, t.Context(), "k", opts...)
				ctx := outer.Context()
				if opts != nil {
					ctx = t.Context()
				}
				leases, failed := atOnce(n, func() (*lock.Lease, error) { return l.Acquire(ctx, "k", opts...) })
				if len(failed) > 0 {
					t.Fatalf("%d re-entries failed, as the first: %v", len(failed), failed[0])
				}
				began, calls := time.Now(), store.count("release")
				var all sync.WaitGroup
				for _, lease := range leases {
					all.Go(func() { wantErr(t, lease.Release(t.Context()), nil) })
				}
				all.Wait()
				if took := time.Since(began); took > 2*trip {
					t.Errorf("the releases took %v, and %d calls", took, store.count("release")-calls)
				}
				if n := holds(t, store, "k"); n != 1 {
					t.Errorf("the store counts %d holds", n)
				}
				release(t, outer)
			})
		})
	}
}

// Who runs out of time in the crowd has nobody else, and no outage, to blame.
func TestADeadlineBehindCallsOfTheSameOwnerIsItsOwn(t *testing.T) {
	const trip = 10 * time.Millisecond
	for name, limit := range map[string]time.Duration{"in the queue": 10 * trip, "in its call": 10*trip + trip/2} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := distant(trip)
				l := newLocker(t, store, lock.WithOwner("me"))
				outer := acquire(t, l, t.Context(), "k")
				leases, failed := atOnce(30, func() (*lock.Lease, error) {
					ctx, cancel := context.WithTimeout(t.Context(), limit)
					defer cancel()
					return l.Acquire(ctx, "k")
				})
				if len(leases) == 0 || len(failed) == 0 {
					t.Fatalf("%d leases, %d errors", len(leases), len(failed))
				}
				for _, err := range failed {
					wantErr(t, err, context.DeadlineExceeded)
					if errors.Is(err, lock.ErrUnavailable) || errors.Is(err, lock.ErrBusy) {
						t.Errorf("got %v", err)
					}
				}
				for _, lease := range append(leases, outer) {
					release(t, lease)
				}
			})
		})
	}
}

// Each answer lets the others wait for another call timeout, and no longer.
func TestACrowdOfReentriesEndsSoonAfterTheLastAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout, trip, answers = 300 * time.Millisecond, 100 * time.Millisecond, 10
		store := newFaulty()
		l := newLocker(t, store, lock.WithCallTimeout(timeout))
		outer := acquire(t, l, t.Context(), "k")
		heal := make(chan struct{})
		store.set(only("acquire", func(c lock.Claim) error {
			if c.Holds > answers+1 {
				<-heal
				return errLineCut
			}
			time.Sleep(trip)
			return nil
		}), nil)
		began := time.Now()
		leases, failed := atOnce(40, func() (*lock.Lease, error) { return l.Acquire(outer.Context(), "k") })
		if took := time.Since(began); took > answers*trip+2*timeout {
			t.Errorf("the last ended %v after the last answer", took-answers*trip)
		}
		if len(leases) != answers {
			t.Errorf("%d got a lease, and the store answered %d", len(leases), answers)
		}
		for _, err := range failed {
			wantErr(t, err, lock.ErrUnavailable)
		}
		close(heal)
		synctest.Wait()
		for _, lease := range append(leases, outer) {
			release(t, lease)
		}
	})
}

// An acquisition that waits for its turn when the locker is closed calls no longer.
func TestCloseWaitsForNoCrowdOfOneName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const trip = 10 * time.Millisecond
		store := distant(trip)
		other, l := newLocker(t, store.Store), lock.New(store, lock.WithOwner("me"))
		lease := acquire(t, other, t.Context(), "k")
		closed := make(chan time.Duration, 1)
		time.AfterFunc(5*trip, func() {
			began := time.Now()
			wantErr(t, l.Close(context.Background()), nil)
			closed <- time.Since(began)
		})
		_, failed := atOnce(100, func() (*lock.Lease, error) { return l.TryAcquire(t.Context(), "k") })
		if len(failed) != 100 {
			t.Errorf("%d errors", len(failed))
		}
		if took := <-closed; took > 2*trip {
			t.Errorf("Close took %v", took)
		}
		release(t, lease)
	})
}

// A deadline that is shorter than the round trip says that the store didn't answer,
// whatever was called.
func TestADeadlineWithoutAnAnswerIsUnavailable(t *testing.T) {
	const trip = 100 * time.Millisecond
	for name, tt := range map[string]struct {
		writes bool // the caller, and somebody waits for it
		limit  time.Duration
		opt    lock.Option
	}{
		"an acquisition":                {limit: trip / 2, opt: writing},
		"the extension of a long lease": {limit: trip + trip/2, opt: lock.WithLease(time.Hour)},
		"a re-entry":                    {limit: trip / 2, writes: true, opt: writing},
		"a writer that reads":           {limit: trip / 2, writes: true, opt: reading},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newFaulty()
				l := lock.New(store)
				caller := t.Context()
				if tt.writes {
					caller = acquire(t, l, caller, "k", writing).Context()
					defer func(w *waiter) { <-w.done }(await(t.Context(), l, "k", writing))
				}
				store.set(func(string, lock.Claim) error { time.Sleep(trip); return nil }, nil)
				ctx, cancel := context.WithTimeout(caller, tt.limit)
				defer cancel()
				_, err := l.Acquire(ctx, "k", tt.opt)
				wantErr(t, err, lock.ErrUnavailable, context.DeadlineExceeded)
				if errors.Is(err, lock.ErrBusy) {
					t.Errorf("got %v, and nobody else has the key", err)
				}
				if err := l.Close(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A reader that called as its writer, who went meanwhile, and then re-enters what a
// sibling was granted: what the store granted to the writer's owner is undone.
func TestAReaderThatReentersLeavesNothingAsItsWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		l := newLocker(t, store, lock.WithOwner("me"), lock.WithWait(0))
		var reads atomic.Int32
		store.set(only("acquire", func(c lock.Claim) error {
			switch {
			case c.Mode == lock.Write:
				time.Sleep(10 * time.Millisecond)
			case reads.Add(1) == 1:
				time.Sleep(100 * time.Millisecond)
			}
			return nil
		}), nil)
		writer := start(t, l, t.Context(), writing)
		first := start(t, l, t.Context(), reading)
		second := start(t, l, t.Context(), reading)
		time.Sleep(20 * time.Millisecond)
		release(t, granted(t, "the writer", writer))
		time.Sleep(time.Second)
		release(t, granted(t, "the first reader", first))
		release(t, granted(t, "the second reader", second))
		time.Sleep(5 * time.Second)
		if n := holds(t, store, "k"); n != 0 {
			t.Errorf("%d holds are left, and nobody has them", n)
		}
	})
}

// A reader's call had no answer, and then it joins what a sibling was granted. The call may
// still run, or its answer may come: nothing stays of it when both have released.
func TestWhatAReaderLeftThatJoinedASiblingIsUndone(t *testing.T) {
	for name, loseIt := range map[string]func(store *faulty, c lock.Claim) error{
		"it runs when nobody waits for it": func(store *faulty, c lock.Claim) error {
			time.AfterFunc(joinedAt+50*time.Millisecond, func() { _, _ = store.Store.Acquire(context.Background(), c) })
			return errLineCut
		},
		"its grant is late": func(*faulty, lock.Claim) error { time.Sleep(joinedAt + time.Second); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, l, other, sibling, got := joinASibling(t, loseIt)
				time.Sleep(3 * time.Second)
				release(t, sibling)
				release(t, granted(t, "the reader", got))
				if n := holds(t, store, "k"); n != 0 {
					t.Errorf("%d holds are left, and nobody has them", n)
				}
				release(t, acquire(t, other, t.Context(), "k", writing))
				release(t, acquire(t, l, t.Context(), "k", writing))
			})
		})
	}
}

// It may have to go on by itself, as the sibling releases what it joins: then what its call
// left is its hold.
func TestWhatAReaderLeftThatWouldJoinASiblingBecomesItsHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := make(chan struct{})
		store, _, other, sibling, got := joinASibling(t, func(store *faulty, c lock.Claim) error {
			<-late
			_, _ = store.Store.Acquire(context.Background(), c)
			return errLineCut
		})
		synctest.Wait() // it calls to join
		close(late)
		synctest.Wait()
		release(t, sibling)
		time.Sleep(time.Second)
		reader := granted(t, "the reader", got)
		time.Sleep(5 * time.Second)
		_, err := other.TryAcquire(t.Context(), "k", writing)
		wantErr(t, err, lock.ErrBusy)
		wantErr(t, lock.AssertHeld(reader.Context(), "k"), nil)
		release(t, reader)
		time.Sleep(5 * time.Second)
		if n := holds(t, store, "k"); n != 0 {
			t.Errorf("%d holds are left, and nobody has them", n)
		}
	})
}

// joinedAt is when the reader of joinASibling, of which a call is lost, joins the sibling.
const joinedAt = 10 * time.Second

// joinASibling has a reader join what a sibling of its name was granted, while it waits.
func joinASibling(t *testing.T, lose func(*faulty, lock.Claim) error) (
	store *faulty, l, other *lock.Locker, sibling *lock.Lease, reader <-chan outcome,
) {
	t.Helper()
	store = newFaulty()
	l, other = newLocker(t, store, lock.WithOwner("me"), reading), newLocker(t, store)
	theirs := acquire(t, other, t.Context(), "k", writing)
	began := time.Now()
	var calls atomic.Int32
	store.set(func(op string, c lock.Claim) error {
		switch {
		case op == "watch":
			return errLineCut // so the sibling comes first
		case op == "acquire" && c.Holds > 1:
			time.Sleep(20 * time.Millisecond)
		case op == "acquire" && calls.Add(1) == 2: // the first was busy
			return lose(store, c)
		}
		return nil
	}, nil)
	reader = start(t, l, t.Context())
	time.Sleep(joinedAt - time.Since(began))
	waits(t, "the reader", reader)
	release(t, theirs)
	sibling, err := l.TryAcquire(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	return store, l, other, sibling, reader
}

// The context of Close ends by what could be a store's answer.
func TestTheCauseOfClosesContextIsNoAnswer(t *testing.T) {
	for name, cause := range map[string]error{"not held": lock.ErrNotHeld, "taken": lock.ErrTaken} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newFaulty()
				var lost atomic.Int32
				l := lock.New(store, lock.WithHooks(lock.Hooks{Lost: func(lock.LossEvent) { lost.Add(1) }}))
				if _, err := l.Acquire(t.Context(), "k"); err != nil {
					t.Fatal(err)
				}
				store.set(only("release", func(lock.Claim) error { time.Sleep(time.Hour); return nil }), nil)
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(time.Millisecond, func() { cancel(fmt.Errorf("another: %w", cause)) })
				wantErr(t, l.Close(ctx), context.Canceled)
				time.Sleep(time.Hour)
				wantErr(t, l.Close(t.Context()), lock.ErrUnavailable)
				if n := lost.Load(); n != 0 {
					t.Errorf("%d losses reported: the store said nothing", n)
				}
			})
		})
	}
}

func TestAPanicOfTheRenewedHookHidesNoLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		l := newLocker(t, store, lock.WithHooks(lock.Hooks{Renewed: func(lock.RenewEvent) { panic("broken") }}))
		lease := acquire(t, l, t.Context(), "k")
		if _, err := store.Store.ForceRelease(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(11 * time.Second) // past the first renewal
		wantErr(t, context.Cause(lease.Context()), lock.ErrTaken)
	})
}

// brink is a context that ends right after the first look at it since it was armed.
type brink struct {
	context.Context
	cancel func()
	armed  atomic.Bool
}

func (c *brink) Err() error {
	err := c.Context.Err()
	if c.armed.CompareAndSwap(true, false) {
		c.cancel()
	}
	return err
}

// The caller's context ends as the store refuses its call, by a cause that a store's
// answer could have.
func TestTheCauseOfACallersContextIsNoAnswerAtTheLastMoment(t *testing.T) {
	for name, cause := range map[string]error{"not held": lock.ErrNotHeld, "busy": lock.ErrBusy} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newFaulty()
				l := newLocker(t, store)
				writer := acquire(t, l, t.Context(), "k", writing)
				inner, cancel := context.WithCancelCause(writer.Context())
				ctx := &brink{Context: inner, cancel: func() { cancel(fmt.Errorf("another: %w", cause)) }}
				store.set(only("acquire", func(lock.Claim) error {
					ctx.armed.Store(true)
					return &lock.StoreError{Outcome: lock.OutcomeRefused, Err: errLineCut}
				}), nil)
				if _, err := l.Acquire(ctx, "k", reading); err == nil {
					t.Error("granted, though the store refused it")
				}
				store.set(nil, nil)
				if err := context.Cause(writer.Context()); err != nil {
					t.Errorf("the writer was lost: %v", err)
				}
				release(t, writer)
			})
		})
	}
}

// namedReaders starts readers of one name, which wait for a writer elsewhere.
func namedReaders(t *testing.T, n int) (store *faulty, held *lock.Lease, readers []<-chan outcome) {
	t.Helper()
	store = newFaulty()
	other, l := newLocker(t, store.Store), newLocker(t, store, lock.WithOwner("me"))
	held = acquire(t, other, t.Context(), "k", writing)
	for range n {
		readers = append(readers, start(t, l, t.Context(), reading))
	}
	return store, held, readers
}

// Waiters by one name call one by one: what one finds out about a silent store, the
// others know.
func TestNamedWaitersDoNotEachFindOutThatTheStoreIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, held, readers := namedReaders(t, 16)
		time.Sleep(100 * time.Millisecond)
		store.set(only("acquire", func(lock.Claim) error { time.Sleep(time.Hour); return errLineCut }), nil)
		began := time.Now()
		for _, done := range readers {
			o := <-done
			wantErr(t, o.err, lock.ErrUnavailable)
			if took := o.at.Sub(began); took > 40*time.Second {
				t.Errorf("one knew after %v", took)
			}
		}
		store.set(nil, nil)
		release(t, held)
		time.Sleep(2 * time.Hour) // the calls end
	})
}

// None of them fails while there is hope: all ride out a restart.
func TestNamedWaitersRideOutARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, held, readers := namedReaders(t, 4)
		away := make(chan struct{})
		store.set(only("acquire", func(lock.Claim) error { <-away; return errLineCut }), nil)
		time.Sleep(20 * time.Second)
		release(t, held)
		store.set(nil, nil)
		close(away)
		time.Sleep(5 * time.Second)
		for i, done := range readers {
			release(t, granted(t, fmt.Sprint("reader ", i), done))
		}
	})
}
