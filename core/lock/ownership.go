package lock

import "slices"

// ownership is what an owner has of a key. Most owners acquire once; where
// several acquisitions act for one, because it is named or because a writer
// reads as well, they must share the hold that the store keeps for it: to the
// store, a second claim of the owner is a repetition of the first.
type ownership struct {
	id ownerKey // zero unless others can find it
	// The turn is taken by whoever changes in the store what the owner has.
	// Hold counts are absolute, so two at once would undo each other.
	turn

	// What follows is guarded by Locker.mu.

	holds   [len(modeNames)]*hold // by mode, until they are over
	waiters []*waiter             // that a hold of the owner makes re-enter
	users   int                   // acquisitions, holds and clean-ups, if it can be found
}

// ownerKey names an ownership that others can find.
type ownerKey struct{ key, owner string }

// share finds the ownership of a named owner. unshare must follow.
func (l *Locker) share(id ownerKey) *ownership {
	l.mu.Lock()
	defer l.mu.Unlock()
	o := l.owners[id]
	if o == nil {
		o = &ownership{id: id}
		l.owners[id] = o
	}
	o.users++
	return o
}

func (l *Locker) unshare(o *ownership) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forget(o)
}

// forget counts a user of o out; mu is held.
func (l *Locker) forget(o *ownership) {
	o.users--
	if o.users == 0 && l.owners[o.id] == o {
		delete(l.owners, o.id)
	}
}

// add registers a hold; mu is held.
func (o *ownership) add(h *hold) {
	o.holds[h.mode] = h
	o.users++
	for _, w := range o.waiters {
		w.signal()
	}
}

// await registers a waiter until done is called.
func (l *Locker) await(o *ownership, w *waiter) (done func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	o.waiters = append(o.waiters, w)
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		o.waiters = slices.DeleteFunc(o.waiters, func(other *waiter) bool { return other == w })
	}
}

// drop takes a hold out that is over; mu is held.
func (l *Locker) drop(h *hold) {
	if o := h.ownership; o.holds[h.mode] == h {
		o.holds[h.mode] = nil
		l.forget(o)
	}
}

// find returns the hold in that mode, or else one in another; mu is held.
func (o *ownership) find(m Mode) *hold {
	if h := o.holds[m]; h != nil && h.state == holdAlive {
		return h
	}
	for _, h := range o.holds {
		if h != nil && h.state == holdAlive {
			return h
		}
	}
	return nil
}

// has says whether a release in that mode would end a hold; mu is held.
// Stores keep exclusive and fair holds alike.
func (o *ownership) has(m Mode) bool {
	if m == Exclusive || m == Fair {
		return o.holds[Exclusive] != nil || o.holds[Fair] != nil
	}
	return o.holds[m] != nil
}
