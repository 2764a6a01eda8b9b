package integration_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/redisstore"
	"github.com/redlatch/redlatch/test/internal/redistest"
)

// exhaust lets blocking commands take every connection of a client's pool, and
// queue for more, until the test ends.
func exhaust(t *testing.T, rdb redis.UniversalClient, key string, n int) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var blocked sync.WaitGroup
	for range n {
		blocked.Go(func() {
			for ctx.Err() == nil {
				_ = rdb.BLPop(ctx, time.Second, key).Err()
			}
		})
	}
	t.Cleanup(func() {
		cancel()
		blocked.Wait()
	})
}

// keeps fails unless a lease of key outlives several of its watchdogs although
// the application's blocking commands leave the pool no connection.
func keeps(t *testing.T, rdb redis.UniversalClient, key string) {
	t.Helper()
	const watchdog = 2 * time.Second
	var mu sync.Mutex
	var renewed, failed int
	l := lock.New(redisstore.New(rdb), lock.WithWatchdog(watchdog), lock.WithHooks(lock.Hooks{
		Renewed: func(e lock.RenewEvent) {
			mu.Lock()
			defer mu.Unlock()
			if e.Err != nil {
				failed++
				t.Logf("renewal: %v", e.Err)
			} else {
				renewed++
			}
		},
	}))
	defer func() { _ = l.Close(context.Background()) }()
	lease, err := l.Acquire(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	exhaust(t, rdb, key+":list", 4)
	deadline := time.After(3 * watchdog)
	select {
	case <-lease.Context().Done():
		t.Errorf("the lease ended: %v", context.Cause(lease.Context()))
	case <-deadline:
	}
	if stats := rdb.PoolStats(); stats.WaitCount == 0 && stats.Timeouts == 0 {
		t.Errorf("the pool was never exhausted: %+v", stats)
	}
	mu.Lock()
	defer mu.Unlock()
	if renewed < 3 {
		t.Errorf("%d renewals, %d failed", renewed, failed)
	}
}

func TestRenewalsGetThroughWhenThePoolIsExhausted(t *testing.T) {
	t.Parallel()
	t.Run("standalone", func(t *testing.T) {
		server := redistest.Standalone(t)
		server.Permit(t, "+blpop")
		rdb := redis.NewClient(&redis.Options{Addr: server.Addr(), PoolSize: 2, DisableIdentity: true})
		t.Cleanup(func() { _ = rdb.Close() })
		keeps(t, rdb, "orders")
	})
	t.Run("cluster", func(t *testing.T) {
		set := redistest.Cluster(t)
		for _, node := range set.Nodes() {
			node.Permit(t, "+blpop")
		}
		rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: set.Addrs(), PoolSize: 2, DisableIdentity: true})
		t.Cleanup(func() { _ = rdb.Close() })
		keeps(t, rdb, "{orders}")
	})
}
