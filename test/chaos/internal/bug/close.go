package bug

import (
	"context"

	"github.com/redlatch/redlatch/core/lock"
)

// forgetfulClose releases one hold of a locker that is closed, and none of the others.
type forgetfulClose struct {
	lock.BlockingStore
	*Bug
}

func (s *forgetfulClose) Release(ctx context.Context, c lock.Claim) error {
	if s.closing.Load() && s.ended.Add(1) > 1 {
		return nil
	}
	return s.BlockingStore.Release(ctx, c)
}
