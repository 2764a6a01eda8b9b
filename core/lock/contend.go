package lock

import (
	"context"
	"errors"
	"time"
)

const (
	// defaultPatience is Redisson's fairLockWaitTimeout.
	defaultPatience = 5 * time.Minute
	// queueNap is the least that a waiter in a store's queue sleeps.
	queueNap = 50 * time.Millisecond
	// placePoll is the most: the store gives up a place that its owner does not
	// come back for.
	placePoll = 5 * time.Second
)

// queueUp waits in the process's queue and, as its head, on the store. The
// limit of the wait bounds the waiting for others. It ends no call: a key that
// is free is granted, however short the limit.
func (a *acquisition) queueUp(ctx context.Context) (*Lease, error) {
	limited := ctx
	a.came = a.now()
	if wait, ok := a.o.longestWait(); ok {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeoutCause(ctx, wait, errWaitOver)
		defer cancel()
		a.until = a.came + wait
	}
	a.claim.Patience = patience(limited)
	var err error
	if a.waiter, err = a.join(a.claim.Key, a.claim.Mode, a.o.limits); err != nil {
		return nil, err
	}
	if a.shared {
		defer a.await(a.ownership, a.waiter)()
	}
	var lease *Lease
	var shared error
	defer func() { a.leaveQueue(lease != nil, shared) }() // also when a hook panics
	lease, shared, err = a.contend(ctx, limited)
	if err != nil && ctx.Err() != nil && !errors.Is(err, ErrClosed) {
		err = a.gaveUp(ctx)
	}
	return lease, err
}

// waitOver says whether the limit of the wait is reached.
func (a *acquisition) waitOver() bool { return a.until > 0 && a.now() >= a.until }

// leaveQueue ends the wait, with a hold or without.
func (a *acquisition) leaveQueue(granted bool, shared error) {
	if a.unwatch != nil {
		a.unwatch()
	}
	if !granted {
		a.abandon()
	}
	a.leave(a.claim.Key, a.waiter, shared)
}

// contend loops until the key is granted or the wait ends, with limited or ctx.
// shared is what an error says about the store, for those behind: they must
// not each find out for themselves, one after the other.
func (a *acquisition) contend(ctx, limited context.Context) (lease *Lease, shared, err error) {
	if a.waiter.place == nil && a.crowded() {
		a.watch(limited) // will be needed, and saves asking once more after it
	}
	for {
		mayAsk, err := a.turn()
		if err != nil {
			return nil, nil, err
		}
		if !mayAsk {
			if err := a.mustWait(); err != nil {
				return nil, nil, err
			}
			if err := a.sleep(ctx, limited, nil); err != nil {
				return nil, nil, err
			}
			continue
		}
		lease, err := a.attemptAsWaiter(ctx)
		var busy *BusyError
		if !errors.As(err, &busy) {
			shared := a.aboutTheStore(ctx, err)
			if a.told && a.waitOver() && errors.Is(err, ErrUnavailable) {
				err = a.busy(errWaitOver)
			}
			return lease, shared, err
		}
		a.told = true
		if a.waitOver() {
			return nil, nil, a.busy(errWaitOver)
		}
		if err := a.mustWait(); err != nil {
			return nil, nil, err
		}
		if a.watch(limited) {
			continue // what happened before the subscription was not seen
		}
		timer := time.NewTimer(a.nap(busy.TTL))
		err = a.sleep(ctx, limited, timer.C)
		timer.Stop()
		if err != nil {
			return nil, nil, err
		}
	}
}

// attemptAsWaiter is attempt, and lets the others of the queue know that a call
// is under way, and that it was answered.
func (a *acquisition) attemptAsWaiter(ctx context.Context) (*Lease, error) {
	err := errNoAnswer // unless it returns
	a.beginAsking()
	defer func() { a.endAsking(err) }()
	lease, err := a.attempt(ctx)
	return lease, err
}

// aboutTheStore returns err if it holds for everybody who waits for the key,
// and nil if it comes from what the caller asked for, or from its leaving.
func (a *acquisition) aboutTheStore(ctx context.Context, err error) error {
	var panicked *PanicError
	switch {
	case ctx.Err() != nil, !errors.Is(err, ErrUnavailable):
		return nil
	case errors.Is(err, errTooLate), errors.Is(err, errBacklog), errors.As(err, &panicked):
		return nil
	case errors.Is(err, errNoAnswer) && a.timeout() < a.defaults.callTimeout:
		return nil // others have more patience
	}
	return err
}

// turn says whether the caller may ask the store now.
func (a *acquisition) turn() (mayAsk bool, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.waiter.err != nil {
		return false, a.waiter.err
	}
	if a.waiter.place == nil || a.shared && a.ownership.find(a.o.mode) != nil {
		return true, nil
	}
	g := a.gates[a.claim.Key]
	a.behind = a.behind || g.contended
	return g.hold == nil && g.first(a.waiter), nil
}

// crowded says whether a waiter in the store's queue will have to wait: others
// of this process do, or are about to find out.
func (a *acquisition) crowded() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	g := a.gates[a.claim.Key]
	return g.contended || g.elsewhere > 1
}

// sleep waits for a hint, the timer, or the end.
func (a *acquisition) sleep(ctx, limited context.Context, timer <-chan time.Time) error {
	a.waited = true
	if hook := a.defaults.hooks.Waiting; hook != nil && a.endWait == nil {
		if a.endWait = hook(ctx, a.event()); a.endWait == nil {
			a.endWait = func() {}
		}
	}
	select {
	case <-a.waiter.wake:
	case <-timer:
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
// the one to ask now.
func (a *acquisition) overdue(ctx context.Context) error {
	timer := time.NewTimer(a.came + a.o.callTimeout - a.now())
	defer timer.Stop()
	for {
		a.mu.Lock()
		g := a.gates[a.claim.Key]
		err, known := a.waiter.err, a.told || g.knownBusy(a)
		next := a.waiter.place == nil || g.hold == nil && g.first(a.waiter)
		a.waiter.overdue = true
		a.mu.Unlock()
		switch {
		case err != nil:
			return err
		case known:
			return a.busy(errWaitOver)
		case next:
			return nil
		}
		select {
		case <-a.waiter.wake:
		case <-timer.C:
			return because(ErrUnavailable, errWaitOver)
		case <-ctx.Done():
			return ctx.Err()
		case <-a.refused:
			return ErrClosed
		}
	}
}

// nap is how long to rely on hints: until the hold that is in the way
// expires, at most the poll interval. Without a subscription it is short, and
// scattered so that processes do not ask in step.
func (a *acquisition) nap(ttl time.Duration) time.Duration {
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

func (a *acquisition) watching() bool {
	if a.waiter.place == nil {
		return a.unwatch != nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.gates[a.claim.Key].unwatch != nil
}

// watch subscribes the queue to wake-ups of the key; true means that it just
// did. Where that fails, polling goes on.
func (a *acquisition) watch(ctx context.Context) bool {
	if a.watching() || a.now() < a.noWatch {
		return false
	}
	key, wake := a.claim.Key, a.waiter.signal
	if a.waiter.place != nil { // for whoever is head then
		wake = func() { a.woken(key) }
	}
	claim := a.claim
	subscribe := func(ctx context.Context) (func(), error) { return a.store.Watch(ctx, claim, wake) }
	late := func(unwatch func(), err error, _ *abandonedError) {
		if err == nil {
			unwatch()
		}
	}
	unwatch, err := bounded(ctx, a.Locker, a.o.callTimeout, subscribe, late)
	if err != nil {
		a.noWatch = a.now() + a.o.poll
		return false
	}
	if a.waiter.place == nil {
		a.unwatch = unwatch
	} else {
		a.subscribed(key, unwatch)
	}
	return true
}

// patience is how long the caller is going to wait at most.
func patience(ctx context.Context) time.Duration {
	if deadline, ok := ctx.Deadline(); ok {
		return min(max(time.Until(deadline), time.Millisecond), MaxDuration)
	}
	return defaultPatience
}
