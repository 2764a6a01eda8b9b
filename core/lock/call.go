package lock

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"
)

// errNoAnswer is the cause when a store call outlives the call timeout.
var errNoAnswer = errors.New("no answer in time")

// bounded calls the store and stops waiting when ctx ends or the timeout is
// over: clients do not look at a canceled context while they read a reply. A
// call that has been sent is left to run until the store answers: its context
// has no deadline but the timeout. A result that arrives after the caller gave
// up is passed to late, if non-nil, with the reason for giving up, on the
// goroutine of the call. The caller must be counted in running.
func bounded[T any](
	ctx context.Context, l *Locker, timeout time.Duration,
	call func(context.Context) (T, error), late func(value T, err error, gaveUp *abandonedError),
) (T, error) {
	if l.prompt {
		return guarded(ctx, call)
	}
	if ctx.Err() != nil {
		var none T
		return none, &StoreError{Outcome: OutcomeNotExecuted, Err: context.Cause(ctx)}
	}
	callCtx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), timeout, errNoAnswer)
	defer cancel() // a call that was not sent yet ends with it
	type answer struct {
		value T
		err   error
	}
	answered := make(chan answer, 1)
	var taken atomic.Bool
	var gaveUp *abandonedError // set before taken
	began := l.now()
	giveUp := func(cause error) { gaveUp = &abandonedError{cause: cause, after: l.now() - began} }
	l.running.Go(func() {
		value, err := guarded(callCtx, call)
		if taken.CompareAndSwap(false, true) {
			answered <- answer{value, err}
		} else if late != nil {
			late(value, err, gaveUp)
		}
	})
	select {
	case a := <-answered:
		return a.value, a.err
	case <-ctx.Done():
		giveUp(context.Cause(ctx))
	case <-callCtx.Done():
		giveUp(errNoAnswer)
	}
	if !taken.CompareAndSwap(false, true) {
		a := <-answered
		return a.value, a.err
	}
	var none T
	return none, gaveUp
}

// guarded makes a failure of a panic. The engine calls the store on goroutines
// of its own, where a panic would end the process.
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
type abandonedError struct {
	cause error
	after time.Duration
}

func (e *abandonedError) Error() string { return "store call abandoned: " + e.cause.Error() }
func (e *abandonedError) Unwrap() error { return e.cause }

// failure turns the error of a store call into what the caller is told.
func failure(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return ended(ctx)
	case errors.Is(err, ErrUnsupported), errors.Is(err, ErrInvalid):
		return err
	default:
		return because(ErrUnavailable, err)
	}
}

// ended is the error for a context that is over: its own, and its cause where
// that says more.
func ended(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if cause == nil || errors.Is(err, cause) || errors.Is(cause, err) {
		return err
	}
	return fmt.Errorf("%w: %w", err, cause)
}

// pause waits for d; it returns false when ctx or stop ended before.
func pause(ctx context.Context, d time.Duration, stop <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
	case <-stop:
	}
	return false
}
