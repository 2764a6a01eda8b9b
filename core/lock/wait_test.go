package lock_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
)

// A waiter that is cancelled in the very moment the key becomes free must
// pass the wake-up on; rueidislock strands the others here.
func TestACancelledWaiterStrandsNobody(t *testing.T) {
	tests := []struct {
		name   string
		holder func(store *memstore.Store, l *lock.Locker) *lock.Locker
	}{
		{"held here", func(_ *memstore.Store, l *lock.Locker) *lock.Locker { return l }},
		{"held elsewhere", func(store *memstore.Store, _ *lock.Locker) *lock.Locker { return lock.New(store) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			store := memstore.New()
			// No poll may hide a lost wake-up.
			l := newLocker(t, store, lock.WithPoll(time.Hour), lock.WithWatchdog(3*time.Hour))
			holder := tt.holder(store, l)
			for range 500 {
				lease, err := holder.Acquire(t.Context(), "k", lock.WithWatchdog(3*time.Hour))
				if err != nil {
					t.Fatal(err)
				}
				cancelOneOf(t, l, 4, lease)
			}
			if holder != l {
				if err := holder.Close(context.Background()); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// cancelOneOf lets n waiters queue, cancels some while the key is released,
// and fails if one that was not cancelled stays without it.
func cancelOneOf(t *testing.T, l *lock.Locker, n int, lease *lock.Lease) {
	t.Helper()
	var wg sync.WaitGroup
	cancels := make([]context.CancelFunc, n)
	for i := range n {
		ctx, cancel := context.WithCancel(t.Context())
		cancels[i] = cancel
		wg.Go(func() {
			next, err := l.Acquire(ctx, "k")
			if err != nil {
				if !errors.Is(err, context.Canceled) {
					t.Errorf("got %v, want Canceled", err)
				}
				return
			}
			if err := next.Release(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
	spared := rand.N(n)
	wg.Go(func() {
		for i, cancel := range cancels {
			if i != spared {
				cancel()
			}
		}
	})
	if err := lease.Release(context.Background()); err != nil {
		t.Error(err)
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("a waiter is stranded")
	}
	cancels[spared]()
}

func TestALostWakeupCostsAtMostThePollInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &deaf{BlockingStore: newRemote()}
		l, other := newLocker(t, store, lock.WithPoll(700*time.Millisecond)), newLocker(t, store)
		lease := acquire(t, other, t.Context(), "k")
		got := make(chan time.Time, 1)
		go func() {
			next := acquire(t, l, t.Context(), "k")
			at := time.Now()
			release(t, next) // before the locker is closed
			got <- at
		}()
		time.Sleep(10*time.Second + 123*time.Millisecond)
		freed := time.Now()
		release(t, lease)
		if waited := (<-got).Sub(freed); waited > 700*time.Millisecond {
			t.Errorf("waited %v after the release", waited)
		}
	})
}

// deaf loses every wake-up.
type deaf struct{ lock.BlockingStore }

func (*deaf) Watch(context.Context, lock.Claim, func()) (func(), error) { return func() {}, nil }

func TestAStoreWithoutWakeupsIsPolled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &mute{BlockingStore: newRemote()}
		l, other := newLocker(t, store), newLocker(t, store)
		lease := acquire(t, other, t.Context(), "k")
		got := make(chan time.Time, 1)
		go func() {
			next := acquire(t, l, t.Context(), "k")
			at := time.Now()
			release(t, next) // before the locker is closed
			got <- at
		}()
		time.Sleep(10 * time.Second)
		freed := time.Now()
		release(t, lease)
		if waited := (<-got).Sub(freed); waited > 250*time.Millisecond {
			t.Errorf("waited %v after the release", waited)
		}
	})
}

// It is polled less and less, so that a long wait costs few calls.
func TestALongWaitWithoutWakeupsPollsSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		l, other := newLocker(t, &mute{store}), newLocker(t, store.Store)
		lease := acquire(t, other, t.Context(), "k")
		got := start(t, l, t.Context())
		time.Sleep(time.Minute)
		waits(t, "the waiter", got)
		if n := store.count("acquire"); n > 60*10 {
			t.Errorf("%d calls in a minute", n)
		}
		release(t, lease)
		time.Sleep(time.Second)
		release(t, granted(t, "the waiter", got))
	})
}

// A key without wake-ups says nothing about the next key that is waited for.
func TestAKeyWithoutWakeupsIsNotTakenForAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		l, other := newLocker(t, store, lock.WithPoll(time.Hour)), newLocker(t, store.Store)
		acquire(t, other, t.Context(), "mute")
		lease := acquire(t, other, t.Context(), "k")
		store.set(only("watch", func(c lock.Claim) error {
			if c.Key == "mute" {
				return errLineCut
			}
			return nil
		}), nil)
		_, err := l.Acquire(t.Context(), "mute", lock.WithWait(time.Second))
		wantErr(t, err, lock.ErrBusy)
		got := start(t, l, t.Context())
		time.Sleep(time.Second)
		release(t, lease)
		release(t, granted(t, "the waiter", got))
	})
}

// mute has no wake-ups.
type mute struct{ lock.BlockingStore }

func (*mute) Watch(context.Context, lock.Claim, func()) (func(), error) {
	return nil, lock.ErrUnsupported
}

func TestADeadHoldersKeyIsTakenWhenItExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		l := newLocker(t, store, lock.WithPoll(time.Hour))
		dead := lock.Claim{Key: "k", Owner: "dead:1", TTL: 7 * time.Second}
		if _, err := lock.Blocking(store).Acquire(t.Context(), dead); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		lease := acquire(t, l, t.Context(), "k")
		if waited := time.Since(start); waited > 7*time.Second+10*time.Millisecond {
			t.Errorf("waited %v for a hold of 7s", waited)
		}
		release(t, lease)
	})
}

func TestOnlyTheHeadAsksTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		l, other := newLocker(t, store), newLocker(t, store.Store)
		lease := acquire(t, other, t.Context(), "k")
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() { _, _ = l.Acquire(ctx, "k") })
		}
		synctest.Wait()
		if n := store.count("acquire"); n != 2 { // before and after subscribing
			t.Errorf("100 waiters asked %d times", n)
		}
		if n := store.count("watch"); n != 1 {
			t.Errorf("100 waiters subscribed %d times", n)
		}
		cancel()
		wg.Wait()
		release(t, lease)
	})
}

func TestTryAcquireOfAKeyHeldHereDoesNotAsk(t *testing.T) {
	store := newFaulty()
	l := newLocker(t, store)
	lease := acquire(t, l, t.Context(), "k")
	asked := store.count("acquire")
	for range 10 {
		_, err := l.TryAcquire(t.Context(), "k")
		wantErr(t, err, lock.ErrBusy)
		if errors.Is(err, context.DeadlineExceeded) {
			t.Error("a try has no deadline")
		}
	}
	if n := store.count("acquire"); n != asked {
		t.Errorf("asked %d times", n-asked)
	}
	release(t, lease)
}

func TestACancelledWaiterReturnsAtOnceWithTheCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLocker(t, memstore.New())
		lease := acquire(t, l, t.Context(), "k")
		errGone := errors.New("client is gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		got := make(chan error, 1)
		go func() {
			_, err := l.Acquire(ctx, "k")
			got <- err
		}()
		time.Sleep(time.Second)
		cancel(errGone)
		err := <-got
		wantErr(t, err, context.Canceled, errGone)
		if errors.Is(err, lock.ErrBusy) {
			t.Error("a cancelled caller doesn't get busy")
		}
		_, err = l.Acquire(ctx, "k")
		wantErr(t, err, context.Canceled, errGone)
		release(t, lease)
	})
}

func TestAWaiterInsideALostLeaseStopsWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLocker(t, memstore.New())
		outer := acquire(t, l, t.Context(), "outer", lock.WithLease(time.Second))
		taken := acquire(t, l, t.Context(), "taken")
		_, err := l.Acquire(outer.Context(), "taken")
		wantErr(t, err, lock.ErrLost, context.Canceled)
		release(t, taken)
	})
}

// A message that came between the refusal and the subscription was not heard: the
// waiter calls once more, whenever it would have called next.
func TestEachSubscriptionIsFollowedByACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		l := newLocker(t, store, fair, lock.WithPoll(time.Minute))
		store.set(only("acquire", func(lock.Claim) error {
			return &lock.BusyError{TTL: time.Hour, WatchPerOwner: true}
		}), nil)
		ctx, cancel := context.WithCancel(t.Context())
		first := await(ctx, l, "k")
		second := await(t.Context(), l, "k")
		time.Sleep(100 * time.Millisecond)
		before := store.count("acquire")
		cancel()
		<-first.done
		synctest.Wait()
		if n := store.count("watch"); n != 2 {
			t.Fatalf("%d subscriptions", n)
		}
		if n := store.count("acquire") - before; n != 2 {
			t.Errorf("%d calls, want one before the subscription and one after it", n)
		}
		store.set(nil, nil)
		time.Sleep(time.Minute)
		release(t, second.got(t))
	})
}

// subscribed counts the subscriptions to a store that have not been stopped.
type subscribed struct {
	*memstore.Store
	open atomic.Int32
}

func (s *subscribed) Watch(ctx context.Context, c lock.Claim, wake func()) (func(), error) {
	stop, err := s.Store.Watch(ctx, c, wake)
	s.open.Add(1)
	return func() {
		stop()
		s.open.Add(-1)
	}, err
}

func TestASubscriptionOutlivesItsQueueForAMoment(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &subscribed{Store: memstore.New()}
				l, other := newLocker(t, store, kind.opt), newLocker(t, store.Store, kind.opt)
				held := acquire(t, other, t.Context(), "k")
				ctx, cancel := context.WithCancel(t.Context())
				first, second := await(ctx, l, "k"), await(t.Context(), l, "k")
				open := func(what string, want int32) {
					t.Helper()
					synctest.Wait()
					if n := store.open.Load(); n != want {
						t.Errorf("%d subscriptions %s, want %d", n, what, want)
					}
				}
				open("of two waiters", 1)
				cancel()
				<-first.done
				release(t, held)
				release(t, second.got(t))
				time.Sleep(99 * time.Millisecond)
				open("soon after", 1)
				time.Sleep(time.Millisecond)
				open("later", 0)

				for range 2 {
					held = acquire(t, other, t.Context(), "k")
					next := await(t.Context(), l, "k")
					release(t, held)
					release(t, next.got(t))
					open("of the next queue", 1)
					time.Sleep(100 * time.Millisecond)
					open("of none", 0)
				}

				held = acquire(t, other, t.Context(), "k")
				last := await(t.Context(), l, "k")
				release(t, held)
				release(t, last.got(t))
				open("before the end", 1)
				if err := l.Close(t.Context()); err != nil {
					t.Error(err)
				}
				open("of a closed locker", 0)
			})
		})
	}
}

// A key that goes from process to process costs each turn a call that is refused, one
// that is granted and a release, and no subscription. A message that comes while the
// first is under way is heard all the same.
func TestTheNextQueueFindsTheSubscription(t *testing.T) {
	for name, during := range map[string]bool{"released later": false, "released before the answer comes": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newFaulty()
				l, other := newLocker(t, store, lock.WithPoll(time.Hour)), newLocker(t, store.Store)
				for turn := range 5 {
					held := acquire(t, other, t.Context(), "k")
					asked, watched, refused := store.count("acquire"), store.count("watch"), false
					store.set(nil, only("acquire", func(lock.Claim) error {
						if during && !refused {
							refused = true
							release(t, held)
						}
						return nil
					}))
					begun := time.Now()
					waiting := await(t.Context(), l, "k")
					if !during {
						time.Sleep(50 * time.Millisecond)
						release(t, held)
					}
					release(t, waiting.got(t))
					asked, watched = store.count("acquire")-asked, store.count("watch")-watched
					if turn > 0 && (asked != 2 || watched != 0) || time.Since(begun) > time.Second {
						t.Errorf("turn %d took %v, %d calls and %d subscriptions", turn, time.Since(begun), asked, watched)
					}
				}
			})
		})
	}
}

// A subscription serves the modes that it was made for.
func TestAQueueOfAnotherModeSubscribesItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		l, other := newLocker(t, store), newLocker(t, store.Store)
		for mode, want := range map[lock.Mode]int{lock.Fair: 1, lock.Exclusive: 1} {
			before := store.count("watch")
			for range 2 {
				held := acquire(t, other, t.Context(), "k", lock.WithMode(mode))
				waiting := await(t.Context(), l, "k", lock.WithMode(mode))
				release(t, held)
				release(t, waiting.got(t))
			}
			if n := store.count("watch") - before; n != want {
				t.Errorf("%v: %d subscriptions, want %d", mode, n, want)
			}
		}
	})
}

// A caller that comes when the store has answered all who wait knows that the key is
// taken, although a caller before it has left.
func TestAWaiterThatLeftIsNoCallUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		l, other := newLocker(t, store), newLocker(t, store)
		acquire(t, other, t.Context(), "k")
		ctx, cancel := context.WithCancel(t.Context())
		first := await(ctx, l, "k")
		second := await(t.Context(), l, "k", lock.WithWait(time.Minute))
		cancel()
		<-first.done
		time.Sleep(time.Millisecond)
		start := time.Now()
		_, err := l.Acquire(t.Context(), "k", lock.WithWait(time.Millisecond))
		wantErr(t, err, lock.ErrBusy)
		if waited := time.Since(start); waited != time.Millisecond {
			t.Errorf("it waited for %v", waited)
		}
		<-second.done
		wantErr(t, second.err, lock.ErrBusy)
	})
}

// acquiredDuringRelease returns a lease of "k" that was granted while the release of
// the one before had no answer yet. It has one now.
func acquiredDuringRelease(t *testing.T, l *lock.Locker, store *faulty) *lock.Lease {
	t.Helper()
	first, answer := acquire(t, l, t.Context(), "k"), make(chan struct{})
	store.set(nil, only("release", func(lock.Claim) error { <-answer; return nil }))
	released := make(chan error, 1)
	go func() { released <- first.Release(t.Context()) }()
	synctest.Wait()
	second, err := l.TryAcquire(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	close(answer)
	wantErr(t, <-released, nil)
	return second
}

// A key passes through a process: the end of the first hold, whose release is answered
// late, is not that of the second.
func TestAReleaseThatIsAnsweredLateEndsItsOwnHoldOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		l := newLocker(t, store)
		second := acquiredDuringRelease(t, l, store)
		calls := store.count("acquire")
		_, err := l.TryAcquire(t.Context(), "k")
		wantErr(t, err, lock.ErrBusy)
		if n := store.count("acquire"); n != calls {
			t.Error("the store was called for a key that this process holds")
		}
		release(t, second)
	})
}

// A store without wake-ups is not called for them more often than a waiter polls.
func TestAStoreWithoutWakeUpsIsSeldomCalledForThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		store.set(only("watch", func(lock.Claim) error { return lock.ErrUnsupported }), nil)
		l := newLocker(t, store)
		held := acquire(t, newLocker(t, store.Store), t.Context(), "k")
		waiting := await(t.Context(), l, "k")
		time.Sleep(20*lock.DefaultPoll - time.Millisecond)
		if watches, calls := store.count("watch"), store.count("acquire"); watches > 20 || calls < 40 {
			t.Errorf("%d subscriptions for %d calls", watches, calls)
		}
		release(t, held)
		time.Sleep(lock.DefaultPoll)
		release(t, waiting.got(t))
	})
}

// A subscription that comes when its waiter has left is ended.
func TestALateSubscriptionIsEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, come := &subscribed{Store: memstore.New()}, make(chan struct{})
		slow := lineTo(store)
		slow.set(only("watch", func(lock.Claim) error { <-come; return nil }), nil)
		l := newLocker(t, slow)
		acquire(t, newLocker(t, store.Store), t.Context(), "k")
		ctx, cancel := context.WithCancel(t.Context())
		waiting := await(ctx, l, "k")
		cancel()
		<-waiting.done
		close(come)
		time.Sleep(time.Second)
		if slow.count("watch") != 1 || store.open.Load() != 0 {
			t.Errorf("of %d subscriptions %d are left", slow.count("watch"), store.open.Load())
		}
	})
}

// A fair waiter that calls, and whose limit ends with that call, passes on the time at which
// it would have called, which is from before its call, and no hint: the next one, which
// nobody has subscribed for, sleeps through its turn.
func TestAFairWaiterThatLeavesWithItsAnswerPassesOnNoNap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		store := newFaulty()
		store.set(func(op string, c lock.Claim) error {
			switch {
			case op == "watch":
				time.Sleep(100 * time.Millisecond)
			case op == "acquire" && len(c.Places) > 1: // the other locker has its place first
				time.Sleep(6 * time.Millisecond)
			case op == "acquire":
				time.Sleep(5 * time.Millisecond)
			}
			return nil
		}, nil)
		l, other := newLocker(t, store), newLocker(t, store)
		fair := lock.WithMode(lock.Fair)

		first := start(t, l, ctx, fair)
		// The second becomes the head as the first is granted, and subscribes for too long.
		second := start(t, l, ctx, fair, lock.WithWait(50*time.Millisecond))
		began := time.Now()
		third := start(t, l, ctx, fair)
		one := <-first
		foreign := start(t, other, ctx, fair)
		time.Sleep(30 * time.Millisecond)
		release(t, one.lease) // to the other locker
		two := <-foreign
		time.Sleep(50 * time.Millisecond)
		release(t, two.lease)
		t.Logf("free for the third after %v", time.Since(began))
		three := <-third
		if waited := three.at.Sub(began); waited > 400*time.Millisecond {
			t.Errorf("the third slept through its turn: it waited for %v", waited)
		}
		release(t, three.lease)
		wantErr(t, (<-second).err, lock.ErrBusy)
	})
}

// A waiter that has waited for a holder in its process, for longer than a call may take,
// and whose limit ends while the waiter before it is just calling: the store is well, and
// the key was held all the time.
func TestAWaiterBehindAHolderOfItsProcessIsToldBusy(t *testing.T) {
	for _, held := range []time.Duration{time.Second, 3 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			ctx := context.Background()
			store := newFaulty()
			store.set(only("acquire", func(lock.Claim) error {
				time.Sleep(10 * time.Millisecond)
				return nil
			}), nil)
			l := newLocker(t, store)
			holder := acquire(t, l, ctx, "k")
			began := time.Now()
			next := make(chan *lock.Lease, 1)
			go func() { next <- acquire(t, l, ctx, "k") }()
			synctest.Wait()
			answer := make(chan error, 1)
			go func() {
				_, err := l.Acquire(ctx, "k", lock.WithWait(held+5*time.Millisecond))
				answer <- err
			}()
			time.Sleep(held)
			release(t, holder)
			err := <-answer
			if !errors.Is(err, lock.ErrBusy) || errors.Is(err, lock.ErrUnavailable) {
				t.Errorf("held for %v; after %v: %v", held, time.Since(began), err)
			}
			release(t, <-next)
		})
	}
}

// Who waits behind one that knows that the key is taken knows it, too, also when its limit
// ends as that one begins to call.
func TestAWaiterBehindOneThatRestsIsBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		store.set(only("acquire", func(lock.Claim) error { time.Sleep(10 * time.Millisecond); return nil }), nil)
		l := newLocker(t, store, lock.WithPoll(time.Minute))
		holder := acquire(t, newLocker(t, store), t.Context(), "k")
		head := start(t, l, t.Context())
		time.Sleep(time.Second)
		limit := lock.DefaultCallTimeout + time.Second
		behind := start(t, l, t.Context(), lock.WithWait(limit+5*time.Millisecond))
		time.Sleep(limit)
		release(t, holder) // the head calls
		err := (<-behind).err
		wantErr(t, err, lock.ErrBusy)
		if errors.Is(err, lock.ErrUnavailable) {
			t.Error(err)
		}
		time.Sleep(10 * time.Millisecond)
		release(t, granted(t, "the head", head))
	})
}

// A subscription that serves one owner alone ends with the wait of that one, and one that
// serves a queue with its locker.
func TestASubscriptionThatServesNobodyEnds(t *testing.T) {
	for name, perOwner := range map[string]bool{"of one owner": true, "of a closed locker": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				watched := &subscribed{Store: memstore.New()}
				store := lineTo(watched)
				store.set(only("acquire", func(lock.Claim) error {
					return &lock.BusyError{TTL: time.Hour, WatchPerOwner: perOwner}
				}), nil)
				l := newLocker(t, store, fair)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				waiting := await(ctx, l, "k")
				if n := watched.open.Load(); n != 1 {
					t.Fatalf("%d subscriptions", n)
				}
				if perOwner {
					cancel()
				} else if err := l.Close(t.Context()); err != nil {
					t.Error(err)
				}
				<-waiting.done
				synctest.Wait()
				if n := watched.open.Load(); n != 0 {
					t.Errorf("%d subscriptions are left", n)
				}
			})
		})
	}
}

// A queue whose next head is in another mode has one subscription all the same.
func TestASubscriptionThatIsReplacedEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &subscribed{Store: memstore.New()}
		l := newLocker(t, store)
		held := acquire(t, newLocker(t, store.Store), t.Context(), "k")
		ctx, cancel := context.WithCancel(t.Context())
		first, second := await(ctx, l, "k"), await(t.Context(), l, "k", fair)
		cancel()
		<-first.done
		synctest.Wait()
		if n := store.open.Load(); n != 1 {
			t.Errorf("%d subscriptions", n)
		}
		release(t, held)
		release(t, second.got(t))
	})
}

// A waiter whose limit has passed becomes the first as the one before it gives up, whose
// calls were not answered. It calls, after a moment where that one may have a place in the
// store.
func TestAnOverdueWaiterCallsWhenItIsTheFirst(t *testing.T) {
	for _, kind := range kinds[:3] { // claims of permits call together
		t.Run(kind.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, hung := newFaulty(), make(chan struct{})
				l := newLocker(t, store, kind.opt)
				store.set(func(string, lock.Claim) error {
					if store.count("acquire") == 1 {
						return errLineCut
					}
					<-hung
					return nil
				}, nil)
				ctx, cancel := context.WithCancel(t.Context())
				first := await(ctx, l, "k")
				second := await(t.Context(), l, "k", lock.WithWait(100*time.Millisecond))
				time.Sleep(200 * time.Millisecond)
				store.set(only("release", func(lock.Claim) error { <-hung; return nil }), nil)
				began := time.Now()
				cancel()
				<-first.done
				<-second.done
				if took := time.Since(began); took > 50*time.Millisecond {
					t.Errorf("it took %v", took)
				}
				close(hung)
				release(t, second.got(t))
			})
		})
	}
}

// A waiter whose limit has passed waits for the answer that the one before it gets, and no
// longer.
func TestAnOverdueWaiterIsBusyWhenTheStoreSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := far(time.Second)
		l := newLocker(t, store)
		acquire(t, newLocker(t, store.Store), t.Context(), "k")
		head := await(t.Context(), l, "k", lock.WithWait(time.Minute))
		began := time.Now()
		_, err := l.Acquire(t.Context(), "k", lock.WithWait(100*time.Millisecond))
		wantErr(t, err, lock.ErrBusy, context.DeadlineExceeded)
		if took := time.Since(began); took != time.Second {
			t.Errorf("it took %v", took)
		}
		<-head.done
	})
}

// What the store said before doesn't count while it leaves a call without an answer.
func TestAWaiterBehindACallWithoutAnAnswerIsNotBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, hung := newFaulty(), make(chan struct{})
		l := newLocker(t, store, lock.WithPoll(time.Second))
		lease := acquire(t, newLocker(t, store.Store), t.Context(), "k")
		head := start(t, l, t.Context())
		store.set(only("acquire", func(lock.Claim) error { <-hung; return errLineCut }), nil)
		time.Sleep(1100 * time.Millisecond) // the head has been refused, and calls again
		_, err := l.Acquire(t.Context(), "k", lock.WithWait(100*time.Millisecond))
		wantErr(t, err, lock.ErrUnavailable, context.DeadlineExceeded)
		store.set(nil, nil)
		close(hung)
		release(t, lease)
		time.Sleep(10 * time.Second)
		release(t, granted(t, "the head", head))
	})
}

// Who came before the store said that the key is taken gets ErrBusy when its limit ends, also
// while the one before it calls again.
func TestAWaiterBehindOneThatWasRefusedIsBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, hung := newFaulty(), make(chan struct{})
		store.set(only("acquire", func(lock.Claim) error {
			if time.Sleep(10 * time.Millisecond); store.count("acquire") > 1 {
				<-hung
			}
			return nil
		}), nil)
		l := newLocker(t, store)
		acquire(t, newLocker(t, store.Store), t.Context(), "k")
		head := await(t.Context(), l, "k", lock.WithWait(2*time.Second))
		began := time.Now()
		_, err := l.Acquire(t.Context(), "k", lock.WithWait(time.Second))
		wantErr(t, err, lock.ErrBusy, context.DeadlineExceeded)
		if took := time.Since(began); took != time.Second {
			t.Errorf("it took %v", took)
		}
		close(hung)
		<-head.done
		wantErr(t, head.err, lock.ErrBusy)
	})
}

// A wait that ends in an outage was for a key that is taken, if the store said so before.
func TestAWaitThatEndsInAnOutageIsBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		l := newLocker(t, store, lock.WithPoll(100*time.Millisecond))
		acquire(t, newLocker(t, store.Store), t.Context(), "k")
		waiting := await(t.Context(), l, "k", lock.WithWait(time.Second))
		store.set(only("acquire", func(lock.Claim) error { return errLineCut }), nil)
		<-waiting.done
		wantErr(t, waiting.err, lock.ErrBusy, context.DeadlineExceeded)
	})
}
