package main

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/quorum"
	"github.com/redlatch/redlatch/core/redisstore"
	"github.com/redlatch/redlatch/test/internal/redistest"
)

type quorumLocker struct {
	*lock.Locker

	store *quorum.Store
}

func newQuorum(clients []*redis.Client) (*quorumLocker, error) {
	var stores []lock.Store
	for _, rdb := range clients { // one for each pool
		stores = append(stores, redisstore.New(rdb, redisstore.WithSETNX()))
	}
	store, err := quorum.New(stores...)
	if err != nil {
		return nil, err
	}
	locker := lock.New(store, lock.WithPoll(100*time.Millisecond)) // while old processes run
	return &quorumLocker{locker, store}, nil
}

// Old processes with redsync on three servers, and new ones with a quorum of the same.
func TestAQuorumAndRedsyncExcludeEachOther(t *testing.T) {
	var clients []*redis.Client
	var pools []redsyncredis.Pool
	for _, server := range redistest.Independent(t, 3) {
		rdb := server.Client(t)
		clients, pools = append(clients, rdb), append(pools, goredis.NewPool(rdb))
	}
	ours, err := newQuorum(clients)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := errors.Join(ours.Close(ctx), ours.store.Close(ctx)); err != nil {
			t.Error(err)
		}
	})
	theirs := redsync.New(pools...)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()

	t.Run("held", func(t *testing.T) {
		m := theirs.NewMutex("held")
		if err := m.LockContext(ctx); err != nil {
			t.Fatal(err)
		}
		if _, err := ours.TryAcquire(ctx, "held"); !errors.Is(err, lock.ErrBusy) {
			t.Errorf("a lock of redsync: %v, want ErrBusy", err)
		}
		if state, err := ours.Inspect(ctx, "held"); err != nil || len(state.Owners) != 1 || state.Owners[0].Owner != m.Value() {
			t.Errorf("%+v, %v; want the token of redsync as the owner", state, err)
		}
		if _, err := m.UnlockContext(ctx); err != nil {
			t.Fatal(err)
		}
		lease, err := ours.Acquire(ctx, "held")
		if err != nil {
			t.Fatal(err)
		}
		var taken *redsync.ErrTaken
		if err := theirs.NewMutex("held").TryLockContext(ctx); !errors.As(err, &taken) {
			t.Errorf("redsync finds our lock: %v, want ErrTaken", err)
		}
		if err := lease.Release(ctx); err != nil {
			t.Fatal(err)
		}
	})

	t.Run("crowd", func(t *testing.T) {
		const rounds = 20
		var inside atomic.Int32
		work := func() {
			if inside.Add(1) != 1 {
				t.Error("two are inside at a time")
			}
			for _, rdb := range clients { // some time
				rdb.Ping(ctx)
			}
			inside.Add(-1)
		}
		var running sync.WaitGroup
		for range 2 {
			running.Go(func() {
				for range rounds {
					m := theirs.NewMutex("crowd", redsync.WithTries(1<<30), redsync.WithRetryDelay(retry))
					if err := m.LockContext(ctx); err != nil {
						t.Error(err)
						return
					}
					work()
					if _, err := m.UnlockContext(ctx); err != nil {
						t.Error(err)
					}
				}
			})
			running.Go(func() {
				for range rounds {
					err := ours.Do(ctx, "crowd", func(context.Context) error { work(); return nil }, lock.WithPoll(retry))
					if err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		running.Wait()
	})
}
