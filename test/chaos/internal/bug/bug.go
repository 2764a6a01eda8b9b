// Package bug plants bugs between the engine and Redis, each of a kind that
// lock libraries have shipped, to see whether the checkers find them.
package bug

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
)

// Names of the bugs.
const (
	BlindRetry = "blind-retry" // re-entry counts up, and the client repeats what got no reply
	IncrFence  = "incr-fence"  // the fence is a counter that is lost with the data
	NoOwner    = "no-owner"    // a release does not look whose lock it is
	LateLoss   = "late-loss"   // renewals that failed count until some ticks have passed
)

// All are the names of all bugs.
func All() []string { return []string{BlindRetry, IncrFence, NoOwner, LateLoss} }

// Plant puts the named bug before a store; no name plants none. rdb is where
// the store keeps its holds.
func Plant(name string, store lock.Store, rdb redis.UniversalClient) (lock.Store, error) {
	switch name {
	case "":
		return store, nil
	case BlindRetry:
		return &blindRetry{store, rdb}, nil
	case IncrFence:
		return &incrFence{store, rdb}, nil
	case NoOwner:
		return &noOwner{store, rdb}, nil
	case LateLoss:
		return &lateLoss{store}, nil
	default:
		return nil, fmt.Errorf("there is no bug %q", name)
	}
}

func plain(c lock.Claim) bool { return c.Mode == lock.Exclusive }

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

// incrFence takes fences from a counter beside the lock.
type incrFence struct {
	lock.Store
	rdb redis.UniversalClient
}

func (s *incrFence) Acquire(ctx context.Context, c lock.Claim) (uint64, error) {
	fence, err := s.Store.Acquire(ctx, c)
	if err != nil || !plain(c) || c.Holds > 1 {
		return fence, err
	}
	n, err := s.rdb.Incr(ctx, "fence:{"+c.Key+"}").Result()
	if err != nil {
		return 0, err
	}
	s.rdb.Expire(ctx, "fence:{"+c.Key+"}", c.TTL*100)
	return uint64(n), nil
}

// noOwner releases by deleting the key.
type noOwner struct {
	lock.Store
	rdb redis.UniversalClient
}

func (s *noOwner) Release(ctx context.Context, c lock.Claim) error {
	if !plain(c) || c.Holds > 0 {
		return s.Store.Release(ctx, c)
	}
	return s.rdb.Del(ctx, c.Key).Err()
}

// lateLoss takes a renewal that was not answered, or that found no hold, for
// a good one: the loss will show at some later tick.
type lateLoss struct{ lock.Store }

func (s *lateLoss) Renew(ctx context.Context, claims []lock.Claim, report func(int, error)) {
	s.Store.Renew(ctx, claims, func(i int, err error) {
		if err != nil && !errors.Is(err, lock.ErrInvalid) {
			err = nil
		}
		report(i, err)
	})
}
