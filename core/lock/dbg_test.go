//go:build machine

package lock_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

func TestDbg(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		l := newLocker(t, store)
		lease := acquire(t, l, t.Context(), "k", lock.WithLease(29*time.Second))
		<-lease.Context().Done()
		store.set(func(op string, c lock.Claim) error { println("call", op, c.Undo, c.TTL); return nil }, func(op string, c lock.Claim) error { println("done", op, c.Undo, c.TTL); return nil })
	})
}
