package machine

// What the shell asks a machine between steps.

// Waiting is how many callers have had to wait, and Unsettled how many acquires have no
// answer and how many claims are to be undone: the shell bounds both over all keys.
func (m *Machine) Waiting() int32 { return m.waiting }

// Unsettled is described with Waiting.
func (m *Machine) Unsettled() int32 { return m.open + m.undoing }

// Undoing is how many claims are to be undone.
func (m *Machine) Undoing() int32 { return m.undoing }

// Holds is how many holds there are, with those whose release has no answer.
func (m *Machine) Holds() int32 { return m.holds }

// Refuses says whether an arrival is a try that is refused without a call. It changes nothing,
// so the shell need not step the machine.
func (m *Machine) Refuses(t *Terms, now Time) bool {
	return t.Once && m.agenda.first() > now && m.takenHere(t.Mode)
}

// Leases is how many leases the holds have, and how many holds are being released.
func (m *Machine) Leases() (n int32) {
	for i := range m.claims {
		switch h := &m.claims[i]; h.stage {
		case held:
			n += h.leases
		case ending:
			n++
		}
	}
	return n
}

// Places are the owners whose places the last acquire takes or keeps, in order. They are
// valid until the next step.
func (m *Machine) Places() []Owner { return m.places }

// Owner is the last that was made.
func (m *Machine) Owner() Owner { return m.owners }

// Asker is the caller for which a call is made, or None.
func (m *Machine) Asker(k *Call) Slot {
	if cl := m.about(k); cl != nil && cl.stage == asking {
		return cl.asker
	}
	return None
}

// about is the claim of a call, or nil if the owner has none any longer.
func (m *Machine) about(k *Call) *claim {
	if k.Claim == None || int(k.Claim) >= len(m.claims) {
		return nil
	}
	if cl := &m.claims[k.Claim]; cl.stage != free && cl.owner == k.Owner {
		return cl
	}
	return nil
}

// Hold is the claim and the owner of a caller that has a lease.
func (m *Machine) Hold(s Slot) (Slot, Owner) {
	i := m.callers[s].claim
	return i, m.claims[i].owner
}

// Leased is a lease of the hold that a call is about, or None.
func (m *Machine) Leased(k *Call) Slot {
	if cl := m.about(k); cl != nil && cl.stage == held {
		for s := cl.first; s != None; s = m.callers[s].next {
			if m.callers[s].phase != joining {
				return s
			}
		}
	}
	return None
}

// Shared says that the hold of a caller's lease has other leases.
func (m *Machine) Shared(s Slot) bool { return m.claims[m.callers[s].claim].leases > 1 }

// Mode is that of a claim, as the store may know it.
func (m *Machine) Mode(i Slot) Mode { return m.claims[i].storedMode() }

// HeldBy is the claim of an owner that holds the key, or None.
func (m *Machine) HeldBy(o Owner) Slot {
	for i := range m.claims {
		if h := &m.claims[i]; h.stage == held && h.owner == o {
			return Slot(i) //nolint:gosec // slots are small
		}
	}
	return None
}

// Limit is when the hold of a caller's lease ends at the latest, 0 if it may last.
func (m *Machine) Limit(s Slot) Time { return m.claims[m.callers[s].claim].limit }

// Trusts yields the leases of the holds that the last step has touched, and until when they
// are trusted.
func (m *Machine) Trusts(yield func(Slot, Time) bool) {
	for _, id := range m.touched {
		if id&1 == 0 || m.claims[id>>1].stage != held {
			continue
		}
		h := &m.claims[id>>1]
		for s := h.first; s != None; s = m.callers[s].next {
			if !yield(s, h.trust) {
				return
			}
		}
	}
}

// Lasts is the TTL of a renewal of a caller's hold that is sent at that time.
func (m *Machine) Lasts(s Slot, at Time) Time {
	h := &m.claims[m.callers[s].claim]
	return h.within(h.lasting(at), at)
}

// Size is that of the semaphore of which permits are held, 0 if none are.
func (m *Machine) Size() int32 {
	for i := range m.claims {
		if h := &m.claims[i]; h.stage == held && h.mode == Semaphore {
			return h.size
		}
	}
	return 0
}

// Conclude has the hold of a lease passed to nobody, as one that was extended. It returns
// false if others share the hold, or a minimum has not ended.
func (m *Machine) Conclude(s Slot, now Time) bool {
	i := m.callers[s].claim
	h := &m.claims[i]
	if h.leases > 1 || h.mode.shared() || h.mode == Semaphore || h.out == OpLower || m.keeps(h, now) {
		return false
	}
	h.extended = true
	return true
}
