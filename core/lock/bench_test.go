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
var benchStores = []struct {
	name string
	new  func() lock.Store
}{
	{"memory", func() lock.Store { return memstore.New() }},
	{"remote", func() lock.Store { return lock.Async(newRemote()) }},
}

// overStores runs a benchmark with a locker on each kind of store.
func overStores(b *testing.B, bench func(b *testing.B, l *lock.Locker)) {
	for _, s := range benchStores {
		b.Run(s.name, func(b *testing.B) {
			l := lock.New(s.new())
			defer func() { _ = l.Close(context.Background()) }()
			b.ReportAllocs()
			bench(b, l)
		})
	}
}

// cycle takes a key and releases it.
func cycle(b *testing.B, l *lock.Locker, ctx context.Context, key string) {
	lease, err := l.Acquire(ctx, key)
	if err == nil {
		err = lease.Release(ctx)
	}
	if err != nil {
		b.Error(err)
	}
}

// BenchmarkAcquire takes a free key and releases it: what every request pays.
func BenchmarkAcquire(b *testing.B) {
	overStores(b, func(b *testing.B, l *lock.Locker) {
		for b.Loop() {
			cycle(b, l, b.Context(), "k")
		}
	})
}

// BenchmarkAcquireOneOfMany is BenchmarkAcquire while 10,000 other keys are held.
func BenchmarkAcquireOneOfMany(b *testing.B) {
	overStores(b, func(b *testing.B, l *lock.Locker) {
		for i := range 10_000 {
			if _, err := l.Acquire(b.Context(), "held:"+strconv.Itoa(i)); err != nil {
				b.Fatal(err)
			}
		}
		for b.Loop() {
			cycle(b, l, b.Context(), "k")
		}
	})
}

// BenchmarkAcquireParallel is BenchmarkAcquire on several goroutines, each with its key.
func BenchmarkAcquireParallel(b *testing.B) {
	overStores(b, func(b *testing.B, l *lock.Locker) {
		var n atomic.Int64
		b.SetParallelism(8)
		b.RunParallel(func(pb *testing.PB) {
			key := strconv.FormatInt(n.Add(1), 10)
			for pb.Next() {
				cycle(b, l, b.Context(), key)
			}
		})
	})
}

// BenchmarkAcquireContended is one key that several goroutines pass on.
func BenchmarkAcquireContended(b *testing.B) {
	overStores(b, func(b *testing.B, l *lock.Locker) {
		b.SetParallelism(8)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				cycle(b, l, b.Context(), "k")
			}
		})
	})
}

// BenchmarkTryRefused is a try of a key that is held.
func BenchmarkTryRefused(b *testing.B) {
	overStores(b, func(b *testing.B, l *lock.Locker) {
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

// BenchmarkReenter takes a key that the context holds, and releases it.
func BenchmarkReenter(b *testing.B) {
	overStores(b, func(b *testing.B, l *lock.Locker) {
		lease, err := l.Acquire(b.Context(), "k")
		if err != nil {
			b.Fatal(err)
		}
		ctx := lease.Context()
		for b.Loop() {
			cycle(b, l, ctx, "k")
		}
	})
}
