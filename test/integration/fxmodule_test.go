package integration_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/fx"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/redisstore"
	"github.com/redlatch/redlatch/fxmodule"
	"github.com/redlatch/redlatch/test/internal/redistest"
)

// application is one process's share of locks on a server.
type application struct {
	*fx.App
	locker *lock.Locker
	health *fxmodule.Health
}

func startApplication(t *testing.T, rdb *redis.Client, config fxmodule.Config) *application {
	t.Helper()
	a := &application{}
	a.App = fx.New(fxmodule.Module, fxmodule.WithConfig(config), fx.Supply(rdb, slog.New(slog.DiscardHandler)),
		fx.NopLogger, fx.Populate(&a.locker, &a.health))
	if err := a.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return a
}

// stop stops the application within a timeout, and returns how long it took.
func (a *application) stop(t *testing.T, timeout time.Duration) (took time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	began := time.Now()
	if err := a.Stop(ctx); err != nil {
		t.Errorf("stop: %v", err)
	}
	return time.Since(began)
}

func TestAnApplicationStopsWhenItsHoldersAreDone(t *testing.T) {
	server := redistest.Standalone(t)
	a := startApplication(t, server.Client(t), fxmodule.Config{})
	if err := a.health.Check(t.Context()); err != nil {
		t.Errorf("health before the stop: %v", err)
	}
	lease := acquire(t, a.locker, "lock:order:42")
	queued := make(chan error, 1)
	go func() { // a caller of the same process that waits for the key
		_, err := a.locker.Acquire(context.Background(), "lock:order:42")
		queued <- err
	}()
	elsewhere := newLocker(t, server.Client(t))
	next := make(chan error, 1)
	go func() { // and one of another process
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		lease, err := elsewhere.Acquire(ctx, "lock:order:42")
		if err == nil {
			err = lease.Release(ctx)
		}
		next <- err
	}()
	done := make(chan error, 1)
	go func() { // the holder goes on until its process has refused the queued one
		if err := <-queued; !errors.Is(err, lock.ErrClosed) {
			t.Errorf("the caller that waited got %v, want ErrClosed", err)
		}
		if err := a.health.Check(context.Background()); !errors.Is(err, lock.ErrClosed) {
			t.Errorf("health during the stop: %v, want ErrClosed", err)
		}
		if err := lock.AssertHeld(lease.Context(), "lock:order:42"); err != nil {
			t.Errorf("the holder, at work: %v", err)
		}
		done <- lease.Release(context.Background())
	}()
	if took := a.stop(t, patience); took >= patience/2 {
		t.Errorf("stopped after %v, although the holder was done at once", took)
	}
	if err := <-done; err != nil {
		t.Errorf("the holder lost its lock: %v", err)
	}
	if err := <-next; err != nil {
		t.Errorf("the other process: %v", err)
	}
}

func TestAnApplicationThatMustStopReleasesItsLocks(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	rdb := server.Client(t)
	a := startApplication(t, rdb, fxmodule.Config{ReleaseTimeout: 2 * time.Second})
	leases := []*lock.Lease{acquire(t, a.locker, "lock:a"), acquire(t, a.locker, "lock:b", lock.WithMode(lock.Fair))}
	const timeout = 4 * time.Second
	if took := a.stop(t, timeout); took >= timeout {
		t.Errorf("stopped after %v, want less than %v", took, timeout)
	}
	for _, lease := range leases {
		if cause := context.Cause(lease.Context()); !errors.Is(cause, lock.ErrClosed) {
			t.Errorf("%s ended with %v, want ErrClosed", lease.Key(), cause)
		}
		state, err := redisstore.New(rdb).Inspect(t.Context(), lease.Key())
		if err != nil || state.Held {
			t.Errorf("%s is held: %v, %v", lease.Key(), state.Held, err)
		}
	}
}

func TestHealthFollowsRedis(t *testing.T) {
	server := redistest.Standalone(t)
	a := startApplication(t, server.Client(t), fxmodule.Config{CheckTimeout: time.Second})
	defer a.stop(t, patience)
	if err := a.health.Check(t.Context()); err != nil {
		t.Errorf("before: %v", err)
	}
	server.Kill()
	if err := a.health.Check(t.Context()); err == nil {
		t.Error("healthy without Redis")
	}
	server.Restart()
	eventually(t, func() error { return a.health.Check(t.Context()) })
}
