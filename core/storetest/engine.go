package storetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

func nothing(context.Context) {}

func engineHandsOver(_ *testing.T, b *bench) {
	lockers := b.slow(2)
	for range 10 {
		lease := b.lease(lockers[0], "k")
		got := make(chan struct{})
		b.aside(func() {
			defer close(got)
			b.do(lockers[1], func(ctx context.Context) {
				if next, _ := lock.FromContext(ctx); next.Fence() <= lease.Fence() {
					b.Errorf("fence %d after %d", next.Fence(), lease.Fence())
				}
			})
		})
		select {
		case <-got:
			b.Fatal("granted while held elsewhere")
		case <-time.After(20 * time.Millisecond): // either way a valid run: waiting or about to
		}
		b.free(lease)
		b.await("the waiter's turn", got)
	}
}

func engineSurvivesDeath(_ *testing.T, b *bench) {
	dead := b.owner("k") // a process that holds the key and never comes back
	b.acquire(dead(300 * time.Millisecond))
	b.do(b.locker(), nothing)
}

func engineExcludes(_ *testing.T, b *bench) {
	lockers := []*lock.Locker{b.locker(), b.locker(), b.locker()}
	const workers, rounds = 24, 10
	counter := 0 // unsafe on purpose
	together(workers, func(i int) {
		for range rounds {
			b.do(lockers[i%len(lockers)], func(context.Context) { counter++ })
		}
	})
	if counter != workers*rounds {
		b.Errorf("counted %d, want %d", counter, workers*rounds)
	}
}

func engineCancels(_ *testing.T, b *bench) {
	lockers := b.slow(2)
	for range 25 {
		lease := b.lease(lockers[0], "k")
		ctx, cancel := context.WithCancel(b.Context())
		b.aside(func() {
			if unlucky, err := lockers[1].Acquire(ctx, b.key("k")); err == nil {
				b.free(unlucky)
			} else if !errors.Is(err, context.Canceled) {
				b.Errorf("the cancelled waiter: %v", err)
			}
		})
		b.aside(func() { b.do(lockers[1], nothing) }) // must not be stranded
		go cancel()
		b.free(lease)
		b.asides.Wait()
	}
}

func engineRenews(_ *testing.T, b *bench) {
	const watchdog = 3 * time.Second // a busy machine renews in time as well
	here, there := b.locker(lock.WithWatchdog(watchdog), lock.WithCallTimeout(watchdog/2)), b.locker()
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
	b.free(lease)
}

func engineTries(_ *testing.T, b *bench) {
	here, there := b.locker(), b.locker()
	lease := b.lease(here, "k")
	for _, l := range []*lock.Locker{here, there} {
		b.refuses(b.Context(), l, lock.ErrBusy)
	}
	b.free(lease)
	b.free(b.tries(b.Context(), there))
}

func engineCloses(_ *testing.T, b *bench) {
	l := lock.New(b.store, b.options(nil)...)
	lease := b.lease(l, "held")
	taken := b.lease(b.locker(), "taken")
	b.closes(l, "taken")
	if cause := context.Cause(lease.Context()); !errors.Is(cause, lock.ErrClosed) {
		b.Errorf("the lease ended with %v, want ErrClosed", cause)
	}
	b.isFree("held")
	if !b.state("taken").Held {
		b.Error("closing released another locker's key")
	}
	b.free(taken)
}
