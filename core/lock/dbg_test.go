//go:build machine

package lock_test

import (
	"errors"
	"testing"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
)

func BenchmarkDbgCycle(b *testing.B) {
	l := lock.New(memstore.New())
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		lease, err := l.Acquire(ctx, "free")
		if err == nil {
			err = lease.Release(ctx)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDbgRefused(b *testing.B) {
	l := lock.New(memstore.New())
	ctx := b.Context()
	_, _ = l.Acquire(ctx, "taken")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := l.TryAcquire(ctx, "taken"); !errors.Is(err, lock.ErrBusy) {
			b.Fatal(err)
		}
	}
}
