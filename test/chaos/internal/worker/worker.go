package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/redisstore"
	"github.com/redlatch/redlatch/test/chaos/internal/bug"
	"github.com/redlatch/redlatch/test/chaos/internal/history"
	"github.com/redlatch/redlatch/test/internal/process"
)

// shutdown is how long the locker may take to end.
const shutdown = 20 * time.Second

// Run is the whole life of a worker: until ctx ends, or it is killed. Its last
// event tells whether anything that it started is left.
func Run(ctx context.Context, c Config) error {
	// Many processes share few processors: fewer threads wake each other less.
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(800)
	page, err := history.NewPage(c.Record)
	if err != nil {
		return err
	}
	defer page.Close() //nolint:errcheck // the file is complete
	r := &record{clock: c.Clock, worker: c.Worker, life: c.Life, page: page}
	if err := serve(ctx, c, r); err != nil {
		return err
	}
	exit := history.Event{Kind: history.Exit, Call: r.clock.Now(), Outcome: history.OK}
	// Redis clients sleep off a failed dial for a second, closed or not.
	if err := process.Poll(5*time.Second, func() error { return goleak.Find() }); err != nil {
		exit.Outcome, exit.Note = history.Lost, err.Error()
	}
	r.add(exit)
	return r.failed()
}

// serve runs the clients and ends everything they used.
func serve(ctx context.Context, c Config, r *record) error {
	quiet := slog.New(slog.DiscardHandler)
	store, closeStore, err := c.Redis.open([]redisstore.Option{redisstore.WithLogger(quiet)},
		func(s lock.Store, rdb redis.UniversalClient) (lock.Store, error) { return bug.Plant(c.Bug, s, rdb) })
	if err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	locker := lock.New(&tap{store, r}, lock.WithWatchdog(c.Load.Lease), lock.WithPoll(100*time.Millisecond))
	var clients sync.WaitGroup
	failed := make(chan error, c.Clients)
	for i := range c.Clients {
		clients.Go(func() {
			if err := newClient(c, i, locker, r).run(ctx); err != nil {
				failed <- err
			}
		})
	}
	clients.Wait()
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdown)
	defer cancel()
	close(failed)
	for e := range failed {
		err = errors.Join(err, e)
	}
	return errors.Join(err, locker.Close(closing), closeStore())
}
