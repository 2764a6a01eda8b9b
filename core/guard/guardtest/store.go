package guardtest

import (
	"context"
	"errors"
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

// ErrDown is the error of a Broken store. No client may see its message.
var ErrDown = errors.New("dial tcp 10.1.2.3:6379: NOAUTH for lock:order:42")

// Broken is a store that refuses every acquisition.
type Broken struct{ lock.Store }

// Acquire fails with ErrDown.
func (Broken) Acquire(_ context.Context, _ lock.Claim, _ time.Time, answer lock.Answer) {
	answer.Answered(0, &lock.StoreError{Outcome: lock.OutcomeRefused, Err: ErrDown})
}

// ExclusiveOnly is a store that knows no other mode.
type ExclusiveOnly struct{ lock.Store }

// Acquire fails with [lock.ErrUnsupported] in any other mode.
func (s ExclusiveOnly) Acquire(ctx context.Context, c lock.Claim, by time.Time, answer lock.Answer) {
	if c.Mode != lock.Exclusive {
		answer.Answered(0, lock.ErrUnsupported)
		return
	}
	s.Store.Acquire(ctx, c, by, answer)
}
