package lock

import (
	"container/list"
	"errors"
	"time"
)

// gate is where the callers of one process meet before a key: one hold at
// most, and a queue of which only the head asks the store.
type gate struct {
	hold  *hold
	queue list.List // of *waiter
	// asking counts the waiters whose call is under way, and answered is when
	// the store answered one of them last.
	asking   int
	answered time.Duration
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
	// overdue waiters have waited for long enough, and stay for the answer to a
	// call of another that is under way; guarded by mu.
	overdue bool
	// counted says that the waiter is one of gate.waiting; guarded by mu.
	counted bool
	// err ends the wait: the head found that the store is unavailable.
	err error
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

// heldByOther says whether an owner of this process, and not by, certainly has the
// key.
func (g *gate) heldByOther(by *ownership) bool {
	return g.hold != nil && g.hold.ownership != by && g.hold.state == holdAlive && g.hold.trusted()
}

// reserved says whether a waiter of this process came first that c cannot share
// with. Permits may be enough for both, unless that one had to wait.
func (g *gate) reserved(m Mode) bool {
	if m == Fair {
		return false // the store knows who came first
	}
	for e := g.queue.Front(); e != nil; e = e.Next() {
		w := e.Value.(*waiter)
		if m == Semaphore && !w.counted || m == Read && w.shared {
			continue
		}
		return true
	}
	return g.elsewhere > 0
}

// takenHere says whether another owner of this process has the key, or came
// first, so that the store need not be called.
func (a *acquisition) takenHere() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	g := a.gates[a.claim.Key]
	return g != nil && (g.heldByOther(a.ownership) || g.reserved(a.o.mode))
}

// beginAsking counts a waiter in whose call is under way.
func (a *acquisition) beginAsking() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.gates[a.claim.Key].asking++
}

// endAsking counts it out. Overdue waiters stayed for the answer.
func (a *acquisition) endAsking(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	g := a.gates[a.claim.Key]
	g.asking--
	if err != nil && !isAnswer(err) {
		return
	}
	g.answered = a.now()
	g.contended = g.contended || errors.Is(err, ErrBusy)
	for e := g.queue.Front(); e != nil; e = e.Next() {
		if w := e.Value.(*waiter); w.overdue {
			w.signal()
		}
	}
}

// answeredBusy says whether the key is known to be taken: the store has said so,
// or granted it to another, since the acquisition came, or before without being
// called again.
func (a *acquisition) answeredBusy() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	g := a.gates[a.claim.Key]
	return g != nil && g.knownBusy(a)
}

func (g *gate) knownBusy(a *acquisition) bool {
	return g.heldByOther(a.ownership) || g.contended && (g.asking == 0 || g.answered >= a.came)
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
