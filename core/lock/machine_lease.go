//go:build machine

package lock

import (
	"context"
	"fmt"
	"iter"
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

	// Of the first of a hold.

	// reported is the options of the first acquisition that was reported as granted: since
	// then hooks know of the hold, by its name.
	reported  atomic.Pointer[options]
	left      atomic.Bool // its last lease was released; written with the mutex
	ended     bool        // its end is known to the hooks
	concluded bool        // a transaction releases the hold in the store; guarded by the mutex
	endOwed   bool        // it ended before it was reported, and its end is reported after that
}

// Context ends when the lease is released, lost, or when the context it was
// acquired with ends; [context.Cause] says which: [ErrReleased], [ErrLost],
// [ErrClosed] or the parent's. Acquiring the same key with it re-enters the
// hold. Its Err is never late: it looks at the clock, not only at the timer.
// After a machine was suspended, Err and [AssertHeld] have the lease renewed at
// once: it ends if the store does not confirm that within the call timeout.
// That of a nil lease has ended with [ErrNotHeld].
func (l *Lease) Context() context.Context {
	if l == nil {
		return notHeld
	}
	return (*leaseContext)(l)
}

// notHeld is the context of a nil lease.
var notHeld = func() context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(ErrNotHeld)
	return ctx
}()

// signal is a context that ends with the lease, and how to end it.
type signal struct {
	context.Context
	cancel context.CancelCauseFunc
}

// ending returns the signal of the end of the lease.
func (l *Lease) ending() *signal {
	if s := l.signal.Load(); s != nil {
		return s
	}
	parent := l.parent
	if l.over.Load() != nil {
		parent = context.WithoutCancel(parent) // whatever became of it later
	}
	inner, cancel := context.WithCancelCause(parent)
	s := &signal{inner, cancel}
	if !l.signal.CompareAndSwap(nil, s) {
		cancel(nil)
		return l.signal.Load()
	}
	if why := l.over.Load(); why != nil { // before there was a signal
		cancel(*why)
	}
	return s
}

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

// Format prints the lease, whatever the verb, without its owner and its key:
// logs must not carry them.
func (l *Lease) Format(f fmt.State, _ rune) {
	_, _ = fmt.Fprintf(f, "lease(mode=%s, fence=%d)", l.Mode(), l.Fence())
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

// uncanceled is ctx without its end.
func uncanceled(ctx context.Context) context.Context {
	if ctx.Done() == nil {
		return ctx
	}
	return context.WithoutCancel(ctx)
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

// leaseContext is a lease as a context. It carries the lease, and knows by the clock
// when it has ended. While nobody waits for its end, it is its parent.
type leaseContext Lease

type leaseKey struct{}

func (c *leaseContext) Deadline() (time.Time, bool) { return c.parent.Deadline() }

func (c *leaseContext) Done() <-chan struct{} { return (*Lease)(c).ending().Done() }

func (c *leaseContext) Value(key any) any {
	if key == (leaseKey{}) {
		return (*Lease)(c)
	}
	return c.state().Value(key)
}

func (c *leaseContext) Err() error {
	lease := (*Lease)(c)
	lease.look()
	if outer, nested := c.state().(*leaseContext); nested {
		return outer.Err() // which looks at those around: once, as leases nest
	}
	for lease = lease.outer; lease != nil; lease = lease.outer {
		lease.look()
	}
	return c.state().Err()
}

// look ends the lease if its trust has ended. The timer is late, as after a pause of the
// whole process, or it is just about to end the context, and with it those of inner leases.
func (l *Lease) look() {
	if end := l.verdict(); end != nil {
		l.end(end)
	}
}

// state is the context that knows whether the lease has ended, and why.
func (c *leaseContext) state() context.Context {
	if c.signal.Load() == nil && c.over.Load() == nil {
		return c.parent
	}
	return (*Lease)(c).ending()
}

// Format prints the lease as [Lease.Format] does.
func (c *leaseContext) Format(f fmt.State, verb rune) { (*Lease)(c).Format(f, verb) }

// FromContext returns the innermost lease that ctx was derived from. The lease may
// have ended: see [AssertHeld]. Where ctx is a framework's own, it is the one that an
// integration has stored under [ContextKey].
func FromContext(ctx context.Context) (*Lease, bool) {
	lease, ok := ctx.Value(leaseKey{}).(*Lease)
	if !ok {
		lease, ok = ctx.Value(ContextKey).(*Lease)
	}
	return lease, ok
}

// LeaseOf returns the innermost lease of key that ctx was derived from, for work that
// runs under several keys. The lease may have ended: see [AssertHeld].
func LeaseOf(ctx context.Context, key string) (*Lease, bool) {
	for lease := range leases(ctx) {
		if lease.entry.key == key {
			return lease, true
		}
	}
	return nil, false
}

// AssertHeld returns nil if the innermost lease of key that ctx was derived from is
// trusted at this moment. Otherwise it returns [ErrNotHeld], [ErrLost], [ErrReleased]
// or [ErrClosed]. Call it in code that relies on a lock of its callers.
func AssertHeld(ctx context.Context, key string) error {
	err := ErrNotHeld
	if lease, ok := LeaseOf(ctx, key); ok {
		err = lease.status()
	}
	if err != nil {
		return &Error{Op: "assert", Key: key, Err: err}
	}
	return nil
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

// leases yields the leases that ctx was derived from, the innermost first.
func leases(ctx context.Context) iter.Seq[*Lease] {
	return func(yield func(*Lease) bool) {
		for lease, _ := FromContext(ctx); lease != nil && yield(lease); {
			lease = lease.outer
		}
	}
}
