package lock

import "slices"

// ownership is what an owner has of a key. Most owners acquire once. Several
// acquisitions act for one if it is named, or if a writer reads as well: they
// share its holds. The name is known to the locker only. The store sees an
// owner that is made for one hold, or for a writer's two.
type ownership struct {
	id *ownerKey // nil unless others can find it
	// The turn is taken by a call that changes in the store what the owner has.
	// Hold counts are absolute, so two at once would undo each other.
	turn

	// What follows is guarded by Locker.mu.

	holds   [len(modeNames)]*hold // by mode, until they end
	waiters []*waiter             // that a hold of the owner makes re-enter
	users   int32                 // acquisitions and holds, if it can be found
	read    bool                  // a writer has called to read as well
	doubt   bool                  // a call without an answer may still make anew what is owed
	// owed is the read hold of a writer that nobody has a lease of. It is
	// released when nothing else of the owner is held: until then the owner may
	// come back for it, and a release that is late would take it away.
	owed *Claim
}

// ownerKey names an ownership that others can find.
type ownerKey struct{ key, name string }

// share finds the ownership of a named owner; mu is held. unshare must follow.
func (l *Locker) share(id ownerKey) *ownership {
	o := l.owners[id]
	if o == nil {
		o = &ownership{id: &ownerKey{id.key, id.name}}
		l.owners[id] = o
	}
	o.users++
	return o
}

// share makes an ownership for h if it has none, for other acquisitions to act for
// its owner; mu is held.
func (h *hold) share() {
	if h.ownership == nil {
		h.ownership = new(ownership)
		h.ownership.add(h)
	}
}

// actsFor says whether h is of that owner. Acquisitions without an ownership have
// nothing in common with others.
func (h *hold) actsFor(o *ownership) bool { return o != nil && h.ownership == o }

// named says whether others find the owner of h by that name.
func (h *hold) named(name string) bool {
	return h.ownership != nil && h.ownership.id != nil && h.ownership.id.name == name
}

func (l *Locker) unshare(o *ownership) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forget(o)
}

// forget counts a user of o out; mu is held.
func (l *Locker) forget(o *ownership) {
	o.users--
	if o.users == 0 && o.id != nil && l.owners[*o.id] == o {
		delete(l.owners, *o.id)
	}
}

// add registers a hold; mu is held.
func (o *ownership) add(h *hold) {
	if o.owed != nil && o.owed.Owner == h.owner {
		h.doubt = h.doubt || o.doubt
		h.sent = max(h.sent, h.locker.now()+o.owed.TTL)
		o.owed, o.doubt = nil, false
	}
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

// drop takes a hold that has ended out of its ownership; mu is held.
func (l *Locker) drop(h *hold) {
	o := h.ownership
	if o == nil {
		return
	}
	l.forget(o)
	if o.holds[h.mode] != h {
		return // a later hold came first
	}
	o.holds[h.mode] = nil
	if claim, _ := o.takeOwed(); claim != nil {
		l.undo(*claim, undoPasses[:])
	}
}

// writing says whether the owner of a read claim holds the key as a writer; mu
// is held.
func (o *ownership) writing(c Claim) bool {
	if o == nil {
		return false
	}
	w := o.holds[Write]
	return c.Mode == Read && w != nil && w.state == holdAlive && w.owner == c.Owner
}

// takeOwed returns what is to be released as nothing else is held; mu is held.
func (o *ownership) takeOwed() (claim *Claim, doubt bool) {
	if o.owed != nil && o.writing(*o.owed) {
		return nil, false
	}
	claim, doubt = o.owed, o.doubt
	o.owed, o.doubt = nil, false
	return claim, doubt
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
