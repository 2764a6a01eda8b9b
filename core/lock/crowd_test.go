package lock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
)

// Permits that are free are given to a crowd, however short the wait and far the store.
func TestFreePermitsAreGrantedToACrowd(t *testing.T) {
	for _, wait := range []time.Duration{time.Millisecond, 200 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			const n = 1000
			l := newLocker(t, far(30*time.Millisecond), lock.WithPermits(1, n), lock.WithWait(wait))
			var crowd []*waiter
			for range n {
				crowd = append(crowd, await(t.Context(), l, "k"))
			}
			time.Sleep(time.Second)
			for _, w := range crowd {
				release(t, w.got(t))
			}
		})
	}
}

// A large crowd of fair waiters has its places in the store soon, and no call names more
// than a thousand.
func TestALargeFairCrowdHasItsPlacesSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n, most = 1500, 1000
		store := newFaulty()
		l := newLocker(t, store, fair)
		held := acquire(t, l, t.Context(), "k")
		var named atomic.Int64
		store.set(only("acquire", func(c lock.Claim) error {
			named.Store(max(named.Load(), int64(len(c.Places))))
			time.Sleep(time.Millisecond)
			return nil
		}), nil)
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for range n {
			all.Go(func() { _, _ = l.Acquire(ctx, "k") })
		}
		time.Sleep(time.Second)
		state, err := l.Inspect(t.Context(), "k")
		if places := len(state.Waiters) + state.MoreWaiters; err != nil || places != n {
			t.Errorf("%d places for %d who wait, %v", places, n, err)
		}
		if named := named.Load(); named > most {
			t.Errorf("%d named in one call", named)
		}
		cancel()
		all.Wait()
		release(t, held)
	})
}

// A store whose permits are all taken is not called for each of a crowd. When they
// come back, the crowd is not served one by one.
func TestACrowdForPermitsThatAreTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n, call = 1000, 30 * time.Millisecond
		store := newFaulty()
		l, other := newLocker(t, store), newLocker(t, store.Store)
		held := acquire(t, other, t.Context(), "k", lock.WithPermits(n, n))
		store.set(nil, only("acquire", func(lock.Claim) error { time.Sleep(call); return nil }))
		var crowd []<-chan outcome
		for range n {
			crowd = append(crowd, start(t, l, t.Context(), lock.WithPermits(1, n)))
		}
		time.Sleep(500 * time.Millisecond)
		if calls := store.count("acquire"); calls > 200 {
			t.Errorf("%d calls for %d who wait", calls, n)
		}
		freed := time.Now()
		release(t, held)
		for _, w := range crowd {
			o := <-w
			if o.err != nil {
				t.Fatal(o.err)
			}
			if waited := o.at.Sub(freed); waited > n*call/4 {
				t.Fatalf("waited for %v", waited)
			}
			defer release(t, o.lease)
		}
	})
}

// A claim of many permits is not passed by small ones that came later, although there
// are enough for these, and the permits come and go.
func TestALargeClaimOfPermitsIsNotPassed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size, call = 8, 10 * time.Millisecond
		l := newLocker(t, far(call))
		one := lock.WithPermits(1, size)
		var held []*lock.Lease
		for range size / 2 {
			held = append(held, acquire(t, l, t.Context(), "k", one))
		}
		large := start(t, l, t.Context(), lock.WithPermits(size, size))
		time.Sleep(5 * call)
		waits(t, "the large one", large)
		var small []<-chan outcome
		for i := range 100 {
			small = append(small, start(t, l, t.Context(), one))
			if i%20 == 0 && len(held) > 0 {
				release(t, held[0])
				held = held[1:]
			}
			time.Sleep(call / 3)
		}
		for _, lease := range held {
			release(t, lease)
		}
		first := <-large
		if first.err != nil {
			t.Fatal(first.err)
		}
		for _, w := range small {
			waits(t, "a small one", w)
		}
		release(t, first.lease)
		for _, w := range small {
			o := <-w
			if o.err != nil {
				t.Fatal(o.err)
			}
			release(t, o.lease)
		}
	})
}

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

// cost is what the CPU does for f.
func cost(f func()) time.Duration {
	before := used()
	f()
	return used() - before
}

func used() time.Duration {
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// Four times the waiters cost four times as much, and not sixteen times. What else runs on
// the machine only adds, so the least of three runs counts, or of nine if it must.
func TestACrowdCostsInProportion(t *testing.T) {
	for name, opt := range map[string]lock.Option{"readers": reading, "permits": lock.WithPermits(1, 1)} {
		t.Run(name, func(t *testing.T) {
			crowd := func(n int) time.Duration {
				return cost(func() { synctest.Test(t, func(t *testing.T) { serve(t, n, opt) }) })
			}
			few, many := lock.MaxDuration, lock.MaxDuration
			for run := 1; run <= 9; run++ {
				few, many = min(few, crowd(2000)), min(many, crowd(8000))
				if run >= 3 && many <= 8*few {
					return
				}
			}
			t.Errorf("2,000 cost %v, and 8,000 %v", few, many)
		})
	}
}

// serve lets n callers of one process wait for a key, and get it.
func serve(t *testing.T, n int, opt lock.Option) {
	t.Helper()
	store := &barrier{shut: true}
	l := newLocker(t, lineTo(store), opt)
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() { release(t, acquire(t, l, t.Context(), "k")) })
	}
	time.Sleep(500 * time.Millisecond)
	store.open()
	wg.Wait()
}

// barrier is a store that grants nothing, and then everything.
type barrier struct {
	keyless

	mu   sync.Mutex
	shut bool
	wake []func()
}

func (b *barrier) Acquire(_ context.Context, _ lock.Claim, _ time.Time, answer lock.Answer) {
	time.Sleep(time.Millisecond)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.shut {
		answer.Answered(0, &lock.BusyError{TTL: time.Hour})
		return
	}
	answer.Answered(lock.FenceStep, nil)
}

func (b *barrier) Watch(_ context.Context, _ lock.Claim, wake func()) (func(), error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.wake = append(b.wake, wake)
	return func() {}, nil
}

func (b *barrier) open() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.shut = false
	go b.wake[len(b.wake)-1]()
}

// Fair callers of one process follow each other at once, also where no wake-up is
// heard, and ask for wake-ups as one.
func TestFairCallersOfAProcessNeedNoMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		store.set(only("watch", func(lock.Claim) error {
			time.Sleep(10 * time.Millisecond)
			return errors.New("no channels permitted")
		}), nil)
		l := newLocker(t, store, fair)
		held := acquire(t, l, t.Context(), "k")
		var crowd []<-chan outcome
		for range 10 {
			crowd = append(crowd, start(t, l, t.Context()))
		}
		time.Sleep(lock.DefaultPoll / 2)
		watches, begun := store.count("watch"), time.Now()
		release(t, held)
		for i, w := range crowd {
			o := <-w
			if o.err != nil {
				t.Fatal(i, o.err)
			}
			release(t, o.lease)
		}
		if took := time.Since(begun); took > 100*time.Millisecond {
			t.Errorf("ten callers took %v", took)
		}
		if n := store.count("watch") - watches; n > 1 {
			t.Errorf("%d tries to subscribe", n)
		}
	})
}

// A process has no place for a fair waiter that it would not let call: its turn would
// pass unused.
func TestAFairWaiterBehindAPlainOneHasNoPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		l, other := newLocker(t, store), newLocker(t, store, fair)
		plain := lock.WithMode(lock.Exclusive)
		places := func(want int) {
			t.Helper()
			synctest.Wait()
			if state, _ := store.Inspect(t.Context(), "k"); len(state.Waiters) != want {
				t.Errorf("%d places, want %d", len(state.Waiters), want)
			}
		}
		held := acquire(t, other, t.Context(), "k")
		queue := []<-chan outcome{start(t, l, t.Context(), fair), start(t, l, t.Context(), plain), start(t, l, t.Context(), fair)}
		time.Sleep(4 * time.Second)
		places(1)
		begun := time.Now()
		release(t, held)
		for i, w := range queue {
			o := <-w
			if o.err != nil || o.at.Sub(begun) > time.Second {
				t.Fatalf("caller %d: %v, after %v", i, o.err, o.at.Sub(begun))
			}
			release(t, o.lease)
		}

		held = acquire(t, other, t.Context(), "k")
		ctx, cancel := context.WithCancel(t.Context())
		queue = []<-chan outcome{start(t, l, t.Context(), fair), start(t, l, ctx, plain), start(t, l, t.Context(), fair)}
		cancel()
		<-queue[1]
		places(2)
		release(t, held)
		release(t, granted(t, "the first", queue[0]))
		release(t, granted(t, "the last", queue[2]))
	})
}

// However the waiters came, no place is left unnamed for much longer than it should be.
func TestPlacesAreNamedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 60
		store := newFaulty()
		l, other := newLocker(t, store, fair), newLocker(t, store.Store, fair)
		held := acquire(t, other, t.Context(), "k")
		var mu sync.Mutex
		named, longest := make(map[string]time.Time), time.Duration(0)
		store.set(only("acquire", func(c lock.Claim) error {
			mu.Lock()
			defer mu.Unlock()
			for _, place := range c.Places {
				if at, ok := named[place]; ok {
					longest = max(longest, time.Since(at))
				}
				named[place] = time.Now()
			}
			return nil
		}), nil)
		var waiting []<-chan outcome
		for range n {
			waiting = append(waiting, start(t, l, t.Context()))
			time.Sleep(97 * time.Millisecond)
		}
		time.Sleep(10 * time.Second)
		mu.Lock()
		if len(named) != n || longest > 2500*time.Millisecond+lock.DefaultPoll {
			t.Errorf("%d places for %d waiters, one unnamed for %v", len(named), n, longest)
		}
		mu.Unlock()
		release(t, held)
		for i, w := range waiting {
			release(t, granted(t, fmt.Sprint("waiter ", i), w))
		}
	})
}
