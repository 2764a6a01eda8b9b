package leader

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

// The pause after a round that didn't end well doubles from the first to the
// second. Each is scattered over its upper half, so that processes that lost the
// store together don't come back together.
const (
	minPause = 100 * time.Millisecond
	maxPause = 2 * time.Second
)

// candidate is one call of Run.
type candidate struct {
	options

	locker *lock.Locker
	key    string
	fn     func(ctx context.Context, term uint64) error

	failure error // of the last attempt to be elected, since the last term
}

// Run campaigns for key, and runs fn while this process leads. The context of fn is
// derived from ctx and carries the lease. It ends when the term does: see the
// package's comment. term is larger than that of every earlier leader.
//
// Run returns when:
//
//   - fn has returned during its term: Run resigns and returns fn's error as it
//     is. With [WithRepeat] it resigns and campaigns again.
//   - ctx has ended: the error wraps its cause, and fn's error if that is another, and
//     why the last attempt to be elected failed, if none has succeeded since.
//   - the locker drains or is closed: the same, with [lock.ErrClosed].
//   - campaigning can't help: [lock.ErrInvalid], [lock.ErrUnsupported], or
//     [lock.ErrOwnHold] if ctx already leads.
//
// It doesn't return when the term is lost before fn has returned: it waits for
// fn, drops its result, and campaigns again. A store that is away makes Run try
// again, after 100 ms at first and after 2 s at most. Without [WithHooks], Run logs
// terms and failures to [log/slog].
//
// If fn panics, the lock is released, and the panic goes on.
func Run(ctx context.Context, locker *lock.Locker, key string, fn func(ctx context.Context, term uint64) error, opts ...Option) error {
	c := &candidate{options: newOptions(opts), locker: locker, key: key, fn: fn}
	if locker == nil || fn == nil {
		return c.fail(fmt.Errorf("%w: leader.Run needs a locker and a func", lock.ErrInvalid))
	}
	ctx, stop := untilDrained(ctx, locker)
	defer stop()
	return c.run(ctx)
}

// untilDrained returns a context that ends with ctx, or when the locker drains.
func untilDrained(ctx context.Context, locker *lock.Locker) (drained context.Context, stop func()) {
	drained, cancel := context.WithCancelCause(ctx)
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-locker.Draining():
			cancel(lock.ErrClosed)
		case <-drained.Done():
		}
	})
	return drained, func() { cancel(nil); watch.Wait() }
}

func (c *candidate) run(ctx context.Context) error {
	for tries := 0; ; tries++ {
		began := time.Now()
		again, err := c.round(ctx)
		select {
		case <-c.locker.Draining():
			<-ctx.Done() // at once; fn may have noticed before
		default:
		}
		switch {
		case ctx.Err() != nil:
			err = ended(ctx, err)
			if c.failure != nil {
				err = fmt.Errorf("%w; the last attempt to be elected: %w", err, c.failure)
			}
			return c.fail(err)
		case !again:
			return err
		case time.Since(began) > maxPause:
			tries = 0
		}
		pause(ctx, tries)
	}
}

// round campaigns once, and leads if that succeeds.
func (c *candidate) round(ctx context.Context) (again bool, err error) {
	lease, err := c.locker.Acquire(ctx, c.key, c.lock...)
	if err == nil {
		c.failure = nil
		lost, err := c.lead(lease)
		return lost || c.repeat, err
	}
	if errors.Is(err, lock.ErrUnavailable) {
		c.failure = err
	}
	if errors.Is(err, lock.ErrClosed) || errors.Is(err, ctx.Err()) {
		return true, nil // run returns, and says so
	}
	for _, final := range []error{lock.ErrInvalid, lock.ErrUnsupported, lock.ErrOwnHold} {
		if errors.Is(err, final) {
			return false, err
		}
	}
	if c.failure = err; ctx.Err() == nil {
		c.hooks.failed(c.name, err)
	}
	return true, err
}

func (c *candidate) fail(err error) error { return &lock.Error{Op: "lead", Key: c.key, Err: err} }

// ended returns what ended the context, with the error of fn unless that is the same.
func ended(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	both := fmt.Errorf("%w: %w", ctx.Err(), cause)
	if !errors.Is(cause, lock.ErrClosed) && !errors.Is(cause, ctx.Err()) {
		cause = both
	}
	if err == nil || errors.Is(both, err) {
		return cause
	}
	return fmt.Errorf("%w: %w", cause, err)
}

// pause waits before the next round, or until ctx ends.
func pause(ctx context.Context, tries int) {
	d := min(minPause<<min(tries, 10), maxPause)
	timer := time.NewTimer(d/2 + rand.N(d/2))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
