package lock

import (
	"container/list"
	"sync/atomic"
)

// gate is where the callers of one process meet before a key: one hold at
// most, and a queue of which only the head asks the store.
type gate struct {
	hold  *hold
	queue list.List // of *waiter
	// fence is the newest that the hold had, or one before it.
	fence uint64
	// elsewhere counts the waiters that the store queues itself.
	elsewhere int
	// waiting counts the acquisitions that have to wait, wherever they queue.
	waiting int
	// contended is set once another owner was seen to have the key.
	contended bool
	// unwatch ends the subscription that the head opened; it passes from
	// head to head.
	unwatch func()
}

// waiter is one queued acquisition.
type waiter struct {
	place *list.Element // nil: waits in the store's queue, not in ours
	// shared waiters may ask side by side with the ones before them, if those
	// are shared as well.
	shared bool
	// wake holds at most one hint that something changed; the waiter looks
	// for itself what.
	wake chan struct{}
	// given is the fence of a hold that the store says it has given to the
	// waiter; 0: none. The waiter decides whether to believe it.
	given atomic.Uint64
	// counted says that the waiter is one of gate.waiting; guarded by mu.
	counted bool
	// err ends the wait: the head found that the store is unavailable.
	err error
}

// hear is what the store calls on a wake-up that may be a transfer.
func (w *waiter) hear(fence uint64) {
	if fence > 0 {
		w.given.Store(fence)
	}
	w.signal()
}

func (w *waiter) signal() {
	select {
	case w.wake <- struct{}{}:
	default: // a hint is waiting already
	}
}

func (g *gate) head() *waiter {
	if front := g.queue.Front(); front != nil {
		return front.Value.(*waiter)
	}
	return nil
}

// wakeHead wakes the head, and with a reader the readers right behind it.
func (g *gate) wakeHead() {
	for e := g.queue.Front(); e != nil; e = e.Next() {
		w := e.Value.(*waiter)
		w.signal()
		if !w.shared {
			return
		}
	}
}

// first says whether w may ask the store: nobody is before it, or only
// readers that it can share with.
func (g *gate) first(w *waiter) bool {
	for e := w.place; w.shared && e != nil; e = e.Prev() {
		if !e.Value.(*waiter).shared {
			return false
		}
	}
	return w.shared || g.head() == w
}

// gateOf returns the gate of key, a new one if need be; mu is held.
func (l *Locker) gateOf(key string) *gate {
	g := l.gates[key]
	if g == nil {
		g = l.spareGate()
		l.gates[key] = g
	}
	return g
}

// maxSpareGates are enough for the keys that come and go at once.
const maxSpareGates = 64

// spareGate returns an empty gate; mu is held.
func (l *Locker) spareGate() *gate {
	last := len(l.spareGates) - 1
	if last < 0 {
		return new(gate)
	}
	g := l.spareGates[last]
	l.spareGates = l.spareGates[:last]
	return g
}

// join queues a waiter, unless the store keeps the order itself. Where others
// wait already, one more will have to as well: it is refused if it may not.
func (l *Locker) join(key string, m Mode, limits limits) (*waiter, error) {
	w := &waiter{wake: make(chan struct{}, 1), shared: m == Read}
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.gateOf(key)
	if g.waiting > 0 && l.overcrowded(g, limits) {
		return nil, errCrowded
	}
	if m == Fair {
		g.elsewhere++
	} else {
		w.place = g.queue.PushBack(w)
	}
	return w, nil
}

// leave takes w out of the queue. Whoever is head then is woken, so that a
// hint that w did not act on is not lost. err, if any, ends the wait of all
// others as well.
func (l *Locker) leave(key string, w *waiter, err error) {
	l.mu.Lock()
	g := l.gates[key]
	if w.counted {
		g.waiting--
		l.waiting--
	}
	if w.place == nil {
		g.elsewhere--
	} else {
		g.queue.Remove(w.place)
	}
	if err != nil {
		for e := g.queue.Front(); e != nil; e = e.Next() {
			other := e.Value.(*waiter)
			other.err = err
			other.signal()
		}
	}
	if g.hold == nil { // else the end of the hold wakes
		g.wakeHead()
	}
	unwatch := l.tidy(key, g)
	l.mu.Unlock()
	unwatch()
}

// vacate takes h off its gate; mu is held. The queue's head is woken.
func (l *Locker) vacate(h *hold) {
	g := l.gates[h.key]
	if g == nil || g.hold != h {
		return // a later owner came first
	}
	g.hold = nil
	g.wakeHead()
	l.tidy(h.key, g) // no unwatch to call: only a queue has one
}

// tidy drops what the gate does not need any more; mu is held. The caller
// calls the result without mu.
func (l *Locker) tidy(key string, g *gate) (unwatch func()) {
	unwatch = func() {}
	if g.queue.Len() > 0 {
		return unwatch
	}
	if g.unwatch != nil {
		unwatch, g.unwatch = g.unwatch, nil
	}
	if g.hold == nil && g.elsewhere == 0 {
		delete(l.gates, key)
		if len(l.spareGates) < maxSpareGates {
			*g = gate{}
			l.spareGates = append(l.spareGates, g)
		}
	}
	return unwatch
}

// heldHere says whether another owner of this process certainly has key, so
// that the store need not be asked.
func (l *Locker) heldHere(key string, by *ownership) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.gates[key]
	return g != nil && g.hold != nil && g.hold.ownership != by && g.hold.state == holdAlive && g.hold.trusted()
}

// subscribed hands a new subscription to the queue of key, or ends it if
// nobody waits there or another one came first.
func (l *Locker) subscribed(key string, unwatch func()) {
	l.mu.Lock()
	if g := l.gates[key]; g != nil && g.queue.Len() > 0 && g.unwatch == nil {
		g.unwatch, unwatch = unwatch, func() {}
	}
	l.mu.Unlock()
	unwatch()
}

// woken is what the store calls on a wake-up of key.
func (l *Locker) woken(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if g := l.gates[key]; g != nil {
		g.wakeHead()
	}
}
