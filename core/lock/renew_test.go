package lock_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
)

// oneByOne counts how many renewals of a store that never blocks run at once. The
// time that one takes is there only for others to begin meanwhile.
type oneByOne struct {
	keyless
	running, most, renewed atomic.Int64
}

func (s *oneByOne) Renew(ctx context.Context, claims []lock.Claim, report func(int, error)) {
	s.most.Store(max(s.most.Load(), s.running.Add(1)))
	time.Sleep(time.Millisecond)
	s.keyless.Renew(ctx, claims, report)
	s.renewed.Add(int64(len(claims)))
	s.running.Add(-1)
}

// Many rounds at once would only keep the locker's mutex from everybody else.
func TestAStoreThatNeverBlocksRenewsOneRoundAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(oneByOne)
		l := newLocker(t, store)
		for i := range 3500 {
			acquire(t, l, t.Context(), fmt.Sprint("k:", i))
		}
		for range 2 {
			store.renewed.Store(0)
			time.Sleep(11 * time.Second)
			synctest.Wait()
			if most, renewed := store.most.Load(), store.renewed.Load(); most != 1 || renewed < 3500 {
				t.Errorf("%d renewed, in up to %d rounds at once", renewed, most)
			}
		}
	})
}

// A re-entry has its watchdog for as long as it lasts, and leaves the one before.
func TestALongerWatchdogEndsWithItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		l, other := newLocker(t, store), newLocker(t, store)
		outer := acquire(t, l, t.Context(), "k", lock.WithWatchdog(3*time.Second))
		inner := acquire(t, l, outer.Context(), "k", lock.WithWatchdog(10*time.Minute))
		same := acquire(t, l, outer.Context(), "k", lock.WithWatchdog(10*time.Minute))
		release(t, inner)
		time.Sleep(time.Hour)
		if state, err := l.Inspect(t.Context(), "k"); err != nil || state.TTL < 5*time.Minute {
			t.Errorf("the TTL is %v, %v, while one with a watchdog of 10m is held", state.TTL, err)
		}
		release(t, same)
		time.Sleep(10 * time.Minute)
		if state, err := l.Inspect(t.Context(), "k"); err != nil || state.TTL > 3*time.Second {
			t.Errorf("the TTL is %v, %v, with a watchdog of 3s", state.TTL, err)
		}
		release(t, acquire(t, l, outer.Context(), "k", lock.WithWatchdog(10*time.Minute)))
		if _, err := other.ForceRelease(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		wantErr(t, context.Cause(outer.Context()), lock.ErrTaken)
	})
}

// A lease that asks for no watchdog has none, also when a renewal for another fails.
func TestARenewalThatFailsIsNotRepeatedWithoutAWatchdog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		l := newLocker(t, store)
		outer := acquire(t, l, t.Context(), "k", lock.WithLease(time.Hour))
		inner := acquire(t, l, outer.Context(), "k", lock.WithWatchdog(30*time.Second))
		store.set(only("renew", func(lock.Claim) error {
			time.Sleep(time.Second) // inner is released meanwhile
			return &lock.StoreError{Outcome: lock.OutcomeNotExecuted, Class: "test", Err: errLineCut}
		}), nil)
		before := store.count("renew") // of the long lease
		time.Sleep(10*time.Second + 500*time.Millisecond)
		if n := store.count("renew") - before; n != 1 {
			t.Fatalf("renewed %d times", n)
		}
		release(t, inner)
		time.Sleep(10 * time.Second)
		if n := store.count("renew") - before; n != 1 {
			t.Errorf("renewed %d times", n)
		}
		store.set(nil, nil)
		release(t, outer)
	})
}

// slowRenewals takes its time for a renewal, or gives up with the context.
type slowRenewals struct{ lock.BlockingStore }

func (s slowRenewals) Renew(ctx context.Context, claims []lock.Claim, report func(int, error)) {
	select {
	case <-time.After(300 * time.Millisecond):
		s.BlockingStore.Renew(ctx, claims, report)
	case <-ctx.Done():
		for i := range claims {
			report(i, &lock.StoreError{Outcome: lock.OutcomeUnknown, Class: "test", Err: ctx.Err()})
		}
	}
}

// A store that is too slow for the renewals of short leases is not too slow for those of
// long ones, and the other way round: short leases don't wait for the answer to long ones.
func TestAShortLeaseEndsNoRenewalOfALongOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lost, failed atomic.Int64
		l := newLocker(t, slowRenewals{newRemote()}, lock.WithHooks(lock.Hooks{Renewed: func(e lock.RenewEvent) {
			if e.Key == "long" && e.Err != nil {
				failed.Add(1)
			}
		}}))
		long := acquire(t, l, t.Context(), "long")
		ctx, stop := context.WithTimeout(t.Context(), 3*time.Minute)
		defer stop()
		var all sync.WaitGroup
		const crowd = 60
		for i := range crowd {
			all.Go(func() {
				time.Sleep(time.Duration(i) * time.Second / crowd) // at any time some are due
				for ctx.Err() == nil {
					lease, err := l.Acquire(t.Context(), fmt.Sprint("short:", i), lock.WithWatchdog(time.Second))
					if err != nil {
						t.Error(err)
						return
					}
					select {
					case <-lease.Context().Done():
						lost.Add(1)
					case <-ctx.Done():
					}
					_ = lease.Release(t.Context())
				}
			})
		}
		all.Wait()
		if err := lock.AssertHeld(long.Context(), "long"); err != nil {
			t.Error(err)
		}
		if lost.Load() == 0 {
			t.Error("the store was fast enough for short leases, and so for every one")
		}
		if n := failed.Load(); n != 0 {
			t.Errorf("%d renewals of the long lease were given up early", n)
		}
		release(t, long)
	})
}

// forgetful reports nothing.
type forgetful struct{ lock.BlockingStore }

func (forgetful) Renew(context.Context, []lock.Claim, func(int, error)) {}

// A renewal that a store forgot to report is no success; an extension is.
func TestAnExtensionThatTheStoreDoesNotReportIsNoSuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLocker(t, forgetful{newRemote()})
		lease := acquire(t, l, context.Background(), "k", lock.WithLease(time.Second))
		if err := lease.Extend(context.Background(), time.Minute); err == nil {
			t.Errorf("extended, and trusted for %v", time.Until(lease.Deadline()))
		}
		_ = lease.Release(context.Background())
	})
}

// It is answered after the end of the hold.
func TestARenewalThatIsOvertakenByTheEndIsTheLast(t *testing.T) {
	for name, end := range map[string]func(context.Context, *lock.Locker, *lock.Lease) error{
		"by the release": func(ctx context.Context, _ *lock.Locker, lease *lock.Lease) error { return lease.Release(ctx) },
		"by a loss": func(ctx context.Context, l *lock.Locker, lease *lock.Lease) error {
			_, err := l.ForceRelease(ctx, lease.Key())
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, answer := newFaulty(), make(chan struct{})
				l := newLocker(t, store)
				lease := acquire(t, l, t.Context(), "k")
				store.set(nil, only("renew", func(lock.Claim) error { <-answer; return nil }))
				time.Sleep(lock.DefaultWatchdog/3 + time.Millisecond)
				wantErr(t, end(t.Context(), l, lease), nil)
				close(answer)
				time.Sleep(time.Hour)
				if n := store.count("renew"); n != 1 {
					t.Errorf("%d renewals", n)
				}
			})
		})
	}
}

// A reader of Redisson sets the TTL of the whole lock to its own watchdog, also downwards, so
// a read hold is renewed more often than that runs out: with what is left of a fixed one.
func TestReadHoldsAreRenewedAtLeastEveryTenSeconds(t *testing.T) {
	const every = 10 * time.Second
	for name, tt := range map[string]struct {
		opts   []lock.Option
		writes bool          // before it goes on reading
		lasts  time.Duration // a fixed lease, or its limit; 0: as long as it is held
		end    error
	}{
		"the default":               {},
		"a long watchdog":           {opts: []lock.Option{lock.WithWatchdog(time.Hour)}},
		"a short fixed lease":       {opts: []lock.Option{lock.WithLease(25 * time.Second)}, lasts: 25 * time.Second, end: lock.ErrExpired},
		"a fixed lease":             {opts: []lock.Option{lock.WithLease(90 * time.Second)}, lasts: 90 * time.Second, end: lock.ErrExpired},
		"a long fixed lease":        {opts: []lock.Option{lock.WithLease(10 * time.Minute)}, lasts: 10 * time.Minute, end: lock.ErrExpired},
		"a limit":                   {opts: []lock.Option{lock.WithWatchdog(time.Hour), lock.WithMaxHold(time.Minute)}, lasts: time.Minute, end: lock.ErrHeldTooLong},
		"a fixed lease of a writer": {opts: []lock.Option{lock.WithLease(90 * time.Second)}, writes: true, lasts: 90 * time.Second, end: lock.ErrExpired},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newFaulty()
				l := newLocker(t, store)
				began := time.Now()
				var last atomic.Int64 // renewal, since then
				gap := func() time.Duration { return time.Since(began) - time.Duration(last.Load()) }
				store.set(nil, func(op string, c lock.Claim) error {
					if op != "renew" && op != "lower" {
						return nil
					}
					if gap := gap(); gap > every {
						t.Errorf("after %v: nothing was renewed for %v", time.Since(began), gap)
					}
					last.Store(int64(time.Since(began)))
					if left := time.Until(began.Add(tt.lasts)); tt.lasts > 0 && (c.TTL > left || c.TTL < left-time.Millisecond) {
						t.Errorf("after %v: renewed with %v, and %v are left", time.Since(began), c.TTL, left)
					}
					return nil
				})
				var lease *lock.Lease
				if tt.writes {
					w := acquire(t, l, t.Context(), "k", writing)
					lease = acquire(t, l, context.WithoutCancel(w.Context()), "k", append(tt.opts, reading)...)
					release(t, w)
				} else {
					lease = acquire(t, l, t.Context(), "k", append(tt.opts, reading)...)
				}
				deadline := lease.Deadline()
				for lease.Context().Err() == nil && time.Since(began) < 20*time.Minute {
					time.Sleep(time.Second)
					synctest.Wait()
					if now := lease.Deadline(); now.Before(deadline) {
						t.Fatalf("the trust was shortened by %v", deadline.Sub(now))
					} else {
						deadline = now
					}
					if gap := gap(); gap > every && lease.Context().Err() == nil {
						t.Fatalf("nothing was renewed for %v", gap)
					}
				}
				if tt.lasts == 0 {
					release(t, lease)
					return
				}
				wantErr(t, context.Cause(lease.Context()), tt.end)
				if lasted := time.Since(began); lasted < tt.lasts*98/100-time.Second || lasted > tt.lasts {
					t.Errorf("it ended after %v", lasted)
				}
				if deadline.After(began.Add(tt.lasts)) {
					t.Errorf("it was trusted for %v", deadline.Sub(began))
				}
				renewed := store.count("renew")
				time.Sleep(time.Hour)
				if n := store.count("renew") - renewed; n != 0 {
					t.Errorf("renewed %d times since", n)
				}
				wantErr(t, lease.Release(t.Context()), tt.end)
			})
		})
	}
}

// Only read holds need that.
func TestOtherFixedLeasesAreNotRenewed(t *testing.T) {
	for _, kind := range kinds {
		synctest.Test(t, func(t *testing.T) {
			store := newFaulty()
			l := newLocker(t, store)
			lease := acquire(t, l, t.Context(), "k", kind.opt, lock.WithLease(29*time.Second))
			<-lease.Context().Done()
			if n := store.count("renew"); n != 0 {
				t.Errorf("%s: %d renewals", kind.name, n)
			}
		})
	}
}

// A fixed lease is trusted to its end, whatever becomes of its renewals.
func TestAFixedReadLeaseNeedsNoRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		l := newLocker(t, store)
		lease := acquire(t, l, t.Context(), "k", reading, lock.WithLease(25*time.Second))
		deadline := lease.Deadline()
		var wrong atomic.Int32
		store.set(only("renew", func(c lock.Claim) error {
			if c.TTL <= 0 {
				wrong.Add(1)
			}
			return errLineCut
		}), nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		if !lease.Deadline().Equal(deadline) {
			t.Errorf("trusted until %v, want %v", lease.Deadline(), deadline)
		}
		wantErr(t, context.Cause(lease.Context()), lock.ErrExpired)
		if n := wrong.Load(); n != 0 || store.count("renew") == 0 {
			t.Errorf("%d of %d renewals asked for no time at all", n, store.count("renew"))
		}
		store.set(nil, nil)
	})
}
