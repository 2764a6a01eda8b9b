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
func (l *Locker) undo(c Claim, passes []time.Duration) {
	c.Holds = 0
	l.running.Go(func() {
		for _, wait := range passes {
			l.pause(l.base, wait)
			if l.owns(c) {
				continue // a named owner is back; its own release will do
			}
			if l.settle(l.base, c, l.now()+c.TTL+l.defaults.callTimeout) != nil {
				return // the store stayed silent until the hold expired
			}
		}
	})
}

// owns says whether the owner of c has a hold of this locker.
func (l *Locker) owns(c Claim) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for h := range l.holds {
		if h.key == c.Key && h.owner == c.Owner && h.mode == c.Mode {
			return true
		}
	}
	return false
}

// settle repeats a release until the store answers, or until the hold has
// expired by itself; once the locker closes, for one call timeout at most.
func (l *Locker) settle(ctx context.Context, c Claim, until time.Duration) error {
	for {
		err := l.releaseClaim(ctx, c)
		if err == nil || isAnswer(err) || outcomeOf(err) == OutcomeRefused {
			return nil
		}
		if l.now() >= until || !l.pause(ctx, maxBackoff) {
			return err
		}
	}
}

// releaseClaim tries for one call timeout to have c released.
func (l *Locker) releaseClaim(ctx context.Context, c Claim) error {
	return l.persist(ctx, l.defaults.callTimeout, func(ctx context.Context) error { return l.store.Release(ctx, c) })
}
