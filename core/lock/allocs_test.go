package lock_test

import (
	"errors"
	"testing"

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
	if cycle > 17 || refused > 4 {
		t.Errorf("%v allocations for a cycle, %v for a refused try", cycle, refused)
	}
}
