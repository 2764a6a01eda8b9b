package integration_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/redisstore"
	"github.com/redlatch/redlatch/core/storetest"
	"github.com/redlatch/redlatch/test/internal/redistest"
)

var withoutBoth = []redisstore.Option{redisstore.WithoutScriptPublish(), redisstore.WithoutScriptTime()}

// On one server: TestTheRulesOfProducts.
func TestCommandsBehindScriptsKeepTheContract(t *testing.T) {
	t.Run("cluster", func(t *testing.T) {
		t.Parallel() // most of the time nothing happens
		store := redisstore.New(redistest.Cluster(t).Client(t), withoutBoth...)
		storetest.Run(t, func(*testing.T) lock.Store { return store }, storetest.Require(lock.Read, lock.Write))
	})
	t.Run("cluster, the SETNX format", func(t *testing.T) {
		t.Parallel() // most of the time nothing happens
		store := setnxStore(redistest.Cluster(t).Client(t), withoutBoth...)
		storetest.Run(t, func(*testing.T) lock.Store { return store })
	})
	t.Run("with replicas", func(t *testing.T) {
		t.Parallel() // most of the time nothing happens
		server := redistest.Standalone(t)
		_, _ = follow(t, server)
		store := redisstore.New(server.Client(t), append(withoutBoth, redisstore.WithReplicas(1, 2*time.Second))...)
		storetest.Run(t, func(*testing.T) lock.Store { return store }, storetest.Require(lock.Read, lock.Write))
	})
}

func TestModesThatNeedMoreInTheirScripts(t *testing.T) {
	l := lockerOn(t, redisstore.New(redistest.Standalone(t).Client(t), withoutBoth...))
	for why, opt := range map[string]lock.Option{
		"WithoutScriptPublish": lock.WithMode(lock.Fair), "WithoutScriptTime": lock.WithPermits(1, 2),
	} {
		if _, err := l.TryAcquire(t.Context(), "k", opt); !errors.Is(err, lock.ErrUnsupported) || !strings.Contains(err.Error(), why) {
			t.Errorf("got %v, want ErrUnsupported by %s", err, why)
		}
	}
}

// A lock whose slot moved can be had again at once, and its
// fences grow all the same.
func TestTheClockOfALockThatMoves(t *testing.T) {
	set := redistest.Cluster(t)
	l := lockerOn(t, redisstore.New(set.Client(t), withoutBoth...))
	var last uint64
	for range 3 {
		lease := acquire(t, l, "k")
		if lease.Fence() <= last {
			t.Errorf("fence %d after %d", lease.Fence(), last)
		}
		last = lease.Fence()
		release(t, lease)
		migrate(t, set, "k")
	}
}
