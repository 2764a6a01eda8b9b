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
// A lease is trusted until the moment its last successful acquire or renewal was
// sent, plus the lease time, minus a margin for clocks that run at different rates.
// At that moment, by a timer and without a call to the store, its context ends with
// cause [ErrLost]. Nobody else can obtain the key before, as long as the store
// keeps it. Work that runs late all the same (a paused process, a slow network) is
// caught by the fence: a number that grows with every grant, for the resource to
// compare.
//
// # How a key is waited for
//
// Each key has one machine, which is pure (internal/machine): what callers do, answers and
// times are its events, and calls, replies and ends of contexts its effects.
//
//	callers of this process ──► queue (one per key, first come first served)
//	                              │ the head, readers side by side while the store grants
//	                              ▼
//	              calling ── busy ──► resting ──► calling …
//	                  │                 min(TTL left, poll, wait left) or a wake-up
//	                  ▼ granted
//	              holding ──► more leases (re-entered) …
//	                  │      released ──► the next caller of this process (hand-off)
//	   renewed, and lost, by the locker's one timer
//
// A wake-up is a hint: only the store grants. When the head leaves, the next one calls.
//
// A released key passes to the next caller of the process without a call to the
// store, a limited number of times in a row. Then it is released in the store, so
// that other processes get their turn: see [WithHandoff].
//
// A wait limit bounds the waiting for other owners. It doesn't end a call to the
// store, so a free key is granted however short the limit is. A try, or a wait of
// 0, doesn't overtake: the key is busy if another caller of this process waits for
// it.
//
// # What is left behind
//
// A caller may give up while its call is under way. The call's own result then
// decides: a busy key needs nothing, a grant is undone by one release, and after a
// call without an answer the hold that it may have left is removed several times
// over two seconds. At most 16,384 acquires may be without an answer, or be undone, at a
// time: what comes then is refused with [ErrUnavailable]. A process that dies leaves holds that
// last for 30 s at most, or for their last renewal: an acquire writes no longer
// TTL, and a longer lease is extended before it is returned.
//
// # Ownership
//
// The owner is a value, not a goroutine: each hold has a new one, and the store never
// sees it again for another. The store knows holds, and never how often: acquiring a key
// with a context that descends from [Lease.Context] of that key re-enters the hold, which
// gets one more lease. That makes no call, unless the new lease asks for more time than
// the hold has. Goroutines that share the context share the ownership. Leases that a
// hand-off links continue one hold of the store, each with its own fence.
//
// # Kinds of locks
//
// [WithMode] and [WithPermits] choose the mode; the store must support it. All
// modes are acquired, renewed, lost and released alike.
//
//	Exclusive  one owner
//	Fair       one owner, and one queue for all processes
//	Read       any number of owners, and no writer
//	Write      one owner, and no readers but itself
//	Semaphore  as many owners as there are permits
//
// An owner re-enters in the mode that it holds. A writer may read as well, and go
// on reading once it has released the write lease: [Store] then lowers the hold. Every
// other change of mode would wait for itself, and is refused with [ErrInvalid]. Permits
// don't re-enter: they add up. [AcquireAll] takes several keys.
//
// # Names by reader
//
// Callers: [New], [CheckOptions], [Locker], [Lease], [FromContext], [LeaseOf], [AssertHeld], [AcquireAll],
// [Request], [Leases], [Mode], [ParseMode], [Error], and the errors that begin with Err.
// Options are [Option]: every func that begins with With. Limits and defaults are
// [DefaultWatchdog], [DefaultMargin], [DefaultPoll], [DefaultCallTimeout],
// [DefaultHandoffs], [DefaultHandoffTime], [MinLease], [MaxKeyBytes], [MaxDuration] and
// [MaxPermits]. [ContextKey] is for integrations.
//
// Operators: [Identity], [State], [OwnerHolds], [Listed], [MaxPage], [Registration], [Held]
// and [LockerOf].
//
// Authors of stores: [Store], [BlockingStore], [Async], [Blocking], [Claim], [Answer],
// [AnswerFunc], [Traits], [FenceStep], [MaxListed], [BusyError], [StoreError], [Outcome],
// [PanicError], and the optional ports [Registry] and [Lister]; package storetest has the tests.
//
// Observers: [Hooks], [Event], [AcquireEvent], [ReleaseEvent], [RenewEvent], [LossEvent],
// [LossReason] and [ClassOf].
package lock
