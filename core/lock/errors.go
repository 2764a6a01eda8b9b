package lock

import (
	"errors"
	"fmt"
	"time"
)

// The sentinels that a caller can act on. Every error of this package is an
// [*Error] that wraps one of them and, if there is one, the cause, or the error of a
// context alone.
var (
	// ErrBusy: another owner holds the key. The work did not run; trying
	// again later is safe. A wait that ran into its limit also wraps
	// [context.DeadlineExceeded].
	ErrBusy = errors.New("lock is held by another owner")
	// ErrOwnHold: the caller's own context holds the key, and can't re-enter it:
	// the acquisition is [WithoutReentry], or needs permits that the context has. The
	// caller would wait for itself. It wraps [ErrBusy].
	ErrOwnHold error = ownHoldError{}
	// ErrLost: the lease can no longer be trusted, although it was not
	// released. Work done under it may overlap with another owner's. It always
	// comes with the reason: [ErrExpired], [ErrHeldTooLong], [ErrNotRenewed],
	// [ErrTaken] or [ErrForced].
	ErrLost = errors.New("lease is lost")
	// ErrExpired: a lease of fixed length ended before it was released. It
	// wraps [ErrLost]. See [WithLease].
	ErrExpired = fmt.Errorf("%w: its fixed length ended before it was released "+
		"(ask for a longer lease, extend it, or leave WithLease out so that it is renewed)", ErrLost)
	// ErrHeldTooLong: the lease was held for as long as its limit allows. It wraps
	// [ErrLost]. See [WithMaxHold].
	ErrHeldTooLong = fmt.Errorf("%w: it was held for as long as WithMaxHold allows (raise the limit, or do less under the lock)", ErrLost)
	// ErrNotRenewed: no renewal was confirmed in time. The store did not answer,
	// or this process stood still. It wraps [ErrLost].
	ErrNotRenewed = fmt.Errorf("%w: no renewal was confirmed in time: the store did not answer, or the process stood still "+
		"(a longer watchdog rides out longer outages)", ErrLost)
	// ErrTaken: the store no longer has the hold. It expired there, was
	// forgotten in a restart or a failover, or was deleted. It wraps [ErrLost].
	ErrTaken = fmt.Errorf("%w: the store no longer has it: it was released by force or deleted elsewhere, "+
		"or the store forgot it (look for failovers, restarts without data, and evictions)", ErrLost)
	// ErrForced: [Locker.ForceRelease] of this locker took the key away. It
	// wraps [ErrLost].
	ErrForced = fmt.Errorf("%w: ForceRelease took it away", ErrLost)
	// ErrTooManyWaiters: the key is busy, and the limit of waiters for it, or for
	// all keys of the locker, is reached. It comes with [ErrBusy]. See
	// [WithMaxWaiters].
	ErrTooManyWaiters = errors.New("too many wait already")
	// ErrNotHeld: the owner does not hold the key.
	ErrNotHeld = errors.New("lock is not held")
	// ErrReleased: the lease was released, so it can no longer be used.
	ErrReleased = errors.New("lease is released")
	// ErrClosed: the locker is closed.
	ErrClosed = errors.New("locker is closed")
	// ErrUnavailable: the store could not be reached or could not answer. The
	// lock was not obtained; a hold that an unanswered call may have left
	// behind is removed in the background.
	ErrUnavailable = errors.New("lock store is unavailable")
	// ErrCircuitOpen: the server didn't answer recently and was not called. It
	// comes with [ErrUnavailable], from a store with a circuit breaker, such as
	// redisstore.
	ErrCircuitOpen = errors.New("the store did not answer lately, so it was not called")
	// ErrUnsupported: the store doesn't implement the mode or the call.
	ErrUnsupported = errors.New("not supported by this store")
	// ErrInvalid: an argument is wrong. Calling again will not help.
	ErrInvalid = errors.New("invalid argument")
)

// ownHoldError is ErrOwnHold. Its string is not that of ErrBusy, which says
// that another owner holds the key.
type ownHoldError struct{}

func (ownHoldError) Error() string {
	return "lock is held by the caller itself, which does not re-enter it and would wait for itself"
}

func (ownHoldError) Unwrap() error { return ErrBusy }

// Error says which operation failed, on which key, and why. Match it with
// [errors.Is] against the sentinels of this package. Key is the full key:
// show it to operators, not to clients.
type Error struct {
	Op  string // "acquire", "release", "extend", …
	Key string
	Err error
}

// Error implements the error interface.
func (e *Error) Error() string {
	if e.Key == "" {
		return "lock: " + e.Op + ": " + e.Err.Error()
	}
	return fmt.Sprintf("lock: %s %q: %v", e.Op, e.Key, e.Err)
}

// Unwrap returns the decision together with its cause.
func (e *Error) Unwrap() error { return e.Err }

// because joins a decision with the cause that led to it, so that [errors.Is]
// finds both; a cause that already carries the decision stands alone.
func wrap(decision, cause error) error {
	if cause == nil {
		return decision
	}
	if errors.Is(cause, decision) {
		return cause
	}
	return fmt.Errorf("%w: %w", decision, cause)
}

// BusyError is what a store returns for a claim that another owner blocks. It
// matches [ErrBusy].
type BusyError struct {
	// TTL is how long the blocking hold lasts unless renewed. Negative means
	// that it has no expiry.
	TTL time.Duration
	// WatchPerOwner says that wake-ups for the claim reach only a Watch by its own
	// owner. Software that wakes single owners, and knows nothing of lockers, may be in
	// front of it.
	WatchPerOwner bool
}

// Error implements the error interface.
func (e *BusyError) Error() string { return ErrBusy.Error() }

// Is makes the error match [ErrBusy].
func (e *BusyError) Is(target error) bool { return target == ErrBusy }

// Outcome says whether a failed call took effect in the store.
type Outcome uint8

const (
	// OutcomeUnknown: the call may have run. It is repeated with the same
	// claim, and undone in the background if the caller gives up. A store
	// error that says nothing else means this.
	OutcomeUnknown Outcome = iota
	// OutcomeNotExecuted: the call certainly did not run, and may succeed
	// when repeated.
	OutcomeNotExecuted
	// OutcomeRefused: the call certainly did not run, and repeating it will
	// not help (no permission, wrong type of key).
	OutcomeRefused
)

// StoreError is how a [Store] reports the outcome of a failed call.
type StoreError struct {
	Outcome Outcome
	// Unreachable says that the call failed because the store, or the part of
	// it that keeps the key, could not be reached or did not answer. A circuit
	// breaker counts such failures, such as that of redisstore.WithCircuit.
	Unreachable bool
	// Class is the class of the failure, as [ClassOf] returns it: one of a few
	// fixed words, and nothing else that the store said. Empty if not known.
	Class string
	Err   error
}

// Error implements the error interface.
func (e *StoreError) Error() string { return e.Err.Error() }

// Unwrap returns the underlying error.
func (e *StoreError) Unwrap() error { return e.Err }

// outcomeOf classifies an error of a store call.
func outcomeOf(err error) Outcome {
	var failed *StoreError
	switch {
	case errors.As(err, &failed):
		return failed.Outcome
	case wrong(err):
		return OutcomeRefused
	default:
		return OutcomeUnknown
	}
}

// wrong reports whether the store refuses the claim for good.
func wrong(err error) bool { return errors.Is(err, ErrInvalid) || errors.Is(err, ErrUnsupported) }
