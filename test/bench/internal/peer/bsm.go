package peer

import (
	"context"
	"errors"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
)

type bsm struct {
	rdb    *redis.Client
	client *redislock.Client
	lease  time.Duration
}

type bsmLock struct{ *redislock.Lock }

func (l bsmLock) Unlock(ctx context.Context) error { return l.Release(ctx) }

func openBsm(s Settings) (Locker, error) {
	rdb := newClient(s)
	return bsm{rdb: rdb, client: redislock.New(rdb), lease: s.Lease}, nil
}

// Lock retries every 100 ms, as the library's README does: it has no default.
func (l bsm) Lock(ctx context.Context, key string) (Held, error) {
	options := &redislock.Options{RetryStrategy: redislock.LinearBackoff(100 * time.Millisecond)}
	for {
		held, err := l.client.Obtain(ctx, key, l.lease, options)
		switch {
		case err == nil:
			return bsmLock{held}, nil
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case !errors.Is(err, redislock.ErrNotObtained) && !errors.Is(err, context.DeadlineExceeded):
			return nil, err
		}
	}
}

func (l bsm) TryLock(ctx context.Context, key string) (Held, error) {
	held, err := l.client.Obtain(ctx, key, l.lease, nil)
	if errors.Is(err, redislock.ErrNotObtained) {
		return nil, ErrBusy
	}
	if err != nil {
		return nil, err
	}
	return bsmLock{held}, nil
}

func (l bsm) Keep(ctx context.Context, key string) (Held, error) {
	held, err := l.Lock(ctx, key)
	if err != nil {
		return nil, err
	}
	own := held.(bsmLock)
	return renewByHand(own, l.lease/3, func(ctx context.Context) error { return own.Refresh(ctx, l.lease, nil) }), nil
}

func (l bsm) Close() error { return l.rdb.Close() }
