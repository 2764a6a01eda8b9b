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

func TestReenterThreeTimesReleaseThreeTimes(t *testing.T) {
	store := memstore.New()
	l := newLocker(t, store)
	ctx := t.Context()
	var leases []*lock.Lease
	for i := 1; i <= 3; i++ {
		lease := acquire(t, l, ctx, "k")
		leases = append(leases, lease)
		ctx = lease.Context()
		if n := holds(t, store, "k"); n != 1 {
			t.Fatalf("hold count %d after %d acquisitions", n, i)
		}
		if lease.Fence() != leases[0].Fence() || lease.Owner() != leases[0].Owner() {
			t.Error("re-entry changed fence or owner")
		}
	}
	for i := 3; i >= 1; i-- {
		release(t, leases[i-1])
		if n := holds(t, store, "k"); n != min(i-1, 1) {
			t.Fatalf("hold count %d, and %d leases are left", n, i-1)
		}
	}
}

func TestOuterLeaseMayBeReleasedFirst(t *testing.T) {
	store := memstore.New()
	l := newLocker(t, store)
	outer := acquire(t, l, t.Context(), "k")
	inner := acquire(t, l, outer.Context(), "k")
	release(t, outer)
	if n := holds(t, store, "k"); n != 1 {
		t.Errorf("hold count %d, want the inner lease's 1", n)
	}
	if cause := context.Cause(inner.Context()); !errors.Is(cause, lock.ErrReleased) {
		t.Errorf("the inner context descends from the outer: cause %v", cause)
	}
	release(t, inner)
	if n := holds(t, store, "k"); n != 0 {
		t.Errorf("hold count %d after both releases", n)
	}
}

func TestReentryFindsItsKeyThroughOtherKeys(t *testing.T) {
	store := memstore.New()
	l, other := newLocker(t, store), newLocker(t, store)
	a := acquire(t, l, t.Context(), "a")
	b := acquire(t, l, a.Context(), "b")
	again := acquire(t, l, b.Context(), "a")
	if again.Owner() != a.Owner() {
		t.Error("not the same owner")
	}
	// Another locker is another client: it cannot re-enter.
	_, err := other.TryAcquire(again.Context(), "a")
	wantErr(t, err, lock.ErrBusy)
	for _, lease := range []*lock.Lease{again, b, a} {
		release(t, lease)
	}
}

func TestOwnerIsAValueNotAGoroutine(t *testing.T) {
	l := newLocker(t, memstore.New())
	lease := acquire(t, l, t.Context(), "k")
	_, err := l.TryAcquire(t.Context(), "k") // same goroutine, other owner
	wantErr(t, err, lock.ErrBusy)
	done := make(chan error)
	go func() { // other goroutine, same owner
		inner, err := l.TryAcquire(lease.Context(), "k")
		if err == nil {
			err = inner.Release(context.Background())
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Error(err)
	}
	release(t, lease)
}

func TestAStrangerCannotRelease(t *testing.T) {
	store := memstore.New()
	l, stranger := newLocker(t, store), newLocker(t, store)
	lease := acquire(t, l, t.Context(), "k")
	_, err := stranger.TryAcquire(t.Context(), "k")
	wantErr(t, err, lock.ErrBusy)
	err = lock.Blocking(store).Release(t.Context(), lock.Claim{Key: "k", Owner: "stranger:1"})
	wantErr(t, err, lock.ErrNotHeld)
	if n := holds(t, store, "k"); n != 1 {
		t.Errorf("hold count %d", n)
	}
	release(t, lease)
}

func TestWaitTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		l, other := newLocker(t, store), newLocker(t, store)
		lease := acquire(t, other, t.Context(), "k")
		for _, locker := range []*lock.Locker{l, other} { // held elsewhere, held here
			start := time.Now()
			_, err := locker.Acquire(t.Context(), "k", lock.WithWait(200*time.Millisecond))
			wantErr(t, err, lock.ErrBusy, context.DeadlineExceeded)
			if waited := time.Since(start); waited != 200*time.Millisecond {
				t.Errorf("waited %v", waited)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			_, err = locker.Acquire(ctx, "k")
			cancel()
			wantErr(t, err, lock.ErrBusy, context.DeadlineExceeded)
			_, err = locker.Acquire(t.Context(), "k", lock.WithWait(0))
			wantErr(t, err, lock.ErrBusy)
		}
		release(t, lease)
	})
}

func TestFixedLeaseExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		l, other := newLocker(t, store), newLocker(t, store)
		lease := acquire(t, l, t.Context(), "k", lock.WithLease(10*time.Second))
		start := time.Now()
		next := acquire(t, other, t.Context(), "k") // nobody renews
		if waited := time.Since(start); waited < 10*time.Second || waited > 11*time.Second {
			t.Errorf("the next owner waited %v", waited)
		}
		if cause := context.Cause(lease.Context()); !errors.Is(cause, lock.ErrLost) {
			t.Errorf("cause %v, want ErrLost", cause)
		}
		wantErr(t, lease.Release(t.Context()), lock.ErrLost)
		wantErr(t, lease.Release(t.Context()), lock.ErrLost)
		if next.Context().Err() != nil || holds(t, store, "k") != 1 {
			t.Error("the late release touched the next owner")
		}
		if next.Fence() <= lease.Fence() {
			t.Errorf("fence %d after %d", next.Fence(), lease.Fence())
		}
		release(t, next)
	})
}

func TestOfAThousandTriesExactlyOneWins(t *testing.T) {
	l := newLocker(t, memstore.New())
	var won atomic.Int32
	var wg sync.WaitGroup
	for range 1000 {
		wg.Go(func() {
			switch _, err := l.TryAcquire(t.Context(), "k"); {
			case err == nil:
				won.Add(1)
			case !errors.Is(err, lock.ErrBusy):
				t.Errorf("got %v, want ErrBusy", err)
			}
		})
	}
	wg.Wait()
	if n := won.Load(); n != 1 {
		t.Errorf("%d winners", n)
	}
}

func TestAHundredWaitersGetItInTheOrderOfTheirComing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLocker(t, memstore.New())
		lease := acquire(t, l, t.Context(), "k")
		var order []int
		var wg sync.WaitGroup
		for i := range 100 {
			wg.Go(func() {
				next, err := l.Acquire(t.Context(), "k")
				if err != nil {
					t.Error(err)
					return
				}
				order = append(order, i)
				if err := next.Release(t.Context()); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait() // it has queued up
		}
		release(t, lease)
		wg.Wait()
		for i, who := range order {
			if i != who {
				t.Fatalf("place %d went to waiter %d", i, who)
			}
		}
		if len(order) != 100 {
			t.Errorf("%d of 100 got it", len(order))
		}
	})
}

func TestAThousandGoroutinesCountExactly(t *testing.T) {
	store := memstore.New()
	lockers := []*lock.Locker{newLocker(t, store), newLocker(t, store)}
	counter := 0 // unsafe on purpose
	var wg sync.WaitGroup
	for i := range 1000 {
		wg.Go(func() {
			err := lockers[i%2].Do(t.Context(), "k", func(context.Context) error {
				counter++
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if counter != 1000 {
		t.Errorf("counted %d, want 1000", counter)
	}
}

func TestTenThousandCyclesLeaveNothing(t *testing.T) {
	store := memstore.New()
	l := newLocker(t, store)
	before := runtime.NumGoroutine()
	var wg sync.WaitGroup
	for g := range 10 {
		wg.Go(func() {
			for i := range 1000 {
				lease, err := l.Acquire(t.Context(), fmt.Sprintf("k:%d:%d", g, i))
				if err != nil {
					t.Error(err)
					return
				}
				if err := lease.Release(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if n := store.Len(); n != 0 {
		t.Errorf("%d keys left", n)
	}
	deadline := time.Now().Add(10 * time.Second)
	for runtime.NumGoroutine() > before {
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
		}
		runtime.Gosched()
	}
}
