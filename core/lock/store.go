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
	// Key has 1 to [MaxKeyBytes] bytes, of any value, NUL among them.
	Key string
	// Owner names one hold ("<uuid>:<number>"), and never comes back for another.
	Owner string
	Mode  Mode
	// TTL is how long the hold lasts from the moment the store executes the
	// call, [MaxDuration] at most. The engine's acquires ask for 30 s at most, and renewals
	// for the rest. A Release sets none: there it is how long there may be something to
	// remove, and a store may ignore it.
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

// FenceStep is how far the fences of a store are apart that has [Traits.Spaced].
const FenceStep = 64

// Store is the port: what the engine calls, and all that it knows of a store. Package
// storetest tests implementations against this contract. Every method may be called
// concurrently. A call may be repeated with the same claim after a failure.
//
// Acquire, Release and Lower begin a call and return at once. They answer exactly once,
// however late, from any goroutine, perhaps before they return. A call that has not been
// sent when ctx ends or by passes is never sent: it failed with [OutcomeNotExecuted]. A
// call that was sent runs to its answer. The other methods return when they are done:
// they must return eventually, but need not as soon as ctx ends, as the engine stops
// waiting by itself. [Async] makes a Store of one whose calls block.
//
// Errors: [*BusyError] and [ErrNotHeld] are decisions. [ErrUnsupported] and
// [ErrInvalid] refuse the call. Any other error is a failure; a [*StoreError] has
// its [Outcome].
type Store interface {
	// Acquire gives the owner the key if nobody else has it, and answers with the fence of
	// the grant: larger than that of every earlier grant of the key to another owner. If
	// the owner already has the key, the TTL becomes the larger of what it is and of the
	// claim's, and the mode stays: an acquire that arrives late takes nothing away. But a
	// Write claim of an owner that reads is busy.
	Acquire(ctx context.Context, c Claim, by time.Time, answer Answer)

	// Release removes the hold, and the owner's place in the queue if there is one, and
	// wakes a waiter. A Read claim removes a write hold of its owner as well. If c.Keep
	// is in the future, the hold stays until then without an owner: no claim of the
	// last owner finds it, and only ForceRelease ends it earlier. Release never
	// touches another owner's hold: it answers ErrNotHeld when the owner does not
	// have the key. The fence of the answer is one more than the number of watches that the
	// wake-up has reached, or 0 if the store doesn't know.
	Release(ctx context.Context, c Claim, by time.Time, answer Answer)

	// Lower makes the write hold of an owner a read hold that lasts for the claim's TTL
	// at least, and wakes readers. The claim is in mode Read. A read hold of the owner
	// stays as it is, but for the TTL. Lower creates nothing and shortens nothing: it
	// answers ErrNotHeld when the owner does not have the key. The fence of the answer
	// means nothing.
	Lower(ctx context.Context, c Claim, by time.Time, answer Answer)

	// Renew makes each hold whose owner still has its key last for the claim's
	// TTL at least. A Read claim finds a write hold of its owner as well, as Lower may
	// not have run. Renew never shortens a hold, and never creates one. It calls report
	// once for every claim before it returns, as early as it knows the result, from
	// any goroutine: with nil, with ErrNotHeld when the owner no longer has the key,
	// or with a failure. Claims must not wait for each other where one part of the
	// store is slow.
	Renew(ctx context.Context, claims []Claim, report func(i int, err error))

	// Watch calls wake, from any goroutine, whenever c, or a claim in c.Mode of
	// another owner of the same locker, might be granted now: on each wake-up of
	// the key, and once after every gap in which wake-ups may have been missed.
	// Exclusive and Fair share the wake-ups of a key, and Read and Write do. The end of a
	// hold of another kind may go unheard: the engine finds it by a poll. Wake-ups for other
	// owners may be missing after a [BusyError] that says so.
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

	// Traits are what the store is like. They never change.
	Traits() Traits
}

// Answer receives the result of a call of a [Store]. Answered doesn't block.
type Answer interface {
	Answered(fence uint64, err error)
}

// AnswerFunc is a func as an [Answer].
type AnswerFunc func(fence uint64, err error)

// Answered calls f.
func (f AnswerFunc) Answered(fence uint64, err error) { f(fence, err) }

// Traits are what the engine relies on besides the contract of [Store].
type Traits struct {
	// Immediate says that no call ever waits, as in memory: Acquire, Release and Lower
	// answer before they return.
	Immediate bool
	// Spaced says that every fence is a multiple of [FenceStep], which leaves room for
	// the fences of hand-offs inside a process; see [WithHandoff].
	Spaced bool
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
	// Lockers are the registrations of the lockers that made the owners and waiters, by id,
	// as far as there are any. It is nil where they can't be read. A store leaves it to the
	// engine.
	Lockers map[string]Registration
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
	// Fence is that of the hold, and Since when it was granted. Both are zero where nobody
	// knows: Redis keeps neither, and the holder's registration says it 10 s later at most.
	Fence uint64
	Since time.Time
}
