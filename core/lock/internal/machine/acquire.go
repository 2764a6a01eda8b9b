package machine

// call calls the store for a caller, and for the tries behind it.
func (m *Machine) call(s Slot, full bool, now Time, out []Effect) []Effect {
	c := &m.callers[s]
	if full {
		return m.leave(s, ResBacklog, now, out)
	}
	if c.claim == None {
		m.newClaim(s)
	}
	if c.phase != retrying {
		c.tries, c.began = 0, now
	}
	m.enter(s, calling)
	c.hint = false
	if c.Once {
		for other := c.next; other != None; other = m.callers[other].next {
			if w := &m.callers[other]; w.Once && w.phase == queued && w.Mode == c.Mode && c.Mode.exclusive() {
				m.enter(other, sharing)
			}
		}
	}
	return m.send(s, now, out)
}

// timeout is how long to wait for an answer to a caller's acquire. One that comes when
// trust would have ended is of no use.
func (m *Machine) timeout(c *caller, ttl Time) Time {
	return min(m.ownTimeout(c), ttl-m.margin(ttl))
}

// waitsLess says whether others would wait longer for an answer.
func (m *Machine) waitsLess(cl *claim) bool {
	c := &m.callers[cl.asker]
	return m.timeout(c, min(c.length(), m.MaxTTL)) < m.Timeout
}

func (m *Machine) ownTimeout(c *caller) Time {
	if c.Timeout > 0 {
		return c.Timeout
	}
	return m.Timeout
}

func (m *Machine) send(s Slot, now Time, out []Effect) []Effect {
	c := &m.callers[s]
	cl := m.claim(c.claim)
	ttl := min(c.length(), m.MaxTTL)
	cl.seq, cl.out, cl.at = m.nextSeq(), OpAcquire, after(now, m.timeout(c, ttl))
	k := Call{
		Op: OpAcquire, Mode: c.Mode, Claim: c.claim, Caller: None, Owner: cl.owner, Permits: c.Permits, Size: c.Size,
		Seq: cl.seq, Sent: now, By: cl.at, TTL: ttl, Epoch: m.epoch,
	}
	m.mayRun(cl, &k)
	cl.open++
	m.open++
	if c.Mode != Fair || c.Once || !c.leading {
		return append(out, Effect{Do: DoSend, Call: k})
	}
	m.namePlaces(s, &k)
	return append(out, Effect{Do: DoSend, Call: k})
}

// mayRun records until when an acquire that names the owner may run.
func (m *Machine) mayRun(cl *claim, k *Call) {
	cl.late = max(cl.late, k.By+m.Life)
	cl.gone = max(cl.gone, after(cl.late, k.TTL))
	if cl.mode == Fair {
		cl.gone = max(cl.gone, after(cl.late, m.PlaceTTL))
	}
}

// namePlaces makes the acquire of a fair head name the places that are due: its own, new
// ones, and now and then places that have to be kept. Behind a caller in another mode none
// is taken: its turn in the store would come before its turn here.
func (m *Machine) namePlaces(s Slot, k *Call) {
	m.places = append(m.places[:0], k.Owner)
	w := m.queue.last
	if look := k.Sent-m.looked >= m.PlaceLook; look {
		w, m.looked = m.queue.head, k.Sent
	} else {
		first := None
		for ; w != None && !m.callers[w].placed(m); w = m.callers[w].prev {
			first = w
		}
		w = first
	}
	for ; w != None && m.callers[w].leading; w = m.callers[w].next {
		c := &m.callers[w]
		if w == s || c.Once || c.placed(m) && k.Sent-m.claims[c.claim].placed < m.PlacePoll-m.PlaceLook {
			continue
		}
		if int32(len(m.places)) >= m.MaxPlaces { //nolint:gosec // bounded by MaxPlaces
			m.callers[s].hint = true // the others take another call
			break
		}
		if c.claim == None {
			m.newClaim(w)
		}
		cl := m.claim(c.claim)
		m.places = append(m.places, cl.owner)
		m.mayRun(cl, k)
		cl.unknown = cl.unknown || cl.named > 0
		cl.named = k.Seq
		if !cl.listed {
			cl.listed, cl.next, m.naming = true, m.naming, c.claim
		}
	}
	k.Named = int32(len(m.places)) //nolint:gosec // bounded by MaxPlaces
}

// acquired is the answer to an acquire.
func (m *Machine) acquired(e *Event, now Time, out []Effect) []Effect {
	if e.Call.Named > 1 {
		out = m.named(e, now, out)
	}
	if e.Answer.Leaves(e.Call.Mode) {
		for _, o := range e.Places {
			out = m.orphan(o, e.Call, now, out)
		}
	}
	i, cl := e.Call.Claim, m.find(e.Call)
	if cl == nil {
		if e.Answer.Leaves(e.Call.Mode) {
			out = m.orphan(e.Call.Owner, e.Call, now, out)
		}
		return out
	}
	current := cl.out == OpAcquire && cl.seq == e.Call.Seq
	if cl.open > 0 {
		cl.open--
		m.open--
	}
	cl.unknown = cl.unknown || e.Answer == AnsUnknown
	place := cl.mode == Fair && e.Answer == AnsBusy
	m.yielded(e, now)
	switch cl.stage {
	case asking:
		if current {
			cl.out = OpNone
		}
		if place {
			cl.dirty = true
			cl.place(e.Call, now)
		}
		switch {
		case e.Answer == AnsOK:
			return m.granted(e, now, out)
		case !current: // of an earlier call
		case e.Answer == AnsBusy:
			return m.refused(e, now, out)
		default:
			return m.failed(cl.asker, e.Answer, e.Private, now, out)
		}
	case held:
		if e.Answer == AnsOK {
			m.confirm(cl, e.Call)
		}
		cl.dirty = cl.dirty || e.Answer.Leaves(cl.mode) // if the hold was removed before the call ran
	case ending, lapsed:
		cl.dirty = cl.dirty || e.Answer == AnsOK || place
		return m.undoAside(i, now, out)
	case undoing:
		cl.dirty = cl.dirty || e.Answer == AnsOK || e.Answer == AnsUnknown || place
		return m.undoAside(i, now, out)
	}
	return out
}

// place records that a call has named the place of the claim. It may have run after an
// acquire that has no answer yet, so a grant of that one doesn't prove that the place is used.
func (cl *claim) place(k *Call, now Time) {
	at := k.Sent
	if cl.open > 0 {
		at = now
	}
	cl.placed = max(cl.placed, at)
}

// undoAside goes on to undo a claim, about which an acquire was answered. A release that is
// under way comes first, unless the machine is closed: the shell may not wait for its answer,
// and repeats nothing after that.
func (m *Machine) undoAside(i Slot, now Time, out []Effect) []Effect {
	switch cl := m.claim(i); {
	case m.closed && cl.dirty && cl.stage == ending:
		cl.unsure = true // by the release that is under way
		return m.remove(i, now, out)
	case cl.stage == undoing && (cl.out != OpRelease || m.closed && cl.dirty):
		return m.undo(i, now, out)
	}
	return out
}

// orphan undoes what a call has left for an owner that is not known any longer: the answer
// came after the time in which the call could run.
func (m *Machine) orphan(o Owner, k *Call, now Time, out []Effect) []Effect {
	for i := range m.claims {
		if m.claims[i].stage != free && m.claims[i].owner == o {
			return out
		}
	}
	i := m.unused()
	cl := m.claim(i)
	*cl = claim{
		stage: undoing, mode: k.Mode, owner: o, asker: None, first: None, returning: None, permits: k.Permits, size: k.Size,
		placed: -1, dirty: true, gone: after(now, max(k.TTL, m.PlaceTTL)), renewAt: Never, row: cl.row, touched: true, listed: cl.listed, next: cl.next,
	}
	m.live++
	m.undoing++
	return m.undo(i, now, out)
}

// named is the answer for the owners that an acquire has named besides its own.
func (m *Machine) named(e *Event, now Time, out []Effect) []Effect {
	link := &m.naming
	for i := *link; i != None; i = *link {
		if named := m.claims[i].named; named != e.Call.Seq && named != 0 {
			link = &m.claims[i].next
			continue
		}
		cl := m.claim(i)
		*link, cl.listed = cl.next, false
		if cl.named != 0 {
			out = m.namedOne(i, e, now, out)
		}
	}
	return out
}

// namedOne is the answer for one of them.
func (m *Machine) namedOne(i Slot, e *Event, now Time, out []Effect) []Effect {
	cl := m.claim(i)
	cl.named = 0
	cl.unknown = cl.unknown || e.Answer == AnsUnknown
	switch {
	case cl.stage == undoing:
		cl.dirty = cl.dirty || !e.Answer.failed() || e.Answer == AnsUnknown
	case e.Answer.failed():
	case cl.stage == asking:
		cl.dirty = true
		cl.place(e.Call, now)
	case cl.stage != held: // it may have a place since its release
		cl.dirty = true
	}
	return m.undoAside(i, now, out)
}

// heard ends the wait of the callers that have waited for an answer of the store to
// anybody: tries that share it or are behind a caller that waits now, and callers whose limit
// has passed.
func (m *Machine) heard(now Time, out []Effect) []Effect {
	if m.phases[sharing] == 0 && m.overdue == 0 && m.trying == 0 {
		return out
	}
	behind := false // a caller that waits
	for s := m.queue.head; s != None; {
		c := &m.callers[s]
		next := c.next
		if m.hearsAlong(c, behind) {
			out = m.leave(s, ResBusy, now, out)
		} else {
			behind = behind || !c.Once && m.sawContention(c)
		}
		s = next
	}
	return out
}

// hearsAlong says whether another caller's answer ends the wait of a caller that doesn't call.
func (m *Machine) hearsAlong(c *caller, behind bool) bool {
	switch {
	case c.phase == sharing:
		return true
	case c.phase == queued && c.Once:
		return behind
	}
	return c.limited && c.phase != calling && (m.sawContention(c) || m.blocked(c))
}

// refused is the answer to a caller that another owner has the key.
func (m *Machine) refused(e *Event, now Time, out []Effect) []Effect {
	s := m.claims[e.Call.Claim].asker
	c := &m.callers[s]
	m.abreast, m.seen, m.perOwner = 1, m.arrivals, e.PerOwner
	out = m.heard(now, out)
	switch {
	case c.Once, c.limited:
		return m.leave(s, ResBusy, now, out)
	case !c.waits && m.crowded(c, e):
		return m.leave(s, ResCrowded, now, out)
	}
	out = m.wait(s, out)
	c.refused = true
	m.enter(s, resting)
	out = m.subscribe(s, now, out)
	pause := m.poll(c)
	if m.watch.state == watchNone {
		pause = min(pause, m.backoff(c.polls, m.BackoffMax))
		c.polls = min(c.polls+1, 10)
	}
	pause = min(pause, max(e.TTL, m.BackoffMin))
	if c.Mode == Fair { // the key may be free, and the turn of another
		pause = min(max(pause, min(m.PlacePause, m.poll(c))), m.PlacePoll)
	}
	c.askAt = after(now, pause)
	return out
}

// failed is that a caller's call has no answer, or none that decides.
// private says that it says nothing about the store to others.
func (m *Machine) failed(s Slot, a Answer, private bool, now Time, out []Effect) []Effect {
	c := &m.callers[s]
	if c.phase != calling {
		return out // an earlier call of a caller that rests
	}
	c.tries++
	patient := a != AnsRefused
	if m.sawContention(c) && !c.Once {
		patient = patient && now-c.began < m.Patience && !c.limited
	} else {
		patient = patient && a != AnsDown && c.tries < m.Tries && now-c.began < max(m.ownTimeout(c), 1)
	}
	if patient {
		m.enter(s, retrying)
		c.askAt = after(now, m.backoff(c.tries, m.BackoffMax))
		return out
	}
	r := ResUnavailable
	if m.sawContention(c) && c.limited {
		r = ResBusy
	}
	out = m.leave(s, r, now, out)
	if private {
		return out
	}
	for s := m.queue.head; s != None; { // the others need not find out one by one
		next := m.callers[s].next
		if m.callers[s].phase != calling {
			out = m.leave(s, ResUnavailable, now, out)
		}
		s = next
	}
	return out
}
