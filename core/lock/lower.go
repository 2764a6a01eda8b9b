//go:build !machine

package lock

import (
	"context"
	"errors"
	"time"
)

// A writer who reads has leases of two modes and one hold, which the store knows as a
// write hold. When the last write lease is released and read leases remain, one call,
// Lower, makes it a read hold. Until the store has answered, everybody else is kept out.

// storedMode is the mode of claims for h: from the call of Lower on the store may know it
// as a read hold, and finds it as either; mu is held.
func (h *hold) storedMode() Mode {
	if h.lowering {
		return Read
	}
	return h.mode
}

// reads counts the read leases of h; mu is held.
func (h *hold) reads() int32 { return h.count - h.writes }

// lower makes the write hold h a read hold, and goes on in the background if the store
// doesn't answer in time.
func (l *Locker) lower(ctx context.Context, h *hold, now time.Duration) error {
	err := l.persist(ctx, now, now+l.defaults.callTimeout, func(now, timeout time.Duration) error {
		return l.sendLower(ctx, h, now, timeout)
	})
	switch {
	case err == nil:
		return nil
	case isDecision(err):
		l.lose(wrap(ErrTaken, err), h)
		if err := l.holdStatus(h); !errors.Is(err, ErrReleased) {
			return err
		}
		return nil // who read has released it meanwhile
	}
	l.running.Go(func() { l.lowerLater(h) })
	return wrap(ErrUnavailable, err)
}

// lowerLater repeats Lower until the store decides, the hold ends or the locker closes.
func (l *Locker) lowerLater(h *hold) {
	for tries := 1; pause(l.base, backoffUpTo(tries, undoBackoff), l.ending); tries++ {
		if l.holdStatus(h) != nil {
			return
		}
		err := l.sendLower(l.base, h, l.now(), l.defaults.callTimeout)
		switch {
		case err == nil:
			return
		case isDecision(err):
			l.lose(wrap(ErrTaken, err), h)
			return
		}
	}
}

// sendLower makes one call, and records its success.
func (l *Locker) sendLower(ctx context.Context, h *hold, sent, timeout time.Duration) error {
	l.mu.Lock()
	c := h.claim(sent)
	l.mu.Unlock()
	_, err := l.callStore(ctx, sent, timeout, l.lowerCall, c, nil)
	if err == nil {
		l.lowered(h, sent, c.TTL)
	}
	return err
}

// lowered lets readers in, as the store has made h a read hold.
func (l *Locker) lowered(h *hold, sent, ttl time.Duration) {
	l.checkClock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if h.state != holdAlive || !h.lowering {
		return
	}
	h.mode, h.lowering = Read, false
	h.confirm(sent, ttl)
	l.renewLater(h, sent, ttl)
	l.vacate(h)
}
