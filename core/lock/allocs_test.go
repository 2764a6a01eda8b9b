package lock_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
)

func TestAcquisitionsAllocateLittle(t *testing.T) {
	l := newLocker(t, memstore.New())
	cycle := testing.AllocsPerRun(1000, func() {
		lease, err := l.Acquire(t.Context(), "free")
		if err == nil {
			err = lease.Release(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
	})
	acquire(t, l, t.Context(), "taken")
	refused := testing.AllocsPerRun(1000, func() {
		if _, err := l.TryAcquire(t.Context(), "taken"); !errors.Is(err, lock.ErrBusy) {
			t.Fatal(err)
		}
	})
	if cycle > 5 || refused > 2 {
		t.Errorf("%v allocations for a cycle, %v for a refused try", cycle, refused)
	}
}

// keyless is a store that grants everything, and keeps nothing.
type keyless struct{ lock.Store }

func (keyless) Traits() lock.Traits { return lock.Traits{Immediate: true, Spaced: true} }

func (keyless) Acquire(_ context.Context, _ lock.Claim, _ time.Time, answer lock.Answer) {
	answer.Answered(lock.FenceStep, nil)
}

func (keyless) Release(_ context.Context, _ lock.Claim, _ time.Time, answer lock.Answer) {
	answer.Answered(0, nil)
}

func (keyless) Renew(_ context.Context, claims []lock.Claim, report func(int, error)) {
	for i := range claims {
		report(i, nil)
	}
}

// 430 to 480 bytes in 2 objects, as the tables grow by doubling, and no goroutine.
func TestAHeldLockTakesLittleMemory(t *testing.T) {
	const locks = 10_000
	l := newLocker(t, keyless{})
	keys, leases := make([]string, locks), make([]*lock.Lease, locks)
	for i := range keys {
		keys[i] = fmt.Sprint("order:", i)
	}
	running, before := runtime.NumGoroutine(), live()
	for i, key := range keys {
		leases[i] = acquire(t, l, t.Context(), key)
	}
	after := live()
	bytes, objects := float64(after.HeapAlloc-before.HeapAlloc)/locks, float64(after.HeapObjects-before.HeapObjects)/locks
	if bytes > 512 || objects > 2.5 {
		t.Errorf("%.0f bytes in %.1f objects", bytes, objects)
	}
	if now := goroutines(running); now > running {
		t.Errorf("%d goroutines more", now-running)
	}
	runtime.KeepAlive(leases)
}

// live is what the heap has that is in use.
func live() (stats runtime.MemStats) {
	runtime.GC()
	runtime.GC() // what finalizers and pools kept
	runtime.ReadMemStats(&stats)
	return stats
}
