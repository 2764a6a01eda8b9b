package bug

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
)

// noUndo keeps what nobody has a lease of: its release is forgotten.
type noUndo struct {
	lock.BlockingStore
	*Bug
}

func (s *noUndo) Release(ctx context.Context, c lock.Claim) error {
	if _, got := s.got.Load(c.Owner); !got {
		return nil
	}
	return s.BlockingStore.Release(ctx, c)
}

// collapse lets the wait end the call, and cleans up after each that was given
// up: with a goroutine, several times, again and again until it is answered.
type collapse struct {
	lock.BlockingStore
	rdb redis.UniversalClient
}

const impatience = 50 * time.Millisecond

var (
	take = redis.NewScript(`
if redis.call('exists', KEYS[1]) == 0 or redis.call('hexists', KEYS[1], ARGV[1]) == 1 then
  redis.call('hset', KEYS[1], ARGV[1], 1)
  redis.call('pexpire', KEYS[1], ARGV[2])
  local now = redis.call('time')
  return now[1] * 1000000 + now[2]
end
return 0`)
	drop = redis.NewScript(`
if redis.call('hexists', KEYS[1], ARGV[1]) == 1 then
  return redis.call('del', KEYS[1])
end
return 0`)
)

func (s *collapse) Acquire(_ context.Context, c lock.Claim) (uint64, error) {
	type answer struct {
		fence int64
		err   error
	}
	answered := make(chan answer, 1)
	go func() {
		fence, err := take.Run(context.Background(), s.rdb, []string{c.Key}, c.Owner, c.TTL.Milliseconds()).Int64()
		answered <- answer{fence, err}
	}()
	timer := time.NewTimer(impatience)
	defer timer.Stop()
	select {
	case a := <-answered:
		if a.err == nil && a.fence == 0 {
			return 0, &lock.BusyError{TTL: c.TTL}
		}
		return uint64(a.fence), a.err
	case <-timer.C:
		go s.cleanUp(c)
		return 0, &lock.StoreError{Outcome: lock.OutcomeUnknown, Err: errImpatient}
	}
}

var errImpatient = errors.New("the wait has ended")

func (s *collapse) cleanUp(c lock.Claim) {
	const passes, pause = 6, 200 * time.Millisecond
	for n := range passes {
		if n > 0 {
			time.Sleep(pause) //nolint:forbidigo // as in the code that had the bug
		}
		for errors.Is(s.Release(context.Background(), c), errImpatient) {
		}
	}
}

func (s *collapse) Release(_ context.Context, c lock.Claim) error {
	err := drop.Run(context.Background(), s.rdb, []string{c.Key}, c.Owner).Err()
	if err != nil && !errors.Is(err, redis.ErrClosed) { // else it would go on for ever
		return errImpatient
	}
	return nil
}
