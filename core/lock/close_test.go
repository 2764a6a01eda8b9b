package lock_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

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

// closing is a context that closes the locker when an acquisition looks at it: after it was
// let in, and before it calls the store.
type closing struct {
	context.Context

	l *lock.Locker
}

func (c closing) close() {
	over, cancel := context.WithCancel(context.Background())
	cancel()
	_ = c.l.Close(over) // does not wait for the acquisition
}

func (c closing) Deadline() (time.Time, bool) {
	c.close()
	return c.Context.Deadline()
}

func (c closing) Err() error {
	c.close()
	return c.Context.Err()
}

func TestAnAcquisitionThatCloseOvertakesAsksNoStore(t *testing.T) {
	for name, option := range map[string]lock.Option{
		"in the locker's queue": lock.WithMode(lock.Exclusive),
		"in the store's queue":  lock.WithMode(lock.Fair),
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
		l := lock.New(port(store))
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
		l := lock.New(port(store))
		acquire(t, l, t.Context(), "a")
		acquire(t, l, t.Context(), "b")
		store.set(only("release", func(c lock.Claim) error {
			if c.Key == "a" {
				return errLineCut
			}
			return nil
		}), nil)
		for range 2 {
			wantErr(t, l.Close(t.Context()), lock.ErrUnavailable, errLineCut)
		}
		if holds(t, store, "b") != 0 {
			t.Error("one failure kept the other from being released")
		}
	})
}

// notUndone is a locker that has to undo what it can't.
func notUndone(t *testing.T) (*lock.Locker, *faulty) {
	t.Helper()
	store := newFaulty()
	l := lock.New(port(store))
	lease := acquire(t, l, t.Context(), "k", lock.WithLease(10*time.Minute))
	store.set(only("release", func(lock.Claim) error { return errLineCut }), nil)
	wantErr(t, lease.Release(t.Context()), lock.ErrUnavailable)
	return l, store
}

func TestCloseSaysWhatItCouldNotUndo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, store := notUndone(t)
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
		l := lock.New(port(store))
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
		l := lock.New(port(store))
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

// Close releases as everybody does: a release that ran, and whose answer was lost, is
// no loss, and nothing is undone while a release is under way.
func TestCloseTakesNoReleaseForALoss(t *testing.T) {
	for name, doubt := range map[string]string{
		"the answer to the release is lost": "release",
		"an answer to the acquire was lost": "acquire",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newFaulty()
				var ends []error
				l := lock.New(port(store), lock.WithHooks(lock.Hooks{
					Lost:     func(e lock.LossEvent) { ends = append(ends, e.Cause) },
					Released: func(e lock.ReleaseEvent) { ends = append(ends, e.Err) },
				}))
				store.set(only("release", func(lock.Claim) error { time.Sleep(time.Millisecond); return nil }), only(doubt, times(1, errLineCut)))
				acquire(t, l, t.Context(), "k")
				if err := l.Close(t.Context()); err != nil {
					t.Error(err)
				}
				if len(ends) != 1 || ends[0] != nil {
					t.Errorf("the hold ended with %v", ends)
				}
				if n := store.count("release"); n != 2 {
					t.Errorf("%d releases", n)
				}
			})
		})
	}
}

// The answer to a call that was given up comes while Close releases the hold that
// another call of the owner got. What it may have left is undone as well, and neither
// release takes what the other has done for a loss.
func TestALateGrantWaitsForCloseToRelease(t *testing.T) {
	for name, acquired := range map[string]func(t *testing.T, store *faulty, l *lock.Locker, holdBack chan<- struct{}){
		"by the same acquisition": func(t *testing.T, store *faulty, l *lock.Locker, holdBack chan<- struct{}) {
			t.Helper()
			before := acquire(t, newLocker(t, store.Store), t.Context(), "k")
			waiter := await(t.Context(), l, "k")
			holdBack <- struct{}{}
			release(t, before)
			time.Sleep(5 * time.Second)
			waiter.got(t) // by a second call
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, heldBack, answer, freed := newFaulty(), make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
				var ends []error
				l := lock.New(port(store), lock.WithCallTimeout(time.Second), lock.WithHooks(lock.Hooks{
					Lost:     func(e lock.LossEvent) { ends = append(ends, e.Cause) },
					Released: func(e lock.ReleaseEvent) { ends = append(ends, e.Err) },
				}))
				store.set(nil, only("acquire", func(lock.Claim) error {
					select {
					case <-heldBack:
						<-answer
					default:
					}
					return nil
				}))
				acquired(t, store, l, heldBack)
				ends = nil
				before := store.count("release")
				store.set(only("release", func(lock.Claim) error { <-freed; return nil }), nil)
				closed := make(chan error, 1)
				go func() { closed <- l.Close(t.Context()) }()
				synctest.Wait()
				close(answer)
				synctest.Wait()
				close(freed)
				wantErr(t, <-closed, nil)
				if n := store.count("release") - before; n < 2 {
					t.Error("what the first call may have left was not undone")
				}
				if len(ends) != 1 || ends[0] != nil {
					t.Errorf("the hold ended with %v", ends)
				}
			})
		})
	}
}

func TestCloseWaitsForTheHookOfALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		called, gate := make(chan struct{}), make(chan struct{})
		l := lock.New(memstore.New(), lock.WithHooks(lock.Hooks{Lost: func(lock.LossEvent) {
			close(called)
			<-gate
		}}))
		acquire(t, l, t.Context(), "k", lock.WithLease(time.Second))
		<-called
		closed := make(chan error, 1)
		go func() { closed <- l.Close(t.Context()) }()
		synctest.Wait()
		early := len(closed)
		close(gate)
		wantErr(t, <-closed, nil)
		if early > 0 {
			t.Error("Close returned before the hook did")
		}
	})
}

// No timer keeps a locker that is closed: none of its leases, and none of its calls.
func TestAClosedLockerIsCollected(t *testing.T) {
	closed := func() weak.Pointer[lock.Locker] {
		l := lock.New(port(newFaulty()), lock.WithWatchdog(time.Hour), lock.WithCallTimeout(time.Hour-1))
		acquire(t, l, t.Context(), "k")
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
		return weak.Make(l)
	}()
	for deadline := time.Now().Add(10 * time.Second); closed.Value() != nil; {
		if time.Now().After(deadline) {
			t.Fatal("it is still referenced")
		}
		runtime.GC()
	}
}

// The release of a lost lease undoes what the store may still have, but not when the
// locker is closed. Close leaves it to its TTL.
func TestALostLeaseIsReleasedInVainAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		l := lock.New(port(store))
		lease := acquire(t, l, t.Context(), "k", lock.WithLease(time.Second))
		<-lease.Context().Done()
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
		before := store.count("release")
		wantErr(t, lease.Release(t.Context()), lock.ErrLost)
		synctest.Wait()
		if n := store.count("release") - before; n != 0 {
			t.Errorf("%d releases after Close", n)
		}
	})
}

// What Close begins in time has the whole of its call timeout.
func TestCloseWaitsForAnUndoThatItBeganInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout = time.Second
		store := newFaulty()
		l := lock.New(port(store), lock.WithCallTimeout(timeout))
		store.set(func(string, lock.Claim) error { time.Sleep(timeout); return errLineCut }, nil)
		_, err := l.TryAcquire(t.Context(), "k")
		wantErr(t, err, lock.ErrUnavailable)
		time.Sleep(timeout / 2) // what may be left is being undone
		store.set(only("release", func(lock.Claim) error { time.Sleep(3 * timeout / 4); return nil }), nil)
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A call that was late runs while a removal has no answer yet, and Close repeats nothing
// when that should have come.
func TestCloseRemovesWhatRunsDuringARemoval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		l := lock.New(port(store), lock.WithCallTimeout(time.Second))
		store.set(only("acquire", func(lock.Claim) error {
			time.Sleep(2 * time.Second)
			return nil
		}), nil)
		_, err := l.Acquire(t.Context(), "k")
		wantErr(t, err, lock.ErrUnavailable)
		time.Sleep(time.Second / 2)
		store.set(nil, only("release", func(lock.Claim) error {
			time.Sleep(3 * time.Second)
			return nil
		}))
		_ = l.Close(t.Context()) // may give up before the removals are answered
		state, err := store.Inspect(t.Context(), "k")
		if store.count("acquire") != 1 || err != nil || state.Held {
			t.Errorf("%d acquires, %+v, %v", store.count("acquire"), state, err)
		}
	})
}

// A store that answers nothing, or nothing of what one of its servers keeps, costs one call
// timeout, not one for each few holds.
func TestCloseSendsAllReleasesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout, keys = time.Second, 1000
		store := newAsync(func(answered func()) { answered() })
		l := lock.New(store, lock.WithCallTimeout(timeout))
		for i := range keys {
			acquire(t, l, t.Context(), fmt.Sprint(i))
		}
		store.set(only("release", func(lock.Claim) error { time.Sleep(time.Minute); return errLineCut }), nil)
		began := time.Now()
		wantErr(t, l.Close(t.Context()), lock.ErrUnavailable)
		if took := time.Since(began); took > time.Minute+timeout { // it waits for the calls themselves
			t.Errorf("Close took %v", took)
		}
		store.running.Wait()
	})
}

// The first ended with its context, and left what it was to undo.
func TestASecondCloseSaysWhatTheFirstLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, store := notUndone(t)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		wantErr(t, l.Close(ctx), context.DeadlineExceeded)
		if holds(t, store, "k") == 0 {
			t.Fatal("the hold is gone: this tests nothing")
		}
		wantErr(t, l.Close(t.Context()), lock.ErrUnavailable)
	})
}

// As t.FailNow does, which a test's hook may call.
func TestAHookThatEndsItsGoroutineLeavesTheRestToClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const keys = 40 // more than are released at a time
		store := newFaulty()
		var ends atomic.Int32
		l := lock.New(port(store), lock.WithHooks(lock.Hooks{Released: func(lock.ReleaseEvent) {
			ends.Add(1)
			runtime.Goexit()
		}}))
		for i := range keys {
			acquire(t, l, t.Context(), strconv.Itoa(i))
		}
		if err := l.Close(t.Context()); err != nil {
			t.Errorf("Close: %v", err)
		}
		if ends.Load() != keys {
			t.Errorf("%d ends of %d were reported", ends.Load(), keys)
		}
	})
}

// The ends of the others are reported all the same.
func TestAHookThatPanicsWhileClosingMakesClosePanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		var ends atomic.Int32
		l := lock.New(store, lock.WithHooks(lock.Hooks{Released: func(lock.ReleaseEvent) {
			if ends.Add(1) == 1 {
				panic("a bug of the hook")
			}
		}}))
		for _, key := range []string{"a", "b", "c"} {
			acquire(t, l, t.Context(), key)
		}
		func() {
			defer func() {
				if v := recover(); v != "a bug of the hook" {
					t.Errorf("recovered %v", v)
				}
			}()
			_ = l.Close(t.Context()) // panics
		}()
		if err := l.Close(t.Context()); err != nil {
			t.Errorf("second Close: %v", err)
		}
		if store.Len() != 0 || ends.Load() != 3 {
			t.Errorf("%d keys are left, %d ends of 3 were reported", store.Len(), ends.Load())
		}
	})
}

func TestCloseWakesWorkWhoseContextOutlivesItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		l, elsewhere := newLocker(t, store), newLocker(t, store)
		there := acquire(t, elsewhere, t.Context(), "there")
		work := acquire(t, l, t.Context(), "k")
		waits := await(context.WithoutCancel(work.Context()), l, "there", lock.WithWait(time.Hour))
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
		<-waits.done
		wantErr(t, waits.err, lock.ErrClosed)
		release(t, there)
	})
}

// What Close gives up as its context ends is not tried again: the client may be closed.
func TestACloseWhoseContextEndsLeavesNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		l := lock.New(port(store))
		store.set(nil, only("acquire", func(lock.Claim) error { return errLineCut }))
		_, err := l.Acquire(t.Context(), "k")
		wantErr(t, err, lock.ErrUnavailable) // and is undone
		store.set(func(string, lock.Claim) error { return errLineCut }, nil)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		wantErr(t, l.Close(ctx), context.DeadlineExceeded)
		synctest.Wait()
		before := store.count("release")
		time.Sleep(lock.DefaultCallTimeout)
		if n := store.count("release") - before; n > 0 {
			t.Errorf("%d calls after Close", n)
		}
	})
}
