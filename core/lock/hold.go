package lock

import (
	"context"
	"sync/atomic"
	"time"
)

// hold is one owner's claim on one key in the store, shared by the leases
// that re-entered it.
type hold struct {
	locker *Locker
	key    string
	owner  string
	name   string
	fence  uint64
	start  time.Duration
	// granted is when the store was called that granted it, before all hand-offs.
	granted time.Duration
	caller  context.Context // of the acquisition that made it
	// of a semaphore
	permits, size int

	ownership *ownership
	// trust is when the hold stops being trusted, as nanoseconds since the
	// locker's epoch.
	trust atomic.Int64
	mode  Mode

	// What follows is guarded by locker.mu.

	state    holdState
	suspect  bool          // the process may have been suspended, and nothing was confirmed since
	doubt    bool          // an acquire without an answer may still run in the store
	joined   bool          // it was re-entered or extended, or its writer has read
	count    int           // hold count in the store
	leases   []*Lease      // that have not been released, each at its place
	expiry   time.Duration // when the store forgets the hold, at the latest
	lasts    time.Duration // the TTL that trust rests on
	timer    *time.Timer   // fires when trust ends
	watchdog time.Duration // what a renewal sets
	watchers int           // leases that ask for renewal
	renewAt  time.Duration
	limit    time.Duration // when it ends at the latest; 0: never
	keep     time.Duration // until when a release keeps the key, by leases that have been released
	ended    error         // why, of a lost hold; it wraps ErrLost
	index    int           // in the renewal queue, -1 outside
	next     *hold         // that continues it after a hand-off

	// Most holds have one lease: what that needs is part of them.

	first Lease // unused while its hold is nil
	only  [1]*Lease
}

type holdState uint8

const (
	holdAlive     holdState = iota
	holdReleasing           // the last release is under way
	holdReleased
	holdLost
	holdClosed // released by Close
)

// margin is what trust ends before the store's TTL: room for two clocks that
// run at rates within one per cent of each other, and what [WithMargin] says.
func (l *Locker) margin(ttl time.Duration) time.Duration { return ttl/100 + l.defaults.margin }

func (h *hold) trustedUntil() time.Duration { return time.Duration(h.trust.Load()) }

func (h *hold) trusted() bool { return h.locker.now() < h.trustedUntil() }

func (h *hold) event() Event { return Event{Key: h.key, Name: h.name, Mode: h.mode} }

// claim is what the hold asks of the store; mu is held.
func (h *hold) claim(holds int) Claim {
	c := Claim{
		Key: h.key, Owner: h.owner, Mode: h.mode, Holds: holds,
		TTL:     h.within(max(h.watchdog, h.expiry-h.locker.now())),
		Permits: h.permits, Size: h.size,
	}
	if keep := h.keepUntil(); keep > 0 {
		c.Keep = h.locker.epoch.Add(keep)
	}
	return c
}

// keepUntil is when the minimum ends that its leases have asked for, the released
// ones included; 0: there is none. mu is held.
func (h *hold) keepUntil() time.Duration {
	keep := h.keep
	for _, lease := range h.leases {
		keep = max(keep, lease.keepUntil())
	}
	return keep
}

// confirm records a TTL set by a call sent at sent. It never shortens the deadline,
// and reports whether it extended it. mu must be held.
func (h *hold) confirm(sent, ttl time.Duration) (longer bool) {
	h.expiry = max(h.expiry, sent+ttl)
	until := sent + ttl - h.locker.margin(ttl)
	h.suspect = false
	if until <= h.trustedUntil() {
		return false
	}
	h.lasts = ttl
	h.trust.Store(int64(until))
	if h.timer != nil {
		h.timer.Reset(until - h.locker.now())
	}
	return true
}

// addLease makes a lease of h; mu is held.
func (h *hold) addLease(ctx context.Context, o *options, now time.Duration) *Lease {
	outer, _ := FromContext(ctx)
	inner, cancel := context.WithCancelCause(ctx)
	lease := &h.first
	if lease.hold != nil {
		lease = new(Lease)
	}
	if h.leases == nil {
		h.leases = h.only[:0]
	}
	lease.hold, lease.outer, lease.cancel = h, outer, cancel
	lease.start, lease.renewed = now, o.lease == 0
	lease.ctx = leaseContext{Context: inner, lease: lease}
	lease.place, lease.minHold = len(h.leases), o.minHold
	h.leases = append(h.leases, lease)
	if lease.renewed {
		h.watchers++
		h.watchdog = max(h.watchdog, o.watchdog)
	}
	return lease
}

// has says whether lease has not been released; mu is held.
func (h *hold) has(lease *Lease) bool {
	return lease.place < len(h.leases) && h.leases[lease.place] == lease
}

// dropLease takes a lease out; mu is held.
func (h *hold) dropLease(lease *Lease) {
	if !h.has(lease) {
		return
	}
	h.keep = max(h.keep, lease.keepUntil())
	last := len(h.leases) - 1
	moved := h.leases[last]
	h.leases[lease.place], moved.place = moved, lease.place
	h.leases[last] = nil
	h.leases = h.leases[:last]
}

// takeLeases empties the set of leases, for their contexts to be ended
// without mu: that runs code of others. mu is held.
func (h *hold) takeLeases() []*Lease {
	h.keep = h.keepUntil()
	leases := h.leases
	h.leases = nil
	return leases
}

func endLeases(leases []*Lease, cause error) {
	for _, lease := range leases {
		lease.cancel(cause)
	}
}

// retire takes h out of everything that keeps it going; mu is held.
func (l *Locker) retire(h *hold) {
	delete(l.holds, h)
	l.drop(h)
	h.timer.Stop()
	l.renewals.remove(h)
	l.vacate(h)
	l.checkIdle()
}

// checkTrust loses h if its time has passed.
func (l *Locker) checkTrust(h *hold) {
	l.mu.Lock()
	h = h.latest()
	if left := h.trustedUntil() - l.now(); h.state == holdAlive && left > 0 {
		h.timer.Reset(left) // a renewal came first
		l.mu.Unlock()
		return
	}
	cause := ErrLeaseOver
	switch {
	case h.atLimit():
		cause = ErrHeldTooLong
	case h.watchers > 0, h.suspect:
		cause = ErrStoreAway
	}
	l.loseAndUnlock(h, cause)
}

// lose ends the leases of h with cause, which wraps ErrLost. A hold that ended
// before stays as it is.
func (l *Locker) lose(h *hold, cause error) {
	l.mu.Lock()
	l.loseAndUnlock(h, cause)
}

// loseAndUnlock is lose with mu held, which it unlocks: ending contexts
// and hooks run code of others.
func (l *Locker) loseAndUnlock(h *hold, cause error) {
	h = h.latest()
	if h.state != holdAlive {
		l.mu.Unlock()
		return
	}
	h.state, h.ended = holdLost, cause
	leases := h.takeLeases()
	l.retire(h)
	l.mu.Unlock()
	endLeases(leases, cause)
	l.reportLoss(h, cause)
}

func (l *Locker) reportLoss(h *hold, cause error) {
	if hook := l.defaults.hooks.Lost; hook != nil {
		hook(LossEvent{
			Event: h.event(), Context: h.caller, Reason: lossReason(cause),
			Held: l.now() - h.start, Cause: cause,
		})
	}
}

// reportRelease reports the release of a lease that began at start to the hooks.
func (l *Locker) reportRelease(h *hold, start time.Duration, last bool, err error) {
	if hook := l.defaults.hooks.Released; hook != nil {
		if last {
			start = h.start
		}
		hook(ReleaseEvent{Event: h.event(), Held: l.now() - start, Last: last, Err: err})
	}
}

// holdsOf returns the holds of key that this locker has.
func (l *Locker) holdsOf(key string) []*hold {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []*hold
	for h := range l.holds {
		if h.key == key {
			found = append(found, h)
		}
	}
	return found
}

// holdStatus is nil while h is alive and trusted.
func (l *Locker) holdStatus(h *hold) error {
	l.checkHold(h)
	l.mu.Lock()
	defer l.mu.Unlock()
	return h.status()
}

// checkHold ends h if it is no longer trusted, although no timer has said so yet.
func (l *Locker) checkHold(h *hold) {
	l.checkClock()
	if !h.trusted() {
		l.checkTrust(h)
	}
}

// status is nil while h is alive, and else says how it ended; mu is held.
func (h *hold) status() error {
	switch h.state {
	case holdAlive:
		return nil
	case holdLost:
		return h.ended
	case holdClosed:
		return ErrClosed
	default:
		return ErrReleased
	}
}
