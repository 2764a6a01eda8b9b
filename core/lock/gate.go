//go:build !machine

package lock

import (
	"context"
	"time"
)

// gate is where the callers of one process wait for a key: a queue of which only the
// head calls the store. The head of fair ones calls for all, also while the process
// holds the key: their places are in the store. There is one while the queue isn't
// empty.
type gate struct {
	head, tail *waiter // of the queue
	// last is the last of the leading waiters: the head, and those right behind it
	// in its mode.
	last *waiter
	// asking counts the waiters whose call is under way.
	asking int32
	// abreast bounds how many claims of permits call side by side: maxAbreast, after a
	// refusal none but the head, and then one more with each grant.
	abreast int32
	// contended is set once another owner was seen to have the key.
	contended bool
	// overdue says that some waiters may be overdue.
	overdue bool
	// watchPerOwner says that each head needs its own subscription.
	watchPerOwner bool
	// answered is when the store answered a call of a waiter last.
	answered time.Duration
	// waiting counts the acquisitions that have to wait, wherever they queue.
	waiting int
	// looked is when a call last looked at all places.
	looked time.Duration
	// watch passes from head to head, unless watchPerOwner; nil: nobody listens, and
	// before noWatch none is tried.
	watch   *watch
	noWatch time.Duration
	// Until yieldUntil nobody here calls, so that other processes can; before yieldAt
	// that isn't done again, and yieldPause is the time between.
	yieldUntil, yieldAt, yieldPause time.Duration
	// parting has the owners that left, and whose places in the store are being undone. A
	// new head would be served in one of these, so it doesn't call before partUntil. partBy
	// is that time for the next new head.
	parting           map[string]struct{}
	partUntil, partBy time.Duration
}

// waiter is one queued acquisition.
type waiter struct {
	of *acquisition
	// gate is the one whose queue it is in; what is before and after it there.
	gate           *gate
	previous, next *waiter
	// shared waiters may call side by side with the ones before them, if those
	// are shared as well.
	shared bool
	// leading waiters have nobody before them in another mode.
	leading bool
	// wake makes the waiter look at what follows, which is guarded by mu. It has none
	// until it has to sleep.
	wake chan struct{}
	// hint says that the key may have become free; askAt is when to call without
	// one, and kept when an answered call last named its place in the store.
	hint        bool
	askAt, kept time.Duration
	// overdue waiters have waited for long enough, and stay for the answer to a
	// call of another that is under way.
	overdue bool
	// refused says that the store answered that it was busy.
	refused bool
	// counted says that the waiter is one of gate.waiting.
	counted bool
	// asking says that a call of the waiter is under way, resting that it waits for
	// something else, and lease is one that was handed to it meanwhile.
	asking, resting bool
	lease           *Lease
	// answer is what became of the call, once it has returned.
	answer error
	// err ends the wait: the head found that the store is unavailable.
	err error
}

// signal makes the waiter call the store, if it may; mu is held.
func (w *waiter) signal() {
	w.hint = true
	w.look()
}

// look makes the waiter look for itself what has changed.
func (w *waiter) look() {
	select {
	case w.wake <- struct{}{}:
	default: // it will
	}
}

// push makes w the last of the queue.
func (g *gate) push(w *waiter) {
	w.gate, w.previous = g, g.tail
	if g.tail != nil {
		g.tail.next = w
	} else {
		g.head = w
	}
	g.tail = w
	g.lead()
}

// lead makes the head and those right behind it in its mode the leading waiters, and
// returns the first waiter that was not before.
func (g *gate) lead() (first *waiter) {
	w := g.head
	if g.last != nil {
		w = g.last.next
	}
	for ; w != nil && w.of.claim.Mode == g.head.of.claim.Mode; w = w.next {
		w.leading, g.last = true, w
		if first == nil {
			first = w
		}
	}
	return first
}

// remove takes w out of the queue, and returns the first waiter that leads since.
func (g *gate) remove(w *waiter) (first *waiter) {
	if g.last == w {
		g.last = w.previous
	}
	if w.previous != nil {
		w.previous.next = w.next
	} else {
		g.head = w.next
	}
	if w.next != nil {
		w.next.previous = w.previous
	} else {
		g.tail = w.previous
	}
	w.gate, w.previous, w.next = nil, nil, nil
	return g.lead()
}

// wakeFrom wakes w and those right behind it, if they may call the store.
func (g *gate) wakeFrom(w *waiter) {
	for ; w != nil && g.first(w); w = w.next {
		w.signal()
	}
}

// first reports whether w may call the store: nobody is before it, or only
// readers that it can share with, or claims of permits that are enough so far.
func (g *gate) first(w *waiter) bool {
	switch {
	case g.head == w, w.leading && w.shared:
		return true
	case !w.leading, w.of.claim.Mode != Semaphore, g.asking >= g.abreast:
		return false
	}
	for other := w.previous; other != nil; other = other.previous {
		if other.refused || !other.asking {
			return false
		}
	}
	return true
}

// maxAbreast claims of permits call side by side. A store whose permits are all
// taken is not called for each of a crowd.
const maxAbreast = 128

// letIn wakes the first that does not call, if it may.
func (g *gate) letIn() {
	w := g.head
	for w != nil && w.asking {
		w = w.next
	}
	if w != nil && g.first(w) {
		w.signal()
	}
}

// gateOf returns the gate of key, a new one if need be; mu is held.
func (l *Locker) gateOf(key string) *gate {
	g := l.gates[key]
	if g == nil {
		g = l.spareGate()
		g.contended, g.watch, g.abreast = l.held[key] != nil, l.takeWatch(key), maxAbreast
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

// enqueue queues a waiter, and returns what turn does. Where others wait already, one
// more will have to as well, unless it may call along with a call that is under way: it is
// refused if it may not wait.
func (a *acquisition) enqueue() (wait time.Duration, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	g := a.gateOf(a.claim.Key)
	w := &a.waiter
	w.of, w.shared, w.kept = a, a.claim.Mode == Read, -placePoll
	g.push(w)
	if alongside := g.asking > 0 && g.first(w); g.waiting > 0 && !alongside && a.overcrowded(g, a.o.limits) {
		return 0, errCrowded
	}
	if w.fair() && w.leading && g.head != w {
		g.head.signal() // it has to take a place for w
	}
	return a.next()
}

// leave ends the acquisition, and takes the waiter out of the queue. The next head is
// woken, so that a hint that the waiter did not act on is not lost. err, if any, ends
// the wait of all others as well.
func (a *acquisition) leave(granted bool, err error) {
	w := &a.waiter
	a.mu.Lock()
	parting := a.end()
	g := w.gate
	if w.asking {
		a.answered(g, w.answer)
	}
	if w.counted {
		g.waiting--
		a.waiting--
	}
	was := g.head == w
	next := g.remove(w)
	if parting != "" {
		if g.parting == nil {
			g.parting = make(map[string]struct{})
		}
		g.parting[parting], g.partBy = struct{}{}, a.now()+queueNap
	}
	if err != nil && w.err == nil { // else they know
		for other := g.head; other != nil; other = other.next {
			other.err = err
			other.look()
		}
	}
	switch {
	case g.head != nil && g.head.fair():
		if granted { // the key is held, whatever was known before
			w.askAt = max(w.askAt, a.now()+min(a.o.poll, placePoll))
		}
		if was && len(g.parting) > 0 {
			g.partUntil = g.partBy
		}
		switch {
		case was:
			g.succeed(w, g.head)
		case next != nil:
			g.head.signal() // it has to take places for them
		}
	case a.held[a.claim.Key] == nil: // else the end of the hold wakes
		if (was || granted) && g.head != nil && !g.head.shared { // each reader has had its own hints
			g.head.signal()
			g.letIn()
		}
		g.wakeFrom(next)
	}
	over := a.tidy(a.claim.Key, g)
	a.mu.Unlock()
	if over != nil {
		over.end()
	}
	if w.lease != nil && !granted {
		a.decline(w.lease)
	}
}

// parted lets the waiters for key call, as the place of the last that left has gone.
func (l *Locker) parted(key, owner string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.gates[key]
	if g == nil {
		return
	}
	delete(g.parting, owner)
	if g.partUntil > 0 && len(g.parting) == 0 {
		g.partUntil = 0
		g.head.look()
	}
}

// vacate frees the key that h keeps from other owners here, and wakes the head of its
// queue; mu is held.
func (l *Locker) vacate(h *hold) {
	if l.held[h.key] != h {
		return // a later owner came first
	}
	delete(l.held, h.key)
	g := l.gates[h.key]
	if g == nil {
		return
	}
	l.yield(g, h)
	if !g.head.fair() || !g.hears(g.head) { // else the store says whose turn it is
		g.wakeFrom(g.head)
	}
}

// tidy drops a gate that nobody needs; mu is held. The caller ends the result, if any,
// without mu.
func (l *Locker) tidy(key string, g *gate) (over *watch) {
	if g.head != nil {
		return nil
	}
	if over = g.watch; over != nil && !g.watchPerOwner && !l.closed {
		l.keepWatch(over)
		over = nil
	}
	delete(l.gates, key)
	if len(l.spareGates) < maxSpareGates {
		*g = gate{}
		l.spareGates = append(l.spareGates, g)
	}
	return over
}

// heldByOther says whether another owner of this process certainly has the key; mu
// is held.
func (a *acquisition) heldByOther() bool {
	h := a.held[a.claim.Key]
	return h != nil && h.state == holdAlive && h.trusted() // the timer may be late
}

// reserved says whether a waiter of this process came first that c cannot share
// with. Permits may be enough for both, unless that one had to wait.
func (g *gate) reserved(m Mode) bool {
	for w := g.head; w != nil; w = w.next {
		if m == Semaphore && !w.counted || m == Read && w.shared {
			continue
		}
		return true
	}
	return false
}

// takenHere says whether another owner of this process has the key, or came
// first, so that the store need not be called; mu is held.
func (a *acquisition) takenHere() bool {
	g := a.gates[a.claim.Key]
	return a.heldByOther() || g != nil && g.reserved(a.o.mode)
}

// beginAsking counts a waiter in whose call is under way; mu is held.
func (a *acquisition) beginAsking() {
	w := &a.waiter
	w.gate.asking++
	w.asking, w.hint, w.askAt, w.answer = true, false, 0, errNoAnswer // unless it returns
	switch w.of.claim.Mode {
	case Fair:
		a.namePlaces(w.gate)
	case Semaphore:
		w.gate.letIn()
	}
}

// endAsking counts it out.
func (a *acquisition) endAsking(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.answered(a.waiter.gate, err)
}

// answered counts a waiter out whose call has ended; mu is held. Overdue waiters
// stayed for the answer.
func (a *acquisition) answered(g *gate, err error) {
	g.asking--
	a.waiter.asking = false
	if err == nil {
		g.abreast = min(g.abreast+1, maxAbreast)
	}
	if a.placesNamed(a.named, err) {
		for _, w := range a.named {
			w.kept = a.namedAt
		}
	}
	if err != nil && !isDecision(err) || g.head == g.tail && err == nil {
		return // the store said nothing, or nobody else is interested
	}
	g.answered = a.now()
	busy, ok := busyAnswer(err)
	if ok {
		g.contended, g.watchPerOwner, g.abreast = true, busy.WatchPerOwner, 0
		a.waiter.refused = true
	}
	g.yielded(ok, g.answered)
	if !g.overdue {
		return
	}
	g.overdue = false
	for w := g.head; w != nil; w = w.next {
		if w.overdue {
			w.overdue = false
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
	return a.knownBusy()
}

// knownBusy is answeredBusy with mu held.
func (a *acquisition) knownBusy() bool {
	g := a.gates[a.claim.Key]
	return a.heldByOther() || g != nil && g.contended && (g.asking == 0 || g.answered >= a.came)
}

// keepUntil is when the lease's minimum ends; 0: it has none. mu is held.
func (l *Lease) keepUntil() time.Duration {
	if !l.keeps {
		return 0
	}
	return l.hold.granted + l.minHold
}

// willKeep says whether a lease of h has a minimum that has yet to begin; mu is held.
func (h *hold) willKeep() bool {
	for lease := h.leases; lease != nil; lease = lease.next {
		if lease.minHold > 0 && !lease.keeps {
			return true
		}
	}
	return false
}

// keep begins the lease's minimum, as its caller gets it. One that nobody gets keeps
// nothing.
func (l *Lease) keep() {
	if l.minHold == 0 {
		return
	}
	l.hold.locker.mu.Lock()
	defer l.hold.locker.mu.Unlock()
	l.keeps = true
}

// releaseLater releases the lease in the background.
func (l *Lease) releaseLater(ctx context.Context) {
	if l.hold.locker.begin() != nil {
		return // Close releases it
	}
	go func() {
		defer l.hold.locker.running.Done()
		_ = l.Release(ctx)
	}()
}

// overcrowded says whether the gate has no room for one more that waits; mu is
// held.
func (l *Locker) overcrowded(g *gate, most limits) bool {
	return most.waiters > 0 && g.waiting >= most.waiters || most.total > 0 && l.waiting >= most.total
}

// mustWait counts the acquisition as a waiter, once. It is
// refused where there are too many; leaving the queue counts it out.
func (a *acquisition) mustWait() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	g := a.waiter.gate
	switch {
	case a.waiter.counted:
		return nil
	case a.how.group != nil && a.waitsForItself(a.caller): // it would never end
		return ErrOwnHold
	case a.overcrowded(g, a.o.limits):
		return errCrowded
	}
	a.waiter.counted = true
	g.waiting++
	a.waiting++
	return nil
}

// within is the TTL of a call sent at now, cut to what the hold may still last. It is never
// nothing, which stores refuse.
func (h *hold) within(ttl, now time.Duration) time.Duration {
	if h.limit > 0 {
		ttl = min(ttl, h.limit-now)
	}
	return max(ttl, time.Millisecond)
}

// mayLast is how long the hold may still last; false: as long as it likes.
func (h *hold) mayLast() (left time.Duration, limited bool) {
	h.locker.mu.Lock()
	defer h.locker.mu.Unlock()
	return h.limit - h.locker.now(), h.limit > 0
}

// atLimit says whether the hold lasts as long as it may; mu is held.
func (h *hold) atLimit() bool { return h.limit > 0 && h.expiry >= h.limit }
