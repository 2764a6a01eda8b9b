package lock

import (
	"context"
	"time"
)

// reenterHold adds a lease to a hold that the caller has already.
func (a *acquisition) reenterHold(ctx context.Context, h *hold) (*Lease, error) {
	if err := a.takeTurn(ctx, h.ownership); err != nil {
		return nil, err
	}
	defer h.ownership.give()
	return a.reenterInTurn(ctx, h)
}

func (a *acquisition) reenterInTurn(ctx context.Context, h *hold) (*Lease, error) {
	a.checkHold(h)
	a.mu.Lock()
	err := h.status()
	if err == nil {
		err = a.joins(h) // what the owner has may have changed since it came
	}
	if err != nil {
		a.mu.Unlock()
		return nil, err
	}
	h.stored = max(h.stored, h.count+1)
	a.quit(a.id)
	a.reenter, a.hold = true, h
	a.named, a.claim.Places = nil, nil // who holds the key needs none, and names none
	a.claim.Owner, a.claim.Holds = h.owner, int(h.count)+1
	a.mu.Unlock()
	lease, err := a.ask(ctx, a.now())
	switch {
	case err == nil:
		return lease, nil
	case isDecision(err): // somebody else has the key, or nobody
		a.lose(because(ErrTaken, ErrNotHeld), h) // work has run: it isn't ErrBusy
		return nil, a.holdStatus(h)              // it was released meanwhile, or is lost now
	}
	// The store may count one too many. The next count sets it right, at the
	// latest the last release, which removes the hold whatever its count.
	return nil, err
}

// regranted records a successful re-entry.
func (a *acquisition) regranted(sent time.Duration) (*Lease, error) {
	h := a.hold
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := h.status(); err != nil {
		return nil, err // meanwhile; its end removes the whole hold
	}
	h.count++
	h.confirm(sent, a.claim.TTL)
	lease := h.addLease(a.caller, new(Lease), a.o, a.now())
	if !a.renewals.has(h) { // else the renewal that is due stays due
		a.watchdogOn(h, sent, a.claim.TTL)
	}
	return lease, nil
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
	if err := h.status(); err != nil {
		l.mu.Unlock()
		return err
	}
	h.extended = true
	now := l.now()
	c := h.claim(h.count, now)
	h.sent = max(h.sent, now+d)
	l.mu.Unlock()
	var sent time.Duration
	err := l.persist(ctx, now, now+l.defaults.callTimeout, func(now, timeout time.Duration) error {
		sent, c.TTL = now, h.within(d, now)
		_, err := bounded(ctx, l, timeout, func(ctx context.Context) (struct{}, error) {
			return struct{}{}, l.renewOne(ctx, c)
		}, nil)
		return err
	})
	switch {
	case err == nil:
		return l.extended(h, sent, c.TTL)
	case isDecision(err):
		l.lose(because(ErrTaken, err), h)
		return l.holdStatus(h) // it was released or closed meanwhile, or is lost now
	default:
		return failure(ctx, err)
	}
}

func (l *Locker) extended(h *hold, sent, ttl time.Duration) error {
	l.checkClock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := h.status(); err != nil {
		return err
	}
	h.confirm(sent, ttl)
	if l.suspendedSince(sent) {
		return because(ErrUnavailable, errSuspended)
	}
	return nil
}

// renewOne renews one claim.
func (l *Locker) renewOne(ctx context.Context, c Claim) error {
	result := errNoAnswer // unless it is reported
	l.store.Renew(ctx, []Claim{c}, func(_ int, err error) { result = err })
	return result
}
