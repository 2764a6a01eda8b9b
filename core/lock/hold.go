//go:build !machine

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
	name   string // guarded by locker.mu
	fence  uint64
	// granted is when the store was called that granted it, before all hand-offs.
	granted time.Duration
	// of a semaphore
	permits, size int

	// trust is when the hold stops being trusted, as nanoseconds since the
	// locker's epoch.
	trust atomic.Int64
	mode  Mode

	// What follows is guarded by locker.mu.

	state     holdState
	suspect   bool           // the process may have been suspended, and nothing was confirmed since
	doubt     bool           // an acquire without an answer may still run in the store
	extended  bool           // an extension was sent
	concluded bool           // a transaction releases it in the store
	lowering  bool           // the last write lease was released, and Lower isn't answered
	reported  bool           // hooks know of it: an acquisition of it was reported as granted
	endOwed   bool           // it ended before that, and its end is reported after it
	rows      [columns]int32 // in the agendas
	count     int32          // leases that have not been released
	writes    int32          // the write leases among them
	leases    *Lease         // these
	expiry    time.Duration  // when the store forgets the hold, by the calls that it has confirmed
	sent      time.Duration  // the same by all calls: one without an answer may have run
	lasts     time.Duration  // the TTL that trust rests on
	watchdog  time.Duration  // what a renewal sets: the longest of its leases; 0: it isn't renewed
	limit     time.Duration  // when it ends at the latest; 0: never
	keep      time.Duration  // until when a release keeps the key, by leases that have been released
	ended     error          // why, of a lost hold; it wraps ErrLost
	next      *hold          // that continues it after a hand-off

	// first is the lease that began the hold. Most have no other.
	first Lease
}

type holdState uint8

const (
	holdAlive     holdState = iota
	holdReleasing           // the last release is under way
	holdReleased
	holdLost
	holdClosing // Close is releasing it
	holdClosed
)

// margin is what trust ends before the store's TTL: room for two clocks that
// run at rates within one per cent of each other, and what [WithMargin] says.
func (l *Locker) margin(ttl time.Duration) time.Duration { return ttl/100 + l.defaults.margin }

func (h *hold) row(c column) *int32 { return &h.rows[c] }

func (h *hold) trustedUntil() time.Duration { return time.Duration(h.trust.Load()) }

func (h *hold) trusted() bool { return h.locker.now() < h.trustedUntil() }

// unreleased says that the release of h is still to come, or under way. What its
// calls may have left is undone after it, never side by side: one of the two would
// find nothing, and take that for a loss. mu is held.
func (h *hold) unreleased() bool { return h.state == holdAlive || h.inRelease() }

// inRelease says that the release of h is under way; mu is held.
func (h *hold) inRelease() bool { return h.state == holdReleasing || h.state == holdClosing }

// event is what hooks get of h: it ends by the mode and the name by which it began. mu
// must not be held.
func (h *hold) event() Event {
	h.locker.mu.Lock()
	defer h.locker.mu.Unlock()
	return Event{Key: h.key, Name: h.name, Mode: h.first.mode}
}

// claim is what the hold asks of the store now; mu is held.
func (h *hold) claim(now time.Duration) Claim { return h.claimUntil(h.expiry, now) }

// claimUntil is the claim to last until then, or for as long as a renewal sets; mu is
// held.
func (h *hold) claimUntil(until, now time.Duration) Claim {
	return Claim{
		Key: h.key, Owner: h.owner, Mode: h.storedMode(),
		TTL:     h.within(max(h.watchdog, until-now), now),
		Permits: h.permits, Size: h.size,
	}
}

// release is the claim that ends the hold. It is repeated for as long as there may be
// something; mu is held.
func (h *hold) release(now time.Duration) Claim {
	c := h.claimUntil(max(h.expiry, h.sent), now)
	if keep := h.keepUntil(); keep > 0 {
		c.Keep = h.locker.epoch.Add(keep)
	}
	return c
}

// keepUntil is when the minimum ends that its leases have asked for, the released
// ones included; 0: there is none. mu is held.
func (h *hold) keepUntil() time.Duration {
	keep := h.keep
	for lease := h.leases; lease != nil; lease = lease.next {
		keep = max(keep, lease.keepUntil())
	}
	return keep
}

// confirm records a TTL set by a call sent at sent. It never shortens the deadline.
// A call that was sent before the process may have been suspended says nothing about
// now. mu must be held.
func (h *hold) confirm(sent, ttl time.Duration) {
	h.expiry = max(h.expiry, sent+ttl)
	if h.locker.suspendedSince(sent) {
		return
	}
	until := sent + ttl - h.locker.margin(ttl)
	h.suspect = false
	if until > h.trustedUntil() {
		h.lasts = ttl
		h.trust.Store(int64(until)) // trustDue sees it when the time before has come
	}
}

// register makes h one of the locker's holds, and its first lease; mu is held.
func (l *Locker) register(ctx context.Context, h *hold, o *options, now time.Duration) *Lease {
	if h.mode.exclusive() {
		l.held[h.key] = h
		if g := l.gates[h.key]; g != nil {
			g.contended = true
		}
	}
	l.sizes.add(h)
	return h.addLease(ctx, &h.first, o, now)
}

// addLease makes lease one of h; mu is held.
func (h *hold) addLease(ctx context.Context, lease *Lease, o *options, now time.Duration) *Lease {
	lease.hold, lease.parent, lease.start, lease.minHold, lease.mode = h, ctx, now, o.minHold, o.mode
	lease.outer, _ = FromContext(ctx) // found now: a framework's context has another one later
	h.count++
	if lease.mode == Write {
		h.writes++
	}
	if o.lease == 0 {
		lease.watchdog = o.watchdog
	}
	if h.leases != nil {
		h.leases.previous = lease
	}
	lease.next, h.leases = h.leases, lease
	h.watchdog = max(h.watchdog, lease.watchdog)
	return lease
}

// dropLease takes a lease out; mu is held.
func (h *hold) dropLease(lease *Lease) {
	h.keep = max(h.keep, lease.keepUntil())
	h.count--
	if lease.mode == Write {
		h.writes--
	}
	if lease.next != nil {
		lease.next.previous = lease.previous
	}
	if lease.previous != nil {
		lease.previous.next = lease.next
	} else {
		h.leases = lease.next
	}
	lease.next, lease.previous = nil, nil
}

// retire takes h out of everything that keeps it going; mu is held.
func (l *Locker) retire(h *hold) {
	l.trusts.remove(h)
	l.renewals.remove(h)
	l.sizes.remove(h)
	l.vacate(h)
	l.checkIdle()
}

// trustDue loses the holds whose trust has ended.
func (l *Locker) trustDue() {
	if l.begin() != nil {
		return
	}
	defer l.running.Done()
	var lost []*hold
	l.mu.Lock()
	now := l.now()
	for range maxRound { // the timer fires again at once if there are more
		h := l.trusts.next(now)
		if h == nil {
			break
		}
		if until := h.trustedUntil(); until > now {
			l.trusts.set(h, until) // it was renewed
			continue
		}
		lost = l.lost(lost, h, h.whyOver())
	}
	l.trusts.served()
	l.mu.Unlock()
	l.endLost(lost)
}

// checkTrust loses h if its time has passed.
func (l *Locker) checkTrust(h *hold) {
	var lost []*hold
	l.mu.Lock()
	if !h.trusted() {
		lost = l.lost(lost, h, h.whyOver())
	}
	l.mu.Unlock()
	l.endLost(lost)
}

// whyOver is why h is lost when its trust has ended; mu is held.
func (h *hold) whyOver() error {
	switch {
	case h.suspect && h.locker.now() < h.limit-h.locker.margin(h.lasts):
		return ErrNotRenewed // the limit has not been reached
	case h.atLimit():
		return ErrHeldTooLong
	case h.watchdog > 0, h.suspect:
		return ErrNotRenewed
	}
	return ErrExpired
}

// lose ends the leases of holds with cause, which wraps ErrLost. A hold that ended
// before stays as it is.
func (l *Locker) lose(cause error, holds ...*hold) {
	var lost []*hold
	l.mu.Lock()
	for _, h := range holds {
		lost = l.lost(lost, h.latest(), cause)
	}
	l.mu.Unlock()
	l.endLost(lost)
}

// lost appends h if it was alive, which is lost from now on; mu is held. endLost must
// follow without it: ending contexts and hooks run code of others.
func (l *Locker) lost(lost []*hold, h *hold, cause error) []*hold {
	if h.state != holdAlive {
		return lost
	}
	h.state, h.ended = holdLost, cause
	l.retire(h)
	return append(lost, h)
}

// endLost ends all leases before any hook runs, which may take its time.
func (l *Locker) endLost(lost []*hold) {
	for _, h := range lost {
		h.endLeases(&h.ended)
	}
	for _, h := range lost {
		l.reportLoss(h, h.ended)
	}
}

// endLeases ends the leases of a hold that has ended. mu must not be held.
func (h *hold) endLeases(cause *error) {
	for lease := h.leases; lease != nil; lease = lease.next {
		lease.end(cause)
	}
}

func (l *Locker) reportLoss(h *hold, cause error) {
	if hook := l.defaults.hooks.Lost; hook != nil && l.hooksKnow(h) {
		hook(LossEvent{
			Event: h.event(), Context: h.first.parent, Reason: lossReason(cause),
			Held: l.now() - h.first.start, Cause: cause, Owner: h.owner, Holder: l.Identity(),
		})
	}
}

// reportRelease reports the release of a lease that began at start to the hooks.
func (l *Locker) reportRelease(h *hold, start time.Duration, last bool, err error) {
	if hook := l.defaults.hooks.Released; hook != nil {
		if last {
			start = h.first.start
		}
		hook(ReleaseEvent{Event: h.event(), Held: l.now() - start, Last: last, Err: err})
	}
}

// holdsOf returns the holds of key that this locker has.
func (l *Locker) holdsOf(key string) []*hold {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []*hold
	for _, row := range l.trusts.rows {
		if row.of.key == key {
			found = append(found, row.of)
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
	case holdClosing, holdClosed:
		return ErrClosed
	default:
		return ErrReleased
	}
}

// report records that an acquisition of that name is reported as granted. reentrant says
// that it is not the first of h, and ended that the end of h is to be reported after it.
// The first one gives h its name, so that what begins by a name ends by it.
func (h *hold) report(name string) (reentrant, ended bool) {
	h.locker.mu.Lock()
	defer h.locker.mu.Unlock()
	reentrant, ended = h.reported, h.endOwed
	if !reentrant {
		h.name = name
	}
	h.reported, h.endOwed = true, false
	return reentrant, ended
}

// hooksKnow says whether the end of h is to be reported now. It is reported after the
// first acquisition of h, and never if none is reported as granted.
func (l *Locker) hooksKnow(h *hold) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	h.endOwed = !h.reported
	return h.reported
}

// reportEnd reports the end of a hold that ended before its acquisition was reported.
func (l *Locker) reportEnd(h *hold) {
	l.mu.Lock()
	err := h.ended
	l.mu.Unlock()
	l.reportClosed(h, err)
}

// exclusive says whether a hold in that mode keeps every other owner out.
func (m Mode) exclusive() bool { return m == Exclusive || m == Fair || m == Write }
