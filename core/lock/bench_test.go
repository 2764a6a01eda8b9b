package lock_test

import (
	"context"
	"testing"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
)

// BenchmarkAcquire takes a free key and gives it back: what every request pays.
// "remote" is a store that has to be called on a goroutine, as Redis is.
func BenchmarkAcquire(b *testing.B) {
	for _, bench := range []struct {
		name  string
		store lock.Store
		opts  []lock.Option
	}{
		{"memory", memstore.New(), nil},
		{"remote", lock.Async(newRemote()), nil},
	} {
		b.Run(bench.name, func(b *testing.B) {
			l := lock.New(bench.store, bench.opts...)
			defer func() { _ = l.Close(context.Background()) }()
			b.ReportAllocs()
			for b.Loop() {
				lease, err := l.Acquire(b.Context(), "k")
				if err != nil {
					b.Fatal(err)
				}
				if err := lease.Release(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
