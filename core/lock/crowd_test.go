package lock_test

import (
	"context"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
)

// Readers who give up wake nobody: each has had what was to be heard.
func TestReadersWhoLeaveCostNoCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		l, other := newLocker(t, store, reading, lock.WithPoll(time.Hour)), newLocker(t, store.Store, writing)
		held := acquire(t, other, t.Context(), "k", lock.WithWatchdog(3*time.Hour))
		var readers []*waiter
		var cancels []context.CancelFunc
		for range 32 {
			ctx, cancel := context.WithCancel(t.Context())
			cancels = append(cancels, cancel)
			readers = append(readers, await(ctx, l, "k"))
		}
		before := store.count("acquire")
		for _, cancel := range cancels[1:] {
			cancel()
			synctest.Wait()
		}
		if calls := store.count("acquire") - before; calls != 0 {
			t.Errorf("%d calls", calls)
		}
		release(t, held)
		release(t, readers[0].got(t))
		cancels[0]()
	})
}

// Readers behind a writer that gives up come after the readers before it.
func TestReadersJoinThoseBeforeAWriterThatLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		hour := lock.WithPoll(time.Hour)
		l, other := newLocker(t, store, hour), newLocker(t, store)
		held := acquire(t, other, t.Context(), "k", reading)
		ctx, cancel := context.WithCancel(t.Context())
		writer := start(t, l, ctx, writing)
		readers := []<-chan outcome{start(t, l, t.Context(), reading), start(t, l, t.Context(), reading)}
		waits(t, "a reader", readers[0])
		cancel()
		wantErr(t, (<-writer).err, context.Canceled)
		for _, r := range readers {
			release(t, granted(t, "a reader", r))
		}
		release(t, held)
	})
}

// cost is what the CPU does for f, the least of some runs.
func cost(f func()) (least time.Duration) {
	for range 3 {
		before := used()
		f()
		if d := used() - before; least == 0 || d < least {
			least = d
		}
	}
	return least
}

func used() time.Duration {
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// Four times the waiters cost four times as much, and not sixteen times.
func TestACrowdCostsInProportion(t *testing.T) {
	for name, opt := range map[string]lock.Option{"readers": reading, "permits": lock.WithPermits(1, 1)} {
		t.Run(name, func(t *testing.T) {
			crowd := func(n int) time.Duration {
				return cost(func() { synctest.Test(t, func(t *testing.T) { serve(t, n, opt) }) })
			}
			if few, many := crowd(2000), crowd(8000); many > 8*few {
				t.Errorf("2,000 cost %v, and 8,000 %v", few, many)
			}
		})
	}
}

// serve lets n callers of one process wait for a key, and get it.
func serve(t *testing.T, n int, opt lock.Option) {
	t.Helper()
	store := &door{shut: true}
	l := newLocker(t, &faulty{Store: store, calls: make(map[string]int)}, opt)
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() { release(t, acquire(t, l, t.Context(), "k")) })
	}
	time.Sleep(500 * time.Millisecond)
	store.open()
	wg.Wait()
}

// door is a store that lets nobody in, and then everybody.
type door struct {
	keyless

	mu   sync.Mutex
	shut bool
	wake []func()
}

func (d *door) Acquire(context.Context, lock.Claim) (uint64, error) {
	time.Sleep(time.Millisecond)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.shut {
		return 0, &lock.BusyError{TTL: time.Hour}
	}
	return lock.FenceStep, nil
}

func (d *door) Watch(_ context.Context, _ lock.Claim, wake func()) (func(), error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.wake = append(d.wake, wake)
	return func() {}, nil
}

func (d *door) open() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.shut = false
	go d.wake[len(d.wake)-1]()
}

