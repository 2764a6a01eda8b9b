package lock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
)

// drain starts a drain that nothing but the leases ends, and returns when it
// waits for them.
func drain(l *lock.Locker) (done <-chan error) {
	ended := make(chan error, 1)
	go func() { ended <- l.Drain(context.Background()) }()
	synctest.Wait()
	return ended
}

func stillDraining(t *testing.T, done <-chan error) {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-done:
		t.Fatalf("Drain returned %v although a lease is held", err)
	default:
	}
}

func TestDrainWaitsUntilEveryLeaseIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		l := newLocker(t, store)
		first, second := acquire(t, l, t.Context(), "a"), acquire(t, l, t.Context(), "b")
		inner := acquire(t, l, second.Context(), "b")
		done := drain(l)
		for _, lease := range []*lock.Lease{first, inner} {
			release(t, lease)
			stillDraining(t, done)
		}
		time.Sleep(time.Hour) // the watchdog goes on
		stillDraining(t, done)
		if err := second.Context().Err(); err != nil {
			t.Errorf("the lease ended while its work went on: %v", err)
		}
		release(t, second)
		if err := <-done; err != nil {
			t.Error(err)
		}
		if n := store.Len(); n != 0 {
			t.Errorf("%d keys left", n)
		}
		if err := l.Drain(t.Context()); err != nil {
			t.Errorf("the second Drain: %v", err)
		}
	})
}

func TestDrainRefusesNewWorkAndWakesWaiters(t *testing.T) {
	for name, test := range map[string]struct{ held, mode lock.Option }{
		"exclusive": {lock.WithMode(lock.Exclusive), lock.WithMode(lock.Exclusive)},
		"fair":      {lock.WithMode(lock.Exclusive), lock.WithMode(lock.Fair)},
		"read":      {lock.WithMode(lock.Write), lock.WithMode(lock.Read)},
		"write":     {lock.WithMode(lock.Read), lock.WithMode(lock.Write)},
		"semaphore": {lock.WithPermits(1, 1), lock.WithPermits(1, 1)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memstore.New()
				l, elsewhere := newLocker(t, store), newLocker(t, store)
				there := acquire(t, elsewhere, t.Context(), "there", test.held)
				here := acquire(t, l, t.Context(), "here", test.held)
				waits := make(chan error, 4)
				for _, key := range []string{"here", "here", "there", "there"} {
					go func() {
						_, err := l.Acquire(context.Background(), key, test.mode)
						waits <- err
					}()
				}
				synctest.Wait()
				began := time.Now()
				done := drain(l)
				for range 4 {
					wantErr(t, <-waits, lock.ErrClosed)
				}
				if took := time.Since(began); took != 0 {
					t.Errorf("waiters were woken after %v", took)
				}
				_, err := l.Acquire(t.Context(), "new", test.mode)
				wantErr(t, err, lock.ErrClosed)
				_, err = l.TryAcquire(t.Context(), "new", test.mode)
				wantErr(t, err, lock.ErrClosed)
				_, err = lock.AcquireAll(t.Context(), l.Request("new 1"), l.Request("new 2"))
				wantErr(t, err, lock.ErrClosed)
				stillDraining(t, done)
				release(t, here)
				if err := <-done; err != nil {
					t.Error(err)
				}
				release(t, there)
				synctest.Wait()
				if n := store.Len(); n != 0 {
					t.Errorf("%d keys left", n)
				}
			})
		})
	}
}

func TestDrainLetsWorkInProgressAcquire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		l, elsewhere := newLocker(t, store), newLocker(t, store)
		lease := acquire(t, l, t.Context(), "a")
		second := acquire(t, l, t.Context(), "n")
		writes := acquire(t, l, t.Context(), "w", lock.WithMode(lock.Write))
		there := acquire(t, elsewhere, t.Context(), "b")
		waits := make(chan *lock.Lease)
		go func() { // since before the drain
			waits <- acquire(t, l, lease.Context(), "b")
		}()
		synctest.Wait()
		done := drain(l)
		again := acquire(t, l, lease.Context(), "a")
		other := acquire(t, l, again.Context(), "c")
		tried, err := l.TryAcquire(lease.Context(), "d")
		if err != nil {
			t.Fatal(err)
		}
		all, err := lock.AcquireAll(lease.Context(), l.Request("e"), l.Request("f"))
		if err != nil {
			t.Fatal(err)
		}
		reentered := acquire(t, l, second.Context(), "n")
		reads := acquire(t, l, writes.Context(), "w", lock.WithMode(lock.Read))
		_, err = l.Acquire(t.Context(), "m")
		wantErr(t, err, lock.ErrClosed)
		if err := lease.Extend(t.Context(), time.Hour); err != nil {
			t.Error(err)
		}
		if _, err := l.Inspect(t.Context(), "a"); err != nil {
			t.Error(err)
		}
		release(t, there)
		for _, inner := range append(all.Each(), again, other, tried, <-waits, second, reentered, reads, writes) {
			release(t, inner)
			stillDraining(t, done)
		}
		release(t, lease)
		if err := <-done; err != nil {
			t.Error(err)
		}
		_, err = l.Acquire(lease.Context(), "a")
		if err == nil {
			t.Error("a lease that has ended still admits acquisitions")
		}
		if n := store.Len(); n != 0 {
			t.Errorf("%d keys left", n)
		}
	})
}

// The parts of a group that are held are not work in progress: its work begins when it
// has all of them.
func TestDrainEndsAGroupThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		l, elsewhere := newLocker(t, store), newLocker(t, store)
		here, there := acquire(t, l, t.Context(), "here"), acquire(t, elsewhere, t.Context(), "there")
		limited, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		groups := make(chan error, 2)
		for _, key := range []string{"here", "there"} {
			go func() {
				_, err := lock.AcquireAll(limited, l.Request("a "+key), l.Request(key))
				groups <- err
			}()
		}
		inside := make(chan *lock.Leases, 1)
		go func() { // the work of a lease goes on, also when it takes a group
			all, err := lock.AcquireAll(here.Context(), l.Request("b there"), l.Request("there"))
			wantErr(t, err, nil)
			inside <- all
		}()
		synctest.Wait()
		began := time.Now()
		done := drain(l)
		for range 2 {
			wantErr(t, <-groups, lock.ErrClosed)
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("groups were ended after %v", took)
		}
		release(t, there)
		if err := (<-inside).Release(t.Context()); err != nil {
			t.Error(err)
		}
		stillDraining(t, done)
		release(t, here)
		if err := <-done; err != nil {
			t.Error(err)
		}
		if n := store.Len(); n != 0 {
			t.Errorf("%d keys left", n)
		}
	})
}

// A part that is granted when the locker drains already is refused as well.
func TestDrainRefusesTheGrantOfAPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		l := newLocker(t, store)
		asked, answer := make(chan struct{}), make(chan struct{})
		store.set(nil, only("acquire", func(c lock.Claim) error {
			if c.Key == "b" {
				close(asked)
				<-answer
			}
			return nil
		}))
		got := make(chan error, 1)
		go func() {
			_, err := lock.AcquireAll(context.Background(), l.Request("a"), l.Request("b"))
			got <- err
		}()
		<-asked
		done := drain(l)
		close(answer)
		wantErr(t, <-got, lock.ErrClosed)
		if err := <-done; err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		if holds(t, store, "a")+holds(t, store, "b") != 0 {
			t.Error("a part is still held")
		}
	})
}

// A context that has got rid of its cancellation still carries its lease, but
// the lease has ended.
func TestDrainIsNotHeldUpByWorkThatIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		l, elsewhere := newLocker(t, store), newLocker(t, store)
		lease := acquire(t, l, t.Context(), "a")
		there := acquire(t, elsewhere, t.Context(), "b")
		after := context.WithoutCancel(lease.Context())
		part := acquire(t, l, t.Context(), "d")
		whole := acquire(t, l, part.Context(), "d")
		release(t, part)
		waits := make(chan error, 1)
		go func() {
			_, err := l.Acquire(after, "b")
			waits <- err
		}()
		done := drain(l)
		_, err := l.Acquire(context.WithoutCancel(part.Context()), "c")
		wantErr(t, err, lock.ErrClosed)
		release(t, whole)
		release(t, lease)
		if err := <-done; err != nil {
			t.Error(err)
		}
		_, err = l.Acquire(after, "c")
		wantErr(t, err, lock.ErrClosed)
		release(t, there) // grants b to the one that waits
		wantErr(t, <-waits, lock.ErrClosed)
		time.Sleep(time.Minute)
		if n := store.Len(); n != 0 {
			t.Errorf("%d keys left", n)
		}
	})
}

func TestDrainAsksTheStoreForNothingNew(t *testing.T) {
	store := newFaulty()
	l := newLocker(t, store)
	if err := l.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err := lock.AcquireAll(t.Context(), l.Request("a"), l.Request("b"))
	wantErr(t, err, lock.ErrClosed)
	if store.count("acquire") != 0 {
		t.Error("the store was called for keys that nobody gets")
	}
}

func TestDrainRefusesAGrantThatWasUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		l := newLocker(t, store)
		asked, answer := make(chan struct{}), make(chan struct{})
		store.set(nil, only("acquire", func(lock.Claim) error {
			close(asked)
			<-answer
			return nil
		}))
		got := make(chan error, 1)
		go func() {
			_, err := l.Acquire(context.Background(), "k")
			got <- err
		}()
		<-asked
		if err := l.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		close(answer)
		wantErr(t, <-got, lock.ErrClosed)
		time.Sleep(time.Minute)
		if holds(t, store, "k") != 0 {
			t.Error("what was granted is still held")
		}
	})
}

func TestDrainEndsTheWaitForAStoreThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		l := newLocker(t, store)
		store.set(only("acquire", func(lock.Claim) error { return errLineCut }), nil)
		got := make(chan error, 1)
		go func() {
			_, err := l.Acquire(context.Background(), "k")
			got <- err
		}()
		synctest.Wait() // between two tries
		if err := l.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantErr(t, <-got, lock.ErrClosed)
	})
}

func TestDrainSaysWhatIsLeftWhenItsTimeIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		l := lock.New(store)
		leases := []*lock.Lease{acquire(t, l, t.Context(), "a"), acquire(t, l, t.Context(), "b")}
		leases = append(leases, acquire(t, l, leases[1].Context(), "b"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		err := l.Drain(ctx)
		wantErr(t, err, context.DeadlineExceeded)
		var e *lock.Error
		if !errors.As(err, &e) || e.Op != "drain" || !strings.Contains(err.Error(), "leases still held: 3") {
			t.Errorf("got %v, want it to count three leases", err)
		}
		if took := time.Since(began); took != time.Minute {
			t.Errorf("took %v", took)
		}
		for _, lease := range leases {
			if err := lease.Context().Err(); err != nil {
				t.Errorf("a lease ended: %v", err)
			}
		}
		_, err = l.Acquire(t.Context(), "c")
		wantErr(t, err, lock.ErrClosed)
		if err := l.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, lease := range leases {
			wantErr(t, context.Cause(lease.Context()), lock.ErrClosed)
		}
		if n := store.Len(); n != 0 {
			t.Errorf("%d keys left", n)
		}
	})
}

func TestDrainOfAnIdleLockerReturnsAtOnce(t *testing.T) {
	l := newLocker(t, memstore.New())
	release(t, acquire(t, l, t.Context(), "k"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 2 {
		if err := l.Drain(ctx); err != nil {
			t.Error(err)
		}
	}
}

func TestDrainCountsALostLeaseAsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLocker(t, memstore.New())
		lease := acquire(t, l, t.Context(), "k", lock.WithLease(time.Second))
		if err := <-drain(l); err != nil {
			t.Error(err)
		}
		wantErr(t, context.Cause(lease.Context()), lock.ErrLost)
	})
}

func TestCloseEndsADrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		l := lock.New(store)
		acquire(t, l, t.Context(), "k")
		done := drain(l)
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := l.Drain(t.Context()); err != nil {
			t.Errorf("after Close: %v", err)
		}
	})
}

func TestADrainThatCloseOvertakesCountsEachLeaseOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		l := newLocker(t, store)
		acquire(t, l, t.Context(), "k")
		store.set(only("release", func(lock.Claim) error { time.Sleep(time.Second); return nil }), nil)
		closed := make(chan error, 1)
		go func() { closed <- l.Close(t.Context()) }()
		synctest.Wait()
		over, cancel := context.WithCancel(t.Context())
		cancel()
		if err := l.Drain(over); err == nil || !strings.Contains(err.Error(), "still held: 1:") {
			t.Errorf("Drain: %v", err)
		}
		wantErr(t, <-closed, nil)
	})
}

func TestDrainRefusesATryOfAKeyThatIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLocker(t, memstore.New())
		lease := acquire(t, l, t.Context(), "k")
		done := drain(l)
		_, err := l.TryAcquire(t.Context(), "k")
		wantErr(t, err, lock.ErrClosed)
		release(t, lease)
		wantErr(t, <-done, nil)
	})
}

// A locker whose keys have all been free for a moment still waits for the leases that it
// has when it drains.
func TestDrainWaitsForLeasesOfALockerThatWasIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLocker(t, memstore.New())
		release(t, acquire(t, l, t.Context(), "k"))
		lease := acquire(t, l, t.Context(), "k")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		wantErr(t, l.Drain(ctx), context.DeadlineExceeded)
		release(t, lease)
		wantErr(t, l.Drain(t.Context()), nil)
	})
}

// Work under a lease of another locker is none of a locker that drains.
func TestDrainRefusesWorkOfOtherLockers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		l, other := newLocker(t, store), newLocker(t, store)
		lease := acquire(t, other, t.Context(), "k")
		wantErr(t, l.Drain(t.Context()), nil)
		_, err := l.Acquire(lease.Context(), "k2")
		wantErr(t, err, lock.ErrClosed)
		release(t, lease)
	})
}

// What a lease had let in waits no longer than there is one.
func TestDrainEndsTheWaitOfWorkThatIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		l, other := newLocker(t, store), newLocker(t, store)
		held := acquire(t, other, t.Context(), "taken")
		work := acquire(t, l, t.Context(), "k")
		waited := make(chan error, 1)
		go func() {
			_, err := l.Acquire(context.WithoutCancel(work.Context()), "taken")
			waited <- err
		}()
		synctest.Wait()
		drained := make(chan error, 1)
		go func() { drained <- l.Drain(t.Context()) }()
		synctest.Wait()
		select {
		case err := <-waited:
			t.Errorf("the work goes on, but its wait has ended: %v", err)
		default:
		}
		wantErr(t, work.Release(t.Context()), nil)
		wantErr(t, <-drained, nil)
		synctest.Wait()
		select {
		case err := <-waited:
			wantErr(t, err, lock.ErrClosed)
		default:
			t.Error("it waits on")
		}
		wantErr(t, held.Release(t.Context()), nil)
	})
}
