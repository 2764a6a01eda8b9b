package world

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/redisstore"
	"github.com/redlatch/redlatch/test/chaos/internal/worker"
	"github.com/redlatch/redlatch/test/internal/process"
)

// patience is how long things may take that take time only on a busy machine.
const patience = 10 * time.Second

// handover is how long a release holds a fair lock for the next of its queue,
// who may have been killed.
const handover = 5 * time.Second

// Leaks lists what is left of workers that have ended: connections,
// subscriptions, and keys after the lease time.
func (w *World) Leaks(ctx context.Context, lease time.Duration) []string {
	var leaks []string
	add := func(err error) {
		if err != nil {
			leaks = append(leaks, err.Error())
		}
	}
	add(process.Poll(patience, w.connections))
	add(process.Poll(patience, func() error { return w.subscriptions(ctx) }))
	add(process.Poll(lease+patience/10, func() error { return w.holds(ctx, isInherited) }))
	add(process.Poll(handover+patience/10, func() error { return w.holds(ctx, nil) }))
	w.revive(ctx)
	add(process.Poll(patience, func() error { return w.rest(ctx) }))
	return leaks
}

func (w *World) connections() error {
	open := 0
	for _, links := range w.Links {
		for _, link := range links {
			open += link.Connections()
		}
	}
	if open > 0 {
		return fmt.Errorf("%d connections are left", open)
	}
	return nil
}

func (w *World) subscriptions(ctx context.Context) error {
	for i, rdb := range w.Plain {
		channels, err := rdb.PubSubChannels(ctx, "*").Result()
		if err != nil {
			return fmt.Errorf("server %d: %w", i, err)
		}
		if w.Topology == worker.Cluster {
			sharded, err := rdb.PubSubShardChannels(ctx, "*").Result()
			if err != nil {
				return fmt.Errorf("server %d: %w", i, err)
			}
			channels = append(channels, sharded...)
		}
		for _, channel := range channels {
			if strings.HasPrefix(channel, "redisson_") {
				return fmt.Errorf("server %d has subscribers of %q", i, channel)
			}
		}
	}
	return nil
}

// keys calls f for every key of every master.
func (w *World) keys(ctx context.Context, f func(rdb *redis.Client, key string) error) error {
	for i, rdb := range w.Plain {
		role, err := rdb.Do(ctx, "ROLE").Slice()
		if err != nil {
			return fmt.Errorf("server %d: %w", i, err)
		}
		if role[0] != "master" {
			continue
		}
		scan := rdb.Scan(ctx, 0, "*", 1000).Iterator()
		for scan.Next(ctx) {
			if err := f(rdb, scan.Val()); err != nil {
				return err
			}
		}
		if err := scan.Err(); err != nil {
			return fmt.Errorf("server %d: %w", i, err)
		}
	}
	return nil
}

// Keys of a fair lock that stay behind when a waiter is killed, until somebody
// wants the lock, and the number of free permits, which stays: all as in
// Redisson.
func isQueue(key string) bool {
	return strings.HasPrefix(key, "redisson_lock_queue:") || strings.HasPrefix(key, "redisson_lock_timeout:")
}

func isCount(key string) bool { return strings.HasPrefix(key, "semaphore:") }

// isPermits: of permits whose owner was killed, until somebody wants some.
func isPermits(key string) bool { return strings.Contains(key, "{semaphore:") }

// isInherited: of locks that may have been handed to a waiter that was killed.
func isInherited(key string) bool { return strings.HasPrefix(key, "fair:") }

// holds says whether anything is held, but for the keys that are left out.
func (w *World) holds(ctx context.Context, leftOut func(key string) bool) error {
	return w.keys(ctx, func(_ *redis.Client, key string) error {
		if isQueue(key) || isCount(key) || isPermits(key) || leftOut != nil && leftOut(key) {
			return nil
		}
		return fmt.Errorf("the key %q is left", key)
	})
}

// rest says whether anything is left once every lock was used again.
func (w *World) rest(ctx context.Context) error {
	return w.keys(ctx, func(rdb *redis.Client, key string) error {
		if !isCount(key) {
			return fmt.Errorf("the key %q is left", key)
		}
		if n, err := rdb.Get(ctx, key).Int(); err != nil || n != worker.SemaphoreSize {
			return fmt.Errorf("%q has %d of %d permits: %w", key, n, worker.SemaphoreSize, err)
		}
		return nil
	})
}

// revive takes each lock once whose last waiters or owners were killed.
func (w *World) revive(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	_ = w.keys(ctx, func(rdb *redis.Client, key string) error {
		options := []lock.Option{lock.WithMode(lock.Fair)}
		name := key
		switch {
		case isQueue(key):
			name = strings.TrimSuffix(key[strings.Index(key, "{")+1:], "}")
			if err := age(ctx, rdb, "redisson_lock_timeout:{"+name+"}"); err != nil {
				return err
			}
		case isCount(key):
			options = []lock.Option{lock.WithPermits(worker.SemaphoreSize, worker.SemaphoreSize)}
		default:
			return nil
		}
		wg.Go(func() {
			l := lock.New(redisstore.New(rdb))
			defer l.Close(context.WithoutCancel(ctx)) //nolint:errcheck // what it could not end shows as left
			_ = l.Do(ctx, name, func(context.Context) error { return nil }, append(options, lock.WithWait(3*patience))...)
		})
		return nil
	})
}

// age makes an hour pass for those in a queue: each that is dead would be
// waited for, for seconds.
func age(ctx context.Context, rdb *redis.Client, timeouts string) error {
	waiting, err := rdb.ZRange(ctx, timeouts, 0, -1).Result()
	for _, name := range waiting {
		// Those that are gone by now must not come back.
		older := redis.ZAddArgs{XX: true, Members: []redis.Z{{Score: -float64(time.Hour.Milliseconds()), Member: name}}}
		if e := rdb.ZAddArgsIncr(ctx, timeouts, older).Err(); !errors.Is(e, redis.Nil) {
			err = errors.Join(err, e)
		}
	}
	return err
}
