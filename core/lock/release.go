package lock

import (
	"context"
	"errors"
	"time"
)

// release gives one lease back. ctx is used for its values only.
func (l *Locker) release(ctx context.Context, lease *Lease) error {
	h := lease.hold
	now := l.checkClock() // what is in doubt is not passed on
	if now >= h.trustedUntil() {
		l.checkTrust(h) // the cause must say lost, though the timer be late
	}
	lease.end(&ErrReleased)
	c, last, handed, err := l.beginRelease(lease, now)
	if err != nil {
		return err
	}
	defer l.running.Done()
	switch {
	case handed:
	case last:
		err = l.releaseAll(ctx, h, c, now)
	default:
		err = l.releaseOne(ctx, h, now+l.defaults.callTimeout)
	}
	ends := last && h.reported && !errors.Is(err, ErrLost)
	if ends || !lease.unreported {
		l.reportRelease(h, lease.start, ends, err)
	}
	return err
}

// beginRelease takes the lease out of its hold. last means that the hold ends
// with it, by c, and handed that this takes no call: another continues it, or it has read
// and goes on writing. An error means that it has ended already.
func (l *Locker) beginRelease(lease *Lease, now time.Duration) (c Claim, last, handed bool, err error) {
	h := lease.hold
	l.mu.Lock()
	defer l.mu.Unlock()
	switch h.state {
	case holdClosing, holdClosed:
		return c, false, false, ErrClosed
	case holdLost:
		if !l.closed {
			// The store may still think that the hold lasts.
			l.orphaned(h.ownership, h.claim(0, now), h.undoPasses())
		}
		return c, false, false, h.ended
	}
	l.running.Add(1)
	h.dropLease(lease)
	h.count--
	if h.count == 0 && l.handOff(h) {
		return c, true, true, nil
	}
	l.unwatch(h, lease, now)
	if h.count > 0 {
		return c, false, false, nil
	}
	if c = h.claim(0, now); h.ownership.writing(c) {
		h.state = holdReleased
		owed := c // on the heap, unlike c
		h.ownership.owed, h.ownership.doubt = &owed, h.doubt
		l.retire(h)
		return c, true, true, nil
	}
	h.state = holdReleasing
	l.releasing++
	l.trusts.remove(h)
	return c, true, false, nil
}

// releaseOne lowers the hold count in the store. It waits for a re-entry that is
// under way, as the counts are absolute, but no longer than for an answer: the next
// count sets the store right, at the latest the last release. Of releases that wait
// together one sends the count for all.
func (l *Locker) releaseOne(ctx context.Context, h *hold, until time.Duration) error {
	bounded, cancel := context.WithTimeout(ctx, l.defaults.callTimeout)
	defer cancel()
	if h.ownership.takeFirst(bounded) != nil {
		return because(ErrUnavailable, errNoAnswer)
	}
	defer h.ownership.give()
	l.mu.Lock()
	now, count := l.now(), h.count
	c, alive, sent := h.claim(count, now), h.state == holdAlive, h.stored <= count
	l.mu.Unlock()
	if !alive || sent {
		return nil // what was released since ended the hold, and said how, or sent the count
	}
	err := l.sendRelease(ctx, h, c, now, until)
	if err == nil {
		l.lowered(h, count)
	}
	if errors.Is(err, ErrLost) {
		l.lose(err, h)
		err = l.holdStatus(h) // which may have been lost before, by its clock
		if !errors.Is(err, ErrLost) {
			return nil // the release of the last lease, or Close, overtook this one
		}
	}
	return err
}

// lowered records that a release was answered, and so what the store counts.
func (l *Locker) lowered(h *hold, count int32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h.stored = count
	h.ownership.noteAnswer()
}

// releaseAll ends the hold by c, now. It waits for no re-entry: without the hold, the
// store grants none.
func (l *Locker) releaseAll(ctx context.Context, h *hold, c Claim, now time.Duration) error {
	until := now + l.defaults.callTimeout
	var owed *Claim
	var owedDoubt bool
	if h.ownership != nil {
		l.mu.Lock()
		owed, owedDoubt = h.ownership.takeOwed()
		l.mu.Unlock()
	}
	if owed != nil { // first: behind a minimum hold it would leave the lock as long as the writer had it
		failed := l.persist(ctx, l.now(), until, func(now, timeout time.Duration) error {
			return l.callRelease(ctx, now, timeout, *owed)
		})
		if owedDoubt || failed != nil && !isDecision(failed) {
			l.undo(*owed, undoPasses[:])
		}
		now = l.now()
	}
	err := l.sendRelease(ctx, h, c, now, until)
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
		err := l.callRelease(ctx, now, timeout, c)
		if c.Holds == 0 && isDecision(err) && unanswered && h.trusted() {
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
		return because(ErrTaken, ErrNotHeld)
	default:
		return because(ErrUnavailable, err)
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
