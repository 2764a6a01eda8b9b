//go:build !machine

package lock

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Lease is the right to a key until it is released or lost. It is safe for
// concurrent use. Several leases share one hold when they re-entered it: each
// must be released.
type Lease struct {
	hold       *hold
	parent     context.Context        // that it was acquired with
	outer      *Lease                 // whose context that one was derived from, or nil
	signal     atomic.Pointer[signal] // of its end, made when somebody waits for it
	over       atomic.Pointer[error]  // why it has ended, other than with its parent
	watchdog   time.Duration          // that it asks for; 0: it is not renewed
	minHold    time.Duration          // that it asks for
	mode       Mode                   // that it asks for: a writer may read
	unreported bool                   // it ended before its acquisition did, and hooks never heard of it
	start      time.Duration
	release    sync.Once
	result     error

	// Guarded by locker.mu.

	keeps          bool   // its caller has got it, so that the minimum counts
	next, previous *Lease // of the hold
}

// of returns the hold, and an empty one for a nil lease.
func (l *Lease) of() *hold {
	if l == nil {
		return &noHold
	}
	return l.hold
}

// What a nil lease has.
var (
	noHold  hold
	notHeld = func() context.Context {
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(ErrNotHeld)
		return ctx
	}()
)

// end ends the context of the lease, unless it has ended.
func (l *Lease) end(cause *error) {
	if l.parent.Err() != nil {
		l.ending() // ended by its parent, with that one's cause
	}
	l.over.CompareAndSwap(nil, cause)
	if s := l.signal.Load(); s != nil {
		s.cancel(*l.over.Load())
	}
}

// Key returns the key.
func (l *Lease) Key() string { return l.of().key }

// Fence returns a number larger than that of every earlier grant of the key
// to another owner; re-entering does not change it. Send it along to the
// resource, and let the resource refuse smaller ones. It fits in 63 bits, so it
// travels as a string where numbers are floating point, as in JSON. That of a nil lease
// is 0.
func (l *Lease) Fence() uint64 { return l.of().fence }

// Owner returns the owner under which the store keeps the hold. It is all that one needs to release the key, so
// don't show it to clients.
func (l *Lease) Owner() string { return l.of().owner }

// Mode returns the mode in which the key is held.
func (l *Lease) Mode() Mode {
	if l == nil {
		return Exclusive
	}
	return l.mode
}

// Deadline returns the time until which the lease is trusted. A renewal moves it.
func (l *Lease) Deadline() time.Time {
	if l == nil {
		return time.Time{}
	}
	return l.hold.locker.epoch.Add(l.hold.trustedUntil())
}

// Release releases the lease and wakes a waiter. It works even if ctx has ended: it
// uses only the values of ctx, which must not be nil, and takes at most the call timeout.
// A second call does nothing and returns what the first returned.
//
// nil means released. [ErrLost] (as its reason, and with [ErrNotHeld] if the
// store said so) means that the lease had ended before: work done under it may
// have overlapped with another owner's. [ErrUnavailable] means that the store did
// not confirm: the release is then repeated in the background until the key has
// expired. [ErrClosed] means that [Locker.Close] has released it. [ErrNotHeld] alone is
// for a nil lease, so that Release may be deferred before the error is checked.
//
// While other leases share the hold, a release makes no call; but that of the last write
// lease lets readers in, if the hold is read as well.
func (l *Lease) Release(ctx context.Context) error {
	if l == nil {
		return &Error{Op: "release", Err: ErrNotHeld}
	}
	ctx = uncanceled(ctx)
	l.release.Do(func() {
		if err := l.hold.locker.release(ctx, l); err != nil {
			l.result = &Error{Op: "release", Key: l.hold.key, Err: err}
		}
	})
	return l.result
}

// Extend makes the hold last at least d from now in the store. It is trusted until the
// margin before that, as after an acquisition: see [WithMargin] and [Lease.Deadline].
// It never shortens. Errors: [ErrInvalid] (d below [MinLease], not longer than twice the
// margin, above [MaxDuration], or more than [WithMaxHold] leaves), [ErrReleased],
// [ErrLost], [ErrClosed], [ErrNotHeld] (a nil lease), [ErrUnavailable] (unknown: the old
// deadline stands), or the context's.
func (l *Lease) Extend(ctx context.Context, d time.Duration) error {
	if l == nil {
		return &Error{Op: "extend", Err: ErrNotHeld}
	}
	err := l.extend(ctx, d)
	if err != nil {
		return &Error{Op: "extend", Key: l.hold.key, Err: err}
	}
	return nil
}

func (l *Lease) extend(ctx context.Context, d time.Duration) error {
	if err := checkDuration("Extend", d, MinLease, ""); err != nil {
		return err
	}
	if margin := l.hold.locker.defaults.margin; d <= 2*margin {
		return fmt.Errorf("%w: Extend(%v): must be longer than twice WithMargin(%v)", ErrInvalid, d, margin)
	}
	if left, ok := l.hold.mayLast(); ok && d > left && l.status() == nil {
		return fmt.Errorf("%w: Extend(%v): WithMaxHold leaves %v", ErrInvalid, d, left)
	}
	return l.hold.locker.extend(ctx, l, d)
}

// look ends the lease if its trust has ended. The timer is late, as after a pause of the
// whole process, or it is just about to end the context, and with it those of inner leases.
func (l *Lease) look() {
	l.hold.locker.checkClock()
	if l.hold.trusted() {
		return
	}
	if end := l.hold.locker.holdStatus(l.hold); end != nil {
		l.ending().cancel(end)
	}
}

// alive says whether the lease was neither released nor lost, as far as the timers know;
// mu is held.
func (l *Lease) alive() bool { return l.hold.state == holdAlive && l.over.Load() == nil }

// status is nil while the lease is trusted. The context alone cannot tell: it
// also ends with its parent, which may be another key's lost lease.
func (l *Lease) status() error {
	err := l.hold.locker.holdStatus(l.hold)
	if err == nil && l.over.Load() != nil {
		return ErrReleased
	}
	return err
}
