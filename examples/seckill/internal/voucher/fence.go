package voucher

import (
	"context"
	"fmt"

	"github.com/redlatch/redlatch/core/fence"
	"github.com/redlatch/redlatch/core/lock"
)

// Fence is the proof of a lock that the store checks when it writes: one that is
// older than what it has already seen for the same user comes from a holder that
// has lost the lock.
type Fence = fence.Token

// FenceOf returns the proof of the lock that ctx carries. It is [ErrNoLock] if ctx
// carries none, or one that proves nothing, which several may hold at once.
func FenceOf(ctx context.Context) (Fence, error) {
	lease, ok := lock.FromContext(ctx)
	if !ok {
		return Fence{}, ErrNoLock
	}
	token, err := fence.Of(lease)
	if err != nil {
		return Fence{}, fmt.Errorf("%w: %w", ErrNoLock, err)
	}
	return token, nil
}
