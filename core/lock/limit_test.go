package lock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
)

// crowd lets n callers wait for key until the func it returns ends them, which
// returns their errors.
func crowd(t *testing.T, l *lock.Locker, n int, key string, opts ...lock.Option) (end func() []error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			lease, err := l.Acquire(ctx, key, opts...)
			if err == nil {
				err = lease.Release(context.Background())
			}
			errs[i] = err
		})
	}
	synctest.Wait()
	return func() []error {
		cancel()
		all.Wait()
		return errs
	}
}

func TestOneWaiterTooManyIsRefusedAtOnce(t *testing.T) {
	modes := map[string][]lock.Option{
		"exclusive": nil,
		"fair":      {lock.WithMode(lock.Fair)},
		"read":      {lock.WithMode(lock.Read)},
		"write":     {lock.WithMode(lock.Write)},
		"permits":   {lock.WithPermits(1, 1)},
	}
	for name, opts := range modes {
		for _, elsewhere := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, held elsewhere %v", name, elsewhere), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					store := newFaulty()
					l, holder := newLocker(t, store, lock.WithMaxWaiters(2)), newLocker(t, store)
					if !elsewhere {
						holder = l
					}
					blocker := opts
					if name == "read" {
						blocker = modes["write"]
					}
					lease := acquire(t, holder, t.Context(), "k", blocker...)
					end := crowd(t, l, 2, "k", opts...)
					start, asked := time.Now(), store.count("acquire")
					_, err := l.Acquire(t.Context(), "k", opts...)
					wantErr(t, err, lock.ErrBusy, lock.ErrTooManyWaiters)
					if waited, calls := time.Since(start), store.count("acquire")-asked; waited > 0 || calls > 0 {
						t.Errorf("refused after %v and %d calls of the store", waited, calls)
					}
					if _, err := l.TryAcquire(t.Context(), "k", opts...); errors.Is(err, lock.ErrTooManyWaiters) {
						t.Errorf("one that never waits: got %v", err)
					}
					release(t, acquire(t, l, t.Context(), "another", opts...))
					release(t, lease)
					synctest.Wait()
					for _, err := range end() {
						if err != nil {
							t.Errorf("a waiter within the limit: %v", err)
						}
					}
					release(t, acquire(t, l, t.Context(), "k", opts...))
				})
			})
		}
	}
}

func TestWaitersOfAllKeysAreLimitedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLocker(t, memstore.New(), lock.WithMaxTotalWaiters(3))
		for _, key := range []string{"a", "b", "c"} {
			acquire(t, l, t.Context(), key)
		}
		endA, endB := crowd(t, l, 2, "a"), crowd(t, l, 1, "b", lock.WithMode(lock.Fair))
		for _, key := range []string{"a", "b", "c"} {
			_, err := l.Acquire(t.Context(), key)
			wantErr(t, err, lock.ErrBusy, lock.ErrTooManyWaiters)
		}
		release(t, acquire(t, l, t.Context(), "free"))
		endA()
		end := crowd(t, l, 2, "c")
		_, err := l.Acquire(t.Context(), "a")
		wantErr(t, err, lock.ErrTooManyWaiters)
		end()
		endB()
	})
}

// Whatever ends a wait returns its place: with the limit at 1, a single
// place that isn't returned refuses the next one for ever.
func TestPlacesOfWaitersAreGivenBack(t *testing.T) {
	boom := func(ctx context.Context) bool { return ctx.Value(boomKey{}) != nil }
	hooks := lock.WithHooks(lock.Hooks{Waiting: func(ctx context.Context, _ lock.Event) func() {
		if boom(ctx) {
			panic("a hook is broken")
		}
		return nil
	}})
	for name, wait := range map[string]func(l *lock.Locker, store *faulty, ctx context.Context, opts ...lock.Option){
		"cancelled": func(l *lock.Locker, _ *faulty, ctx context.Context, opts ...lock.Option) {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			_, _ = l.Acquire(ctx, "k", opts...)
		},
		"its wait has ended": func(l *lock.Locker, _ *faulty, ctx context.Context, opts ...lock.Option) {
			_, _ = l.Acquire(ctx, "k", append(opts, lock.WithWait(time.Second))...)
		},
		"the store fails": func(l *lock.Locker, store *faulty, ctx context.Context, opts ...lock.Option) {
			broken := time.AfterFunc(time.Second, func() {
				store.set(only("acquire", func(lock.Claim) error { return errLineCut }), nil)
			})
			defer broken.Stop()
			ctx, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			_, _ = l.Acquire(ctx, "k", opts...)
			store.set(nil, nil)
		},
		"a hook panics": func(l *lock.Locker, _ *faulty, ctx context.Context, opts ...lock.Option) {
			defer func() { _ = recover() }()
			_, _ = l.Acquire(context.WithValue(ctx, boomKey{}, true), "k", opts...)
		},
		"refused": func(l *lock.Locker, _ *faulty, ctx context.Context, opts ...lock.Option) {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			var both sync.WaitGroup
			for range 2 {
				both.Go(func() { _, _ = l.Acquire(ctx, "k", opts...) })
			}
			both.Wait()
		},
		"its lease is lost": func(l *lock.Locker, _ *faulty, ctx context.Context, opts ...lock.Option) {
			lease, _ := l.Acquire(ctx, "other", append(opts, lock.WithLease(time.Second))...)
			_, _ = l.Acquire(lease.Context(), "k", opts...)
		},
	} {
		for _, tt := range []struct {
			name  string
			mode  lock.Mode
			limit lock.Option
			here  bool // the holder is of the same process
		}{
			{"of a key held elsewhere", lock.Exclusive, lock.WithMaxWaiters(1), false},
			{"of a key held here", lock.Exclusive, lock.WithMaxWaiters(1), true},
			{"of a fair key held here", lock.Fair, lock.WithMaxWaiters(1), true},
			{"of all keys", lock.Exclusive, lock.WithMaxTotalWaiters(1), false},
			{"of all keys, fair", lock.Fair, lock.WithMaxTotalWaiters(1), false},
		} {
			t.Run(name+", "+tt.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					store, mode := newFaulty(), lock.WithMode(tt.mode)
					l, holder := newLocker(t, store, tt.limit, hooks), newLocker(t, store)
					if tt.here {
						holder = l
					}
					lease := acquire(t, holder, t.Context(), "k", mode)
					for range 3 {
						wait(l, store, t.Context(), mode)
					}
					// A call that was under way when its wait ended may have queued a
					// fair waiter once more; the last removal is a second later.
					time.Sleep(2 * time.Second)
					end := crowd(t, l, 1, "k", mode)
					_, err := l.Acquire(t.Context(), "k", mode)
					wantErr(t, err, lock.ErrTooManyWaiters) // the one that waits is counted
					release(t, lease)
					synctest.Wait()
					if err := end()[0]; err != nil {
						t.Errorf("a place was not returned: %v", err)
					}
				})
			})
		}
	}
}

type boomKey struct{}

func TestNoWaitIsLongerThanTheLimit(t *testing.T) {
	for name, tt := range map[string]struct {
		opts []lock.Option
		want time.Duration
	}{
		"without a wait":      {nil, 5 * time.Second},
		"with a longer one":   {[]lock.Option{lock.WithWait(time.Hour)}, 5 * time.Second},
		"with a shorter one":  {[]lock.Option{lock.WithWait(time.Second)}, time.Second},
		"trying once":         {[]lock.Option{lock.WithWait(0)}, 0},
		"with its own limit":  {[]lock.Option{lock.WithMaxWait(2 * time.Second)}, 2 * time.Second},
		"all of several keys": {[]lock.Option{lock.WithName("all")}, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLocker(t, memstore.New(), lock.WithMaxWait(5*time.Second))
				lease := acquire(t, l, t.Context(), "k")
				start := time.Now()
				var err error
				if name == "all of several keys" {
					early := acquire(t, l, t.Context(), "a")
					time.AfterFunc(4*time.Second, func() { _ = early.Release(context.Background()) })
					_, err = lock.AcquireAll(t.Context(), l.Request("a"), l.Request("k"), l.Request("z"))
				} else {
					_, err = l.Acquire(t.Context(), "k", tt.opts...)
				}
				wantErr(t, err, lock.ErrBusy)
				if tt.want > 0 {
					wantErr(t, err, context.DeadlineExceeded)
				}
				if waited := time.Since(start); waited != tt.want {
					t.Errorf("waited %v, want %v", waited, tt.want)
				}
				release(t, lease)
			})
		})
	}
}

func TestAHoldEndsWhenItsLimitIsReached(t *testing.T) {
	for name, tt := range map[string]struct {
		opts  []lock.Option
		limit time.Duration
	}{
		"a watchdog that renews many times": {nil, 100 * time.Second},
		"a watchdog longer than the limit":  {[]lock.Option{lock.WithWatchdog(time.Hour)}, 10 * time.Second},
		"a fixed lease longer than that":    {[]lock.Option{lock.WithLease(time.Hour)}, 10 * time.Second},
		"a limit of one call":               {[]lock.Option{lock.WithMaxHold(20 * time.Second)}, 20 * time.Second},
		"a fair lock":                       {[]lock.Option{lock.WithMode(lock.Fair)}, 100 * time.Second},
		"a permit":                          {[]lock.Option{lock.WithPermits(1, 1)}, 100 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memstore.New()
				var losses []lock.LossEvent
				hooks := lock.Hooks{Lost: func(e lock.LossEvent) { losses = append(losses, e) }}
				most := tt.limit
				if name == "a limit of one call" {
					most = time.Hour
				}
				l, other := newLocker(t, store, lock.WithMaxHold(most), lock.WithHooks(hooks)), newLocker(t, store)
				start := time.Now()
				lease := acquire(t, l, t.Context(), "k", tt.opts...)
				got := make(chan time.Duration)
				go func() {
					next, err := other.Acquire(t.Context(), "k", append(tt.opts, lock.WithMaxHold(time.Hour))...)
					after := time.Since(start)
					if err != nil {
						t.Error(err)
					} else {
						if lease.Context().Err() == nil {
							t.Error("two holders, and the first was not notified")
						}
						_ = next.Release(t.Context())
					}
					got <- after
				}()
				<-lease.Context().Done()
				wantErr(t, context.Cause(lease.Context()), lock.ErrLost, lock.ErrHeldTooLong)
				if held := time.Since(start); held >= tt.limit || held < tt.limit-tt.limit/50-5*time.Millisecond {
					t.Errorf("trusted for %v of %v", held, tt.limit)
				}
				if after := <-got; after < tt.limit || after > tt.limit+2*lock.DefaultPoll {
					t.Errorf("free after %v, want %v", after, tt.limit)
				}
				wantErr(t, lease.Release(t.Context()), lock.ErrLost, lock.ErrHeldTooLong)
				wantErr(t, lock.AssertHeld(lease.Context(), "k"), lock.ErrLost, lock.ErrHeldTooLong)
				synctest.Wait()
				if len(losses) != 1 || losses[0].Reason != lock.LossHeldTooLong || losses[0].Reason.String() != "held_too_long" {
					t.Errorf("the hook got %v", losses)
				}
				wantErr(t, losses[0].Cause, lock.ErrLost, lock.ErrHeldTooLong)
			})
		})
	}
}

func TestALimitOfZeroIsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLocker(t, memstore.New(), lock.WithMaxHold(time.Minute))
		lease := acquire(t, l, t.Context(), "k", lock.WithMaxHold(0), lock.WithMinHold(time.Hour))
		time.Sleep(2 * time.Hour)
		if err := lock.AssertHeld(lease.Context(), "k"); err != nil {
			t.Error(err)
		}
		release(t, lease)
		for _, d := range []time.Duration{-1, lock.MinLease - 1} {
			_, err := l.Acquire(t.Context(), "k", lock.WithMaxHold(d))
			wantErr(t, err, lock.ErrInvalid)
		}
	})
}

func TestNothingProlongsAHoldBeyondItsLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		l := newLocker(t, store, lock.WithMaxHold(60*time.Second))
		start := time.Now()
		lease := acquire(t, l, t.Context(), "k")
		wantErr(t, lease.Extend(t.Context(), 61*time.Second), lock.ErrInvalid)
		time.Sleep(50 * time.Second)
		again := acquire(t, l, lease.Context(), "k", lock.WithMaxHold(time.Hour), lock.WithLease(time.Hour))
		wantErr(t, lease.Extend(t.Context(), 11*time.Second), lock.ErrInvalid)
		if err := lease.Extend(t.Context(), 9*time.Second); err != nil {
			t.Error(err)
		}
		<-again.Context().Done()
		if held := time.Since(start); held >= 60*time.Second {
			t.Errorf("held for %v", held)
		}
		wantErr(t, context.Cause(again.Context()), lock.ErrHeldTooLong)
		time.Sleep(time.Until(start.Add(60*time.Second + time.Millisecond)))
		if n := holds(t, store.Store, "k"); n != 0 {
			t.Errorf("the store still has %d holds", n)
		}
	})
}

// A store that stops answering ends the hold as it always does: the limit is
// not to blame.
func TestALostRenewalIsNotALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		var reasons []lock.LossReason
		l := newLocker(t, store, lock.WithMaxHold(time.Hour),
			lock.WithHooks(lock.Hooks{Lost: func(e lock.LossEvent) { reasons = append(reasons, e.Reason) }}))
		lease := acquire(t, l, t.Context(), "k")
		store.set(only("renew", func(lock.Claim) error { return errLineCut }), nil)
		<-lease.Context().Done()
		if cause := context.Cause(lease.Context()); errors.Is(cause, lock.ErrHeldTooLong) || !errors.Is(cause, lock.ErrLost) {
			t.Errorf("got %v", cause)
		}
		synctest.Wait()
		if len(reasons) != 1 || reasons[0] != lock.LossNotRenewed {
			t.Errorf("reasons: %v", reasons)
		}
	})
}

func TestAllKeysAreHeldWithinTheLimitOfEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		l, other := newLocker(t, store), newLocker(t, store)
		blocker := acquire(t, other, t.Context(), "z", lock.WithLease(5*time.Second))
		all, err := lock.AcquireAll(t.Context(),
			l.Request("a", lock.WithLease(20*time.Second), lock.WithMaxHold(20*time.Second)),
			l.Request("z", lock.WithLease(20*time.Second), lock.WithMaxHold(20*time.Second)))
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		<-all.Context().Done()
		wantErr(t, context.Cause(all.Context()), lock.ErrHeldTooLong)
		if held := time.Since(start); held > 15*time.Second || held < 14*time.Second {
			t.Errorf("held for %v after a wait of 5 s, want 20 s in all", held)
		}
		_ = all.Release(t.Context())
		_ = blocker.Release(t.Context())
	})
}

// A call that has to be sent again is for what is left by then.
func TestACallThatIsRepeatedDoesNotPassTheLimit(t *testing.T) {
	const most = 20 * time.Second
	slowFailure := func(lock.Claim) error { time.Sleep(300 * time.Millisecond); return errLineCut }
	for name, c := range map[string]struct {
		op   string
		call func(lease *lock.Lease) error
	}{
		"extend": {"renew", func(lease *lock.Lease) error { return lease.Extend(lease.Context(), 11*time.Second) }},
		"re-enter": {"acquire", func(lease *lock.Lease) error {
			_, err := lease.Locker().Acquire(lease.Context(), "k")
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newFaulty()
				l := newLocker(t, store, lock.WithMaxHold(most), lock.WithWatchdog(15*time.Second))
				start := time.Now()
				lease := acquire(t, l, t.Context(), "k")
				time.Sleep(9 * time.Second)
				cut := times(2, errLineCut)
				store.set(only(c.op, func(claim lock.Claim) error {
					if err := cut(claim); err != nil {
						return slowFailure(claim)
					}
					return nil
				}), nil)
				if err := c.call(lease); err != nil {
					t.Fatal(err)
				}
				if trusted := lease.Deadline().Sub(start); trusted >= most {
					t.Errorf("trusted for %v", trusted)
				}
				time.Sleep(time.Until(start.Add(most + time.Millisecond)))
				if n := holds(t, store.Store, "k"); n != 0 {
					t.Errorf("the store still has %d holds", n)
				}
			})
		})
	}
}

// What is left counts from when a call is sent, so that it ends at the limit, and not
// a little earlier: then nobody would know that the limit is why.
func TestAClaimLastsUntilTheLimitExactly(t *testing.T) {
	l := newLocker(t, memstore.New())
	lease := acquire(t, l, t.Context(), "k", lock.WithMaxHold(20*time.Second), lock.WithWatchdog(time.Hour))
	now := time.Now()
	if later := lease.TTLAt(now) - lease.TTLAt(now.Add(time.Second)); later != time.Second {
		t.Errorf("a second later it is %v less", later)
	}
}

func TestAWaiterThatLeavesMakesRoomForAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLocker(t, memstore.New(), lock.WithMaxWaiters(2))
		held := acquire(t, l, t.Context(), "k")
		ctx, cancel := context.WithCancel(t.Context())
		first, second := await(ctx, l, "k"), await(t.Context(), l, "k")
		_, err := l.Acquire(t.Context(), "k")
		wantErr(t, err, lock.ErrTooManyWaiters)
		cancel()
		<-first.done
		third := await(t.Context(), l, "k")
		release(t, held)
		release(t, second.got(t))
		release(t, third.got(t))
	})
}

// A lease that has ended can't be extended for that reason, however little its limit
// had left.
func TestAnExtensionOfALimitedLeaseThatHasEndedSaysSo(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(t *testing.T, l *lock.Locker, lease *lock.Lease)
		want error
	}{
		"lost": {func(*testing.T, *lock.Locker, *lock.Lease) { time.Sleep(time.Minute) }, lock.ErrHeldTooLong},
		"released": {func(t *testing.T, _ *lock.Locker, lease *lock.Lease) {
			t.Helper()
			release(t, lease)
		}, lock.ErrReleased},
		"closed": {func(t *testing.T, l *lock.Locker, _ *lock.Lease) {
			t.Helper()
			if err := l.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}, lock.ErrClosed},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLocker(t, memstore.New())
				lease := acquire(t, l, t.Context(), "k", lock.WithMaxHold(time.Second))
				c.end(t, l, lease)
				err := lease.Extend(t.Context(), time.Minute)
				if !errors.Is(err, c.want) || errors.Is(err, lock.ErrInvalid) {
					t.Errorf("got %v, want %v", err, c.want)
				}
			})
		})
	}
}

// A limit of waiters refuses nobody who need not wait: readers that waited are calling for
// a key that is free by now, and one more reads it with them.
func TestALimitOfWaitersRefusesNoReaderOfAFreeKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		store.set(only("acquire", func(lock.Claim) error { time.Sleep(10 * time.Millisecond); return nil }), nil)
		holder := acquire(t, newLocker(t, store), t.Context(), "k", writing)
		l := newLocker(t, store, lock.WithMaxWaiters(1))
		first := start(t, l, t.Context(), reading)
		time.Sleep(50 * time.Millisecond)
		waits(t, "the first", first)
		release(t, holder)
		time.Sleep(5 * time.Millisecond) // the first is calling
		second := start(t, l, t.Context(), reading)
		time.Sleep(20 * time.Millisecond)
		release(t, granted(t, "the first", first))
		release(t, granted(t, "the second", second))
	})
}

// nagging is a store that sends a wake-up during each acquire call.
type nagging struct {
	*faulty
	wake atomic.Pointer[func()]
}

func (s *nagging) Watch(ctx context.Context, c lock.Claim, wake func()) (func(), error) {
	s.wake.Store(&wake)
	return s.faulty.Watch(ctx, c, wake)
}

// A waiter that always has a reason to call again does not wait for longer than its limit.
func TestAWaitThatIsWokenAllTheTimeEnds(t *testing.T) {
	for name, limit := range map[string]lock.Option{"of the call": lock.WithWait(time.Second), "of all": lock.WithMaxWait(time.Second)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &nagging{faulty: newFaulty()}
				acquire(t, newLocker(t, store.Store), t.Context(), "k")
				store.set(only("acquire", func(lock.Claim) error {
					time.Sleep(10 * time.Millisecond)
					if wake := store.wake.Load(); wake != nil && store.count("acquire") < 1000 {
						(*wake)()
					}
					return nil
				}), nil)
				start := time.Now()
				_, err := newLocker(t, store).Acquire(t.Context(), "k", limit)
				wantErr(t, err, lock.ErrBusy, context.DeadlineExceeded)
				if took := time.Since(start); took > time.Second+10*time.Millisecond {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}
