package voucher

import (
	"context"

	"github.com/redlatch/redlatch/core/fence"
	"github.com/redlatch/redlatch/core/lock"
)

// Fence is the proof of a lock that the store checks when it writes: one that is
// older than what it has already seen for the same user comes from a holder that
// has lost the lock.
type Fence = fence.Token

// FenceOf returns the proof of the lock that ctx carries; false if it carries
// none.
func FenceOf(ctx context.Context) (Fence, bool) {
	lease, ok := lock.FromContext(ctx)
	if !ok {
		return Fence{}, false
	}
	token, err := fence.Of(lease)
	return token, err == nil
}
