//go:build !machine

package lock

import (
	"context"
	"time"
)

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
	c := h.claim(now)
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
	case isDecision(err) && l.storedAs(h) != c.Mode:
		return l.extend(ctx, lease, d) // it was lowered meanwhile
	case isDecision(err):
		l.lose(wrap(ErrTaken, err), h)
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
		return wrap(ErrUnavailable, errSuspended)
	}
	return nil
}

// storedAs is the mode of claims for h.
func (l *Locker) storedAs(h *hold) Mode {
	l.mu.Lock()
	defer l.mu.Unlock()
	return h.storedMode()
}

// renewOne renews one claim.
func (l *Locker) renewOne(ctx context.Context, c Claim) error {
	result := errNoAnswer // unless it is reported
	l.store.Renew(ctx, []Claim{c}, func(_ int, err error) { result = err })
	return result
}
