package lock

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
)

var (
	// errNoAnswer is the cause when a store call outlives the call timeout.
	errNoAnswer = errors.New("no answer in time")
	errWaitOver = fmt.Errorf("wait limit reached: %w", context.DeadlineExceeded)
	errBacklog  = fmt.Errorf("%w: too many unanswered calls are to be undone first", ErrUnavailable)
)

// isDecision reports whether err is a store's decision, and not a failure to decide,
// whose cause may be the caller's, and wrap anything.
func isDecision(err error) bool {
	if _, failed := errors.AsType[*StoreError](err); failed {
		return false
	}
	if _, abandoned := errors.AsType[*abandonedError](err); abandoned {
		return false
	}
	return errors.Is(err, ErrBusy) || errors.Is(err, ErrNotHeld)
}

// busyAnswer returns the store's decision that another owner has the key, if err is that.
func busyAnswer(err error) (busy *BusyError, ok bool) {
	if !isDecision(err) {
		return nil, false
	}
	return errors.AsType[*BusyError](err)
}

// guarded makes a failure of a panic. The engine calls the store on its own
// goroutines, where a panic would end the process.
func guarded[T any](ctx context.Context, call func(context.Context) (T, error)) (value T, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &PanicError{Value: p, Stack: debug.Stack()}
		}
	}()
	return call(ctx)
}

// PanicError is a failed store call that panicked. Its outcome is unknown.
type PanicError struct {
	Value any    // what the call panicked with
	Stack []byte // of the goroutine, as [debug.Stack] returns it
}

// Error returns the value and the stack.
func (e *PanicError) Error() string {
	return fmt.Sprintf("store call panicked: %v\n\n%s", e.Value, e.Stack)
}

// abandonedError is the error of a call that is still under way.
type abandonedError struct{ cause error }

func (e *abandonedError) Error() string { return "store call abandoned: " + e.cause.Error() }
func (e *abandonedError) Unwrap() error { return e.cause }

// failure turns the error of a store call into the caller's error.
func failure(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ended(ctx)
	}
	return undecided(err)
}

// undecided is failure of a call whose caller has not gone.
func undecided(err error) error {
	if wrong(err) {
		return err
	}
	return wrap(ErrUnavailable, err)
}

// ended is the error for a context that has ended: its Err, and its cause where
// that says more.
func ended(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(err, cause) || errors.Is(cause, err) {
		return err
	}
	return fmt.Errorf("%w: %w", err, cause)
}
