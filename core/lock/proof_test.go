package lock_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
)

// A grant proves that what it excludes is gone: no moment passes in which one locker trusts
// both.
func TestAGrantEndsWhatItExcludes(t *testing.T) {
	for name, tt := range map[string]struct{ first, second []lock.Option }{
		"a fair waiter behind a fair holder": {[]lock.Option{fair}, []lock.Option{fair}},
		"a writer behind a reader":           {[]lock.Option{reading}, []lock.Option{writing}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memstore.New()
				l, operator := newLocker(t, store), newLocker(t, store)
				first := acquire(t, l, t.Context(), "k", tt.first...)
				second := await(t.Context(), l, "k", tt.second...)
				if _, err := operator.ForceRelease(t.Context(), "k"); err != nil {
					t.Fatal(err)
				}
				select {
				case <-second.done:
				case <-time.After(2 * lock.DefaultPoll):
					t.Fatal("the second waits, and the key is free")
				}
				wantErr(t, lock.AssertHeld(first.Context(), "k"), lock.ErrLost)
				wantErr(t, context.Cause(first.Context()), lock.ErrTaken)
				wantErr(t, first.Release(t.Context()), lock.ErrLost)
				release(t, second.got(t))
			})
		})
	}
}

// A hold that somebody of the process waits for is verified once per poll interval: what was
// taken away elsewhere is free for them soon, however long its lease is.
func TestAHoldThatSomebodyWaitsForIsVerified(t *testing.T) {
	for name, lease := range map[string]lock.Option{
		"with a watchdog": lock.WithWatchdog(lock.DefaultWatchdog), "with a fixed lease": lock.WithLease(time.Hour),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memstore.New()
				l, operator := newLocker(t, store), newLocker(t, store)
				first := acquire(t, l, t.Context(), "k", lease)
				waiting := await(t.Context(), l, "k")
				if _, err := operator.ForceRelease(t.Context(), "k"); err != nil {
					t.Fatal(err)
				}
				time.Sleep(lock.DefaultPoll)
				synctest.Wait()
				wantErr(t, context.Cause(first.Context()), lock.ErrTaken)
				release(t, waiting.got(t))
				wantErr(t, first.Release(t.Context()), lock.ErrLost)
			})
		})
	}
}

// What was released while it was trusted is released, though the release reaches the store
// after the end of the lease.
func TestAReleaseInTimeIsNoLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		var lost atomic.Int32
		l := newLocker(t, store, lock.WithHooks(lock.Hooks{Lost: func(lock.LossEvent) { lost.Add(1) }}))
		store.set(only("release", func(lock.Claim) error { time.Sleep(250 * time.Millisecond); return nil }), nil)
		lease := acquire(t, l, t.Context(), "k", lock.WithLease(300*time.Millisecond))
		time.Sleep(150 * time.Millisecond)
		release(t, lease)
		err := l.Do(t.Context(), "k", func(context.Context) error {
			time.Sleep(150 * time.Millisecond)
			return nil
		}, lock.WithLease(300*time.Millisecond))
		if err != nil || lost.Load() != 0 {
			t.Errorf("%v, and %d losses", err, lost.Load())
		}
	})
}
