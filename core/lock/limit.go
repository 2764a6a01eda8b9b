package lock

import (
	"context"
	"fmt"
	"time"
)

// limits bound what acquisitions may take up; 0 is no limit.
type limits struct {
	waiters int // of one key
	total   int // of the locker
	wait    time.Duration
	hold    time.Duration
}

var errCrowded = fmt.Errorf("%w: %w", ErrBusy, ErrTooManyWaiters)

// WithMaxWaiters bounds how many acquisitions of one key may wait in this locker at
// a time. One more that would have to wait is refused at once, with
// [ErrTooManyWaiters]. A free key is still granted. So a key whose holder hangs
// costs a bounded number of goroutines and connections. At least 1. Default: no
// limit.
func WithMaxWaiters(n int) Option {
	return func(o *options) {
		if n < 1 {
			o.reject("WithMaxWaiters(%d): must be at least 1", n)
		}
		o.limits.waiters = n
	}
}

// WithMaxTotalWaiters is [WithMaxWaiters] for all keys of the locker together.
func WithMaxTotalWaiters(n int) Option {
	return func(o *options) {
		if n < 1 {
			o.reject("WithMaxTotalWaiters(%d): must be at least 1", n)
		}
		o.limits.total = n
	}
}

// WithMaxWait bounds every wait for other owners: a wait without a [WithWait], or
// with a longer one, ends after d. d must be positive. Default: no limit.
func WithMaxWait(d time.Duration) Option {
	return func(o *options) {
		o.duration("WithMaxWait", d, 1, "; WithWait(0) tries once")
		o.limits.wait = d
	}
}

// WithMaxHold bounds how long a key is held, whatever watchdog, fixed lease or
// [Lease.Extend] ask for. The acquisition that makes the hold sets it: that of a re-entry
// counts for nothing. Shortly before d has passed the lease is lost, with
// a cause that wraps [ErrLost] and [ErrHeldTooLong]. After d the key is free, whether
// or not the work is done. At least [MinLease]; 0 means no limit, which is the
// default.
func WithMaxHold(d time.Duration) Option {
	return func(o *options) {
		if d != 0 {
			o.duration("WithMaxHold", d, MinLease, "; 0 means no limit")
		}
		o.limits.hold = d
	}
}

// WithMinHold keeps the key held until d has passed, also if it is released before:
// so a job that takes a second runs once, although the clocks of its schedulers
// differ by more. d counts from when the call that was granted was sent, as trust
// does. A release ends the lease and its context at once. But until d has passed,
// the key stays busy for everybody, its last owner included; then waiters get it.
// A release after d frees the key at once. Where several may have the key, only what the
// lease had stays taken: a reader keeps writers out, and permits that are free are granted.
//
// Neither [Locker.Close] nor the end of the process shortens it: the key has a TTL
// of at least d from the start, whatever the watchdog. [Locker.ForceRelease] frees
// the key at once. If a hold is re-entered, the longest d counts, from the grant of
// the hold, and only the last release keeps the key. An acquisition that fails,
// also as a part of [AcquireAll], keeps nothing.
//
// [ErrInvalid] means that a [WithLease] of the acquisition is shorter, or a [WithMaxHold]
// of it or of the hold to re-enter, or that a writer wants to read as well. At least
// [MinLease]; 0 means none, which is the default.
func WithMinHold(d time.Duration) Option {
	return func(o *options) {
		if d != 0 {
			o.duration("WithMinHold", d, MinLease, "; 0 means none")
		}
		o.minHold = d
	}
}

// checkMinHold refuses what would end the hold earlier.
func (o *options) checkMinHold() {
	switch {
	case o.lease > 0 && o.lease < o.minHold:
		o.reject("WithMinHold(%v): WithLease(%v) ends earlier: use WithWatchdog, or a longer lease", o.minHold, o.lease)
	case o.limits.hold > 0 && o.limits.hold < o.minHold:
		o.reject("WithMinHold(%v): WithMaxHold(%v) ends earlier", o.minHold, o.limits.hold)
	}
}

// keepUntil is when the lease's minimum ends; 0: it has none. mu is held.
func (l *Lease) keepUntil() time.Duration {
	if !l.keeps {
		return 0
	}
	return l.hold.granted + l.minHold
}

// willKeep says whether a lease of h has a minimum that has yet to begin; mu is held.
func (h *hold) willKeep() bool {
	for lease := h.leases; lease != nil; lease = lease.next {
		if lease.minHold > 0 && !lease.keeps {
			return true
		}
	}
	return false
}

// keep begins the lease's minimum, as its caller gets it. One that nobody gets keeps
// nothing.
func (l *Lease) keep() {
	if l.minHold == 0 {
		return
	}
	l.hold.locker.mu.Lock()
	defer l.hold.locker.mu.Unlock()
	l.keeps = true
}

// releaseLater releases the lease in the background.
func (l *Lease) releaseLater(ctx context.Context) {
	if l.hold.locker.begin() != nil {
		return // Close releases it
	}
	go func() {
		defer l.hold.locker.running.Done()
		_ = l.Release(ctx)
	}()
}

// longestWait is how long an acquisition waits at most; false: its context
// alone decides.
func (o *options) longestWait() (time.Duration, bool) {
	switch {
	case o.limits.wait == 0, o.waitSet && o.wait < o.limits.wait:
		return o.wait, o.waitSet
	default:
		return o.limits.wait, true
	}
}

// overcrowded says whether the gate has no room for one more that waits; mu is
// held.
func (l *Locker) overcrowded(g *gate, most limits) bool {
	return most.waiters > 0 && g.waiting >= most.waiters || most.total > 0 && l.waiting >= most.total
}

// mustWait counts the acquisition as a waiter, once. It is
// refused where there are too many; leaving the queue counts it out.
func (a *acquisition) mustWait() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	g := a.waiter.gate
	switch {
	case a.waiter.counted:
		return nil
	case a.how.group != nil && a.waitsForItself(a.caller): // it would never end
		return ErrOwnHold
	case a.overcrowded(g, a.o.limits):
		return errCrowded
	}
	a.waiter.counted = true
	g.waiting++
	a.waiting++
	return nil
}

// within is the TTL of a call sent at now, cut to what the hold may still last. It is never
// nothing, which stores refuse.
func (h *hold) within(ttl, now time.Duration) time.Duration {
	if h.limit > 0 {
		ttl = min(ttl, h.limit-now)
	}
	return max(ttl, time.Millisecond)
}

// mayLast is how long the hold may still last; false: as long as it likes.
func (h *hold) mayLast() (left time.Duration, limited bool) {
	h.locker.mu.Lock()
	defer h.locker.mu.Unlock()
	return h.limit - h.locker.now(), h.limit > 0
}

// atLimit says whether the hold lasts as long as it may; mu is held.
func (h *hold) atLimit() bool { return h.limit > 0 && h.expiry >= h.limit }
