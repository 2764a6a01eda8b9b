package lock_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
)

// trustOf is how long a lease of that length is trusted.
func trustOf(lease time.Duration) time.Duration { return lease - lease/100 - 2*time.Millisecond }

func TestAnHourOfRenewals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		l, other := newLocker(t, store), newLocker(t, store.Store)
		lease := acquire(t, l, t.Context(), "k")
		time.Sleep(time.Hour)
		if lease.Context().Err() != nil {
			t.Fatalf("lost: %v", context.Cause(lease.Context()))
		}
		if _, err := other.TryAcquire(t.Context(), "k"); !errors.Is(err, lock.ErrBusy) {
			t.Errorf("after an hour: got %v, want ErrBusy", err)
		}
		if n := store.count("renew"); n < 350 || n > 365 {
			t.Errorf("%d renewals in an hour, want one every 10 s", n)
		}
		release(t, lease)
		time.Sleep(time.Hour)
		if n := store.count("renew"); n > 365 {
			t.Errorf("renewed after release: %d", n)
		}
	})
}

// The timer that ends the contexts may be at work, or late: a caller that looks
// after the deadline must see the end all the same.
func TestErrIsNeverLate(t *testing.T) {
	l := newLocker(t, memstore.New())
	for range 40 {
		var leases []*lock.Lease
		ctx := t.Context()
		for d := 25 * time.Millisecond; len(leases) <= 300; d = lock.MinLease {
			lease, err := l.Acquire(ctx, "k", lock.WithLease(d))
			if errors.Is(err, lock.ErrLost) || errors.Is(err, lock.ErrUnavailable) {
				break // a busy machine: as many as there was time for
			}
			if err != nil {
				t.Fatal(err)
			}
			leases = append(leases, lease)
			ctx = leases[0].Context()
		}
		if len(leases) == 0 {
			continue
		}
		deadline := leases[0].Deadline()
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for time.Now().Before(deadline) {
					runtime.Gosched()
				}
				for i, lease := range leases {
					if lease.Context().Err() == nil {
						t.Errorf("lease %d: no error %v after its deadline", i, time.Since(deadline))
						return
					}
					if cause := context.Cause(lease.Context()); !errors.Is(cause, lock.ErrLost) {
						t.Errorf("lease %d: cause %v, want ErrLost", i, cause)
					}
				}
			})
		}
		wg.Wait()
		for _, lease := range leases {
			wantErr(t, lease.Release(t.Context()), lock.ErrLost)
		}
	}
}

func TestManyHoldsAreRenewedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &batches{BlockingStore: newRemote()}
		l := newLocker(t, store)
		var leases []*lock.Lease
		for i := range 1000 {
			leases = append(leases, acquire(t, l, t.Context(), fmt.Sprint("k:", i)))
			time.Sleep(time.Second / 2000) // they come along with the first
		}
		time.Sleep(100 * time.Second)
		for _, lease := range leases {
			if lease.Context().Err() != nil {
				t.Fatal("a lease was lost")
			}
			release(t, lease)
		}
		if n := store.calls.Load(); n > 12 {
			t.Errorf("%d renewal calls for 10 rounds", n)
		}
	})
}

type batches struct {
	lock.BlockingStore
	calls atomic.Int32
}

func (b *batches) Renew(ctx context.Context, claims []lock.Claim, report func(int, error)) {
	b.calls.Add(1)
	b.BlockingStore.Renew(ctx, claims, report)
}

func TestTrustEndsOnTimeWhenTheStoreHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		l := newLocker(t, store)
		start := time.Now()
		lease := acquire(t, l, t.Context(), "k")
		heal := make(chan struct{})
		store.set(only("renew", func(lock.Claim) error { <-heal; return errLineCut }), nil)
		<-lease.Context().Done()
		if held := time.Since(start); held != trustOf(lock.DefaultWatchdog) {
			t.Errorf("trusted for %v, want sent + lease - margin = %v", held, trustOf(lock.DefaultWatchdog))
		}
		if cause := context.Cause(lease.Context()); !errors.Is(cause, lock.ErrLost) {
			t.Errorf("cause %v, want ErrLost", cause)
		}
		close(heal)
		wantErr(t, lease.Release(t.Context()), lock.ErrLost)
	})
}

func TestTrustCountsFromSending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		// The answer takes a second; the store granted at once.
		store.set(nil, only("acquire", func(lock.Claim) error { time.Sleep(time.Second); return nil }))
		l := newLocker(t, store)
		start := time.Now()
		lease := acquire(t, l, t.Context(), "k", lock.WithLease(10*time.Second))
		if until := lease.Deadline().Sub(start); until != trustOf(10*time.Second) {
			t.Errorf("trusted until %v after sending, want %v", until, trustOf(10*time.Second))
		}
		<-lease.Context().Done()
		if held := time.Since(start); held != trustOf(10*time.Second) {
			t.Errorf("lost after %v", held)
		}
	})
}

func TestAGrantThatComesTooLateIsRefusedAndUndone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		store.set(nil, only("acquire", func(lock.Claim) error { time.Sleep(90 * time.Millisecond); return nil }))
		l := newLocker(t, store)
		_, err := l.TryAcquire(t.Context(), "k", lock.WithLease(80*time.Millisecond))
		wantErr(t, err, lock.ErrUnavailable)
		time.Sleep(2 * time.Second)
		if holds(t, store, "k") != 0 {
			t.Error("the late grant was left behind")
		}
	})
}

func TestOneFailedRenewalEndsNothing(t *testing.T) {
	for _, lost := range []string{"request", "reply"} {
		t.Run(lost, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newFaulty()
				l := newLocker(t, store)
				lease := acquire(t, l, t.Context(), "k")
				cut := only("renew", times(3, errLineCut))
				if lost == "request" {
					store.set(cut, nil)
				} else {
					store.set(nil, cut)
				}
				time.Sleep(5 * time.Minute)
				if lease.Context().Err() != nil {
					t.Errorf("lost: %v", context.Cause(lease.Context()))
				}
				if n := holds(t, store, "k"); n != 1 {
					t.Errorf("hold count %d", n)
				}
				release(t, lease)
			})
		})
	}
}

func TestAForeignDeleteIsNoticedAtTheNextRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		l := newLocker(t, store)
		lease := acquire(t, l, t.Context(), "k")
		start := time.Now()
		if _, err := store.ForceRelease(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
		<-lease.Context().Done()
		if after := time.Since(start); after > lock.DefaultWatchdog/3 {
			t.Errorf("noticed after %v", after)
		}
		if cause := context.Cause(lease.Context()); !errors.Is(cause, lock.ErrLost) {
			t.Errorf("cause %v, want ErrLost", cause)
		}
		wantErr(t, lease.Release(t.Context()), lock.ErrLost)
	})
}

func TestReleaseOfAHoldThatIsGoneSaysLostAndNotHeld(t *testing.T) {
	store := memstore.New()
	l := newLocker(t, store)
	lease := acquire(t, l, t.Context(), "k")
	if _, err := store.ForceRelease(t.Context(), "k"); err != nil {
		t.Fatal(err)
	}
	wantErr(t, lease.Release(t.Context()), lock.ErrLost, lock.ErrNotHeld)
}

func TestForceReleaseEndsLeasesOfThisLockerAtOnce(t *testing.T) {
	l := newLocker(t, memstore.New())
	lease := acquire(t, l, t.Context(), "k")
	freed, err := l.ForceRelease(t.Context(), "k")
	if err != nil || !freed {
		t.Fatalf("ForceRelease: %v, %v", freed, err)
	}
	if cause := context.Cause(lease.Context()); !errors.Is(cause, lock.ErrLost) {
		t.Errorf("cause %v, want ErrLost", cause)
	}
	freed, err = l.ForceRelease(t.Context(), "k")
	if err != nil || freed {
		t.Errorf("of a free key: %v, %v", freed, err)
	}
}

func TestExtend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		l := newLocker(t, store)
		start := time.Now()
		lease := acquire(t, l, t.Context(), "k", lock.WithLease(10*time.Second))
		time.Sleep(5 * time.Second)
		if err := lease.Extend(t.Context(), time.Minute); err != nil {
			t.Fatal(err)
		}
		if err := lease.Extend(t.Context(), time.Second); err != nil { // never shortens
			t.Fatal(err)
		}
		<-lease.Context().Done()
		if held := time.Since(start); held != 5*time.Second+trustOf(time.Minute) {
			t.Errorf("held for %v", held)
		}
		wantErr(t, lease.Extend(t.Context(), time.Minute), lock.ErrLost)

		lease = acquire(t, l, t.Context(), "k2")
		if err := lease.Extend(t.Context(), time.Hour); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Hour) // the watchdog goes on
		if lease.Context().Err() != nil {
			t.Error("the watchdog stopped after Extend")
		}
		wantErr(t, lease.Extend(t.Context(), 0), lock.ErrInvalid)
		wide := acquire(t, newLocker(t, store, lock.WithMargin(5*time.Second)), t.Context(), "k3")
		wantErr(t, wide.Extend(t.Context(), 10*time.Second), lock.ErrInvalid) // nothing of it to speak of would be trusted
		release(t, wide)
		release(t, lease)
		wantErr(t, lease.Extend(t.Context(), time.Minute), lock.ErrReleased)
	})
}

func TestExtendFindsTheLoss(t *testing.T) {
	store := memstore.New()
	l := newLocker(t, store)
	lease := acquire(t, l, t.Context(), "k", lock.WithLease(time.Minute))
	if _, err := store.ForceRelease(t.Context(), "k"); err != nil {
		t.Fatal(err)
	}
	wantErr(t, lease.Extend(t.Context(), time.Minute), lock.ErrLost)
	if cause := context.Cause(lease.Context()); !errors.Is(cause, lock.ErrLost) {
		t.Errorf("cause %v, want ErrLost", cause)
	}
}

func TestALostOuterLeaseIsNotTheLossOfTheInner(t *testing.T) {
	l := newLocker(t, memstore.New())
	outer := acquire(t, l, t.Context(), "outer")
	inner := acquire(t, l, outer.Context(), "inner")
	if _, err := l.ForceRelease(t.Context(), "outer"); err != nil {
		t.Fatal(err)
	}
	if cause := context.Cause(inner.Context()); !errors.Is(cause, lock.ErrLost) {
		t.Errorf("the inner context descends from the outer: cause %v", cause)
	}
	if err := lock.AssertHeld(inner.Context(), "inner"); err != nil {
		t.Errorf("the inner key is still held: %v", err)
	}
	if err := inner.Extend(t.Context(), time.Hour); err != nil {
		t.Errorf("Extend: %v", err)
	}
	release(t, inner)
}

func TestALongerReentryFindsTheLoss(t *testing.T) {
	store := memstore.New()
	l, other := newLocker(t, store), newLocker(t, store)
	lease := acquire(t, l, t.Context(), "k")
	if _, err := store.ForceRelease(t.Context(), "k"); err != nil {
		t.Fatal(err)
	}
	next := acquire(t, other, t.Context(), "k")
	_, err := l.Acquire(lease.Context(), "k", lock.WithLease(time.Hour)) // else it makes no call
	wantErr(t, err, lock.ErrLost)
	if cause := context.Cause(lease.Context()); !errors.Is(cause, lock.ErrLost) {
		t.Errorf("cause %v, want ErrLost", cause)
	}
	release(t, next)
}

func TestReentryWithTheWatchdogKeepsAFixedLeaseAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLocker(t, memstore.New())
		outer := acquire(t, l, t.Context(), "k", lock.WithLease(10*time.Second))
		inner := acquire(t, l, outer.Context(), "k")
		time.Sleep(5 * time.Minute)
		if outer.Context().Err() != nil {
			t.Error("lost although a lease of it is renewed")
		}
		release(t, inner)
		<-outer.Context().Done() // nobody renews it
		wantErr(t, outer.Release(t.Context()), lock.ErrLost)
	})
}

func TestContextTellsWhyItEnded(t *testing.T) {
	l := newLocker(t, memstore.New())
	errParent := errors.New("parent has ended")
	parent, cancel := context.WithCancelCause(t.Context())
	lease := acquire(t, l, parent, "k")
	cancel(errParent)
	if cause := context.Cause(lease.Context()); !errors.Is(cause, errParent) {
		t.Errorf("cause %v, want the parent's", cause)
	}
	release(t, lease) // although the request has ended
	lease = acquire(t, l, t.Context(), "k")
	release(t, lease)
	if cause := context.Cause(lease.Context()); !errors.Is(cause, lock.ErrReleased) {
		t.Errorf("cause %v, want ErrReleased", cause)
	}
}

func TestAssertHeld(t *testing.T) {
	store := memstore.New()
	l := newLocker(t, store)
	wantErr(t, lock.AssertHeld(t.Context(), "k"), lock.ErrNotHeld)
	lease := acquire(t, l, t.Context(), "k")
	inner := acquire(t, l, lease.Context(), "other")
	if err := lock.AssertHeld(inner.Context(), "k"); err != nil {
		t.Error(err)
	}
	wantErr(t, lock.AssertHeld(inner.Context(), "third"), lock.ErrNotHeld)
	got, ok := lock.FromContext(inner.Context())
	if !ok || got != inner {
		t.Error("FromContext is not the innermost lease")
	}
	release(t, inner)
	wantErr(t, lock.AssertHeld(inner.Context(), "other"), lock.ErrReleased)
	detached := context.WithoutCancel(lease.Context())
	if err := lock.AssertHeld(detached, "k"); err != nil {
		t.Errorf("a detached context still carries the lease: %v", err)
	}
	release(t, lease)
	wantErr(t, lock.AssertHeld(detached, "k"), lock.ErrReleased)
	lease = acquire(t, l, t.Context(), "k")
	_, _ = l.ForceRelease(t.Context(), "k")
	wantErr(t, lock.AssertHeld(lease.Context(), "k"), lock.ErrLost)
}

// A renewal that is tried again after the lease that asked for it was released must
// not make the hold last longer for the fixed lease that is left.
func TestARetriedRenewalIsNotForALeaseThatIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, answer := newFaulty(), make(chan struct{})
		l := newLocker(t, store)
		start := time.Now()
		fixed := acquire(t, l, t.Context(), "k", lock.WithLease(20*time.Second))
		watched := acquire(t, l, fixed.Context(), "k", lock.WithWatchdog(30*time.Second))
		store.set(only("renew", func(lock.Claim) error { <-answer; return errLineCut }), nil)
		time.Sleep(11 * time.Second)
		release(t, watched)
		store.set(nil, nil)
		close(answer)
		time.Sleep(9 * time.Second)
		if lasts := fixed.Deadline().Sub(start); lasts > 30*time.Second {
			t.Errorf("it lasts for %v", lasts)
		}
		release(t, fixed)
	})
}

// A renewal waits so long for its answer that there is time for another.
func TestARenewalThatHangsLeavesTimeForTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, hung := newFaulty(), make(chan struct{})
		first := times(1, errLineCut)
		store.set(only("renew", func(c lock.Claim) error {
			if err := first(c); err != nil {
				<-hung
			}
			return nil
		}), nil)
		l := newLocker(t, store)
		lease := acquire(t, l, t.Context(), "k", lock.WithWatchdog(time.Second))
		time.Sleep(5 * time.Second)
		close(hung)
		release(t, lease)
	})
}

// An answer that comes when the round has given up confirms the hold all the same.
func TestARenewalThatIsAnsweredLateCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		const late = lock.DefaultCallTimeout + time.Second
		store.set(only("renew", func(lock.Claim) error { time.Sleep(late); return nil }), nil)
		l := newLocker(t, store)
		lease := acquire(t, l, t.Context(), "k")
		time.Sleep(5 * time.Minute)
		wantErr(t, lock.AssertHeld(lease.Context(), "k"), nil)
		release(t, lease)
		time.Sleep(late)
	})
}

// The last lease that asks for renewals takes them along.
func TestAFixedLeaseThatIsLeftIsNotRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		l := newLocker(t, store)
		fixed := acquire(t, l, t.Context(), "k", lock.WithLease(25*time.Second))
		watched := acquire(t, l, fixed.Context(), "k", lock.WithWatchdog(24*time.Second))
		time.Sleep(5 * time.Second)
		release(t, watched)
		time.Sleep(15 * time.Second)
		if n := store.count("renew"); n != 0 {
			t.Errorf("%d renewals", n)
		}
		release(t, fixed)
	})
}

// After a pause, the process may find that somebody wants a key before it finds that
// its own hold of the key has ended. That one refuses nobody.
func TestAHoldThatIsNoLongerTrustedRefusesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLocker(t, memstore.New())
		late := acquire(t, l, t.Context(), "k", lock.WithLease(time.Second))
		l.DelayTrusts()
		time.Sleep(2 * time.Second)
		lease, err := l.TryAcquire(t.Context(), "k")
		if err != nil {
			t.Fatalf("got %v, and nobody has it", err)
		}
		release(t, lease)
		if err := late.Release(t.Context()); !errors.Is(err, lock.ErrLost) {
			t.Errorf("release of the late one: %v", err)
		}
	})
}

// The timer of trust may be late, as after a pause of the process.
func TestAReleaseAfterTheTrustSaysLostThoughTheTimerIsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLocker(t, memstore.New())
		lease := acquire(t, l, t.Context(), "k", lock.WithLease(10*time.Second))
		l.DelayTrusts()
		time.Sleep(trustOf(10 * time.Second)) // the store still has it
		wantErr(t, lease.Release(t.Context()), lock.ErrExpired)
		wantErr(t, context.Cause(lease.Context()), lock.ErrExpired)
	})
}

// A hold whose trust has ended is no longer joined, though the store still has it and no
// timer has said so yet.
func TestAReentryAfterTheTrustSaysLostThoughTheTimerIsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		l := newLocker(t, store, lock.WithMargin(time.Second))
		lease := acquire(t, l, t.Context(), "k", lock.WithLease(10*time.Second))
		l.DelayTrusts()
		time.Sleep(9500 * time.Millisecond)
		if holds(t, store, "k") != 1 {
			t.Error("the store has lost it: this tests nothing")
		}
		_, err := l.Acquire(lease.Context(), "k")
		wantErr(t, err, lock.ErrExpired)
		wantErr(t, lease.Release(t.Context()), lock.ErrExpired)
	})
}

func TestAReentryShortensNoTrust(t *testing.T) {
	l := newLocker(t, memstore.New())
	outer := acquire(t, l, t.Context(), "k", lock.WithLease(time.Hour))
	before := outer.Deadline()
	release(t, acquire(t, l, outer.Context(), "k", lock.WithLease(10*time.Second)))
	if after := outer.Deadline(); !after.Equal(before) {
		t.Errorf("trusted until %v, before until %v", after, before)
	}
	release(t, outer)
}

// Extend of a lease that is released, or lost before the answer comes, is no success,
// whatever other leases the hold has.
func TestAnExtensionOfALeaseThatHasEndedIsNoSuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		l := newLocker(t, store)
		outer := acquire(t, l, t.Context(), "k")
		inner := acquire(t, l, outer.Context(), "k")
		release(t, inner)
		wantErr(t, inner.Extend(t.Context(), time.Minute), lock.ErrReleased)
		store.set(nil, only("renew", func(lock.Claim) error {
			_, err := l.ForceRelease(t.Context(), "k")
			return err
		}))
		wantErr(t, outer.Extend(t.Context(), time.Minute), lock.ErrForced)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		wantErr(t, outer.Extend(ctx, time.Minute), context.Canceled)
	})
}
