package peer

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// deleteOwn removes the key if it still has the token.
var deleteOwn = redis.NewScript(`if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) end return 0`)

var errNotHeld = errors.New("peer: not held")

// floor is the least that a lock can do: one SET NX PX and one
// compare-and-delete over a plain client. It doesn't wait.
type floor struct {
	rdb    *redis.Client
	lease  time.Duration
	tokens *atomic.Int64
}

type floorLock struct {
	floor      *floor
	key, token string
}

func openFloor(s Settings) (Locker, error) {
	rdb := newClient(s)
	return &floor{rdb: rdb, lease: s.Lease, tokens: &atomic.Int64{}}, deleteOwn.Load(context.Background(), rdb).Err()
}

func (f *floor) Lock(ctx context.Context, key string) (Held, error) { return f.TryLock(ctx, key) }

func (f *floor) TryLock(ctx context.Context, key string) (Held, error) {
	token := strconv.FormatInt(f.tokens.Add(1), 36)
	ok, err := f.rdb.SetNX(ctx, key, token, f.lease).Result()
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, ErrBusy
	}
	return &floorLock{floor: f, key: key, token: token}, nil
}

func (f *floor) Keep(ctx context.Context, key string) (Held, error) { return f.Lock(ctx, key) }

func (f *floor) Close() error { return f.rdb.Close() }

func (l *floorLock) Unlock(ctx context.Context) error {
	deleted, err := deleteOwn.EvalSha(ctx, l.floor.rdb, []string{l.key}, l.token).Int()
	if err == nil && deleted != 1 {
		return errNotHeld
	}
	return err
}
