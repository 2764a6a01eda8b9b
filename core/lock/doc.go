// Package lock is the engine: distributed locks as leases over a [Store].
//
//	locker := lock.New(store)
//	lease, err := locker.Acquire(ctx, "order:42")
//	if err != nil {
//		return err
//	}
//	defer lease.Release(ctx)
//	return work(lease.Context())
//
// # What a lease is worth
//
// A lease is trusted until the moment its last successful acquire or renewal
// was sent, plus the lease time, minus a margin for clocks that run at
// different rates. At that moment, by a timer and without asking the store,
// its context ends with cause [ErrLost]. Nobody else can obtain the key
// before, as long as the store keeps its word; work that may run late all the
// same (a paused process, a slow network) is caught by the fence: a number
// that grows with every grant, for the resource to compare.
//
// # How a key is waited for
//
//	callers of this process ──► gate (one per key, first come first served)
//	                              │ head only
//	                              ▼
//	                 ask ── busy ──► watch ──► ask ──► sleep ──► ask …
//	                  │                          min(TTL left, poll, wait left)
//	                  ▼ granted                  or a wake-up
//	                hold ──► lease, lease (re-entered) …
//	                  │
//	   renewed by the locker's one timer; lost by a timer of its own
//
// A wake-up is a hint: only the store's answer grants. A waiter that leaves,
// for whatever reason, wakes the one behind it.
//
// # Ownership
//
// The owner is a value, not a goroutine: each acquisition has its own.
// Acquiring a key with a context that descends from [Lease.Context] of that
// key re-enters the hold. Goroutines that share the context share the
// ownership.
package lock
