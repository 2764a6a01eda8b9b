package lock

import (
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
