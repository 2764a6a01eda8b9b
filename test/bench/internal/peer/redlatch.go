package peer

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
	"github.com/redlatch/redlatch/core/redisstore"
)

type redlatch struct {
	rdb    io.Closer
	locker *lock.Locker
}

type lease struct{ *lock.Lease }

func (l lease) Unlock(ctx context.Context) error { return l.Release(ctx) }

func (l lease) Holder() context.Context { return l.Context() }

// openRedlatch opens a locker with default options and those given.
func openRedlatch(opts ...lock.Option) func(Settings) (Locker, error) {
	return func(s Settings) (Locker, error) {
		rdb := redis.NewUniversalClient(&redis.UniversalOptions{Addrs: strings.Split(s.Addr, ","), ContextTimeoutEnabled: true})
		opts := append([]lock.Option{lock.WithWatchdog(s.Lease)}, opts...)
		return redlatch{rdb: rdb, locker: lock.New(redisstore.New(rdb), opts...)}, nil
	}
}

// openSETNX opens a locker whose locks have the format of the floor.
func openSETNX(s Settings) (Locker, error) {
	rdb := newClient(s)
	return redlatch{rdb: rdb, locker: lock.New(redisstore.New(rdb, redisstore.WithSETNX()), lock.WithWatchdog(s.Lease))}, nil
}

// openMemory opens a locker whose locks are in memory.
func openMemory(s Settings) (Locker, error) {
	return redlatch{rdb: io.NopCloser(nil), locker: lock.New(memstore.New(), lock.WithWatchdog(s.Lease))}, nil
}

func (l redlatch) Lock(ctx context.Context, key string) (Held, error) {
	held, err := l.locker.Acquire(ctx, key)
	if err != nil {
		return nil, err
	}
	return lease{held}, nil
}

func (l redlatch) TryLock(ctx context.Context, key string) (Held, error) {
	held, err := l.locker.TryAcquire(ctx, key)
	if errors.Is(err, lock.ErrBusy) {
		return nil, ErrBusy
	}
	if err != nil {
		return nil, err
	}
	return lease{held}, nil
}

func (l redlatch) Keep(ctx context.Context, key string) (Held, error) { return l.Lock(ctx, key) }

func (l redlatch) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return errors.Join(l.locker.Close(ctx), l.rdb.Close())
}
