package bug

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
)

// unlowered says that a writer only reads now, and does nothing.
type unlowered struct{ lock.BlockingStore }

func (*unlowered) Lower(context.Context, lock.Claim) error { return nil }

// lowerRemoves releases what it is to lower.
type lowerRemoves struct{ lock.BlockingStore }

func (s *lowerRemoves) Lower(ctx context.Context, c lock.Claim) error { return s.Release(ctx, c) }

// lowerAgain sends Lower once more, a moment later, and doesn't look whether the owner
// still has the hold.
type lowerAgain struct {
	lock.BlockingStore
	rdb redis.UniversalClient
}

var becomeReader = redis.NewScript(`
if redis.call('hget', KEYS[1], 'mode') == 'write' then
  return 0
end
redis.call('hset', KEYS[1], 'mode', 'read', ARGV[1], 1)
redis.call('set', KEYS[2], 1, 'px', ARGV[2])
return redis.call('pexpire', KEYS[1], ARGV[2])`)

const again = 30 * time.Millisecond

func (s *lowerAgain) Lower(ctx context.Context, c lock.Claim) error {
	err := s.BlockingStore.Lower(ctx, c)
	if err == nil {
		time.AfterFunc(again, func() {
			keys := []string{c.Key, "{" + c.Key + "}:" + c.Owner + ":rwlock_timeout:1"}
			_ = becomeReader.Run(context.Background(), s.rdb, keys, c.Owner, c.TTL.Milliseconds()).Err()
		})
	}
	return err
}
