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
)

// queueUp waits in the process's queue and, as its head, on the store.
func (a *acquisition) queueUp(ctx context.Context) (*Lease, error) {
	limited := ctx
	if wait, ok := a.o.longestWait(); ok {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeoutCause(ctx, wait, errWaitOver)
		defer cancel()
	}
	a.claim.Patience = a.patience(limited)
	a.claim.Transfer = a.takesTransfer()
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
	lease, err = a.contend(limited)
	switch {
	case err == nil:
		return lease, nil
	case errors.Is(err, ErrClosed):
	case limited.Err() != nil:
		err = a.gaveUp(ctx)
	}
	// What the head learned of the store holds for those behind it: they
	// must not each find out for themselves, one after the other.
	if limited.Err() == nil && errors.Is(err, ErrUnavailable) {
		shared = err
	}
	return nil, err
}

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

// contend loops until the key is granted or the wait is over.
func (a *acquisition) contend(ctx context.Context) (*Lease, error) {
	if a.waiter.place == nil && a.crowded() {
		a.watch(ctx) // will be needed, and saves asking once more after it
	}
	for {
		mayAsk, err := a.turn()
		if err != nil {
			return nil, err
		}
		if !mayAsk {
			if err := a.mustWait(); err != nil {
				return nil, err
			}
			if err := a.sleep(ctx, nil); err != nil {
				return nil, err
			}
			continue
		}
		lease, err := a.attempt(ctx)
		var busy *BusyError
		if !errors.As(err, &busy) {
			return lease, err
		}
		a.markContended()
		if err := a.mustWait(); err != nil {
			return nil, err
		}
		if a.watch(ctx) {
			continue // what happened before the subscription was not seen
		}
		timer := time.NewTimer(a.nap(busy.TTL))
		err = a.sleep(ctx, timer.C)
		timer.Stop()
		if err != nil {
			return nil, err
		}
		if fence := a.transferred(busy.Clock); fence > 0 {
			return a.granted(a.asked, a.transfer.TransferTTL(), fence)
		}
	}
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
	a.told = a.told || g.contended
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

// contended says whether another owner was seen to have the key.
func (a *acquisition) contended() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	g := a.gates[a.claim.Key]
	return g != nil && g.contended
}

func (a *acquisition) markContended() {
	a.told = true
	a.mu.Lock()
	defer a.mu.Unlock()
	if g := a.gates[a.claim.Key]; g != nil {
		g.contended = true
	}
}

// sleep waits for a hint, the timer, or the end.
func (a *acquisition) sleep(ctx context.Context, timer <-chan time.Time) error {
	a.waited = true
	if hook := a.defaults.hooks.Waiting; hook != nil && a.endWait == nil {
		if a.endWait = hook(ctx, a.event()); a.endWait == nil {
			a.endWait = func() {}
		}
	}
	select {
	case <-a.waiter.wake:
	case <-timer:
	case <-ctx.Done():
		return ctx.Err()
	case <-a.refused:
		return ErrClosed
	}
	return ctx.Err() // an ended wait must not go on because a hint came too
}

// nap is how long to rely on hints: until the hold that is in the way
// expires, at most the poll interval. Without a subscription it is short, and
// scattered so that processes do not ask in step.
func (a *acquisition) nap(ttl time.Duration) time.Duration {
	d := a.o.poll
	if !a.watching() {
		a.naps++
		d = min(d, backoff(a.naps))
	}
	if ttl >= 0 {
		d = min(d, ttl+time.Millisecond) // the store counts in milliseconds
	}
	if a.claim.Mode == Fair {
		d = max(d, min(queueNap, a.o.poll)) // free, but another's turn: 0 is not "at once"
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
	subscribe := func(ctx context.Context) (func(), error) { return a.store.Watch(ctx, a.claim, wake) }
	if a.claim.Transfer {
		subscribe = func(ctx context.Context) (func(), error) {
			return a.transfer.WatchTransfer(ctx, a.claim, a.waiter.hear)
		}
	}
	late := func(unwatch func(), err error) {
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
func (a *acquisition) patience(ctx context.Context) time.Duration {
	if deadline, ok := ctx.Deadline(); ok {
		return max(time.Until(deadline), time.Millisecond)
	}
	return defaultPatience
}
