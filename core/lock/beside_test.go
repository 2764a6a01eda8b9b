//go:build !machine

package lock_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

// Here a caller calls the store beside a try whose call is under way. On the engine behind the
// build tag machine it waits for the answer, so there is nothing to test.

// A caller that calls the store itself is handed nothing: its call may hang for longer
// than others should wait for the key.
func TestACallerThatCallsIsHandedNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newSpaced()
		l := newLocker(t, store)
		first, second := make(chan struct{}), make(chan struct{})
		var calls atomic.Int32
		store.set(only("acquire", func(lock.Claim) error {
			if calls.Add(1) == 1 {
				<-first
			} else {
				<-second
			}
			return nil
		}), nil)
		tried := make(chan *lock.Lease, 1)
		go func() {
			lease, err := l.TryAcquire(t.Context(), "k")
			if err != nil {
				t.Error(err)
			}
			tried <- lease
		}()
		synctest.Wait()
		next := await(t.Context(), l, "k")
		close(first)
		release(t, <-tried)
		if n := holds(t, store, "k"); n != 0 {
			t.Error("the key was not released")
		}
		close(second)
		release(t, next.got(t))
	})
}

// A try whose call is not answered in time knows that the key is taken if another of its
// process has got it meanwhile.
func TestATryKnowsThatAnotherOfItsProcessHasTheKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, hung := newFaulty(), make(chan struct{})
		l := newLocker(t, store)
		store.set(only("acquire", func(lock.Claim) error { <-hung; return nil }), nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		tried := make(chan error, 1)
		go func() {
			_, err := l.TryAcquire(ctx, "k")
			tried <- err
		}()
		synctest.Wait()
		store.set(nil, nil)
		lease := acquire(t, l, t.Context(), "k")
		err := <-tried
		wantErr(t, err, lock.ErrBusy, context.DeadlineExceeded)
		if errors.Is(err, lock.ErrUnavailable) {
			t.Error(err)
		}
		close(hung)
		release(t, lease)
	})
}
