//go:build !machine

package lock

import (
	"context"
	"errors"
	"time"
)

// queueNap is the least that a waiter in a store's queue sleeps.
const queueNap = 50 * time.Millisecond

// queueUp waits in the process's queue and, as its head, on the store. The
// limit of the wait bounds the waiting for others. It ends no call: a key that
// is free is granted, however short the limit.
func (a *acquisition) queueUp(ctx context.Context) (*Lease, error) {
	limited := ctx
	if wait, ok := a.o.longestWait(); ok {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeoutCause(ctx, wait, errWaitOver)
		defer cancel()
		a.until = a.now() + wait
	}
	var lease *Lease
	var shared, err error
	defer func() { a.leave(lease != nil, shared) }() // also when a hook panics
	lease, shared, err = a.contend(ctx, limited)
	if err != nil && ctx.Err() != nil && !errors.Is(err, ErrClosed) {
		err = a.gaveUp(ctx)
	}
	return lease, err
}

// waitOver says whether the limit of the wait is reached.
func (a *acquisition) waitOver() bool { return a.until > 0 && a.now() >= a.until }

// contend loops until the key is granted or the wait ends, with limited or ctx.
// shared is what an error says about the store, for those behind: they must
// not each find out for themselves, one after the other.
func (a *acquisition) contend(ctx, limited context.Context) (lease *Lease, shared, err error) {
	for wait, err := a.enqueue(); ; wait, err = a.turn() {
		if err != nil {
			return nil, nil, err
		}
		if wait != 0 {
			if err := a.mustWait(); err != nil {
				return nil, nil, err
			}
			if err := a.sleep(ctx, limited, wait); err != nil {
				return nil, nil, err
			}
			continue
		}
		if lease := a.waiter.lease; lease != nil {
			return lease, nil, nil
		}
		if !a.waiter.asking { // it will have to wait: this saves asking once more after it
			a.watch(limited)
			a.mu.Lock()
			a.beginAsking()
			a.mu.Unlock()
		}
		if err := a.admitted(); err != nil { // the store may be gone, too, whatever woke it
			return nil, nil, err
		}
		lease, err := a.ask(ctx, a.now())
		if err == nil {
			a.waiter.answer = nil
			return lease, nil, nil
		}
		a.endAsking(err)
		busy, ok := busyAnswer(err)
		if !ok {
			shared := a.aboutTheStore(ctx, err)
			if a.sawContention && a.waitOver() && errors.Is(err, ErrUnavailable) {
				err = a.busy(errWaitOver)
			}
			return nil, shared, err
		}
		a.sawContention = true
		if a.waitOver() {
			return nil, nil, a.busy(errWaitOver)
		}
		if err := a.mustWait(); err != nil {
			return nil, nil, err
		}
		var at time.Duration // at once: what happened before a subscription was not seen
		if !a.watch(limited) {
			at = a.now() + a.pollPause(busy.TTL)
		}
		a.napUntil(at)
	}
}

// aboutTheStore returns err if it holds for everybody who waits for the key,
// and nil if it comes from the caller's options, or from its leaving.
func (a *acquisition) aboutTheStore(ctx context.Context, err error) error {
	_, panicked := errors.AsType[*PanicError](err)
	switch {
	case ctx.Err() != nil, !errors.Is(err, ErrUnavailable):
		return nil
	case errors.Is(err, errTooLate), errors.Is(err, errBacklog), panicked:
		return nil
	case errors.Is(err, errNoAnswer) && a.patience() < a.defaults.callTimeout:
		return nil // others have more patience
	}
	return err
}

// asLongAsItTakes is a wait without an end.
const asLongAsItTakes = -1

// turn returns how long the caller has to wait before it may call the store; 0: it may.
func (a *acquisition) turn() (wait time.Duration, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.next()
}

// next is turn with mu held. Unless the caller has to subscribe first, its call is
// under way from now on.
func (a *acquisition) next() (wait time.Duration, err error) {
	w := &a.waiter
	if w.lease != nil || w.err != nil {
		return 0, w.err
	}
	wait = a.rest(w.gate)
	w.resting = wait != 0
	switch {
	case wait != 0 && w.wake == nil:
		w.wake = make(chan struct{}, 1)
	case wait == 0 && !a.crowded():
		a.beginAsking()
	}
	return wait, nil
}

// rest is how long the waiter has to wait as things are; mu is held.
func (a *acquisition) rest(g *gate) time.Duration {
	w := &a.waiter
	a.behind, a.sawContention = a.behind || g.contended, a.sawContention || a.heldByOther()
	switch {
	case !g.first(w), a.held[a.claim.Key] != nil && !w.fair():
		a.sawContention = a.sawContention || a.knownBusy() // while those before it call, nobody knows
		return asLongAsItTakes
	case g.yieldUntil == 0 && g.partUntil == 0 && w.askAt == 0:
		return 0
	}
	now, until := a.now(), max(g.yieldUntil, g.partUntil)
	switch {
	case now < until:
		return until - now
	case w.hint:
		return 0
	}
	return max(0, w.askAt-now)
}

// napUntil makes the waiter call at that time, or on a hint before.
func (a *acquisition) napUntil(at time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waiter.askAt = at
}

// crowded says whether a fair waiter will have to wait, as others do or hold the
// key, and nobody of the queue listens yet; mu is held.
func (a *acquisition) crowded() bool {
	return a.waiter.fair() && a.waiter.gate.contended && a.waiter.gate.watch == nil
}

// sleep waits for something to look at, for that long, or for the end.
func (a *acquisition) sleep(ctx, limited context.Context, wait time.Duration) error {
	a.waited = true
	var over <-chan time.Time
	if wait != asLongAsItTakes {
		over = time.After(wait)
	}
	if hook := a.defaults.hooks.Waiting; hook != nil && a.endWait == nil {
		if a.endWait = hook(ctx, a.event()); a.endWait == nil {
			a.endWait = func() {}
		}
	}
	select {
	case <-a.waiter.wake:
	case <-over:
	case <-limited.Done():
	case <-a.refused:
		return ErrClosed
	}
	switch { // an ended wait must not go on because a hint came too
	case ctx.Err() != nil:
		return ctx.Err()
	case limited.Err() != nil:
		return a.overdue(ctx)
	}
	return nil
}

// overdue ends a wait whose limit is reached. Where nobody can say yet whether
// the key is taken, because the first call of the queue is under way, it waits
// for the answer, for as long as a call may take. nil means that the waiter is
// the one to call now, and need not rest.
func (a *acquisition) overdue(ctx context.Context) error {
	over := time.After(a.came + a.timeout - a.now())
	for {
		a.mu.Lock()
		err, known := a.waiter.err, a.sawContention || a.knownBusy()
		g := a.waiter.gate
		rest := a.rest(g)
		handed := a.waiter.lease != nil
		a.waiter.overdue = !handed && err == nil && !known && rest == asLongAsItTakes
		g.overdue = g.overdue || a.waiter.overdue
		a.mu.Unlock()
		switch {
		case handed:
			return nil
		case err != nil:
			return err
		case known:
			return a.busy(errWaitOver)
		case rest == 0:
			return nil
		}
		var rested <-chan time.Time
		if rest != asLongAsItTakes {
			rested = time.After(rest)
		}
		select {
		case <-a.waiter.wake:
		case <-rested:
		case <-over:
			return wrap(ErrUnavailable, errWaitOver)
		case <-ctx.Done():
			return ctx.Err()
		case <-a.refused:
			return ErrClosed
		}
	}
}

// pollPause returns how long to rely on hints: until the hold that is in the way
// expires, at most the poll interval. Without a subscription it is short, and
// scattered so that processes don't call in step.
func (a *acquisition) pollPause(ttl time.Duration) time.Duration {
	d := a.o.poll
	if !a.watching() {
		a.polls++
		d = min(d, backoff(a.polls))
	}
	if ttl >= 0 {
		d = min(d, ttl+time.Millisecond) // the store counts in milliseconds
	}
	if a.claim.Mode == Fair {
		d = min(max(d, min(queueNap, a.o.poll)), placePoll) // free, but another's turn: 0 is not "at once"
	}
	return d
}
