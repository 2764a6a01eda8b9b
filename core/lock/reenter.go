package lock

import (
	"context"
	"errors"
	"time"
)

// reenterHold adds a lease to a hold that the caller has already.
func (a *acquisition) reenterHold(ctx context.Context, h *hold) (*Lease, error) {
	if err := h.ownership.take(ctx); err != nil {
		return nil, err
	}
	defer h.ownership.give()
	return a.reenterInTurn(ctx, h)
}

func (a *acquisition) reenterInTurn(ctx context.Context, h *hold) (*Lease, error) {
	if err := a.holdStatus(h); err != nil {
		return nil, err
	}
	a.reenter = true
	a.mu.Lock()
	a.hold = h
	a.claim.Owner, a.claim.Holds, a.claim.TTL = h.owner, h.count+1, h.within(a.claim.TTL)
	a.mu.Unlock()
	lease, err := a.ask(ctx)
	switch {
	case err == nil:
		return lease, nil
	case isAnswer(err): // somebody else has the key, or nobody
		a.lose(h, because(ErrTaken, err))
		return nil, ErrTaken
	case a.doubt:
		a.restate(h)
	}
	return nil, err
}

// regranted takes in a successful re-entry.
func (a *acquisition) regranted(sent time.Duration) (*Lease, error) {
	h := a.hold
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := h.status(); err != nil {
		return nil, err // meanwhile; its end removes the whole hold
	}
	h.count++
	h.doubt = h.doubt || a.doubt
	longer := h.confirm(sent, a.claim.TTL)
	lease := h.addLease(a.caller, &a.o)
	if longer || h.index < 0 { // else the renewal that is due stays due
		a.watchdogOn(h, sent, a.claim.TTL)
	}
	return lease, nil
}

// restate writes the hold count again, in the background: a re-entry that was
// given up may have raised it.
func (l *Locker) restate(h *hold) {
	l.running.Go(func() {
		_ = h.ownership.take(context.Background())
		defer h.ownership.give()
		l.mu.Lock()
		c, alive := h.claim(h.count), h.state == holdAlive
		l.mu.Unlock()
		if alive {
			_ = l.settle(l.now()+l.defaults.callTimeout, func() error { return l.releaseClaim(l.base, c) })
		}
	})
}

// extend implements [Lease.Extend].
func (l *Locker) extend(ctx context.Context, lease *Lease, d time.Duration) error {
	h := lease.hold
	if err := l.begin(); err != nil {
		return err
	}
	defer l.running.Done()
	if ctx.Err() != nil {
		return ended(ctx)
	}
	if err := lease.status(); err != nil {
		return err
	}
	l.mu.Lock()
	c := h.claim(h.count)
	c.TTL = h.within(max(d, h.expiry-l.now()))
	l.mu.Unlock()
	var sent time.Duration
	err := l.persist(ctx, l.defaults.callTimeout, func(timeout time.Duration) error {
		sent = l.now()
		_, err := bounded(ctx, l, timeout, func(ctx context.Context) (struct{}, error) {
			return struct{}{}, l.renewOne(ctx, c)
		}, nil)
		return err
	})
	switch {
	case err == nil:
		return l.extended(h, sent, c.TTL)
	case errors.Is(err, ErrNotHeld):
		l.lose(h, because(ErrTaken, err))
		return ErrTaken
	default:
		return failure(ctx, err)
	}
}

func (l *Locker) extended(h *hold, sent, ttl time.Duration) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := h.status()
	if err == nil {
		h.confirm(sent, ttl)
	}
	return err
}

// renewOne renews one claim.
func (l *Locker) renewOne(ctx context.Context, c Claim) error {
	var result error
	l.store.Renew(ctx, []Claim{c}, func(_ int, err error) { result = err })
	return result
}
