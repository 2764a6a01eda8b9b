package bug

import (
	"context"
	"errors"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
)

// lifo puts each newcomer at the head of the queue of a fair lock.
type lifo struct {
	lock.BlockingStore
	rdb  redis.UniversalClient
	came sync.Map // owners that have a place
}

var toTheHead = redis.NewScript(`
local came = redis.call('lrem', KEYS[1], 0, ARGV[1])
if came > 0 then
  redis.call('lpush', KEYS[1], ARGV[1])
end
return came`)

func (s *lifo) Acquire(ctx context.Context, c lock.Claim) (uint64, error) {
	fence, err := s.BlockingStore.Acquire(ctx, c)
	if c.Mode != lock.Fair || err != nil && !errors.Is(err, lock.ErrBusy) {
		return fence, err
	}
	for _, owner := range c.Places {
		if _, known := s.came.LoadOrStore(owner, true); !known {
			_ = toTheHead.Run(ctx, s.rdb, []string{"redisson_lock_queue:{" + c.Key + "}"}, owner+":redlatch").Err()
		}
	}
	return fence, err
}
