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
// different rates. At that moment, by a timer and without a call to the store,
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
//	                  │      released ──► the next caller of this process (hand-off)
//	   renewed by the locker's one timer; lost by a separate timer
//
// A wake-up is a hint: only the store grants. A waiter that leaves, for
// whatever reason, wakes the one behind it.
//
// A released key passes to the next caller of the process without a call, some
// times in a row; then it is released in the store, so that other processes get
// their turn: see [WithHandoff].
//
// A limit of the wait bounds the waiting for others. It ends no call, so a key
// that is free is granted however short the limit. A try, or a wait of 0, does
// not overtake: it is busy if a caller of this process came first.
//
// # What is left behind
//
// A caller may give up while its call is under way. The call's own result then
// decides: nothing is to be done about a busy key, one release undoes a grant,
// and what a call without an answer may have left is removed several times over
// a second. All of that is one queue of the locker, sent a few at a time. Each
// acquire has a place in it from before it is sent, and is refused with
// [ErrUnavailable] when there is none. A process that dies leaves keys that last
// for 30 s at most, or for their last renewal: an acquire writes no longer TTL,
// and a longer lease is extended before it is returned.
//
// # Ownership
//
// The owner is a value, not a goroutine: each acquisition has its own, and the
// store never sees it again for another hold. Leases that a hand-off links
// continue one hold of the store, each with its own fence.
// Acquiring a key with a context that descends from [Lease.Context] of that
// key re-enters the hold. Goroutines that share the context share the
// ownership.
//
// # Kinds of locks
//
// [WithMode] and [WithPermits] choose; the store must know the mode. All of
// them are acquired, renewed, lost and released alike.
//
//	Exclusive  one owner
//	Fair       one owner, and one queue for all processes
//	Read       any number of owners, and no writer
//	Write      one owner, and no readers but itself
//	Semaphore  as many owners as there are permits
//
// An owner re-enters in the mode that it holds. A writer may read as well, and
// go on reading once it has released the write lease; every other change of
// mode would wait for itself, and is refused with [ErrInvalid]. Permits do
// not re-enter, they add up. [AcquireAll] takes several keys.
package lock
