package sqlstore

import (
	"context"
	"errors"
	"time"
)

// Listener hears the notifications of PostgreSQL, which database/sql can't.
// contrib/pgxlisten has one.
type Listener interface {
	// Listen connects, subscribes to the channel, calls ready, and then calls notify for
	// each notification, until ctx ends or the connection is lost. It returns why. The
	// connection must be to the server itself: poolers in transaction mode lose
	// subscriptions. ready and notify don't block.
	Listen(ctx context.Context, channel string, ready func(), notify func(payload string)) error
}

var errStopped = errors.New("the listener has stopped without an error")

// listen keeps a listener running until ctx ends. While it doesn't listen, the hub polls.
func (h *hub) listen(ctx context.Context) {
	warned := false
	for ctx.Err() == nil {
		err := h.keys.listener.Listen(ctx, channel, func() { h.hear(ctx, true) }, h.notified)
		h.hear(ctx, false)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			err = errStopped
		}
		if !warned {
			warned = true
			h.keys.log.WarnContext(ctx, "redlatch: waiters are polling: the listener for notifications has failed", "err", err)
		}
		select {
		case <-time.After(relisten):
		case <-ctx.Done():
		}
	}
}

// hear says whether notifications arrive from now on. Before that there was a gap. ctx is
// that of the listener, which says nothing when it has ended.
func (h *hub) hear(ctx context.Context, listening bool) {
	h.mu.Lock()
	h.turn(listening && ctx.Err() == nil)
	h.mu.Unlock()
	h.wakeAll()
	select {
	case h.changed <- struct{}{}:
	default:
	}
}

// turn sets whether notifications arrive; mu is held.
func (h *hub) turn(listening bool) {
	h.listening = listening
	close(h.turned)
	h.turned = make(chan struct{})
}

// refresh tells the rows that somebody still listens. Where that fails, releases may not
// be notified, so everybody looks.
func (h *hub) refresh(ctx context.Context, rows []seen) {
	if len(rows) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	text, err := listed(rows)
	if err == nil {
		_, err = h.keys.affected(ctx, &h.keys.sql.heard, []any{text})
	}
	if err != nil {
		h.wakeAll()
	}
}
