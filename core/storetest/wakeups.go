package storetest

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

// counted watches for the owner of c.
func (b *bench) counted(c lock.Claim) (hints *atomic.Int32, stop func()) {
	b.Helper()
	hints = new(atomic.Int32)
	stop, err := b.BlockingStore.Watch(b.Context(), c, func() { hints.Add(1) })
	if err != nil {
		b.Fatalf("Watch: %v", err)
	}
	return hints, stop
}

// listen watches with c, and returns a func that runs a cause and waits for a hint.
func (b *bench) listen(c lock.Claim) (heard func(what string, cause func())) {
	b.Helper()
	hints, stop := b.counted(c)
	b.Cleanup(stop)
	return func(what string, cause func()) {
		b.Helper()
		before := hints.Load()
		cause()
		b.eventually("wake-up: "+what, func() bool { return hints.Load() > before })
	}
}

// visit acquires the key for a new owner, and releases it.
func (b *bench) visit(key string) {
	b.Helper()
	c := b.owner(key)(minute)
	b.acquire(c)
	b.release(c, nil)
}

func releaseWakes(_ *testing.T, b *bench) {
	first, stopFirst := b.counted(b.owner("k")(minute))
	second := b.listen(b.owner("k")(minute))
	for range 20 {
		before := first.Load()
		second("the key is free", func() { b.visit("k") })
		b.eventually("the first wakes as well", func() bool { return first.Load() > before })
	}
	stopFirst()
	second("one leaving takes nothing from the other", func() { b.visit("k") })
}

func releaseCounts(_ *testing.T, b *bench) {
	release := func() uint64 {
		b.Helper()
		c := b.owner("k")(minute)
		b.acquire(c)
		answers := make(chan uint64, 1)
		b.store.Release(b.Context(), c, time.Now().Add(minute), lock.AnswerFunc(func(n uint64, err error) {
			if err != nil {
				b.Errorf("Release: %v", err)
			}
			answers <- n
		}))
		return <-answers
	}
	_, first := b.counted(b.owner("k")(minute))
	_, second := b.counted(b.owner("k")(minute))
	n := release()
	first()
	second()
	if n == 0 {
		b.Skip("who watches is not known")
	}
	if n != 3 {
		b.Errorf("two watch, and a release says %d, want 3", n)
	}
	b.eventually("nobody watches", func() bool { return release() == 1 })
}

func forceWakes(_ *testing.T, b *bench) {
	heard := b.listen(b.owner("k")(minute))
	b.acquire(b.owner("k")(minute))
	heard("force release", func() { b.force("k") })
	b.acquire(b.owner("k")(minute))
}

func silentAfterStop(_ *testing.T, b *bench) {
	var stopped, late atomic.Bool
	stop, err := b.BlockingStore.Watch(b.Context(), b.owner("k")(minute), func() {
		if stopped.Load() {
			late.Store(true)
		}
	})
	if err != nil {
		b.Fatalf("Watch: %v", err)
	}
	witness := b.listen(b.owner("k")(minute))
	together(8, func(i int) {
		if i == 0 {
			stop()
			stopped.Store(true)
			return
		}
		for range 10 {
			c := b.owner("k")(minute)
			if _, err := b.BlockingStore.Acquire(b.Context(), c); err == nil {
				_ = b.BlockingStore.Release(b.Context(), c)
			}
		}
	})
	witness("a release", func() { b.visit("k") })
	if late.Load() {
		b.Error("wake was called after stop had returned")
	}
}

func watchStorm(_ *testing.T, b *bench) {
	together(16, func(i int) {
		key := "k" + string(rune('a'+i%3))
		for range 15 {
			stop, err := b.BlockingStore.Watch(b.Context(), b.owner(key)(minute), func() {})
			if err != nil {
				b.Errorf("Watch: %v", err)
				return
			}
			stop()
		}
	})
	heard := b.listen(b.owner("ka")(minute))
	heard("a release", func() { b.visit("ka") })
}
