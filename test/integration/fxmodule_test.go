package integration_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/fx"
	"go.uber.org/fx/fxtest"

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

// What a store that is made with each setting of redis does, and another one
// doesn't.
func TestEverySettingOfRedisReachesTheStore(t *testing.T) {
	t.Parallel() // most of the time nothing happens
	server := redistest.Standalone(t)
	type tried struct {
		looks  redis.UniversalClient // as an administrator
		locker *lock.Locker
		key    string
		lease  *lock.Lease
		err    error
	}
	exists := func(key string) func(t *testing.T, a tried) bool {
		return func(t *testing.T, a tried) bool {
			t.Helper()
			return a.looks.Exists(t.Context(), fmt.Sprintf(key, a.key)).Val() == 1
		}
	}
	failed := func(want error) func(t *testing.T, a tried) bool {
		return func(t *testing.T, a tried) bool {
			t.Helper()
			return errors.Is(a.err, want)
		}
	}
	lacks := func(option lock.Option) func(t *testing.T, a tried) bool {
		return func(t *testing.T, a tried) bool {
			t.Helper()
			_, err := a.locker.TryAcquire(t.Context(), a.key+"/other", option)
			return errors.Is(err, lock.ErrUnsupported)
		}
	}
	neverOpens := func(t *testing.T, a tried) bool {
		t.Helper()
		for range 20 {
			if _, err := a.locker.TryAcquire(t.Context(), a.key); errors.Is(err, lock.ErrCircuitOpen) {
				return false
			}
		}
		return true
	}
	for name, test := range map[string]struct {
		redis       fxmodule.Redis
		callTimeout time.Duration                                         // 0: the default
		on          func(t *testing.T) (rdb, looks redis.UniversalClient) // nil: server
		shows       func(t *testing.T, a tried) bool
	}{
		"keyPrefix": {redis: fxmodule.Redis{KeyPrefix: "shop:"}, shows: exists("shop:%s")},
		"polling": {redis: fxmodule.Redis{Polling: true}, shows: func(t *testing.T, a tried) bool {
			t.Helper()
			if err := a.looks.ConfigResetStat(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
			_ = acquire(t, newLocker(t, server.Client(t)), a.key+"/other", lock.WithLease(short))
			_ = acquire(t, a.locker, a.key+"/other") // it has waited, so it has subscribed if it does that at all
			return !strings.Contains(a.looks.Info(t.Context(), "commandstats").Val(), "cmdstat_subscribe:")
		}},
		"publish": {
			redis: fxmodule.Redis{Publish: "both"},
			on: func(t *testing.T) (rdb, looks redis.UniversalClient) {
				t.Helper()
				only := redistest.Standalone(t, "--cluster-enabled", "yes")
				admin := only.Admin(t)
				if err := admin.ClusterAddSlotsRange(t.Context(), 0, 16383).Err(); err != nil {
					t.Fatal(err)
				}
				eventually(t, func() error { return admin.Set(t.Context(), "k", 1, time.Millisecond).Err() })
				login := only.Client(t).Options()
				cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{only.Addr()}, Username: login.Username, Password: login.Password})
				t.Cleanup(func() { _ = cluster.Close() })
				return cluster, admin
			},
			shows: func(t *testing.T, a tried) bool {
				t.Helper()
				if err := a.lease.Release(t.Context()); err != nil {
					t.Fatal(err)
				}
				stats := a.looks.Info(t.Context(), "commandstats").Val()
				return strings.Contains(stats, "cmdstat_publish:") && strings.Contains(stats, "cmdstat_spublish:")
			},
		},
		"replicas":   {redis: fxmodule.Redis{Replicas: 1, ReplicasTimeout: 10 * time.Millisecond}, shows: failed(lock.ErrUnavailable)},
		"quarantine": {redis: fxmodule.Redis{Quarantine: time.Hour}, shows: failed(redisstore.ErrQuarantine)},
		"circuitFailures": {
			redis: fxmodule.Redis{CircuitFailures: -1}, callTimeout: 200 * time.Millisecond, on: deadClient, shows: neverOpens,
		},
		"redissonTokens": {redis: fxmodule.Redis{RedissonTokens: true}, shows: exists("redisson_lock_token:{%s}")},
		"setnx": {redis: fxmodule.Redis{SETNX: true}, shows: func(t *testing.T, a tried) bool {
			t.Helper()
			return a.looks.Type(t.Context(), a.key).Val() == "string"
		}},
		"withoutScriptPublish": {redis: fxmodule.Redis{WithoutScriptPublish: true}, shows: lacks(lock.WithMode(lock.Fair))},
		"withoutScriptTime":    {redis: fxmodule.Redis{WithoutScriptTime: true}, shows: lacks(lock.WithPermits(1, 2))},
	} {
		for _, with := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s %v", name, with), func(t *testing.T) {
				rdb, looks := redis.UniversalClient(server.Client(t)), redis.UniversalClient(server.Admin(t))
				if test.on != nil {
					rdb, looks = test.on(t)
				}
				config := fxmodule.Config{CallTimeout: test.callTimeout}
				if with {
					config.Redis = test.redis
				}
				lifecycle := fxtest.NewLifecycle(t)
				made, err := fxmodule.New(fxmodule.Params{Lifecycle: lifecycle, Universal: rdb, Config: config})
				if err != nil {
					t.Fatal(err)
				}
				a := tried{looks: looks, locker: made.Locker, key: fmt.Sprintf("%s:%v", name, with)}
				a.lease, a.err = made.Locker.TryAcquire(t.Context(), a.key)
				if shown := test.shows(t, a); shown != with {
					t.Errorf("the store shows it: %v; the lock: %v", shown, a.err)
				}
				if err := made.Locker.Close(context.Background()); err != nil && !errors.Is(err, lock.ErrUnavailable) {
					t.Error(err)
				}
			})
		}
	}
}

// deadClient is a client of a server that doesn't run.
func deadClient(t *testing.T) (rdb, looks redis.UniversalClient) {
	t.Helper()
	dead := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", DialerRetries: 1, MaxRetries: -1})
	t.Cleanup(func() { _ = dead.Close() })
	return dead, nil
}
