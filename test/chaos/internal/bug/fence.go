package bug

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
)

// incrFence takes fences from a counter next to the lock.
type incrFence struct {
	lock.BlockingStore
	rdb redis.UniversalClient
}

func (s *incrFence) Acquire(ctx context.Context, c lock.Claim) (uint64, error) {
	fence, err := s.BlockingStore.Acquire(ctx, c)
	if err != nil || !plain(c) {
		return fence, err
	}
	n, err := s.rdb.Incr(ctx, "fence:{"+c.Key+"}").Result()
	if err != nil {
		return 0, err
	}
	s.rdb.Expire(ctx, "fence:{"+c.Key+"}", c.TTL*100)
	return uint64(n), nil
}
