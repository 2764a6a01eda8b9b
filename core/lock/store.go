package lock

import (
	"context"
	"strings"
	"time"
)

// Claim is the argument of a store's calls: the hold that an owner wants. All
// fields are absolute values, so that a call that is sent twice changes nothing the
// second time.
type Claim struct {
	Key string
	// Owner names one hold ("<uuid>:<number>"), and never comes back for another.
	Owner string
	Mode  Mode
	// TTL is how long the hold lasts from the moment the store executes the
	// call. That of an Acquire is 30 s at most. A Release sets none: there it is how
	// long there may be something to remove, and a store may ignore it.
	TTL time.Duration
	// Places is for modes whose waiters queue in the store: the owners of the
	// same locker that wait for the key, in order, the claim's own among them.
	// An Acquire that isn't granted takes a place in the queue for each of them, or
	// keeps the place that the owner has. The store drops a place that no Acquire
	// names for some time. When the first place in the queue is one of this
	// locker's, the claim is served, whichever owner has that place. Empty takes
	// no place.
	Places []string
	// Keep is for a Release. If it is in the future, what the owner held stays held until
	// then, without an owner, and its TTL is cut to that.
	Keep time.Time
	// Undo marks a Release as a clean-up: it removes what a call may have left, and no
	// caller waits for it. The store may put it behind other calls to the same server.
	Undo bool
	// Permits is how many of Size permits a Semaphore claim takes. Both are
	// 0 in other modes.
	Permits, Size int
}

// Locker returns the part of the owner that names its locker: what is before the
// last colon. The owners of one locker share their wake-ups.
func (c Claim) Locker() string { return c.Owner[:max(0, strings.LastIndexByte(c.Owner, ':'))] }

// Store keeps the holds. The engine is its only caller. It is written for
// stores across a network: every method may be called concurrently, and may be
// repeated with the same claim after an error. It must return eventually, but need
// not return as soon as ctx ends: the engine stops waiting by itself.
//
// Errors: [*BusyError] and [ErrNotHeld] are answers. [ErrUnsupported] and
// [ErrInvalid] refuse the call. Any other error is a failure; a [*StoreError] has
// its [Outcome]. Package storetest tests implementations against this contract.
type Store interface {
	// Acquire gives the owner the key if nobody else has it, and returns the
	// fence of the grant: larger than that of every earlier grant of the key
	// to another owner. If the owner already has the key in that mode, the TTL becomes
	// the larger of what it is and of the claim's: an acquire that arrives late takes
	// nothing away. A Write claim of an owner that reads is busy.
	Acquire(ctx context.Context, c Claim) (fence uint64, err error)

	// Renew makes each hold whose owner still has its key last for the claim's
	// TTL at least. A Read claim finds a write hold of its owner as well, as Lower may
	// not have run. Renew never shortens a hold, and never creates one. It calls report
	// once for every claim before it returns, as early as it knows the result, from
	// any goroutine: with nil, with ErrNotHeld when the owner no longer has the key,
	// or with a failure. Claims must not wait for each other where one part of the
	// store is slow.
	Renew(ctx context.Context, claims []Claim, report func(i int, err error))

	// Release removes the hold, and the owner's place in the queue if there is one, and
	// wakes a waiter. A Read claim removes a write hold of its owner as well. If c.Keep
	// is in the future, the hold stays until then without an owner: no claim of the
	// last owner finds it, and only ForceRelease ends it earlier. Release never
	// touches another owner's hold: it returns ErrNotHeld when the owner does not
	// have the key.
	Release(ctx context.Context, c Claim) error

	// Lower makes the write hold of an owner a read hold that lasts for the claim's TTL
	// at least, and wakes readers. The claim is in mode Read. A read hold of the owner
	// stays as it is, but for the TTL. Lower creates nothing and shortens nothing: it
	// returns ErrNotHeld when the owner does not have the key.
	Lower(ctx context.Context, c Claim) error

	// Watch calls wake, from any goroutine, whenever c, or a claim in c.Mode of
	// another owner of the same locker, might be granted now: on each wake-up of
	// the key, and once after every gap in which wake-ups may have been missed.
	// Readers and writers of a key share its wake-ups. Those for other owners may be
	// missing after a [BusyError] that says so.
	//
	// Watch returns once no later wake-up can be missed. After stop has returned, wake
	// is not called again. wake never blocks. The engine keeps a watch for 100 ms after
	// the last waiter. ErrUnsupported makes the engine poll.
	Watch(ctx context.Context, c Claim, wake func()) (stop func(), err error)

	// Inspect reports who has the key. A key that nobody has or queues for is
	// a zero State, no error. It costs no more for a key of many owners: it
	// lists [MaxListed] of them, and as many waiters, and counts the others.
	Inspect(ctx context.Context, key string) (State, error)

	// ForceRelease removes the holds that there are when the store looks, and none that
	// is granted after that, and wakes waiters. freed is false when the key was free.
	ForceRelease(ctx context.Context, key string) (freed bool, err error)
}

// AsyncStore is a Store whose frequent calls need no goroutine that waits for
// them. The engine prefers these to Acquire and Release; other stores are called
// on a goroutine for each call.
//
// StartAcquire and StartRelease return at once. answered is called exactly once,
// however late, from any goroutine, perhaps before the call returns. It doesn't block.
// A call that has not been sent when ctx ends or by passes is never sent: it failed
// with [OutcomeNotExecuted]. A call that was sent runs to its answer.
type AsyncStore interface {
	Store
	// StartAcquire begins an Acquire.
	StartAcquire(ctx context.Context, c Claim, by time.Time, answered func(fence uint64, err error))
	// StartRelease begins a Release; fence means nothing.
	StartRelease(ctx context.Context, c Claim, by time.Time, answered func(fence uint64, err error))
	// Async returns the store itself. The engine calls StartAcquire and StartRelease
	// only if that is the store it was given: a type that embeds a store and has its
	// own Acquire inherits a StartAcquire that would bypass it.
	Async() Store
}

// NonBlockingStore is a Store that never waits for anything, such as one in memory.
// The engine calls it directly; other stores are called on a separate
// goroutine, so that the caller can stop waiting.
type NonBlockingStore interface {
	Store
	// NonBlocking marks the store; it is never called.
	NonBlocking()
}

// FenceStep is how far the fences of a [SpacedStore] are apart.
const FenceStep = 64

// SpacedStore is a Store whose fences leave room for hand-offs inside a process;
// see [WithHandoff].
type SpacedStore interface {
	Store
	// Spaced reports whether every fence is a multiple of [FenceStep]. It is called
	// once.
	Spaced() bool
}

// MaxListed is how many owners and how many waiters a [State] lists at most.
const MaxListed = 100

// State is a snapshot of a key.
type State struct {
	// Held says whether anybody has the key.
	Held bool
	// Mode is the mode it is held in; it means nothing when Held is false.
	Mode Mode
	// Foreign says that the key is held in a format that isn't the store's, by other
	// software or by a store with other settings. It is busy all the same.
	Foreign bool
	// Owners are the holds. They identify owners to operators: do not show
	// them to clients.
	Owners []OwnerHolds
	// MoreOwners is how many holds there are that Owners doesn't list. Readers
	// that died a moment ago may be among them.
	MoreOwners int
	// TTL is how long the key stays held unless renewed; negative when it
	// has no expiry.
	TTL time.Duration
	// Waiters are the owners queued in the store, in order. Modes without a
	// queue have none: their waiters are known to their own process only.
	Waiters []string
	// MoreWaiters is how many wait behind the ones in Waiters.
	MoreWaiters int
}

// OwnerHolds is the hold count of an owner. Holds of this package have 1, or their
// permits; other software, such as Redisson, counts re-entries in the store. It is 0 while a key that was released
// to the first waiter of a queue waits for that owner, or another one of the same
// locker, to acquire it.
type OwnerHolds struct {
	Owner string
	Holds int
	// Kept says that the owner has released the hold, which stays for the rest of
	// its [WithMinHold].
	Kept bool
}
