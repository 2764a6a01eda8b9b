package storetest

import (
	"sync/atomic"
	"testing"
	"time"
)

// watch subscribes and returns a channel that holds a hint after a wake-up.
func (b *bench) watch(key string) (hints chan struct{}, stop func()) {
	b.Helper()
	hints = make(chan struct{}, 1)
	stop, err := b.Store.Watch(b.Context(), b.owner(key)(1, minute), func() {
		select {
		case hints <- struct{}{}:
		default:
		}
	})
	if err != nil {
		b.Fatalf("Watch: %v", err)
	}
	return hints, stop
}

func (b *bench) awaitHint(hints <-chan struct{}) {
	b.Helper()
	select {
	case <-hints:
	case <-time.After(patience):
		b.Fatal("no wake-up came")
	}
}

func releaseWakes(_ *testing.T, b *bench) {
	first, stopFirst := b.watch("k")
	second, stopSecond := b.watch("k")
	defer stopSecond()
	for range 20 {
		a := b.owner("k")
		b.acquire(a(1, minute))
		b.release(a(0, minute), nil)
		b.awaitHint(first)
		b.awaitHint(second)
	}
	stopFirst()
	a := b.owner("k")
	b.acquire(a(1, minute))
	b.release(a(0, minute), nil)
	b.awaitHint(second) // one leaving takes nothing from the other
}

func forceWakes(_ *testing.T, b *bench) {
	hints, stop := b.watch("k")
	defer stop()
	b.acquire(b.owner("k")(1, minute))
	if freed, err := b.Store.ForceRelease(b.Context(), b.key("k")); err != nil || !freed {
		b.Fatalf("ForceRelease: %v, %v", freed, err)
	}
	b.awaitHint(hints)
	b.acquire(b.owner("k")(1, minute))
}

func silentAfterStop(_ *testing.T, b *bench) {
	var stopped, late atomic.Bool
	stop, err := b.Store.Watch(b.Context(), b.owner("k")(1, minute), func() {
		if stopped.Load() {
			late.Store(true)
		}
	})
	if err != nil {
		b.Fatalf("Watch: %v", err)
	}
	witness, stopWitness := b.watch("k")
	defer stopWitness()
	together(8, func(i int) {
		if i == 0 {
			stop()
			stopped.Store(true)
			return
		}
		for range 10 {
			a := b.owner("k")
			if _, err := b.Store.Acquire(b.Context(), a(1, minute)); err == nil {
				_ = b.Store.Release(b.Context(), a(0, minute))
			}
		}
	})
	a := b.owner("k")
	b.acquire(a(1, minute))
	b.release(a(0, minute), nil)
	b.awaitHint(witness)
	if late.Load() {
		b.Error("wake was called after stop had returned")
	}
}

func watchStorm(_ *testing.T, b *bench) {
	together(16, func(i int) {
		key := "k" + string(rune('a'+i%3))
		for range 15 {
			stop, err := b.Store.Watch(b.Context(), b.owner(key)(1, minute), func() {})
			if err != nil {
				b.Errorf("Watch: %v", err)
				return
			}
			stop()
		}
	})
	hints, stop := b.watch("ka")
	defer stop()
	a := b.owner("ka")
	b.acquire(a(1, minute))
	b.release(a(0, minute), nil)
	b.awaitHint(hints)
}
