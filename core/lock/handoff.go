//go:build !machine

package lock

import (
	"fmt"
	"time"
)

// A hand-off passes a hold from the lease that is released to the caller of the
// same locker that waits for the key first, without a call to the store. In the
// store nothing changes: owner, count and TTL stay. In the process the hold ends,
// and another begins that continues it: with its own lease, the next fence,
// and what is left of the trust. Renewals and losses of the hold in the store
// follow it.

// handOff passes h on, whose only lease has just been taken out, if it may. mu is
// held.
func (l *Locker) handOff(h *hold) bool {
	g := l.gates[h.key]
	if g == nil {
		return false
	}
	now := l.now() // not earlier: trust may have ended while mu was waited for
	w := l.successor(g, h, now)
	if w == nil {
		return false
	}
	a := w.of
	next := &hold{
		locker: l, key: h.key, owner: h.owner, mode: h.mode, name: a.o.name,
		fence: h.fence + 1, granted: h.granted, expiry: h.expiry, sent: h.sent, lasts: h.lasts,
	}
	next.trust.Store(h.trust.Load())
	l.trusts.replace(h, next)
	l.renewals.replace(h, next)
	h.state, h.next = holdReleased, next
	w.lease = l.register(a.caller, next, a.o, now)
	w.look()
	return true
}

// successor returns the waiter that h passes to, or nil if h has to be released in
// the store; mu is held. A late answer may still be due for a hold that was
// extended, is being lowered or is in doubt.
func (l *Locker) successor(g *gate, h *hold, now time.Duration) *waiter {
	switch {
	case !l.traits.Spaced, l.held[h.key] != h, h.mode != Exclusive && h.mode != Write:
		return nil
	case h.extended, h.lowering, h.doubt, h.suspect, h.concluded, h.limit > 0, h.keep > now:
		return nil
	case l.spent(h, now):
		return nil
	case h.trustedUntil()-now <= h.lasts/2:
		return nil
	}
	w := g.head
	if !w.resting || !w.of.continues(h) || !w.of.mayHold() {
		return nil
	}
	return w
}

// Conclude is for stores that release the hold in a transaction of the caller's, before
// [Lease.Release] is called: from now on the hold is neither passed to another caller of
// this process nor re-entered, which fails with [ErrOwnHold]. The lease stays trusted, and
// must be released. A second call does nothing. Errors: [ErrReleased], [ErrLost],
// [ErrClosed], [ErrNotHeld] (a nil lease), or [ErrUnsupported] if other leases share the
// hold, others may hold the key at the same time, or a [WithMinHold] has not ended.
func (l *Lease) Conclude() error {
	if l == nil {
		return &Error{Op: "conclude", Err: ErrNotHeld}
	}
	err := l.status()
	if err == nil {
		err = l.hold.conclude()
	}
	if err != nil {
		return &Error{Op: "conclude", Key: l.hold.key, Err: err}
	}
	return nil
}

func (h *hold) conclude() error {
	h.locker.mu.Lock()
	defer h.locker.mu.Unlock()
	switch {
	case h.state != holdAlive:
		return ErrNotHeld
	case h.count > 1 || !h.mode.exclusive() || h.lowering:
		return fmt.Errorf("%w: others share the hold", ErrUnsupported)
	case h.keepUntil() > h.locker.now():
		return fmt.Errorf("%w: the minimum hold has not ended", ErrUnsupported)
	}
	h.concluded = true
	return nil
}

// spent says whether h may not pass on what it has, so that other processes have
// their turn.
func (l *Locker) spent(h *hold, now time.Duration) bool {
	return h.fence%FenceStep >= l.defaults.handoffs || now-h.granted >= l.defaults.handoffTime
}

const (
	// yieldTime is how long a process lets others call first. It is what a process
	// elsewhere needs to hear of the release and to call.
	yieldTime = time.Millisecond
	// After a yield that nobody used, the next comes after minYieldPause, and then
	// after twice the pause before, up to maxYieldPause.
	minYieldPause, maxYieldPause = 10 * time.Millisecond, 160 * time.Millisecond
)

// yield lets other processes call first when a run of hand-offs has ended with h:
// the next waiter here knows of the release before any message can reach them, and
// would win each time. mu is held.
func (l *Locker) yield(g *gate, h *hold) {
	if !l.traits.Spaced || h.fence%FenceStep == 0 {
		return
	}
	if now := l.now(); l.spent(h, now) && now >= g.yieldAt {
		g.yieldUntil = now + yieldTime
	}
}

// yielded records who has the key after a yield, if there was one: another process,
// or because no other wanted it the caller. mu is held.
func (g *gate) yielded(toOther bool, now time.Duration) {
	switch {
	case toOther:
		g.yieldAt, g.yieldPause = 0, 0
	case g.yieldUntil > 0:
		g.yieldPause = min(max(2*g.yieldPause, minYieldPause), maxYieldPause)
		g.yieldAt = now + g.yieldPause
	}
	g.yieldUntil = 0
}

// continues reports whether a can continue the hold h.
func (a *acquisition) continues(h *hold) bool {
	return a.claim.Mode == h.mode && a.o.lease == 0 && a.o.watchdog == h.watchdog && a.o.limits.hold == 0 && a.o.minHold == 0
}

// latest returns the hold that continues h in the end; mu is held.
func (h *hold) latest() *hold {
	for h.next != nil {
		h = h.next
	}
	return h
}

// decline releases in the background a lease that the caller does not get: it had given
// up when the lease was passed to it, or the lease doesn't get its length.
func (a *acquisition) decline(lease *Lease) {
	lease.unreported = true
	if a.joined != nil {
		_ = lease.Release(a.caller) // now, or the caller's own release would not be the last
		return
	}
	a.running.Go(func() { _ = lease.Release(a.caller) })
}
