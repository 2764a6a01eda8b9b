package lock_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
)

func TestCloseReleasesWakesAndRefuses(t *testing.T) {
	store := memstore.New()
	l := lock.New(store)
	var leases []*lock.Lease
	for i := range 100 {
		leases = append(leases, acquire(t, l, t.Context(), fmt.Sprint("k:", i)))
	}
	waiting := make(chan error, 2)
	for range 2 {
		go func() {
			_, err := l.Acquire(t.Context(), "k:0")
			waiting <- err
		}()
	}
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		wantErr(t, <-waiting, lock.ErrClosed)
	}
	if n := store.Len(); n != 0 {
		t.Errorf("%d keys left", n)
	}
	for _, lease := range leases {
		if cause := context.Cause(lease.Context()); !errors.Is(cause, lock.ErrClosed) {
			t.Fatalf("cause %v, want ErrClosed", cause)
		}
		wantErr(t, lease.Release(t.Context()), lock.ErrClosed)
		wantErr(t, lease.Extend(t.Context(), time.Minute), lock.ErrClosed)
	}
	_, err := l.Acquire(t.Context(), "k")
	wantErr(t, err, lock.ErrClosed)
	_, err = l.TryAcquire(t.Context(), "k")
	wantErr(t, err, lock.ErrClosed)
	_, err = l.Inspect(t.Context(), "k")
	wantErr(t, err, lock.ErrClosed)
	_, err = l.ForceRelease(t.Context(), "k")
	wantErr(t, err, lock.ErrClosed)
	if err := l.Close(t.Context()); err != nil {
		t.Errorf("the second Close: %v", err)
	}
}

// closing is a context that closes the locker when an acquisition reads its
// deadline: after it was let in, and before it calls the store.
type closing struct {
	context.Context

	l *lock.Locker
}

func (c closing) Deadline() (time.Time, bool) {
	over, cancel := context.WithCancel(context.Background())
	cancel()
	_ = c.l.Close(over) // does not wait for the acquisition
	return c.Context.Deadline()
}

func TestAnAcquisitionThatCloseOvertakesAsksNoStore(t *testing.T) {
	for name, option := range map[string]lock.Option{
		"in the locker's queue": lock.WithMode(lock.Exclusive),
		"in the store's queue":  lock.WithMode(lock.Fair),
		"of a named owner":      lock.WithOwner("me"),
	} {
		t.Run(name, func(t *testing.T) {
			store := newFaulty()
			l := newLocker(t, store)
			_, err := l.Acquire(closing{t.Context(), l}, "k", option, lock.WithWait(time.Hour))
			wantErr(t, err, lock.ErrClosed)
			if n := store.count("acquire"); n > 0 {
				t.Errorf("the store was asked %d times", n)
			}
		})
	}
}

func TestCloseWithADeadStoreEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		l := lock.New(store)
		acquire(t, l, t.Context(), "k")
		heal := make(chan struct{})
		store.set(func(string, lock.Claim) error { <-heal; return errLineCut }, nil)
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		start := time.Now()
		wantErr(t, l.Close(ctx), context.DeadlineExceeded)
		if took := time.Since(start); took != 500*time.Millisecond {
			t.Errorf("took %v", took)
		}
		close(heal)
	})
}

func TestCloseSaysWhatItCouldNotRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		l := lock.New(store)
		acquire(t, l, t.Context(), "a")
		acquire(t, l, t.Context(), "b")
		store.set(only("release", func(c lock.Claim) error {
			if c.Key == "a" {
				return errLineCut
			}
			return nil
		}), nil)
		wantErr(t, l.Close(t.Context()), lock.ErrUnavailable, errLineCut)
		if holds(t, store, "b") != 0 {
			t.Error("one failure kept the other from being released")
		}
	})
}

func TestCloseSaysWhatItCouldNotUndo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		l := lock.New(store)
		lease := acquire(t, l, t.Context(), "k", lock.WithLease(10*time.Minute))
		store.set(only("release", func(lock.Claim) error { return errLineCut }), nil)
		wantErr(t, lease.Release(t.Context()), lock.ErrUnavailable)
		for range 2 {
			wantErr(t, l.Close(t.Context()), lock.ErrUnavailable)
		}
		if holds(t, store, "k") == 0 {
			t.Error("the hold is gone: this tests nothing")
		}
	})
}

func TestCloseStopsTheWatchdog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		l := lock.New(store)
		acquire(t, l, t.Context(), "k")
		time.Sleep(time.Minute)
		if err := l.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		renewed := store.count("renew")
		time.Sleep(time.Hour)
		if n := store.count("renew"); n != renewed {
			t.Errorf("%d renewals after Close", n-renewed)
		}
	})
}

func TestCloseWaitsForWhatCleansUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		l := lock.New(store)
		store.set(only("acquire", func(lock.Claim) error { time.Sleep(time.Second); return nil }), nil)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		_, err := l.Acquire(ctx, "k")
		wantErr(t, err, context.DeadlineExceeded)
		if err := l.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if holds(t, store, "k") != 0 {
			t.Error("Close returned before the orphan was removed")
		}
	})
}
