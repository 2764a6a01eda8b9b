package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"go.uber.org/goleak"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/redisstore"
	"github.com/redlatch/redlatch/test/chaos/internal/bug"
	"github.com/redlatch/redlatch/test/chaos/internal/history"
	"github.com/redlatch/redlatch/test/internal/process"
)

// Poll is how long waiters rely on wake-ups.
const Poll = 100 * time.Millisecond

// Identity is what the name of the file ends with that has the ID of a worker's
// locker. It begins as that of the record does.
const Identity = ".id"

// Unclean is what the name of a file ends with that is there if a locker was closed
// while the servers didn't answer. It begins as that of the record does.
const Unclean = ".unclean"

// shutdown is how long the locker may take to end.
const shutdown = 20 * time.Second

// Run is the whole life of a worker: until ctx ends, or it is killed. Its last
// event reports whether anything that it started is left.
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
	planted, err := bug.Named(c.Bug)
	if err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	format := []redisstore.Option{redisstore.WithLogger(quiet)}
	if c.Load.SETNX {
		format = append(format, redisstore.WithSETNX())
	}
	store, closeStore, err := c.Redis.open(planted, format)
	if err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	p := &pulse{record: r}
	options := []lock.Option{lock.WithWatchdog(c.Load.Lease), lock.WithPoll(Poll), lock.WithHooks(p.hooks())}
	if !c.Load.Handoff {
		options = append(options, lock.WithHandoff(0, 0))
	}
	locker := lock.New(&tap{store, r}, append(options, planted.Options()...)...)
	if err := os.WriteFile(c.Record+Identity, []byte(locker.ID()), 0o600); err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	var watch sync.WaitGroup
	watch.Go(func() { p.run(watching) })
	defer watch.Wait()
	defer stop()
	idle := runtime.NumGoroutine()
	err = work(ctx, c, locker, planted, r)
	if c.Worker%2 == 0 { // the others find out what Close does in the middle of it
		p.settle(idle)
	}
	kept := keepUntilClose(ctx, c, locker, planted, r)
	planted.Closing()
	failed := closeLocker(ctx, c, locker, r)
	if failed == nil {
		remains(ctx, store, kept, r)
	}
	return errors.Join(err, failed, closeStore())
}

// closeLocker notes if the store didn't answer: the judge knows whether it could.
func closeLocker(ctx context.Context, c Config, locker *lock.Locker, r *record) error {
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdown)
	defer cancel()
	e := history.Event{Kind: history.Close, Call: r.clock.Now(), Outcome: history.OK}
	err := locker.Close(closing)
	e.Return = r.clock.Now()
	if errors.Is(err, lock.ErrUnavailable) {
		e.Outcome, e.Note = history.Unknown, err.Error()
		err = os.WriteFile(c.Record+Unclean, nil, 0o600)
	}
	r.add(e)
	return err
}

// work runs the clients and the candidates until ctx ends.
func work(ctx context.Context, c Config, locker *lock.Locker, planted *bug.Bug, r *record) (err error) {
	var clients sync.WaitGroup
	failed := make(chan error, c.Clients+c.Load.Offices+listeners)
	for i := range c.Load.Offices {
		clients.Go(func() {
			if err := newCandidate(c, i, locker, planted, r).run(ctx); err != nil {
				failed <- err
			}
		})
	}
	for i := range c.Clients {
		clients.Go(func() {
			if err := newClient(c, i, locker, planted, r).run(ctx); err != nil {
				failed <- err
			}
		})
	}
	for i := range listeners {
		clients.Go(func() {
			if err := newListener(c, i, locker, planted, r).run(ctx); err != nil {
				failed <- err
			}
		})
	}
	clients.Wait()
	close(failed)
	for e := range failed {
		err = errors.Join(err, e)
	}
	return err
}
