package main

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/redisstore"
)

// kind is what a process takes locks with.
type kind string

const (
	withRedsync   kind = "redsync"
	withRedislock kind = "bsm/redislock"
	byHand        kind = "SETNX by hand"
	withRedisPy   kind = "redis-py"
	withRedlock   kind = "node-redlock"
	oursAsSETNX   kind = "redlatch, WithSETNX"
	oursAsHash    kind = "redlatch"
)

// missing says why the kind cannot be run here, if it cannot.
func (k kind) missing() string {
	if k == withRedisPy && python() == "" {
		return "there is no Python with the package redis (python3-redis in Debian)"
	}
	if k == withRedlock && exec.Command(node, "-e", `require("redlock"); require("ioredis")`).Run() != nil {
		return "there is no Node with the packages in node/package.json (make migrate installs these)"
	}
	return ""
}

// node finds its packages by NODE_PATH.
const node = "node"

// python is an interpreter that has redis-py, empty if there is none.
func python() string {
	for _, path := range []string{"python3", "/usr/bin/python3"} {
		if exec.Command(path, "-c", "import redis.lock").Run() == nil {
			return path
		}
	}
	return ""
}

const (
	// ttl is how long a lock outlives a process that was killed.
	ttl = 5 * time.Second
	// retry is how soon a busy lock is tried again, by everybody.
	retry = 5 * time.Millisecond
)

// unlock releases a lock.
type unlock func(ctx context.Context) error

// locker takes locks, and waits for them until ctx ends. The fence is 0 where
// there is none.
type locker interface {
	lock(ctx context.Context, key string) (fence uint64, release unlock, err error)
	close(ctx context.Context) error
}

// open makes a locker in Go.
func (k kind) open(rdb *redis.Client) (locker, error) {
	switch k {
	case withRedsync:
		return redsyncLocker{redsync.New(goredis.NewPool(rdb))}, nil
	case withRedislock:
		return redislockLocker{redislock.New(rdb)}, nil
	case byHand:
		return handLocker{rdb}, nil
	case oursAsSETNX:
		return ourLocker{newLocker(redisstore.New(rdb, redisstore.WithSETNX()))}, nil
	case oursAsHash:
		return ourLocker{newLocker(redisstore.New(rdb))}, nil
	}
	return nil, fmt.Errorf("%q is no library in Go", k)
}

func newLocker(store lock.Store) *lock.Locker {
	return lock.New(store, lock.WithWatchdog(ttl), lock.WithPoll(retry))
}

type redsyncLocker struct{ sync *redsync.Redsync }

func (l redsyncLocker) lock(ctx context.Context, key string) (uint64, unlock, error) {
	m := l.sync.NewMutex(key, redsync.WithExpiry(ttl), redsync.WithTries(1<<30), redsync.WithRetryDelay(retry))
	if err := m.LockContext(ctx); err != nil {
		return 0, nil, fmt.Errorf("redsync: %w", err)
	}
	return 0, func(ctx context.Context) error {
		if ok, err := m.UnlockContext(ctx); err != nil || !ok {
			return fmt.Errorf("redsync: unlock: %v, %w", ok, err)
		}
		return nil
	}, nil
}

func (redsyncLocker) close(context.Context) error { return nil }

type redislockLocker struct{ client *redislock.Client }

func (l redislockLocker) lock(ctx context.Context, key string) (uint64, unlock, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Hour) // without a deadline it waits for ttl at most
	defer cancel()
	held, err := l.client.Obtain(ctx, key, ttl, &redislock.Options{RetryStrategy: redislock.LinearBackoff(retry)})
	if err != nil {
		return 0, nil, fmt.Errorf("redislock: %w", err)
	}
	return 0, held.Release, nil
}

func (redislockLocker) close(context.Context) error { return nil }

// handLocker is what most programs write themselves.
type handLocker struct{ rdb *redis.Client }

var compareAndDelete = redis.NewScript(`
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`)

func (l handLocker) lock(ctx context.Context, key string) (uint64, unlock, error) {
	token := base64.StdEncoding.EncodeToString([]byte(rand.Text()))
	for {
		ok, err := l.rdb.SetNX(ctx, key, token, ttl).Result()
		if err != nil {
			return 0, nil, fmt.Errorf("by hand: %w", err)
		}
		if ok {
			break
		}
		if err := pause(ctx, retry); err != nil {
			return 0, nil, err
		}
	}
	return 0, func(ctx context.Context) error {
		n, err := compareAndDelete.Run(ctx, l.rdb, []string{key}, token).Int()
		if err == nil && n == 0 {
			err = errors.New("by hand: not the owner")
		}
		return err
	}, nil
}

func (handLocker) close(context.Context) error { return nil }

type ourLocker struct{ locker *lock.Locker }

func (l ourLocker) lock(ctx context.Context, key string) (uint64, unlock, error) {
	lease, err := l.locker.Acquire(ctx, key)
	if err != nil {
		return 0, nil, err
	}
	return lease.Fence(), lease.Release, nil
}

func (l ourLocker) close(ctx context.Context) error { return l.locker.Close(ctx) }

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// program is how to run a worker of a kind.
func (k kind) program() (path string, args []string, err error) {
	switch k {
	case withRedisPy:
		return python(), []string{"-c", workerPy}, nil
	case withRedlock:
		path, err = exec.LookPath(node)
		return path, []string{"-e", workerJS, "--"}, err
	}
	path, err = os.Executable()
	return path, nil, err
}
