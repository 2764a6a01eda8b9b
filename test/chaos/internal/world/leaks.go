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

// Crew is what a run knows of its workers when they have ended.
type Crew struct {
	// Killed says of the lockers of all workers, by ID, whether they were killed, or
	// closed while the servers didn't answer.
	Killed map[string]bool
	// Longest is the longest TTL of what they held.
	Longest time.Duration
	// Forgetful: servers may have lost the release of what they kept.
	Forgetful bool
}

// Leaks lists what is left of workers that have ended: connections,
// subscriptions, and keys. One that ends by itself leaves nothing. One that
// was killed leaves what it had, for as long as that would have lasted.
func (w *World) Leaks(ctx context.Context, crew Crew) []string {
	var leaks []string
	add := func(err error) {
		if err != nil {
			leaks = append(leaks, err.Error())
		}
	}
	add(process.Poll(patience, w.connections))
	if w.Database != nil {
		add(process.Poll(patience/10, func() error { return w.leftRows(ctx, &crew) }))
		add(process.Poll(crew.Longest+2*patience, func() error { return w.leftRows(ctx, nil) })) // a place in a queue has 15 s
		return leaks
	}
	add(process.Poll(patience, func() error { return w.subscriptions(ctx) }))
	add(process.Poll(patience/10, func() error { return w.keys(ctx, crew.Check) }))
	w.revive(ctx)
	add(process.Poll(crew.Longest+patience, func() error {
		return w.keys(ctx, func(_ context.Context, _ *redis.Client, key string) error { return left(key, "when all has expired") })
	}))
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
	for i := range w.Plain {
		channels, err := w.channels(ctx, i)
		if err != nil {
			return fmt.Errorf("server %d: %w", i, err)
		}
		if len(channels) > 0 {
			return fmt.Errorf("server %d has subscribers of %q", i, channels[0])
		}
	}
	return nil
}

// keys calls f for every key of every master.
func (w *World) keys(ctx context.Context, f func(ctx context.Context, rdb *redis.Client, key string) error) error {
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
			if err := f(ctx, rdb, scan.Val()); err != nil {
				return err
			}
		}
		if err := scan.Err(); err != nil {
			return fmt.Errorf("server %d: %w", i, err)
		}
	}
	return nil
}

func isQueue(key string) bool {
	return strings.HasPrefix(key, "redisson_lock_queue:") || strings.HasPrefix(key, "redisson_lock_timeout:")
}

func isCount(key string) bool { return strings.HasPrefix(key, "semaphore:") }

func isPermits(key string) bool { return strings.Contains(key, "{semaphore:") }

// revive takes each lock once whose last waiters or owners were killed.
func (w *World) revive(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	_ = w.keys(ctx, func(ctx context.Context, rdb *redis.Client, key string) error {
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
			_ = l.Do(ctx, name, func(context.Context) error { return nil }, append(options, lock.WithLease(patience/10), lock.WithWait(3*patience))...)
		})
		return nil
	})
}

// age makes an hour pass for those in a queue: each that is dead would be
// waited for, for seconds.
func age(ctx context.Context, rdb *redis.Client, timeouts string) error {
	waiting, err := rdb.ZRange(ctx, timeouts, 0, -1).Result()
	for _, name := range waiting {
		// The ones that are gone by now must not come back.
		older := redis.ZAddArgs{XX: true, Members: []redis.Z{{Score: -float64(time.Hour.Milliseconds()), Member: name}}}
		if e := rdb.ZAddArgsIncr(ctx, timeouts, older).Err(); !errors.Is(e, redis.Nil) {
			err = errors.Join(err, e)
		}
	}
	return err
}
