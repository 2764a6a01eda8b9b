package bug

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
)

// blindRetry is the acquire and release of a lock whose count goes up by one
// and down by one, and whose client repeats a call that got no reply.
type blindRetry struct {
	lock.Store
	rdb redis.UniversalClient
}

var (
	countUp = redis.NewScript(`
if redis.call('exists', KEYS[1]) == 0 or redis.call('hexists', KEYS[1], ARGV[1]) == 1 then
  redis.call('hincrby', KEYS[1], ARGV[1], 1)
  redis.call('pexpire', KEYS[1], ARGV[2])
  local now = redis.call('time')
  return now[1] * 1000000 + now[2]
end
return -redis.call('pttl', KEYS[1]) - 2`)
	countDown = redis.NewScript(`
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
  return 0
end
if redis.call('hincrby', KEYS[1], ARGV[1], -1) <= 0 then
  redis.call('del', KEYS[1])
  redis.call('publish', ARGV[2], '0')
end
return 1`)
)

func (s *blindRetry) Acquire(ctx context.Context, c lock.Claim) (uint64, error) {
	if !plain(c) {
		return s.Store.Acquire(ctx, c)
	}
	n, err := countUp.Run(ctx, s.rdb, []string{c.Key}, c.Owner, c.TTL.Milliseconds()).Int64()
	switch {
	case err != nil:
		return 0, err
	case n < 0:
		return 0, &lock.BusyError{TTL: c.TTL}
	default:
		return uint64(n), nil
	}
}

func (s *blindRetry) Release(ctx context.Context, c lock.Claim) error {
	if !plain(c) {
		return s.Store.Release(ctx, c)
	}
	n, err := countDown.Run(ctx, s.rdb, []string{c.Key}, c.Owner, "redisson_lock__channel:{"+c.Key+"}").Int64()
	if err == nil && n == 0 {
		return lock.ErrNotHeld
	}
	return err
}
