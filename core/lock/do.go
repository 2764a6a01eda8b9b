package lock

import (
	"context"
	"errors"
)

// Do runs fn while holding key, with the lease's context, and releases the
// key also when fn panics. Options are those of [Locker.Acquire].
//
// It returns the error of the acquisition (fn did not run), or fn's error.
// If the lease was lost before it was released, the error also wraps
// [ErrLost], even when fn returned nil: what fn did may overlap with another
// owner's work. It wraps [ErrClosed] if the locker was closed meanwhile, which
// released the key. A release that the store did not confirm is not an error of
// Do: the work was done under the lock; the release goes on in the background
// and shows in [Hooks].
func (l *Locker) Do(ctx context.Context, key string, fn func(ctx context.Context) error, opts ...Option) (err error) {
	lease, err := l.Acquire(ctx, key, opts...)
	if err != nil {
		return err
	}
	defer func() {
		released := lease.Release(ctx)
		if errors.Is(released, ErrLost) || errors.Is(released, ErrClosed) {
			err = wrap(released, err)
		}
	}()
	return fn(lease.Context())
}
