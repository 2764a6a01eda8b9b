package world

import (
	"context"
	"errors"
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

// collapse lets a limit end the call, and cleans up after each that it gave up: with
// a goroutine, several times, again and again until that is answered.
type collapse struct {
	lock.BlockingStore
	ctx context.Context
}

// impatience is the limit: more than a call takes when all is well.
const impatience = 15 * pace

var errImpatient = errors.New("the wait has ended")

func (s *collapse) Acquire(_ context.Context, c lock.Claim) (uint64, error) {
	type answer struct {
		fence uint64
		err   error
	}
	answered := make(chan answer, 1)
	go func() {
		fence, err := s.BlockingStore.Acquire(context.Background(), c)
		answered <- answer{fence, err}
	}()
	timer := time.NewTimer(impatience)
	defer timer.Stop()
	select {
	case a := <-answered:
		return a.fence, a.err
	case <-timer.C:
		go s.cleanUp(c)
		return 0, &lock.StoreError{Outcome: lock.OutcomeUnknown, Err: errImpatient}
	}
}

func (s *collapse) cleanUp(c lock.Claim) {
	for range 6 {
		for s.ctx.Err() == nil {
			err := s.Release(context.Background(), c)
			if err == nil || errors.Is(err, lock.ErrNotHeld) {
				break
			}
			pause(s.ctx, impatience)
		}
		pause(s.ctx, impatience)
	}
}
