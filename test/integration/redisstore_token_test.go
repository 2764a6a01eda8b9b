package integration_test

import (
	"errors"
	"testing"
	"time"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/redisstore"
	"github.com/redlatch/redlatch/core/storetest"
	"github.com/redlatch/redlatch/test/internal/redistest"
)

func TestRedissonTokens(t *testing.T) {
	server := redistest.Standalone(t)
	plain := server.Admin(t)
	store := redisstore.New(server.Client(t), redisstore.WithRedissonTokens())
	t.Run("the contract", func(t *testing.T) {
		t.Parallel()
		storetest.Run(t, func(*testing.T) lock.Store { return store })
	})
	t.Run("count up by one for each grant, with Redisson's key", func(t *testing.T) {
		claim := lock.Claim{Key: "fenced", Owner: "5f0c0e1a-9d5a-4c9e-8f57-0d9a3c1f7b11:1", TTL: time.Minute}
		acquire := func(want uint64) {
			t.Helper()
			if fence, err := lock.Blocking(store).Acquire(t.Context(), claim); err != nil || fence != want {
				t.Errorf("fence %d, %v; want %d", fence, err, want)
			}
		}
		acquire(1)
		acquire(1) // the reply was lost
		if fields := hash(t, plain, "fenced"); len(fields) != 1 || fields[claim.Owner] != "1" {
			t.Errorf("the lock is %v", fields)
		}
		if err := lock.Blocking(store).Release(t.Context(), claim); err != nil {
			t.Fatal(err)
		}
		// Java takes it with getFencedLock and gives it back.
		if n := plain.Incr(t.Context(), "redisson_lock_token:{fenced}").Val(); n != 2 {
			t.Errorf("Java's token is %d, want 2", n)
		}
		claim.Owner = claim.Owner + "1"
		acquire(3)
		if ttl := plain.TTL(t.Context(), "redisson_lock_token:{fenced}").Val(); ttl != -1 {
			t.Errorf("the counter expires in %v", ttl)
		}
	})
	t.Run("are above zero, or nothing is granted", func(t *testing.T) {
		const counter = "redisson_lock_token:{negative}"
		plain.Set(t.Context(), counter, -1, 0)
		claim := lock.Claim{Key: "negative", Owner: "a:1", TTL: time.Minute}
		var failed *lock.StoreError
		for range 3 {
			if _, err := lock.Blocking(store).Acquire(t.Context(), claim); !errors.As(err, &failed) {
				t.Errorf("got %v, want a failure", err)
			}
		}
		if n := plain.Get(t.Context(), counter).Val(); n != "-1" {
			t.Errorf("the counter is %s", n)
		}
		if fields := hash(t, plain, "negative"); len(fields) > 0 {
			t.Errorf("the lock is %v", fields)
		}
	})
	t.Run("rise as far as a script can count, and then nothing is granted", func(t *testing.T) {
		const counter = "redisson_lock_token:{large}"
		plain.Set(t.Context(), counter, int64(1<<53-2), 0)
		claim := lock.Claim{Key: "large", Owner: "a:1", TTL: time.Minute}
		for range 2 { // the reply was lost
			if fence, err := lock.Blocking(store).Acquire(t.Context(), claim); err != nil || fence != 1<<53-1 {
				t.Errorf("fence %d, %v", fence, err)
			}
		}
		if err := lock.Blocking(store).Release(t.Context(), claim); err != nil {
			t.Fatal(err)
		}
		claim.Owner = "a:2"
		for range 3 {
			var failed *lock.StoreError
			if fence, err := lock.Blocking(store).Acquire(t.Context(), claim); !errors.As(err, &failed) {
				t.Errorf("fence %d, %v; want a failure", fence, err)
			}
		}
		if n := plain.Get(t.Context(), counter).Val(); n != "9007199254740991" {
			t.Errorf("the counter is %s", n)
		}
		if fields := hash(t, plain, "large"); len(fields) > 0 {
			t.Errorf("the lock is %v", fields)
		}
	})
	t.Run("other modes and groups are refused or done without", func(t *testing.T) {
		l := lock.New(store)
		defer func() { _ = l.Close(t.Context()) }()
		if _, err := l.Acquire(t.Context(), "k", lock.WithMode(lock.Fair)); !errors.Is(err, lock.ErrUnsupported) {
			t.Errorf("fair: %v, want ErrUnsupported", err)
		}
		all, err := lock.AcquireAll(t.Context(), l.Request("a"), l.Request("b"))
		if err != nil {
			t.Fatal(err)
		}
		for _, lease := range all.Each() {
			if lease.Fence() != 1 {
				t.Errorf("%s has fence %d, want its counter's 1", lease.Key(), lease.Fence())
			}
		}
		if err := all.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
