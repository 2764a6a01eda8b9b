package peer

import (
	"context"
	"errors"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

type rueidisLocker struct{ rueidislock.Locker }

type cancelHeld context.CancelFunc

func (c cancelHeld) Unlock(context.Context) error {
	c()
	return nil
}

// openRueidis opens rueidislock: with majority 0 as it is by default (three
// keys a lock), with 1 as its README advises for a single server.
func openRueidis(majority int32) func(Settings) (Locker, error) {
	return func(s Settings) (Locker, error) {
		locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
			ClientOption:   rueidis.ClientOption{InitAddress: []string{s.Addr}},
			KeyMajority:    majority,
			NoLoopTracking: majority == 1,
			KeyValidity:    s.Lease,
			ExtendInterval: s.Lease / 3,
		})
		if err != nil {
			return nil, err
		}
		return rueidisLocker{locker}, nil
	}
}

func (l rueidisLocker) Lock(ctx context.Context, key string) (Held, error) {
	_, cancel, err := l.WithContext(ctx, key)
	if err != nil {
		return nil, err
	}
	return cancelHeld(cancel), nil
}

func (l rueidisLocker) TryLock(ctx context.Context, key string) (Held, error) {
	_, cancel, err := l.TryWithContext(ctx, key)
	if errors.Is(err, rueidislock.ErrNotLocked) {
		return nil, ErrBusy
	}
	if err != nil {
		return nil, err
	}
	return cancelHeld(cancel), nil
}

func (l rueidisLocker) Keep(ctx context.Context, key string) (Held, error) { return l.Lock(ctx, key) }

func (l rueidisLocker) Close() error {
	l.Locker.Close()
	return nil
}
