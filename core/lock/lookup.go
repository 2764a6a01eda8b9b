package lock

import "context"

// LeaseOf returns the innermost lease of key that ctx was derived from, for work that
// runs under several keys. The lease may have ended: see [AssertHeld].
func LeaseOf(ctx context.Context, key string) (*Lease, bool) {
	lease := leaseOf(ctx, key, func(*Lease) bool { return true })
	return lease, lease != nil
}
