package lock

import (
	"context"
	"fmt"
	"iter"
	"time"
)

// signal is a context that ends with the lease, and how to end it.
type signal struct {
	context.Context
	cancel context.CancelCauseFunc
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

type leaseKey struct{}

// leaseContext is a lease as a context. It carries the lease, and knows by the clock
// when it has ended. While nobody waits for its end, it is its parent.
type leaseContext Lease

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

// state is the context that knows whether the lease has ended, and why.
func (c *leaseContext) state() context.Context {
	if c.signal.Load() == nil && c.over.Load() == nil {
		return c.parent
	}
	return (*Lease)(c).ending()
}

// Format prints the lease as [Lease.Format] does.
func (c *leaseContext) Format(f fmt.State, verb rune) { (*Lease)(c).Format(f, verb) }

// Format prints the lease, whatever the verb, without its owner and its key:
// logs must not carry them.
func (l *Lease) Format(f fmt.State, _ rune) {
	_, _ = fmt.Fprintf(f, "lease(mode=%s, fence=%d)", l.Mode(), l.Fence())
}

// uncanceled is ctx without its end.
func uncanceled(ctx context.Context) context.Context {
	if ctx.Done() == nil {
		return ctx
	}
	return context.WithoutCancel(ctx)
}

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

// leases yields the leases that ctx was derived from, the innermost first.
func leases(ctx context.Context) iter.Seq[*Lease] {
	return func(yield func(*Lease) bool) {
		for lease, _ := FromContext(ctx); lease != nil && yield(lease); {
			lease = lease.outer
		}
	}
}

// LeaseOf returns the innermost lease of key that ctx was derived from, for work that
// runs under several keys. The lease may have ended: see [AssertHeld].
func LeaseOf(ctx context.Context, key string) (*Lease, bool) {
	for lease := range leases(ctx) {
		if lease.Key() == key {
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
