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
				if op == "release" {
					ended[c.Owner] = true
				}
				return nil
			})
			l := newLocker(t, store, kind)
			for range 3 {
				outer := acquire(t, l, t.Context(), "k")
				inner := acquire(t, l, outer.Context(), "k")
				if outer.Owner() != inner.Owner() {
					t.Error("it did not re-enter")
				}
				release(t, outer)
				release(t, inner)
			}
		})
	}
}

// A release that was stuck in the network takes nothing from the next hold.
func TestALateReleaseTouchesNoLaterHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		l := newLocker(t, store)
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
	lock.BlockingStore
	mu    sync.Mutex
	free  time.Time // when it has served what was sent so far
	cost  time.Duration
	conns chan struct{} // connections of the client's pool
	calls int
}

func newSingle(rate, conns int) *single {
	return &single{BlockingStore: newRemote(), cost: time.Second / time.Duration(rate), conns: make(chan struct{}, conns)}
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
	return s.BlockingStore.Acquire(context.Background(), c)
}

func (s *single) Release(ctx context.Context, c lock.Claim) error {
	if err := s.serve(ctx); err != nil {
		return err
	}
	return s.BlockingStore.Release(context.Background(), c)
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
		if holds(t, store, fmt.Sprint("k:", i)) != 0 {
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
		store := &forcing{BlockingStore: newRemote()}
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
	lock.BlockingStore
	after func()
}

func (s *forcing) ForceRelease(ctx context.Context, key string) (bool, error) {
	freed, err := s.BlockingStore.ForceRelease(ctx, key)
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
		store := &rounds{BlockingStore: newRemote()}
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
	lock.BlockingStore
	mu              sync.Mutex
	largest, claims int
}

func (s *rounds) Renew(ctx context.Context, claims []lock.Claim, report func(int, error)) {
	s.mu.Lock()
	s.largest, s.claims = max(s.largest, len(claims)), s.claims+len(claims)
	s.mu.Unlock()
	s.BlockingStore.Renew(ctx, claims, report)
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

// Why a caller gives up is no answer of the store, whatever it says.
func TestACallThatIsGivenUpIsNoAnswer(t *testing.T) {
	for name, call := range map[string]func(ctx context.Context, l *lock.Locker, lease *lock.Lease) error{
		"a long read of the writer": func(ctx context.Context, l *lock.Locker, _ *lock.Lease) error {
			_, err := l.Acquire(ctx, "k", reading, lock.WithLease(time.Hour))
			return err
		},
		"a long re-entry": func(ctx context.Context, l *lock.Locker, _ *lock.Lease) error {
			_, err := l.Acquire(ctx, "k", writing, lock.WithLease(time.Hour))
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

// A deadline that is shorter than the round trip says that the store didn't answer,
// whatever was called.
func TestADeadlineWithoutAnAnswerIsUnavailable(t *testing.T) {
	const trip = 100 * time.Millisecond
	for name, tt := range map[string]struct {
		writes bool // the caller, and somebody waits for it
		limit  time.Duration
		opts   []lock.Option
	}{
		"an acquisition":                {limit: trip / 2, opts: []lock.Option{writing}},
		"the extension of a long lease": {limit: trip + trip/2, opts: []lock.Option{lock.WithLease(time.Hour)}},
		"a longer re-entry":             {limit: trip / 2, writes: true, opts: []lock.Option{writing, lock.WithLease(time.Hour)}},
		"a writer that reads longer":    {limit: trip / 2, writes: true, opts: []lock.Option{reading, lock.WithLease(time.Hour)}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newFaulty()
				l := lock.New(port(store))
				caller := t.Context()
				if tt.writes {
					caller = acquire(t, l, caller, "k", writing).Context()
					defer func(w *waiter) { <-w.done }(await(t.Context(), l, "k", writing))
				}
				store.set(func(string, lock.Claim) error { time.Sleep(trip); return nil }, nil)
				ctx, cancel := context.WithTimeout(caller, tt.limit)
				defer cancel()
				_, err := l.Acquire(ctx, "k", tt.opts...)
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

// The context of Close ends by what could be a store's answer.
func TestTheCauseOfClosesContextIsNoAnswer(t *testing.T) {
	for name, cause := range map[string]error{"not held": lock.ErrNotHeld, "taken": lock.ErrTaken} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newFaulty()
				var lost atomic.Int32
				l := lock.New(port(store), lock.WithHooks(lock.Hooks{Lost: func(lock.LossEvent) { lost.Add(1) }}))
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
				store.set(only("renew", func(lock.Claim) error {
					ctx.armed.Store(true)
					return &lock.StoreError{Outcome: lock.OutcomeRefused, Err: errLineCut}
				}), nil)
				if _, err := l.Acquire(ctx, "k", reading, lock.WithLease(time.Hour)); err == nil {
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

// queue starts callers who wait for a holder elsewhere.
func queue(t *testing.T, n int) (store *faulty, held *lock.Lease, waiters []<-chan outcome) {
	t.Helper()
	store = newFaulty()
	other, l := newLocker(t, store.Store), newLocker(t, store)
	held = acquire(t, other, t.Context(), "k")
	for range n {
		waiters = append(waiters, start(t, l, t.Context()))
	}
	return store, held, waiters
}

// Waiters call one by one: what one finds out about a silent store, the others know.
func TestWaitersDoNotEachFindOutThatTheStoreIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, held, waiters := queue(t, 16)
		time.Sleep(100 * time.Millisecond)
		store.set(only("acquire", func(lock.Claim) error { time.Sleep(time.Hour); return errLineCut }), nil)
		began := time.Now()
		for _, done := range waiters {
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
func TestWaitersRideOutARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, held, waiters := queue(t, 4)
		away := make(chan struct{})
		store.set(only("acquire", func(lock.Claim) error { <-away; return errLineCut }), nil)
		time.Sleep(20 * time.Second)
		release(t, held)
		store.set(nil, nil)
		close(away)
		time.Sleep(5 * time.Second)
		for i, done := range waiters {
			release(t, granted(t, fmt.Sprint("waiter ", i), done))
		}
	})
}
