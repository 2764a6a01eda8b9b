package bug

import (
	"context"
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

// unkept frees the key at once, whatever its minimum hold.
type unkept struct{ lock.BlockingStore }

func (s *unkept) Release(ctx context.Context, c lock.Claim) error {
	c.Keep = time.Time{}
	return s.BlockingStore.Release(ctx, c)
}
