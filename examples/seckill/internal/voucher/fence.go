package voucher

import (
	"context"

	"github.com/redlatch/redlatch/core/lock"
)

// Fence is the proof of a lock that the store checks when it writes: a Token
// smaller than one it has already seen for the same user comes from a holder
// that has lost the lock. Owner tells two holders of an equal token apart.
type Fence struct {
	Token uint64
	Owner string
}

// FenceOf returns the proof of the lock that ctx carries; false if it carries
// none.
func FenceOf(ctx context.Context) (Fence, bool) {
	lease, ok := lock.FromContext(ctx)
	if !ok {
		return Fence{}, false
	}
	return Fence{Token: lease.Fence(), Owner: lease.Owner()}, true
}
