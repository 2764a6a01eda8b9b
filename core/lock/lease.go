package lock

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlatch/redlatch/core/lock/internal/machine"
)

// Lease is the right to a key until it is released or lost. It is safe for
// concurrent use. Several leases share one hold when they re-entered it: each
// must be released.
type Lease struct {
	entry  *entry
	parent context.Context        // that it was acquired with
	outer  *Lease                 // whose context that one was derived from, or nil
	o      *options               // of its acquisition
	signal atomic.Pointer[signal] // of its end, made when somebody waits for it
	over   atomic.Pointer[error]  // why its context has ended, other than with its parent
	fate   atomic.Pointer[error]  // why the lease has ended; written with the mutex of the shard
	trust  atomic.Int64           // until when it is trusted, a machine.Time
	first  *Lease                 // that began the hold: it stands for it
	fence  uint64
	owner  machine.Owner
	start  machine.Time

	release sync.Once
	result  error

	// Guarded by the mutex of the shard.

	wait      *wait      // for the reply to its acquisition, or to its release
	extension *extension // that is under way
	slot      machine.Slot
	seated    bool // it has the slot

	// Of the first of a hold, guarded by that mutex too; reported and left are read without it.

	// reported is the options of the first acquisition that was reported as granted: since
	// then hooks know of the hold, by its name.
	reported  atomic.Pointer[options]
	left      atomic.Bool // its last lease was released
	ended     bool        // its end is known to the hooks
	concluded bool        // a transaction releases the hold in the store
	endOwed   bool        // it ended before it was reported, and its end is reported after that
}

// notHeld is the context of a nil lease.
var notHeld = func() context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(ErrNotHeld)
	return ctx
}()

// end ends the context of a lease that has ended, unless it has ended before.
func (l *Lease) end(cause *error) {
	if l.over.Load() == nil && l.parent.Err() != nil {
		l.ending() // ended by its parent, with that one's cause
	}
	l.over.CompareAndSwap(nil, cause)
	if s := l.signal.Load(); s != nil {
		s.cancel(*l.over.Load())
	}
}

// Key returns the key.
func (l *Lease) Key() string {
	if l == nil {
		return ""
	}
	return l.entry.key
}

// Fence returns a number larger than that of every earlier grant of the key
// to another owner; re-entering does not change it. Send it along to the
// resource, and let the resource refuse smaller ones. It fits in 63 bits, so it
// travels as a string where numbers are floating point, as in JSON. That of a nil lease
// is 0.
func (l *Lease) Fence() uint64 {
	if l == nil {
		return 0
	}
	return l.fence
}

// Owner returns the owner under which the store keeps the hold. It is all that one needs to release the key, so
// don't show it to clients.
func (l *Lease) Owner() string {
	if l == nil {
		return ""
	}
	return l.entry.shard.nameOf(l.owner)
}

// Mode returns the mode in which the key is held.
func (l *Lease) Mode() Mode {
	if l == nil {
		return Exclusive
	}
	return l.o.mode
}

// Deadline returns the time until which the lease is trusted. A renewal moves it.
func (l *Lease) Deadline() time.Time {
	if l == nil {
		return time.Time{}
	}
	return l.entry.shard.at(machine.Time(l.trust.Load()))
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
		if err := l.released(ctx); err != nil {
			l.result = &Error{Op: "release", Key: l.entry.key, Err: err}
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
		return &Error{Op: "extend", Key: l.entry.key, Err: err}
	}
	return nil
}

// look ends the lease if its trust has ended. The timer is late, as after a pause of the
// whole process, or it is just about to end the context, and with it those of inner leases.
func (l *Lease) look() {
	if end := l.verdict(); end != nil {
		l.end(end)
	}
}

// status is nil while the lease is trusted. The context alone cannot tell: it
// also ends with its parent, which may be another key's lost lease.
func (l *Lease) status() error {
	if end := l.verdict(); end != nil {
		return *end
	}
	return nil
}

// verdict is why the lease has ended, or nil while it is trusted. It looks at the clocks.
func (l *Lease) verdict() *error {
	sh := l.entry.shard
	if end := l.fate.Load(); end != nil {
		return end
	}
	if now := sh.clock(); now < machine.Time(l.trust.Load()) {
		return l.fate.Load()
	}
	p := pump{Locker: sh.Locker}
	now := sh.lock()
	if l.seated {
		p.step(l.entry, &machine.Event{Kind: machine.EvTimer}, now, nil) // its trust has ended
	}
	sh.mu.Unlock()
	p.run()
	return l.fate.Load()
}
