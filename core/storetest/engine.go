package storetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

func engineHandsOver(_ *testing.T, b *bench) {
	// Without wake-ups the waiter would sleep for as long as the test may
	// run: only a hint can bring it back in time.
	slow := lock.WithPoll(2 * patience)
	here, there := b.locker(slow), b.locker(slow)
	for range 10 {
		lease := b.lease(here, "k")
		got := make(chan *lock.Lease, 1)
		b.aside(func() {
			next, err := there.Acquire(b.Context(), b.key("k"))
			if err != nil {
				b.Errorf("the waiter: %v", err)
			}
			got <- next
		})
		select {
		case <-got:
			b.Fatal("granted while held elsewhere")
		case <-time.After(20 * time.Millisecond): // either way a valid run: waiting or about to
		}
		if err := lease.Release(b.Context()); err != nil {
			b.Fatalf("Release: %v", err)
		}
		select {
		case next := <-got:
			if next == nil {
				return // said already
			}
			if next.Fence() <= lease.Fence() {
				b.Errorf("fence %d after %d", next.Fence(), lease.Fence())
			}
			if err := next.Release(b.Context()); err != nil {
				b.Errorf("Release: %v", err)
			}
		case <-time.After(patience):
			b.Fatal("the waiter was not woken")
		}
	}
}

func engineSurvivesDeath(_ *testing.T, b *bench) {
	dead := b.owner("k") // a process that holds the key and never comes back
	b.acquire(dead(1, 300*time.Millisecond))
	lease := b.lease(b.locker(), "k")
	if err := lease.Release(b.Context()); err != nil {
		b.Error(err)
	}
}

func engineExcludes(_ *testing.T, b *bench) {
	lockers := []*lock.Locker{b.locker(), b.locker(), b.locker()}
	const workers, rounds = 24, 10
	counter := 0 // unsafe on purpose
	together(workers, func(i int) {
		for range rounds {
			err := lockers[i%len(lockers)].Do(b.Context(), b.key("k"), func(context.Context) error {
				counter++
				return nil
			})
			if err != nil {
				b.Errorf("Do: %v", err)
			}
		}
	})
	if counter != workers*rounds {
		b.Errorf("counted %d, want %d", counter, workers*rounds)
	}
}

func engineCancels(_ *testing.T, b *bench) {
	slow := lock.WithPoll(2 * patience)
	here, there := b.locker(slow), b.locker(slow)
	for range 25 {
		lease := b.lease(here, "k")
		ctx, cancel := context.WithCancel(b.Context())
		done := make(chan struct{}, 1)
		b.aside(func() {
			defer func() { done <- struct{}{} }()
			if unlucky, err := there.Acquire(ctx, b.key("k")); err == nil {
				_ = unlucky.Release(b.Context())
			} else if !errors.Is(err, context.Canceled) {
				b.Errorf("the cancelled waiter: %v", err)
			}
		})
		b.aside(func() {
			defer func() { done <- struct{}{} }()
			limited, stop := context.WithTimeout(b.Context(), patience)
			defer stop()
			if err := there.Do(limited, b.key("k"), func(context.Context) error { return nil }); err != nil {
				b.Errorf("stranded: %v", err)
			}
		})
		go cancel()
		if err := lease.Release(b.Context()); err != nil {
			b.Error(err)
		}
		<-done
		<-done
	}
}

func engineRenews(_ *testing.T, b *bench) {
	const watchdog = 3 * time.Second // a busy machine renews in time as well
	here, there := b.locker(lock.WithWatchdog(watchdog)), b.locker()
	lease := b.lease(here, "k")
	ctx, cancel := context.WithTimeout(b.Context(), watchdog+time.Second)
	defer cancel()
	_, err := there.Acquire(ctx, b.key("k"))
	if !errors.Is(err, lock.ErrBusy) || !errors.Is(err, context.DeadlineExceeded) {
		b.Errorf("after more than a lease: got %v, want ErrBusy and DeadlineExceeded", err)
	}
	if lease.Context().Err() != nil {
		b.Errorf("lease ended: %v", context.Cause(lease.Context()))
	}
	if err := lease.Release(b.Context()); err != nil {
		b.Error(err)
	}
}

func engineTries(_ *testing.T, b *bench) {
	here, there := b.locker(), b.locker()
	lease := b.lease(here, "k")
	for _, l := range []*lock.Locker{here, there} {
		if _, err := l.TryAcquire(b.Context(), b.key("k")); !errors.Is(err, lock.ErrBusy) || errors.Is(err, context.DeadlineExceeded) {
			b.Errorf("TryAcquire of a held key: got %v, want ErrBusy", err)
		}
	}
	b.free(lease)
	lease, err := there.TryAcquire(b.Context(), b.key("k"))
	if err != nil {
		b.Fatalf("TryAcquire of a free key: %v", err)
	}
	b.free(lease)
}

func engineCloses(_ *testing.T, b *bench) {
	l := lock.New(b.Store, b.options(nil)...)
	lease := b.lease(l, "held")
	other := b.locker()
	taken := b.lease(other, "taken")
	waiting := make(chan error, 1)
	go func() {
		_, err := l.Acquire(b.Context(), b.key("taken"))
		waiting <- err
	}()
	ctx, cancel := context.WithTimeout(b.Context(), patience)
	defer cancel()
	if err := l.Close(ctx); err != nil {
		b.Fatalf("Close: %v", err)
	}
	if err := <-waiting; !errors.Is(err, lock.ErrClosed) {
		b.Errorf("the waiter: got %v, want ErrClosed", err)
	}
	if cause := context.Cause(lease.Context()); !errors.Is(cause, lock.ErrClosed) {
		b.Errorf("the lease ended with %v, want ErrClosed", cause)
	}
	if b.state("held").Held {
		b.Error("a key of the closed locker is still held")
	}
	if !b.state("taken").Held {
		b.Error("closing released another locker's key")
	}
	if err := taken.Release(ctx); err != nil {
		b.Error(err)
	}
}
