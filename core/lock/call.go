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

// bounded calls a store that blocks, on a new goroutine, and waits for
// the answer as [await] does: clients do not look at a canceled context while
// they read a reply. A call that has been sent is left to run until the store
// answers: its context has no deadline but the timeout.
func bounded[T any](
	ctx context.Context, l *Locker, timeout time.Duration,
	call func(context.Context) (T, error), late func(value T, err error),
) (T, error) {
	if l.nonBlocking {
		return guarded(ctx, call)
	}
	callCtx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), timeout, errNoAnswer)
	defer cancel() // a call that was not sent yet ends with it
	return await(ctx, l, timeout, func(answered func(T, error)) {
		go func() { answered(guarded(callCtx, call)) }()
	}, late)
}

// await starts a call and waits for its answer, until ctx ends or the timeout
// passes. An answer that arrives after the caller gave up is passed to late, if
// non-nil, on the goroutine that brings it. The
// caller must be counted in running.
func await[T any](
	ctx context.Context, l *Locker, timeout time.Duration,
	start func(answered func(T, error)), late func(value T, err error),
) (T, error) {
	var none T
	if ctx.Err() != nil {
		return none, &StoreError{Outcome: OutcomeNotExecuted, Err: context.Cause(ctx)}
	}
	w := l.awaiter()
	p := &pending[T]{locker: l, wake: w.wake, late: late}
	p.start(start)
	if cause := w.await(ctx, timeout); cause != nil {
		l.running.Add(1) // until it is answered
		if p.decided.CompareAndSwap(false, true) {
			l.awaiters.Put(w)
			return none, &abandonedError{cause}
		}
		l.running.Done()
		<-w.wake
	}
	l.awaiters.Put(w)
	return p.value, p.err
}

// pending is a call that has no answer yet.
type pending[T any] struct {
	locker *Locker
	wake   chan<- struct{}
	late   func(value T, err error)

	ended   atomic.Bool // the call: an answer has come
	decided atomic.Bool // the wait: by an answer, or by giving up
	value   T
	err     error
}

func (p *pending[T]) start(start func(answered func(T, error))) {
	defer func() {
		if v := recover(); v != nil {
			var none T
			p.answered(none, &PanicError{Value: v, Stack: debug.Stack()})
		}
	}()
	start(p.answered)
}

// answered ends the call. A second answer is ignored.
func (p *pending[T]) answered(value T, err error) {
	if p.ended.Swap(true) {
		return
	}
	p.value, p.err = value, err
	if p.decided.CompareAndSwap(false, true) {
		p.wake <- struct{}{}
		return
	}
	defer p.locker.running.Done()
	if p.late != nil {
		p.late(value, err)
	}
}

// awaiter is what a goroutine needs to wait for an answer.
type awaiter struct {
	wake  chan struct{} // holds the one hint
	timer *time.Timer
}

// awaiter returns one to be put back into awaiters when nobody can wake it.
func (l *Locker) awaiter() *awaiter {
	if w, ok := l.awaiters.Get().(*awaiter); ok {
		return w
	}
	w := &awaiter{wake: make(chan struct{}, 1), timer: time.NewTimer(time.Hour)}
	w.timer.Stop()
	return w
}

// await returns nil when there is an answer, and otherwise why to give up.
func (w *awaiter) await(ctx context.Context, timeout time.Duration) (cause error) {
	select {
	case <-w.wake:
		return nil
	default:
	}
	w.timer.Reset(timeout)
	defer w.timer.Stop()
	select {
	case <-w.wake:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-w.timer.C:
		return errNoAnswer
	}
}

// callAcquire makes one call now, whose answer may come late.
func (l *Locker) callAcquire(
	ctx context.Context, now, timeout time.Duration, c Claim, late func(uint64, error),
) (uint64, error) {
	if l.async == nil {
		return bounded(ctx, l, timeout, func(ctx context.Context) (uint64, error) { return l.store.Acquire(ctx, c) }, late)
	}
	return await(ctx, l, timeout, func(answered func(uint64, error)) {
		l.async.StartAcquire(ctx, c, l.epoch.Add(now+timeout), answered)
	}, late)
}

// callRelease makes one call now.
func (l *Locker) callRelease(ctx context.Context, now, timeout time.Duration, c Claim) error {
	if l.nonBlocking { // as bounded would do, without a closure on the heap
		_, err := guarded(ctx, func(ctx context.Context) (struct{}, error) { return struct{}{}, l.store.Release(ctx, c) })
		return err
	}
	if l.async == nil {
		_, err := bounded(ctx, l, timeout, func(ctx context.Context) (struct{}, error) {
			return struct{}{}, l.store.Release(ctx, c)
		}, nil)
		return err
	}
	_, err := await(ctx, l, timeout, func(answered func(uint64, error)) {
		l.async.StartRelease(ctx, c, l.epoch.Add(now+timeout), answered)
	}, nil)
	return err
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
	switch {
	case ctx.Err() != nil:
		return ended(ctx)
	case errors.Is(err, ErrUnsupported), errors.Is(err, ErrInvalid):
		return err
	default:
		return because(ErrUnavailable, err)
	}
}

// ended is the error for a context that has ended: its Err, and its cause where
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
