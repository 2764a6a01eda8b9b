package peer

import (
	"context"
	"errors"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

type redsyncLocker struct {
	rdb   *redis.Client
	sync  *redsync.Redsync
	lease time.Duration
}

type mutex struct{ *redsync.Mutex }

func (m mutex) Unlock(ctx context.Context) error {
	_, err := m.UnlockContext(ctx)
	return err
}

func (m mutex) extend(ctx context.Context) error {
	_, err := m.ExtendContext(ctx)
	return err
}

// openRedsync opens redsync with its own 32 tries, 50 to 250 ms apart.
func openRedsync(s Settings) (Locker, error) {
	rdb := newClient(s)
	return redsyncLocker{rdb: rdb, sync: redsync.New(goredis.NewPool(rdb)), lease: s.Lease}, nil
}

// Lock calls redsync again when its tries have run out, as redsync advises.
func (l redsyncLocker) Lock(ctx context.Context, key string) (Held, error) {
	m := l.sync.NewMutex(key, redsync.WithExpiry(l.lease))
	for {
		err := m.LockContext(ctx)
		if err == nil {
			return mutex{m}, nil
		}
		if !taken(err) {
			return nil, err
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
}

func (l redsyncLocker) TryLock(ctx context.Context, key string) (Held, error) {
	m := l.sync.NewMutex(key, redsync.WithExpiry(l.lease))
	err := m.TryLockContext(ctx)
	if err == nil {
		return mutex{m}, nil
	}
	if taken(err) {
		return nil, ErrBusy
	}
	return nil, err
}

func taken(err error) bool {
	var taken *redsync.ErrTaken
	return errors.As(err, &taken) || errors.Is(err, redsync.ErrFailed)
}

func (l redsyncLocker) Keep(ctx context.Context, key string) (Held, error) {
	held, err := l.Lock(ctx, key)
	if err != nil {
		return nil, err
	}
	m := held.(mutex)
	return renewByHand(m, l.lease/3, m.extend), nil
}

func (l redsyncLocker) Close() error { return l.rdb.Close() }
