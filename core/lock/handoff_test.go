package lock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

// spaced is a store on a bad network whose fences leave room for hand-offs.
type spaced struct{ *faulty }

func newSpaced() spaced { return spaced{newFaulty()} }

func (spaced) Traits() lock.Traits { return lock.Traits{Spaced: true} }

func (s spaced) ForceRelease(_ context.Context, key string) (freed bool, err error) {
	err = s.through("force", lock.Claim{Key: key}, func() error {
		freed, err = s.BlockingStore.ForceRelease(context.Background(), key)
		return err
	})
	return freed, err
}

// waiter is an Acquire on a goroutine.
type waiter struct {
	lease *lock.Lease
	err   error
	done  chan struct{}
}

// await starts an Acquire, and returns when it waits or has ended.
func await(ctx context.Context, l *lock.Locker, key string, opts ...lock.Option) *waiter {
	w := &waiter{done: make(chan struct{})}
	go func() {
		defer close(w.done)
		w.lease, w.err = l.Acquire(ctx, key, opts...)
	}()
	synctest.Wait()
	return w
}

// got returns the lease of a waiter that must have one by now.
func (w *waiter) got(t *testing.T) *lock.Lease {
	t.Helper()
	synctest.Wait()
	select {
	case <-w.done:
	default:
		t.Fatal("the waiter still waits")
	}
	if w.err != nil {
		t.Fatalf("the waiter got %v", w.err)
	}
	return w.lease
}

func TestAReleasedKeyPassesToTheNextCallerOfTheProcess(t *testing.T) {
	for _, mode := range []lock.Mode{lock.Exclusive, lock.Write} {
		synctest.Test(t, func(t *testing.T) {
			store := newSpaced()
			var mu sync.Mutex
			ended := 0
			l := newLocker(t, store, lock.WithMode(mode), lock.WithHooks(lock.Hooks{Released: func(e lock.ReleaseEvent) {
				mu.Lock()
				defer mu.Unlock()
				if ended++; !e.Last || e.Err != nil {
					t.Errorf("released: %+v", e)
				}
			}}))
			lease := acquire(t, l, t.Context(), "k")
			waiters := []*waiter{await(t.Context(), l, "k"), await(t.Context(), l, "k"), await(t.Context(), l, "k")}
			for i, w := range waiters {
				release(t, lease)
				if cause := context.Cause(lease.Context()); !errors.Is(cause, lock.ErrReleased) {
					t.Errorf("the lease before ended with %v", cause)
				}
				wantErr(t, lock.AssertHeld(lease.Context(), "k"), lock.ErrReleased)
				next := w.got(t)
				if next.Fence() != lease.Fence()+1 || next.Owner() != lease.Owner() || !next.Deadline().Equal(lease.Deadline()) {
					t.Errorf("hand-off %d: fence %d after %d, deadline %v after %v", i, next.Fence(), lease.Fence(), next.Deadline(), lease.Deadline())
				}
				if err := lock.AssertHeld(next.Context(), "k"); err != nil {
					t.Error(err)
				}
				if err := lease.Release(t.Context()); err != nil { // again: nothing
					t.Error(err)
				}
				lease = next
			}
			if n := store.count("acquire") + store.count("release"); n != 1 {
				t.Errorf("%d calls for 4 leases, want 1", n)
			}
			release(t, lease)
			if n := holds(t, store, "k"); n != 0 || ended != 4 {
				t.Errorf("%d holds, %d of 4 ends", n, ended)
			}
		})
	}
}

// What must be released in the store, as the hold cannot be continued.
func TestWhatIsNotHandedOff(t *testing.T) {
	type ends struct{ holder, waiter []lock.Option }
	short := lock.WithWatchdog(3 * time.Second)
	for name, tt := range map[string]struct {
		locker []lock.Option
		ends
		away  bool // nothing can be renewed
		under func(t *testing.T, l *lock.Locker, lease *lock.Lease)
	}{
		"off":                    {locker: []lock.Option{lock.WithHandoff(0, time.Hour)}},
		"after its time":         {under: func(*testing.T, *lock.Locker, *lock.Lease) { time.Sleep(lock.DefaultHandoffTime) }},
		"fair":                   {locker: []lock.Option{lock.WithMode(lock.Fair)}},
		"a semaphore":            {locker: []lock.Option{lock.WithPermits(1, 1)}},
		"to a reader":            {ends: ends{[]lock.Option{lock.WithMode(lock.Write)}, []lock.Option{lock.WithMode(lock.Read)}}},
		"of a fixed length":      {ends: ends{holder: []lock.Option{lock.WithLease(time.Minute)}}},
		"to a fixed length":      {ends: ends{waiter: []lock.Option{lock.WithLease(time.Minute)}}},
		"another watchdog":       {ends: ends{waiter: []lock.Option{short}}},
		"with a limit":           {ends: ends{holder: []lock.Option{lock.WithMaxHold(time.Hour)}}},
		"to a limit":             {ends: ends{waiter: []lock.Option{lock.WithMaxHold(time.Hour)}}},
		"to a minimum hold":      {ends: ends{waiter: []lock.Option{lock.WithMinHold(time.Second)}}},
		"a watchdog beyond 30 s": {locker: []lock.Option{lock.WithWatchdog(time.Hour)}},
		"after half of the lease": {
			locker: []lock.Option{lock.WithHandoff(1, time.Hour)},
			under:  func(*testing.T, *lock.Locker, *lock.Lease) { time.Sleep(16 * time.Second) },
			away:   true,
		},
		"after an extension": {away: true, under: func(t *testing.T, _ *lock.Locker, lease *lock.Lease) {
			t.Helper()
			limited, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			wantErr(t, lease.Extend(limited, time.Second), context.DeadlineExceeded) // and may arrive late
		}},
		"after Conclude": {under: func(t *testing.T, _ *lock.Locker, lease *lock.Lease) {
			t.Helper()
			wantErr(t, lease.Conclude(), nil)
		}},
		"after a longer re-entry": {under: func(t *testing.T, l *lock.Locker, lease *lock.Lease) {
			t.Helper()
			release(t, acquire(t, l, lease.Context(), "k", lock.WithLease(time.Hour)))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newSpaced()
				if tt.away {
					store.set(only("renew", func(lock.Claim) error { return errLineCut }), nil)
				}
				l := newLocker(t, store, tt.locker...)
				lease := acquire(t, l, t.Context(), "k", tt.holder...)
				w := await(t.Context(), l, "k", tt.waiter...)
				if tt.under != nil {
					tt.under(t, l, lease)
				}
				released := store.count("release")
				release(t, lease)
				next := w.got(t)
				if store.count("release") == released || next.Owner() == lease.Owner() {
					t.Errorf("handed off: fence %d after %d", next.Fence(), lease.Fence())
				}
				release(t, next)
			})
		})
	}
	t.Run("fences that leave no room", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := newLocker(t, newFaulty())
			lease := acquire(t, l, t.Context(), "k")
			w := await(t.Context(), l, "k")
			release(t, lease)
			next := w.got(t)
			if next.Owner() == lease.Owner() {
				t.Errorf("handed off: fence %d after %d", next.Fence(), lease.Fence())
			}
			release(t, next)
		})
	})
}

// A re-entry is no business of the store, and so in no hand-off's way.
func TestAHoldThatWasReenteredIsHandedOff(t *testing.T) {
	for _, kind := range reentries {
		if kind.name == "fair" || kind.name == "a reader" {
			continue // which never pass a hold on
		}
		for name, outerFirst := range map[string]bool{"the inner lease first": false, "the outer lease first": kind.name != "a writer that reads"} {
			t.Run(kind.name+", "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					store := newSpaced()
					l := newLocker(t, store)
					outer := acquire(t, l, t.Context(), "k", kind.outer)
					inner := acquire(t, l, outer.Context(), "k", kind.inner)
					w := await(t.Context(), l, "k", kind.outer)
					calls := store.total()
					if outerFirst {
						outer, inner = inner, outer
					}
					release(t, inner)
					release(t, outer)
					next := w.got(t)
					if n := store.total() - calls; n != 0 || next.Owner() != outer.Owner() || next.Fence() != outer.Fence()+1 {
						t.Errorf("%d calls, fence %d after %d", n, next.Fence(), outer.Fence())
					}
					release(t, acquire(t, l, next.Context(), "k", kind.inner))
					release(t, next)
					if n := holds(t, store, "k"); n != 0 {
						t.Errorf("%d holds are left", n)
					}
				})
			})
		}
	}
}

// A process hands off as often as it may, and then another one gets its turn, though
// it is the slower one to hear of the release and to call.
func TestAnotherProcessGetsItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const handoffs = 5
		store := newSpaced()
		slow := spaced{lineTo(store.Store)}
		slow.set(only("acquire", func(lock.Claim) error { time.Sleep(900 * time.Microsecond); return nil }), nil)
		here, there := newLocker(t, store, lock.WithHandoff(handoffs, time.Hour)), newLocker(t, slow)
		lease := acquire(t, here, t.Context(), "k")
		other := await(t.Context(), there, "k")
		time.Sleep(time.Second) // it has been refused, and waits for a message
		var waiters []*waiter
		for range 2 * handoffs {
			waiters = append(waiters, await(t.Context(), here, "k"))
		}
		for n := range handoffs {
			before := lease
			release(t, before)
			if lease = waiters[n].got(t); lease.Owner() != before.Owner() {
				t.Fatalf("lease %d: not handed off", n)
			}
		}
		release(t, lease)
		time.Sleep(time.Millisecond)
		release(t, other.got(t))
		for _, w := range waiters[handoffs:] {
			time.Sleep(time.Millisecond)
			release(t, w.got(t))
		}
	})
}

// A process whose key nobody else wants loses little time by letting others call first.
func TestAProcessAloneSeldomYields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newSpaced()
		l := newLocker(t, store)
		const callers, work, span = 4, 100 * time.Microsecond, time.Second
		var group sync.WaitGroup
		start := time.Now()
		var worked [callers]time.Duration
		for i := range callers {
			group.Go(func() {
				for time.Since(start) < span {
					lease, err := l.Acquire(t.Context(), "k")
					if err != nil {
						t.Error(err)
						return
					}
					time.Sleep(work)
					worked[i] += work
					release(t, lease)
				}
			})
		}
		group.Wait()
		took, total := time.Since(start), time.Duration(0)
		for _, d := range worked {
			total += d
		}
		if yields := (took - total) / time.Millisecond; yields < 4 || yields > 12 {
			t.Errorf("yielded %d times in %v", yields, took)
		}
	})
}

// A process that was alone for long, and seldom let others call first, does so after each run
// once another wants the key.
func TestAProcessThatWasAloneYieldsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newSpaced()
		slow := spaced{lineTo(store.Store)}
		slow.set(only("acquire", func(lock.Claim) error { time.Sleep(900 * time.Microsecond); return nil }), nil)
		here, there := newLocker(t, store), newLocker(t, slow)
		const callers, work, alone, span = 4, 100 * time.Microsecond, time.Second, 6 * time.Second
		var group sync.WaitGroup
		start, theirs := time.Now(), 0
		use := func(l *lock.Locker) {
			lease, err := l.Acquire(t.Context(), "k")
			if err != nil {
				t.Error(err)
				return
			}
			time.Sleep(work)
			release(t, lease)
		}
		for range callers {
			group.Go(func() {
				for time.Since(start) < span {
					use(here)
				}
			})
		}
		group.Go(func() {
			time.Sleep(alone)
			for time.Since(start) < span {
				use(there)
				theirs++
			}
		})
		group.Wait()
		if runs := int((span - alone) / lock.DefaultHandoffTime); theirs < runs/8 {
			t.Errorf("%d turns of another process in about %d runs of hand-offs", theirs, runs)
		}
	})
}

// A renewal that was sent before a hand-off is about the hold in the store: the
// lease that continues it lasts longer by it, or is lost.
func TestARenewalFollowsAHandOff(t *testing.T) {
	for name, gone := range map[string]bool{"confirmed": false, "gone": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, answer := newSpaced(), make(chan struct{})
				l := newLocker(t, store, lock.WithHandoff(63, time.Hour), lock.WithWatchdog(3*time.Second))
				lease := acquire(t, l, t.Context(), "k")
				before := lease.Deadline()
				w := await(t.Context(), l, "k")
				store.set(nil, only("renew", func(lock.Claim) error {
					<-answer
					if gone {
						return lock.ErrNotHeld
					}
					return nil
				}))
				time.Sleep(time.Second) // the renewal is under way
				synctest.Wait()
				release(t, lease)
				next := w.got(t)
				if next.Owner() != lease.Owner() {
					t.Fatal("not handed off")
				}
				close(answer)
				synctest.Wait()
				if gone {
					wantErr(t, context.Cause(next.Context()), lock.ErrLost, lock.ErrTaken)
					wantErr(t, next.Release(t.Context()), lock.ErrLost)
					return
				}
				if after := next.Deadline(); !after.After(before) {
					t.Errorf("deadline %v, and %v before the renewal", after, before)
				}
				time.Sleep(time.Minute) // and the watchdog goes on
				if err := lock.AssertHeld(next.Context(), "k"); err != nil {
					t.Error(err)
				}
				release(t, next)
			})
		})
	}
}

// A forced release takes the hold away from the lease that has it when the store is
// done, however often it was handed off meanwhile.
func TestAForcedReleaseFollowsAHandOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, answer := newSpaced(), make(chan struct{})
		l := newLocker(t, store)
		lease := acquire(t, l, t.Context(), "k")
		w := await(t.Context(), l, "k")
		store.set(nil, only("force", func(lock.Claim) error { <-answer; return nil }))
		forced := make(chan error, 1)
		go func() {
			_, err := l.ForceRelease(t.Context(), "k")
			forced <- err
		}()
		synctest.Wait()
		release(t, lease)
		next := w.got(t)
		close(answer)
		if err := <-forced; err != nil {
			t.Fatal(err)
		}
		wantErr(t, context.Cause(next.Context()), lock.ErrForced)
		wantErr(t, next.Release(t.Context()), lock.ErrForced)
	})
}

// An answer that comes after the hold was handed off, to a call of its first owner,
// takes it away from nobody.
func TestALateAnswerSparesWhoContinuesTheHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, answer, first := newSpaced(), make(chan struct{}), make(chan struct{}, 1)
		other := acquire(t, newLocker(t, store.Store), t.Context(), "k")
		l := newLocker(t, store, lock.WithCallTimeout(100*time.Millisecond), lock.WithHandoff(63, time.Hour))
		store.set(nil, only("acquire", func(lock.Claim) error {
			select {
			case <-first:
				<-answer // granted, but the answer is late
			default:
			}
			return nil
		}))
		holder := await(t.Context(), l, "k")
		first <- struct{}{}
		release(t, other)
		time.Sleep(500 * time.Millisecond) // a second call was answered
		lease := holder.got(t)
		w := await(t.Context(), l, "k")
		release(t, lease)
		next := w.got(t)
		if next.Owner() != lease.Owner() {
			t.Fatal("not handed off")
		}
		close(answer)
		time.Sleep(5 * time.Second) // all passes of an undo
		if err := lock.AssertHeld(next.Context(), "k"); err != nil || holds(t, store, "k") != 1 {
			t.Errorf("%v, %d holds", err, holds(t, store, "k"))
		}
		release(t, next)
		time.Sleep(5 * time.Second)
		if n := holds(t, store, "k"); n != 0 {
			t.Errorf("%d holds left", n)
		}
	})
}

// A waiter that gives up as it is handed the key passes it on.
func TestAWaiterThatGivesUpPassesTheKeyOn(t *testing.T) {
	for seed := range uint64(50) {
		synctest.Test(t, func(t *testing.T) {
			store := newSpaced()
			l := newLocker(t, store, lock.WithHandoff(63, time.Hour))
			lease := acquire(t, l, t.Context(), "k")
			ctx, cancel := context.WithCancel(t.Context())
			gone, last := await(ctx, l, "k"), await(t.Context(), l, "k")
			if seed%2 == 0 { // both before the waiter runs
				go cancel()
				release(t, lease)
			} else {
				go func() { _ = lease.Release(context.Background()) }()
				cancel()
			}
			synctest.Wait()
			if gone.err == nil { // it was quicker
				release(t, gone.lease)
			} else {
				wantErr(t, gone.err, context.Canceled)
			}
			release(t, last.got(t))
			if n := holds(t, store, "k"); n != 0 {
				t.Errorf("%d holds left", n)
			}
			cancel()
		})
	}
}

// Two processes with many callers, and hand-offs that are interrupted by forced
// releases, renewals that fail, waiters that leave and lockers that close: the
// fences of the leases rise in the order in which they were granted, no two are
// trusted at once, everybody is served, and nothing is left.
func TestFencesRiseWhateverInterruptsAHandOff(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { interrupted(t, rand.New(rand.NewPCG(seed, 7))) })
		})
	}
}

// referee sees all leases of one key.
type referee struct {
	*testing.T
	mu      sync.Mutex
	seen    map[uint64]bool   // fences
	last    map[string]uint64 // by owner
	newest  *lock.Lease
	granted uint64 // the largest fence of the store
	forced  uint64 // the same when a hold was last taken away: its holder may not know
	leases  int
	handed  int
}

func (r *referee) enter(lease *lock.Lease) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if lock.AssertHeld(lease.Context(), "k") != nil {
		return // lost before anybody works under it
	}
	fence, owner := lease.Fence(), lease.Owner()
	if r.seen[fence] || fence <= r.last[owner] {
		r.Errorf("fence %d again, or after %d of the same hold", fence, r.last[owner])
	}
	if r.last[owner] > 0 {
		r.handed++
	}
	r.seen[fence], r.last[owner] = true, fence
	r.leases++
	if fence < r.forced+lock.FenceStep {
		return
	}
	if before := r.newest; before != nil && before.Fence() >= r.forced+lock.FenceStep {
		if fence <= before.Fence() {
			r.Errorf("fence %d after %d", fence, before.Fence())
		}
		if lock.AssertHeld(before.Context(), "k") == nil {
			r.Errorf("two leases: fences %d and %d", before.Fence(), fence)
		}
	}
	r.newest = lease
}

// refereed is a store whose referee sees the grants.
type refereed struct {
	spaced
	*referee
}

func (s refereed) Acquire(ctx context.Context, c lock.Claim) (uint64, error) {
	s.mu.Lock() // not while a hold is taken away
	defer s.mu.Unlock()
	fence, err := s.spaced.Acquire(ctx, c)
	s.granted = max(s.granted, fence)
	return fence, err
}

func (s refereed) ForceRelease(ctx context.Context, key string) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forced = s.granted
	return s.spaced.ForceRelease(ctx, key)
}

func interrupted(t *testing.T, rng *rand.Rand) {
	t.Helper()
	store := newSpaced()
	failing := rng.IntN(2) == 0
	r := &referee{T: t, seen: make(map[uint64]bool), last: make(map[string]uint64)}
	judged := refereed{store, r}
	const watchdog = 300 * time.Millisecond
	open := func() *lock.Locker {
		return lock.New(port(judged), lock.WithHandoff(rng.IntN(64), time.Duration(rng.IntN(200))*time.Millisecond), lock.WithWatchdog(watchdog))
	}
	lockers := []*lock.Locker{open(), open()}
	if failing {
		store.set(only("renew", func(lock.Claim) error {
			if time.Now().UnixNano()/int64(watchdog)%3 == 0 {
				return errLineCut
			}
			return nil
		}), nil)
	}
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
	defer stop()
	var all sync.WaitGroup
	for n := range 16 {
		l, rng := lockers[n%2], rand.New(rand.NewPCG(rng.Uint64(), 1))
		all.Go(func() {
			for ctx.Err() == nil {
				caller(ctx, r, l, rng)
			}
		})
	}
	if rng.IntN(2) == 0 {
		all.Go(func() {
			for ctx.Err() == nil {
				time.Sleep(time.Duration(rng.IntN(500)) * time.Millisecond)
				if _, err := lockers[rng.IntN(2)].ForceRelease(context.Background(), "k"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	for _, l := range lockers {
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if n := holds(t, store, "k"); n != 0 {
		t.Errorf("%d holds left", n)
	}
	t.Logf("%d leases, %d handed off", r.leases, r.handed)
	if r.leases == 0 {
		t.Error("no lease at all")
	}
}

func caller(ctx context.Context, r *referee, l *lock.Locker, rng *rand.Rand) {
	limited, cancel := context.WithTimeout(ctx, time.Duration(1+rng.IntN(200))*time.Millisecond)
	defer cancel()
	if rng.IntN(2) == 0 {
		limited = ctx
	}
	lease, err := l.Acquire(limited, "k")
	if err != nil {
		if limited.Err() == nil {
			r.Errorf("acquire: %v", err)
		}
		return
	}
	r.enter(lease)
	select {
	case <-lease.Context().Done():
	case <-time.After(time.Duration(rng.IntN(30)) * time.Millisecond):
	}
	if rng.IntN(50) == 0 { // longer than a watchdog
		select {
		case <-lease.Context().Done():
		case <-time.After(time.Second):
		}
	}
	if err := lease.Release(context.Background()); err != nil && !errors.Is(err, lock.ErrLost) {
		r.Errorf("release: %v", err)
	}
}

// Who is handed a key keeps it as long as anybody.
func TestALeaseThatWasHandedOverIsRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLocker(t, newSpaced())
		first := acquire(t, l, t.Context(), "k")
		next := await(t.Context(), l, "k")
		release(t, first)
		lease := next.got(t)
		if lease.Owner() != first.Owner() {
			t.Fatal("it was not handed over")
		}
		time.Sleep(time.Hour)
		release(t, lease)
	})
}

// What a suspension made doubtful is released, and not passed on.
func TestNothingIsHandedOverAfterASuspension(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLocker(t, newSpaced())
		first := acquire(t, l, t.Context(), "k")
		next := await(t.Context(), l, "k")
		l.Suspend(10 * time.Minute)
		release(t, first)
		lease := next.got(t)
		if lease.Owner() == first.Owner() {
			t.Error("it was handed over")
		}
		release(t, lease)
	})
}

// A waiter that a drain has refused is handed nothing, whatever it hears of first.
func TestNothingIsHandedToWhoIsRefused(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			looks := make(chan struct{})
			l := newLocker(t, newSpaced(), lock.WithHooks(lock.Hooks{Waiting: func(context.Context, lock.Event) func() {
				<-looks
				return nil
			}}))
			held := acquire(t, l, t.Context(), "k")
			next := await(t.Context(), l, "k")
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			wantErr(t, l.Drain(ctx), context.Canceled)
			release(t, held)
			close(looks)
			<-next.done
			wantErr(t, next.err, lock.ErrClosed)
		})
	}
}

// tokens is a store whose fences leave no room for hand-offs, such as Redisson's tokens.
type tokens struct {
	*faulty
	last uint64
}

func (s *tokens) Acquire(ctx context.Context, c lock.Claim) (uint64, error) {
	_, err := s.faulty.Acquire(ctx, c)
	s.last++
	return s.last, err
}

func TestWithoutHandOffsNobodyYields(t *testing.T) {
	for _, opts := range [][]lock.Option{nil, {lock.WithMode(lock.Fair)}, {lock.WithHandoff(0, 0)}} {
		synctest.Test(t, func(t *testing.T) {
			l := newLocker(t, &tokens{faulty: newFaulty()}, opts...)
			holder := acquire(t, l, t.Context(), "k")
			next := start(t, l, t.Context())
			time.Sleep(20 * time.Millisecond)
			release(t, holder)
			synctest.Wait()
			release(t, granted(t, "the next", next))
		})
	}
}

// newLate returns a locker whose waiters notice nothing before they look.
func newLate(t *testing.T, store inspected) (l *lock.Locker, look func()) {
	t.Helper()
	looks := make(chan struct{})
	l = newLocker(t, store, lock.WithHooks(lock.Hooks{Waiting: func(context.Context, lock.Event) func() {
		<-looks
		return nil
	}}))
	return l, func() { close(looks) }
}

// A lease that is handed to a waiter as it gives up is released: nobody else would.
func TestALeaseThatIsHandedToWhoGivesUpIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newSpaced()
		l, look := newLate(t, store)
		lease := acquire(t, l, t.Context(), "k")
		ctx, cancel := context.WithCancel(t.Context())
		next := await(ctx, l, "k")
		release(t, lease)
		if n := holds(t, store, "k"); n != 1 {
			t.Fatal("not handed off")
		}
		cancel()
		look()
		<-next.done
		wantErr(t, next.err, context.Canceled)
		synctest.Wait()
		if n := holds(t, store, "k"); n != 0 {
			t.Error("nobody has a lease, and the key is held")
		}
	})
}

// A hold that was forced away, unnoticed, is not handed to a waiter that comes after a
// later owner of the same process.
func TestAHoldIsNotHandedOffUnderALaterOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newSpaced()
		l := newLocker(t, store)
		first := acquire(t, l, t.Context(), "k")
		if _, err := store.Store.ForceRelease(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
		second := acquire(t, l, t.Context(), "k", fair)
		third := start(t, l, t.Context())
		wantErr(t, first.Release(t.Context()), lock.ErrLost)
		waits(t, "the third", third)
		release(t, second)
		release(t, granted(t, "the third", third))
	})
}

// A lease that is handed to a waiter before it notes that its limit has passed is granted.
func TestALeaseThatIsHandedAsTheLimitPassesIsGranted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, look := newLate(t, newSpaced())
		lease := acquire(t, l, t.Context(), "k")
		next := await(t.Context(), l, "k", lock.WithWait(time.Second))
		release(t, lease)
		time.Sleep(2 * time.Second)
		look()
		release(t, next.got(t))
	})
}
