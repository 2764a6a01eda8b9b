//go:build !machine

package lock

import (
	"context"
	"time"
)

// keptWatch is how long a subscription stays that nobody listens to. Where a key goes
// from process to process, no wait begins with a subscription then, and with another
// look after it.
const keptWatch = 100 * time.Millisecond

// watch is a subscription to the wake-ups of a key, for its queue and the next.
type watch struct {
	claim Claim // that it was opened for
	end   func()
	place int32 // in the agenda
}

func (w *watch) row(column) *int32 { return &w.place }

// serves says whether the wake-ups that are meant for a claim are heard.
func (w *watch) serves(c *Claim, perOwner bool) bool {
	switch {
	case w == nil, perOwner && w.claim.Owner != c.Owner:
		return false
	case w.claim.Mode == Read, w.claim.Mode == Write:
		return c.Mode == Read || c.Mode == Write
	}
	return w.claim.Mode == c.Mode
}

// watching says whether wake-ups that are meant for the waiter are heard.
func (a *acquisition) watching() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.waiter.gate.hears(&a.waiter)
}

// hears says whether wake-ups that are meant for w are heard; mu is held.
func (g *gate) hears(w *waiter) bool { return g.watch.serves(&w.of.claim, g.watchPerOwner) }

// mustWatch says whether the waiter has to subscribe the queue: who waits behind others
// that may not call with it is woken by them.
func (a *acquisition) mustWatch() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	w := &a.waiter
	return w.gate.first(w) && !w.gate.hears(w) && a.now() >= w.gate.noWatch
}

// watch subscribes the queue to wake-ups of the key; true means that it just
// did. Where that fails, polling goes on.
func (a *acquisition) watch(ctx context.Context) bool {
	if !a.mustWatch() {
		return false
	}
	l, claim := a.Locker, a.claim
	end, err := bounded(ctx, l, a.timeout, func(ctx context.Context) (func(), error) {
		return l.store.Watch(ctx, claim, func() { l.woken(claim.Key) }) // for the head of that moment
	}, func(end func(), err error) {
		if err == nil {
			end()
		}
	})
	if err != nil {
		if ctx.Err() == nil { // else it has failed for this waiter only
			a.mu.Lock()
			a.waiter.gate.noWatch = a.now() + a.o.poll
			a.mu.Unlock()
		}
		return false
	}
	l.subscribed(&watch{claim: claim, end: end})
	return true
}

// subscribed gives the queue of a key a new subscription. The one before it ends,
// or the new one if nobody waits any longer.
func (l *Locker) subscribed(w *watch) {
	l.mu.Lock()
	if g := l.gates[w.claim.Key]; g != nil {
		g.watch, w = w, g.watch
	}
	l.mu.Unlock()
	if w != nil {
		w.end()
	}
}

// woken is what the store calls on a wake-up of key.
func (l *Locker) woken(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if g := l.gates[key]; g != nil {
		g.wakeFrom(g.head)
	}
}

// keepWatch keeps a subscription for a moment; mu is held.
func (l *Locker) keepWatch(w *watch) {
	l.watches[w.claim.Key] = w
	l.kept.set(w, l.now()+keptWatch)
}

// takeWatch returns the subscription that was kept for a key, or nil; mu is held.
func (l *Locker) takeWatch(key string) *watch {
	w := l.watches[key]
	if w != nil {
		delete(l.watches, key)
		l.kept.remove(w)
	}
	return w
}

// watchesDue ends the subscriptions that were kept for long enough.
func (l *Locker) watchesDue() {
	if l.begin() != nil {
		return // Close ends them
	}
	defer l.running.Done()
	var over []*watch
	l.mu.Lock()
	now := l.now()
	for w := l.kept.next(now); w != nil; w = l.kept.next(now) {
		over = append(over, l.takeWatch(w.claim.Key))
	}
	l.kept.served()
	l.mu.Unlock()
	for _, w := range over {
		w.end()
	}
}
