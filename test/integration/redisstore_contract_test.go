package integration_test

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/redisstore"
	"github.com/redlatch/redlatch/core/storetest"
	"github.com/redlatch/redlatch/test/internal/redistest"
)

var everyMode = []lock.Mode{lock.Exclusive, lock.Fair, lock.Read, lock.Write, lock.Semaphore}

func TestRedisStoreKeepsTheContract(t *testing.T) {
	t.Run("standalone", func(t *testing.T) {
		t.Parallel() // most of the time nothing happens
		server := redistest.Standalone(t)
		storetest.Run(t, func(t *testing.T) lock.Store { return redisstore.New(server.Client(t)) }, storetest.Require(everyMode...))
	})
	t.Run("standalone, the older protocol", func(t *testing.T) {
		t.Parallel() // most of the time nothing happens
		server := redistest.Standalone(t)
		rdb := newClient(t, &redis.Options{Addr: server.Addr(), Protocol: 2})
		storetest.Run(t, func(*testing.T) lock.Store { return redisstore.New(rdb) })
	})
	t.Run("sentinel", func(t *testing.T) {
		t.Parallel()
		set := redistest.Sentinel(t)
		storetest.Run(t, func(t *testing.T) lock.Store { return redisstore.New(set.Client(t)) }, storetest.Require(everyMode...))
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		set := redistest.Cluster(t)
		storetest.Run(t, func(t *testing.T) lock.Store { return redisstore.New(set.Client(t)) }, storetest.Require(everyMode...))
		t.Run("reading from replicas", func(t *testing.T) {
			rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: set.Addrs(), ReadOnly: true, DisableIdentity: true})
			t.Cleanup(func() { _ = rdb.Close() })
			storetest.Run(t, func(*testing.T) lock.Store { return redisstore.New(rdb) })
		})
	})
}
