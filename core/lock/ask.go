package lock

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// How long a failing store is asked again. A caller that never got an answer
// learns of a dead store soon; a waiter that was already told to wait rides
// out a restart or a failover.
const (
	freshTries     = 3
	waiterPatience = 10 * time.Second
	minBackoff     = 5 * time.Millisecond
	maxBackoff     = 250 * time.Millisecond
)

// attempt asks for the key. Acquisitions of one owner do so one by one, as
// what the first is granted the others must re-enter. One that is refused
// meanwhile does not ask any more, whatever woke it: the store may be gone, too.
func (a *acquisition) attempt(ctx context.Context) (*Lease, error) {
	select {
	case <-a.refused:
		return nil, ErrClosed
	default:
	}
	if !a.shared {
		return a.ask(ctx)
	}
	if err := a.ownership.take(ctx); err != nil {
		return nil, err
	}
	defer a.ownership.give()
	a.mu.Lock()
	h := a.ownership.find(a.o.mode)
	a.mu.Unlock()
	if err := a.joins(h); err != nil {
		return nil, err
	}
	if h != nil && h.mode == a.o.mode {
		return a.reenterInTurn(ctx, h)
	}
	return a.ask(ctx)
}

// ask sends the claim until the store answers it, and makes a lease of a
// grant. Repeating is safe: the claim is absolute, and its owner unique.
func (a *acquisition) ask(ctx context.Context) (*Lease, error) {
	began := a.now()
	for tries := 1; ; tries++ {
		var fence uint64
		err := a.permit(ctx, a.claim.Key)
		sent := a.now()
		if err == nil {
			fence, err = a.send(ctx)
			a.judge(a.claim.Key, sent, err)
		}
		switch {
		case err == nil:
			return a.granted(sent, a.claim.TTL, fence)
		case isAnswer(err):
			a.asked = sent
			return nil, err
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case outcomeOf(err) == OutcomeRefused, !a.patient(tries, began, err):
			return nil, failure(ctx, err)
		case !a.pause(ctx, backoff(tries)):
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			return nil, ErrClosed
		}
	}
}

// isAnswer tells a store's decision from a failure to decide.
func isAnswer(err error) bool { return errors.Is(err, ErrBusy) || errors.Is(err, ErrNotHeld) }

// patient says whether a failing store is worth another try.
func (a *acquisition) patient(tries int, began time.Duration, err error) bool {
	if a.told {
		return a.now()-began < waiterPatience
	}
	return !errors.Is(err, ErrCircuitOpen) && tries < freshTries && a.now()-began < a.o.callTimeout
}

func backoff(tries int) time.Duration {
	d := min(minBackoff<<min(tries, 10), maxBackoff)
	return d/2 + rand.N(d/2)
}

// send makes one bounded call.
func (a *acquisition) send(ctx context.Context) (uint64, error) {
	// An answer that comes when trust would be over is of no use.
	timeout := min(a.o.callTimeout, a.claim.TTL-margin(a.claim.TTL))
	fence, err := a.callAcquire(ctx, timeout)
	if err != nil && !isAnswer(err) && outcomeOf(err) == OutcomeUnknown {
		a.doubt = true
	}
	return fence, err
}

// callAcquire makes one bounded call.
func (a *acquisition) callAcquire(ctx context.Context, timeout time.Duration) (uint64, error) {
	if a.prompt { // as bounded would do, without closures on the heap
		return guarded(ctx, func(ctx context.Context) (uint64, error) { return a.store.Acquire(ctx, a.claim) })
	}
	return bounded(ctx, a.Locker, timeout, func(ctx context.Context) (uint64, error) {
		return a.store.Acquire(ctx, a.claim)
	}, a.late)
}

// late sees the answer of a call that was given up. If the acquisition is
// over without a hold, and the call may have made one, it is undone now.
func (a *acquisition) late(_ uint64, err error) {
	if err == nil || isAnswer(err) {
		a.judge(a.claim.Key, a.now(), err)
	}
	if err != nil && (isAnswer(err) || outcomeOf(err) != OutcomeUnknown) {
		return
	}
	a.mu.Lock()
	orphan := a.over && (a.hold == nil || a.hold.state != holdAlive)
	a.mu.Unlock()
	if orphan {
		a.undo(a.ownership, a.claim, undoPasses[:])
	}
}

// abandon ends an acquisition without a hold.
func (a *acquisition) abandon() {
	a.mu.Lock()
	a.over = true
	a.mu.Unlock()
	switch {
	case a.hold != nil:
	case a.doubt:
		a.undo(a.ownership, a.claim, undoPasses[:])
	case a.claim.Mode == Fair && a.told:
		a.undo(a.ownership, a.claim, undoPasses[:1]) // leave the store's queue
	}
}
