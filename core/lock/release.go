//go:build !machine

package lock

import (
	"context"
	"errors"
	"time"
)

// ending is what the release of a lease does to its hold.
type ending uint8

const (
	endsLease   ending = iota // other leases share the hold
	endsWriting               // the other leases of the hold only read
	endsHere                  // another acquisition of this process continues the hold
	endsHold
)

// release ends one lease. ctx is used for its values only.
func (l *Locker) release(ctx context.Context, lease *Lease) error {
	h := lease.hold
	now := l.checkClock() // what is in doubt is not passed on
	if now >= h.trustedUntil() {
		l.checkTrust(h) // the cause must say lost, though the timer be late
	}
	lease.end(&ErrReleased)
	c, ends, err := l.beginRelease(lease, now)
	if err != nil {
		return err
	}
	defer l.running.Done()
	switch ends {
	case endsWriting:
		err = l.lower(ctx, h, now)
	case endsHold:
		err = l.releaseAll(ctx, h, c, now)
	}
	last := (ends == endsHere || ends == endsHold) && h.reported && !errors.Is(err, ErrLost)
	if last || !lease.unreported {
		l.reportRelease(h, lease.start, last, err)
	}
	return err
}

// beginRelease takes the lease out of its hold, which the store is to release by c if the
// hold ends. An error means that it has ended already.
func (l *Locker) beginRelease(lease *Lease, now time.Duration) (c Claim, ends ending, err error) {
	h := lease.hold
	l.mu.Lock()
	defer l.mu.Unlock()
	switch h.state {
	case holdClosing, holdClosed:
		return c, endsLease, ErrClosed
	case holdLost:
		if !l.closed {
			// The store may still think that the hold lasts.
			l.undo(h.release(now), h.undoPasses())
		}
		return c, endsLease, h.ended
	}
	l.running.Add(1)
	h.dropLease(lease)
	if h.count == 0 && l.handOff(h) {
		return c, endsHere, nil
	}
	ends = endsLease
	if h.count > 0 && lease.mode == Write && h.writes == 0 {
		h.lowering, ends = true, endsWriting
	}
	l.unwatch(h, lease, now)
	if h.count > 0 {
		return c, ends, nil
	}
	h.state = holdReleasing
	l.releasing++
	l.trusts.remove(h)
	return h.release(now), endsHold, nil
}

// releaseAll ends the hold by c, now.
func (l *Locker) releaseAll(ctx context.Context, h *hold, c Claim, now time.Duration) error {
	err := l.sendRelease(ctx, h, c, now, now+l.defaults.callTimeout)
	l.mu.Lock()
	h.state = holdReleased
	lost := errors.Is(err, ErrLost)
	if lost {
		h.state, h.ended = holdLost, err
	}
	l.releasing--
	l.retire(h)
	doubt := h.doubt
	l.mu.Unlock()
	if doubt || errors.Is(err, ErrUnavailable) {
		l.undo(c, undoPasses[:])
	}
	if lost {
		l.reportLoss(h, err) // last: a hook may panic
	}
	return err
}

// sendRelease sends a release now, and again if need be: it is absolute.
func (l *Locker) sendRelease(ctx context.Context, h *hold, c Claim, now, until time.Duration) error {
	unanswered := false
	err := l.persist(ctx, now, until, func(now, timeout time.Duration) error {
		_, err := l.callStore(ctx, now, timeout, l.releaseCall, c, nil)
		if isDecision(err) && unanswered && h.trusted() {
			return nil // the call before did it, only its answer was lost
		}
		unanswered = unanswered || err != nil && outcomeOf(err) == OutcomeUnknown
		return err
	})
	return releaseFailure(err)
}

// releaseFailure turns the store's error into the holder's error.
func releaseFailure(err error) error {
	switch {
	case err == nil:
		return nil
	case isDecision(err):
		return wrap(ErrTaken, ErrNotHeld)
	default:
		return wrap(ErrUnavailable, err)
	}
}

// persist makes an idempotent bounded call now, and repeats it until the store answers
// or refuses it, ctx ends, or the time comes; then it returns the last error.
func (l *Locker) persist(ctx context.Context, now, until time.Duration, call func(now, timeout time.Duration) error) error {
	for tries := 1; ; tries++ {
		err := call(now, max(until-now, time.Millisecond))
		if err == nil || isDecision(err) || outcomeOf(err) == OutcomeRefused {
			return err
		}
		wait := backoff(tries)
		if ctx.Err() != nil || l.now()+wait >= until {
			return err
		}
		if !pause(ctx, wait, nil) {
			return err
		}
		now = l.now()
	}
}
