//go:build !machine

package lock

import (
	"fmt"
	"time"
)

// A caller whose context holds the key re-enters it: the hold gets one more lease. The
// store knows one hold, and is called only if the new lease asks for more time than the
// hold has.

// checkOwn ends the holds of the caller that are no longer trusted, although no timer has
// said so yet.
func (a *acquisition) checkOwn() {
	for lease := range leases(a.caller) {
		if lease.hold.locker == a.Locker && lease.hold.key == a.claim.Key {
			a.checkHold(lease.hold)
		}
	}
}

// reenter joins the hold that the caller's context has, if any. A hold that can't be
// joined is a conflict: to wait for it would be to wait for oneself. mu is held.
func (a *acquisition) reenter() {
	h := a.own()
	if h == nil {
		return
	}
	if a.conflict = a.joins(h); a.conflict != nil {
		return
	}
	now := a.now()
	a.longer = !h.covers(a.o, now)
	a.joined = h.addLease(a.caller, new(Lease), a.o, now)
	if !a.renewals.has(h) { // else the renewal that is due stays due
		a.renewLater(h, now, h.expiry-now)
	}
}

// own finds the hold of the caller's context. Permits don't re-enter, they add up. mu is
// held.
func (a *acquisition) own() *hold {
	for lease := range leases(a.caller) {
		h := lease.hold
		if h.locker == a.Locker && h.key == a.claim.Key && h.state == holdAlive && (a.o.mode != Semaphore || h.mode != Semaphore) {
			return h
		}
	}
	return nil
}

// joins returns why an acquisition can't join h, or nil; mu is held.
func (a *acquisition) joins(h *hold) error {
	switch held := h.storedMode(); {
	case held != a.o.mode && (held != Write || a.o.mode != Read):
		return fmt.Errorf("%w: the same owner already holds it in mode %s, which cannot become %s", ErrInvalid, held, a.o.mode)
	case a.keepsBoth(h):
		return fmt.Errorf("%w: WithMinHold: a writer under it cannot read as well; release the other first", ErrInvalid)
	case h.limit > 0 && h.granted+a.o.minHold > h.limit:
		return fmt.Errorf("%w: WithMinHold(%v): WithMaxHold of the hold ends earlier", ErrInvalid, a.o.minHold)
	case a.o.noReentry, h.concluded:
		return ErrOwnHold
	}
	return nil
}

// keepsBoth says whether the owner would write and read, and keep one of both for a
// minimum: the store keeps the hold in the mode in which it is released last. mu is held.
func (a *acquisition) keepsBoth(h *hold) bool {
	writes := a.o.mode == Write || h.writes > 0
	reads := a.o.mode == Read || h.reads() > 0
	return writes && reads && (a.o.minHold > 0 || h.keepUntil() > a.now() || h.willKeep())
}

// covers says whether h lasts as long as a lease with these options asks for; mu is held.
func (h *hold) covers(o *options, now time.Duration) bool {
	switch {
	case h.atLimit():
		return true // it can't last longer
	case o.lease == 0 && o.watchdog <= h.watchdog:
		return h.granted+o.minHold <= h.expiry // renewals see to the rest
	}
	return o.ttl() <= h.expiry-now
}
