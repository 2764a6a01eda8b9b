package lock_test

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
)

// benchStores are the kinds of stores: "remote" is one that has to be called on a goroutine,
// as Redis is.
var benchStores = map[string]func() lock.Store{
	"memory": func() lock.Store { return memstore.New() },
	"remote": func() lock.Store { return lock.Async(newRemote()) },
}

// benchLocker is a locker on a new store.
func benchLocker(b *testing.B, store func() lock.Store) *lock.Locker {
	b.Helper()
	l := lock.New(store())
	b.Cleanup(func() { _ = l.Close(context.Background()) })
	b.ReportAllocs()
	return l
}

// cycle takes a key and releases it.
func cycle(ctx context.Context, l *lock.Locker, key string) error {
	lease, err := l.Acquire(ctx, key)
	if err != nil {
		return err
	}
	return lease.Release(ctx)
}

// BenchmarkAcquire takes a free key and releases it: what every request pays.
func BenchmarkAcquire(b *testing.B) {
	for name, store := range benchStores {
		b.Run(name, func(b *testing.B) {
			l := benchLocker(b, store)
			for b.Loop() {
				if err := cycle(b.Context(), l, "k"); err != nil {
					b.Error(err)
				}
			}
		})
	}
}

// BenchmarkAcquireOneOfMany is BenchmarkAcquire while 10,000 other keys are held.
func BenchmarkAcquireOneOfMany(b *testing.B) {
	for name, store := range benchStores {
		b.Run(name, func(b *testing.B) {
			l := benchLocker(b, store)
			for i := range 10_000 {
				if _, err := l.Acquire(b.Context(), "held:"+strconv.Itoa(i)); err != nil {
					b.Fatal(err)
				}
			}
			for b.Loop() {
				if err := cycle(b.Context(), l, "k"); err != nil {
					b.Error(err)
				}
			}
		})
	}
}

// BenchmarkAcquireParallel is BenchmarkAcquire on several goroutines, each with its key.
func BenchmarkAcquireParallel(b *testing.B) {
	for name, store := range benchStores {
		b.Run(name, func(b *testing.B) {
			l := benchLocker(b, store)
			var n atomic.Int64
			b.SetParallelism(8)
			b.RunParallel(func(pb *testing.PB) {
				key := strconv.FormatInt(n.Add(1), 10)
				for pb.Next() {
					if err := cycle(b.Context(), l, key); err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
}

// BenchmarkAcquireContended is one key that several goroutines pass on.
func BenchmarkAcquireContended(b *testing.B) {
	for name, store := range benchStores {
		b.Run(name, func(b *testing.B) {
			l := benchLocker(b, store)
			b.SetParallelism(8)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if err := cycle(b.Context(), l, "k"); err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
}

// BenchmarkTryRefused is a try of a key that is held.
func BenchmarkTryRefused(b *testing.B) {
	for name, store := range benchStores {
		b.Run(name, func(b *testing.B) {
			l := benchLocker(b, store)
			if _, err := l.Acquire(b.Context(), "k"); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if _, err := l.TryAcquire(b.Context(), "k"); !errors.Is(err, lock.ErrBusy) {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkReenter takes a key that the context holds, and releases it.
func BenchmarkReenter(b *testing.B) {
	for name, store := range benchStores {
		b.Run(name, func(b *testing.B) {
			l := benchLocker(b, store)
			lease, err := l.Acquire(b.Context(), "k")
			if err != nil {
				b.Fatal(err)
			}
			ctx := lease.Context()
			for b.Loop() {
				if err := cycle(ctx, l, "k"); err != nil {
					b.Error(err)
				}
			}
		})
	}
}
