package lock

import (
	"errors"
	"fmt"
	"time"
)

// The decisions a caller can act on. Every error of this package is an
// [*Error] that wraps one of them, and, where there is one, its cause.
var (
	// ErrBusy: another owner holds the key. The work did not run; trying
	// again later is safe. A wait that ran into its limit also wraps
	// [context.DeadlineExceeded].
	ErrBusy = errors.New("lock is held by another owner")
	// ErrLost: the lease can no longer be trusted, although it was not
	// released: it expired, could not be renewed in time, or was taken away.
	// Work done under it may overlap with another owner's.
	ErrLost = errors.New("lease is lost")
	// ErrTooManyWaiters: the key is busy, and as many wait for it, or for all
	// keys of the locker, as may. It comes with [ErrBusy]. See [WithMaxWaiters].
	ErrTooManyWaiters = errors.New("too many wait already")
	// ErrHeldTooLong: the lease was held for as long as it may. It comes with
	// [ErrLost]. See [WithMaxHold].
	ErrHeldTooLong = errors.New("held for as long as allowed")
	// ErrNotHeld: the owner does not hold the key.
	ErrNotHeld = errors.New("lock is not held")
	// ErrReleased: the lease was released, so it cannot be used any more.
	ErrReleased = errors.New("lease is released")
	// ErrClosed: the locker is closed.
	ErrClosed = errors.New("locker is closed")
	// ErrUnavailable: the store could not be reached or could not answer. The
	// lock was not obtained; a hold that an unanswered call may have left
	// behind is removed in the background.
	ErrUnavailable = errors.New("lock store is unavailable")
	// ErrCircuitOpen: the store did not answer lately and was not asked again. It
	// comes with [ErrUnavailable]. See [WithCircuit].
	ErrCircuitOpen = errors.New("the store did not answer lately, so it was not asked")
	// ErrUnsupported: the store does not implement what was asked for.
	ErrUnsupported = errors.New("not supported by this store")
	// ErrInvalid: an argument is wrong. Calling again will not help.
	ErrInvalid = errors.New("invalid argument")
)

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
func because(decision, cause error) error {
	if cause == nil {
		return decision
	}
	if errors.Is(cause, decision) {
		return cause
	}
	return fmt.Errorf("%w: %w", decision, cause)
}

// BusyError is a store's answer to a claim that another owner blocks. It
// matches [ErrBusy].
type BusyError struct {
	// TTL is how long the blocking hold lasts unless renewed. Negative means
	// that it has no expiry.
	TTL time.Duration
	// Clock is of a [TransferStore], in answer to a claim that accepts a
	// transfer: the fences of all later grants of the key are larger, and
	// those of all earlier ones are not.
	Clock uint64
}

// Error implements the error interface.
func (e *BusyError) Error() string { return ErrBusy.Error() }

// Is makes the error match [ErrBusy].
func (e *BusyError) Is(target error) bool { return target == ErrBusy }

// Outcome says what a failed store call did to the store.
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

// StoreError is how a [Store] tells the outcome of a failed call.
type StoreError struct {
	Outcome Outcome
	// Unreachable says that the call failed because the store, or the part of
	// it that keeps the key, could not be reached or did not answer; see
	// [WithCircuit].
	Unreachable bool
	Err         error
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
	case errors.Is(err, ErrUnsupported), errors.Is(err, ErrInvalid):
		return OutcomeRefused
	default:
		return OutcomeUnknown
	}
}
