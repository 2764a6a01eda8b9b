package integration_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/test/internal/faultproxy"
	"github.com/redlatch/redlatch/test/internal/redistest"
)

// A script runs, and its reply is lost: with a client that resends by
// default, under the engine. The hold count stays right, no key is orphaned,
// and nobody sees an error.
func TestALostReplyIsNoError(t *testing.T) {
	server := redistest.Standalone(t)
	proxy := faultproxy.New(t, server.Addr())
	rdb := redis.NewClient(&redis.Options{Addr: proxy.Addr()})
	t.Cleanup(func() { _ = rdb.Close() })
	plain := server.Admin(t)
	l := newLocker(t, rdb, lock.WithWatchdog(3*time.Second))
	release(t, acquire(t, l, "warm-up")) // the server knows the scripts now

	t.Run("acquire", func(t *testing.T) {
		cut := proxy.CutReplyWhen(faultproxy.Contains("evalsha", "by-acquire"), 1)
		lease := acquire(t, l, "by-acquire")
		wantHit(t, cut)
		wantHolds(t, plain, "by-acquire", "1")
		release(t, lease)
		wantFree(t, plain, "by-acquire")
	})
	t.Run("going on as a reader", func(t *testing.T) {
		writes := acquire(t, l, "by-lower", lock.WithMode(lock.Write))
		reads, err := l.Acquire(context.WithoutCancel(writes.Context()), "by-lower", lock.WithMode(lock.Read))
		if err != nil {
			t.Fatal(err)
		}
		cut := proxy.CutReplyWhen(faultproxy.Contains("eval", "by-lower", "redisson_rwlock"), 1)
		release(t, writes)
		wantHit(t, cut)
		wantLock(t, plain, "by-lower", map[string]string{"mode": "read", reads.Owner(): "1"})
		release(t, reads)
		wantFree(t, plain, "by-lower")
	})
	t.Run("renew", func(t *testing.T) {
		lease := acquire(t, l, "by-renew")
		cut := proxy.CutReplyWhen(faultproxy.Contains("by-renew"), 1)
		select {
		case <-cut.Hit():
		case <-time.After(patience):
			t.Fatal("no renewal came")
		}
		before := lease.Deadline()
		eventually(t, func() error { // a later renewal went through
			if lease.Deadline().After(before) {
				return nil
			}
			return context.DeadlineExceeded
		})
		if lease.Context().Err() != nil {
			t.Errorf("lost: %v", context.Cause(lease.Context()))
		}
		wantHolds(t, plain, "by-renew", "1")
		release(t, lease)
		wantFree(t, plain, "by-renew")
	})
	t.Run("release", func(t *testing.T) {
		lease := acquire(t, l, "by-release")
		cut := proxy.CutReplyWhen(faultproxy.Contains("evalsha", "redisson_lock__channel:{by-release}"), 1)
		release(t, lease)
		wantHit(t, cut)
		wantFree(t, plain, "by-release")
	})
	t.Run("every third call, until it is repeated", func(t *testing.T) {
		var mu sync.Mutex
		seen := make(map[string]bool)
		cut := proxy.CutReplyWhen(func(request []byte) bool {
			mu.Lock()
			defer mu.Unlock()
			if !faultproxy.Contains("storm")(request) || seen[string(request)] {
				return false
			}
			seen[string(request)] = true
			return len(seen)%3 == 0
		}, -1)
		defer cut.Remove()
		for range 50 {
			lease := acquire(t, l, "storm")
			wantHolds(t, plain, "storm", "1")
			release(t, lease)
			wantFree(t, plain, "storm")
		}
		if cut.Hits() == 0 {
			t.Error("nothing was cut")
		}
	})
}

func wantHit(t *testing.T, rule *faultproxy.Rule) {
	t.Helper()
	if rule.Hits() != 1 {
		t.Fatalf("the fault was injected %d times, want once", rule.Hits())
	}
}

func wantFree(t *testing.T, rdb redis.UniversalClient, key string) {
	t.Helper()
	if n, err := rdb.Exists(context.Background(), key).Result(); err != nil || n != 0 {
		t.Errorf("%s: %d keys, %v; want it free", key, n, err)
	}
}

// An acquire that is given up while Redis hangs may run when it wakes up.
func TestGivingUpOnAHangingRedisLeavesNoOrphan(t *testing.T) {
	server := redistest.Standalone(t)
	plain := server.Admin(t)
	l := newLocker(t, server.Client(t))
	release(t, acquire(t, l, "warm-up"))
	server.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := l.Acquire(ctx, "k"); err == nil {
		t.Fatal("granted by a stopped server")
	}
	server.Cont()
	eventually(t, func() error {
		if n := plain.Exists(context.Background(), "k").Val(); n != 0 {
			return errOrphan
		}
		return nil
	})
}
