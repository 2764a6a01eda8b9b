package lock

import (
	"context"

	"github.com/redlatch/redlatch/core/lock/internal/machine"
)

// subscription is to the wake-ups of a key. The mutex of its shard guards it.
type subscription struct {
	stop func() // nil: it is being opened
	over bool   // it is to be ended as soon as it is open
}

// subscribe opens a subscription.
func (p *pump) subscribe(t task) {
	t.entry.shard.mu.Lock()
	w := t.entry.watch
	t.entry.shard.mu.Unlock()
	if w == nil {
		return // it is not wanted any longer
	}
	if p.traits.Immediate {
		w.open(p.Locker, t)
		return
	}
	p.Locker.openLater(w, t)
}

func (l *Locker) openLater(w *subscription, t task) {
	l.running.Go(func() { w.open(l, t) })
}

// open opens the subscription.
func (w *subscription) open(l *Locker, t task) {
	ctx, cancel := context.WithTimeoutCause(l.base, l.defaults.callTimeout, errNoAnswer)
	defer cancel()
	stop, err := guarded(ctx, func(ctx context.Context) (func(), error) {
		return l.store.Watch(ctx, t.claim(), t.entry.hint)
	})
	p := pump{Locker: l}
	p.subscribed(t, w, stop, err)
	p.run()
}

// subscribed is that a subscription is open, or has failed.
func (p *pump) subscribed(t task, w *subscription, stop func(), err error) {
	e := t.entry
	ev := machine.Event{Kind: machine.EvWatched, Call: &t.call, Answer: machine.AnsOK}
	now := e.shard.lock()
	defer e.shard.mu.Unlock()
	switch {
	case err != nil:
		ev.Answer = machine.AnsUnknown
	case w.over || e.stage == gone:
		p.add().stop = stop
	default:
		w.stop = stop
	}
	if w.over || e.stage == gone {
		return
	}
	if err != nil {
		e.watch = nil
	}
	p.step(e, &ev, now, err)
}

// hint is what the store calls when the key may be free. It may have a mutex of its own.
func (e *entry) hint() {
	p := pump{Locker: e.shard.Locker}
	now := e.shard.lock()
	if e.stage != gone {
		p.step(e, &machine.Event{Kind: machine.EvHint}, now, nil)
	}
	e.shard.mu.Unlock()
	p.detach()
}
