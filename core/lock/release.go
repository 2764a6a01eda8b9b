package lock

import (
	"context"
	"errors"
	"time"
)

// release gives one lease back. ctx is used for its values only.
func (l *Locker) release(ctx context.Context, lease *Lease) error {
	h := lease.hold
	if !h.trusted() {
		l.checkTrust(h) // the cause must say lost, though the timer be late
	}
	lease.cancel(ErrReleased)
	_ = h.ownership.take(context.Background()) // held for a few bounded calls at most
	defer h.ownership.give()
	c, err := l.beginRelease(lease)
	if err != nil {
		return err
	}
	defer l.running.Done()
	err = l.sendRelease(ctx, h, c)
	if c.Holds > 0 {
		l.releasedOne(h, err)
	} else {
		l.releasedAll(h, c, err)
	}
	l.tellRelease(h, lease.start, c.Holds == 0 && !errors.Is(err, ErrLost), err)
	return err
}

// beginRelease takes the lease out of its hold, and returns what the store
// must be told. An error means that the hold is over already.
func (l *Locker) beginRelease(lease *Lease) (Claim, error) {
	h := lease.hold
	l.mu.Lock()
	defer l.mu.Unlock()
	switch h.state {
	case holdClosed:
		return Claim{}, ErrClosed
	case holdLost:
		if !l.closed {
			// The store may still think that the hold lasts.
			l.undo(h.ownership, h.claim(0), undoPasses[:])
		}
		return Claim{}, h.ended
	}
	l.running.Add(1)
	h.dropLease(lease)
	h.count--
	if lease.renewed {
		h.watchers--
	}
	if h.watchers == 0 {
		l.renewals.remove(h)
	}
	if h.count == 0 {
		h.state = holdReleasing
		h.timer.Stop()
	}
	return h.claim(h.count), nil
}

// sendRelease tells the store, again if need be: a release is absolute.
func (l *Locker) sendRelease(ctx context.Context, h *hold, c Claim) error {
	unanswered := false
	err := l.persist(ctx, l.defaults.callTimeout, func(timeout time.Duration) error {
		err := l.callRelease(ctx, timeout, c)
		if errors.Is(err, ErrNotHeld) && unanswered && h.trusted() {
			return nil // the call before did it, only its answer was lost
		}
		unanswered = unanswered || err != nil && outcomeOf(err) == OutcomeUnknown
		return err
	})
	return releaseFailure(err)
}

// releaseFailure turns the store's error into what a holder is told.
func releaseFailure(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrNotHeld):
		return because(ErrTaken, ErrNotHeld)
	default:
		return because(ErrUnavailable, err)
	}
}

// releasedOne takes in the release of a re-entered lease: the hold goes on.
func (l *Locker) releasedOne(h *hold, err error) {
	switch {
	case errors.Is(err, ErrLost):
		l.lose(h, because(ErrTaken, err))
	case err != nil:
		l.restate(h)
	}
}

// releasedAll takes in the end of the hold.
func (l *Locker) releasedAll(h *hold, c Claim, err error) {
	l.mu.Lock()
	h.state = holdReleased
	lost := errors.Is(err, ErrLost)
	if lost {
		h.state, h.ended = holdLost, err
	}
	l.retire(h)
	l.mu.Unlock()
	if lost {
		l.tellLoss(h, because(ErrTaken, err))
	}
	if h.doubt || errors.Is(err, ErrUnavailable) {
		l.undo(h.ownership, c, undoPasses[:])
	}
}

// callRelease makes one bounded call.
func (l *Locker) callRelease(ctx context.Context, timeout time.Duration, c Claim) error {
	if l.prompt { // as bounded would do, without a closure on the heap
		_, err := guarded(ctx, func(ctx context.Context) (struct{}, error) { return struct{}{}, l.store.Release(ctx, c) })
		return err
	}
	sent := l.now()
	_, err := bounded(ctx, l, timeout, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, l.store.Release(ctx, c)
	}, nil)
	l.judge(c.Key, sent, err)
	return err
}

// persist repeats an idempotent bounded call until the store answers or refuses it,
// ctx ends, or the limit is over; then it returns the last error.
func (l *Locker) persist(ctx context.Context, limit time.Duration, call func(timeout time.Duration) error) error {
	until := l.now() + limit
	for tries := 1; ; tries++ {
		err := call(until - l.now())
		if err == nil || isAnswer(err) || outcomeOf(err) == OutcomeRefused {
			return err
		}
		wait := backoff(tries)
		if ctx.Err() != nil || l.now()+wait >= until {
			return err
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return err
		}
	}
}
