package lock

import (
	"context"
	"time"
)

// undoPasses are the pauses before each removal of a hold that an unanswered
// call may have made. One is not enough: the call may sit in another
// connection's buffer and run after the removal.
var undoPasses = [...]time.Duration{0, 100 * time.Millisecond, time.Second}

// undo removes in the background what the owner of c may hold, or its place
// in a queue. The caller is counted in running. Close cuts the pauses short.
func (l *Locker) undo(o *ownership, c Claim, passes []time.Duration) {
	c.Holds = 0
	l.running.Go(func() {
		if o.id != (ownerKey{}) { // it may have been forgotten, and the owner be back
			o = l.share(o.id)
			defer l.unshare(o)
		}
		for _, wait := range passes {
			l.pause(l.base, wait)
			err := l.settle(l.now()+c.TTL+l.defaults.callTimeout, func() error { return l.undoOnce(o, c) })
			if err != nil {
				return // the store stayed silent until the hold expired
			}
		}
	})
}

// undoOnce tries to remove what c may have left, unless the owner is back:
// then its own release will do.
func (l *Locker) undoOnce(o *ownership, c Claim) error {
	_ = o.take(context.Background())
	defer o.give()
	l.mu.Lock()
	back := o.has(c.Mode)
	l.mu.Unlock()
	if back {
		return nil
	}
	return l.releaseClaim(l.base, c)
}

// settle repeats a release until the store answers, or until the hold has
// expired by itself; once the locker closes, for one call timeout at most.
func (l *Locker) settle(until time.Duration, send func() error) error {
	for {
		err := send()
		if err == nil || isAnswer(err) || outcomeOf(err) == OutcomeRefused {
			return nil
		}
		if l.now() >= until || !l.pause(l.base, maxBackoff) {
			return err
		}
	}
}

// releaseClaim tries for one call timeout to have c released.
func (l *Locker) releaseClaim(ctx context.Context, c Claim) error {
	return l.persist(ctx, l.defaults.callTimeout, func(timeout time.Duration) error { return l.callRelease(ctx, timeout, c) })
}
