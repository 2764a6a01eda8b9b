package machine

// granted makes a hold of a claim whose acquire the store has granted.
func (m *Machine) granted(e *Event, now Time, out []Effect) []Effect {
	i := e.Call.Claim
	cl := m.claim(i)
	s := cl.asker
	c := &m.callers[s]
	cl.dirty = true
	if now >= after(e.Call.Sent, e.Call.TTL-m.margin(e.Call.TTL)) || e.Call.Epoch != m.epoch { // too late to be trusted
		return m.leave(s, ResUnavailable, now, out)
	}
	valid, out := m.disprove(i, e.Fence, now, out)
	if !valid { // its caller calls again, as another owner
		c.claim = None
		m.enter(s, queued)
		return m.settle(i, now, out)
	}
	cl = m.claim(i)
	cl.dirty = cl.placed >= e.Call.Sent // a later call may have left a place
	cl.asker, cl.out, cl.at = None, OpNone, Never
	m.order++
	m.move(i, held)
	cl.fence, cl.order, cl.granted, cl.trust = e.Fence, m.order, e.Call.Sent, e.Call.Sent
	if c.Lease == 0 {
		cl.watchdog = c.Watchdog
	}
	if c.Max > 0 {
		cl.limit = after(e.Call.Sent, c.Max)
	}
	m.confirm(cl, e.Call)
	m.verified = e.Call.Sent
	m.pop(s, true, now)
	m.lease(s, i)
	switch {
	case c.Mode.exclusive():
		m.seen = m.arrivals
	case c.Mode == Read:
		m.abreast = m.Abreast
	default:
		m.abreast = min(m.abreast+1, m.Abreast)
	}
	if c.length() > e.Call.TTL {
		out = m.lengthen(s, now, out)
	} else {
		out = m.lend(s, now, out)
	}
	return m.heard(now, out)
}

// disprove ends the holds of this machine that can't be there if a grant is. valid is false
// if the grant itself can't be: its fence is lower, or fences are in no order.
func (m *Machine) disprove(i Slot, f Fence, now Time, out []Effect) (valid bool, _ []Effect) {
	mode := m.claims[i].mode
	valid = true
	if m.conflicting(&m.held, mode) == 0 {
		return true, out
	}
	for j := range m.claims {
		h := &m.claims[j]
		if h.stage != held || !Conflict(h.mode, mode) {
			continue
		}
		if valid = valid && m.Ordered && h.fence < f; h.fence < f || !m.Ordered {
			out = m.lose(Slot(j), WhyTaken, m.Ordered, now, out) //nolint:gosec // slots are small
		}
	}
	return valid, out
}

// confirm records that a call has made the hold last. Nothing gets shorter by it.
func (m *Machine) confirm(h *claim, k *Call) {
	h.expiry = max(h.expiry, after(k.Sent, k.TTL))
	h.gone = max(h.gone, after(k.By+m.Life, k.TTL))
	if k.Epoch != m.epoch {
		return // it says nothing about now
	}
	if until := after(k.Sent, k.TTL-m.margin(k.TTL)); until > h.trust || h.suspect {
		h.trust, h.lasts = max(h.trust, until), k.TTL
	}
	if h.limit > 0 {
		h.trust = min(h.trust, h.limit-m.margin(h.lasts))
	}
	h.suspect = false
	if !h.renewing {
		h.renewAt = m.renewsAt(h, k.Sent)
	}
}

// renewsAt is when a hold is renewed that was confirmed by a call sent then.
func (m *Machine) renewsAt(h *claim, sent Time) Time {
	at := Never
	if h.expiry >= Never {
		return at
	}
	if h.watchdog > 0 && (h.limit == 0 || h.expiry < h.limit) {
		at = after(sent, max(1, min(h.watchdog, h.lasts)/3))
	}
	if next := after(sent, m.ReadRenew); h.mode == Read && next < h.trust {
		at = min(at, next)
	}
	return at
}

// lapse ends the holds whose trust has ended, however late timers are.
func (m *Machine) lapse(now Time, out []Effect) []Effect {
	if m.agenda.first() > now {
		return out
	}
	m.ids = m.agenda.due(now, m.ids[:0])
	for _, id := range m.ids {
		if id&1 == 0 {
			continue
		}
		if h := &m.claims[id>>1]; h.stage == held && now >= h.trust {
			out = m.lose(Slot(id>>1), m.whyOver(h, now), false, now, out)
		}
	}
	return out
}

// whyOver is why the trust of a hold has ended.
func (m *Machine) whyOver(h *claim, now Time) Why {
	switch {
	case h.limit > 0 && now >= h.limit-m.margin(h.lasts):
		return WhyHeldTooLong
	case h.watchdog > 0, h.suspect:
		return WhyUnconfirmed
	}
	return WhyLeaseOver
}

// lose ends the leases of a hold. gone says that the store certainly doesn't have it.
func (m *Machine) lose(i Slot, why Why, gone bool, now Time, out []Effect) []Effect {
	m.move(i, lapsed)
	h := m.claim(i)
	m.linger(h, now)
	h.out, h.at, h.renewAt, h.renewing, h.dirty = OpNone, Never, Never, false, h.dirty || !gone
	for s := h.first; s != None; {
		next := m.callers[s].next
		switch m.callers[s].phase {
		case joining:
			m.unlease(s)
			out = m.replyWhy(s, ResLost, why, out)
		case extending:
			out = append(out, Effect{Do: DoReply, Caller: s, Result: ResLost, Why: why})
			fallthrough
		case holding:
			m.enter(s, lost)
			out = append(out, Effect{Do: DoEnd, Caller: s, Why: why})
		}
		s = next
	}
	out = m.returned(h, ResLost, why, out)
	if h.leases == 0 || gone {
		out = m.forget(h, out)
		return m.settle(i, now, out)
	}
	return out
}

// forget takes the leases of a claim out, which have ended and release nothing.
func (m *Machine) forget(h *claim, out []Effect) []Effect {
	for h.first != None {
		s := h.first
		m.unlease(s)
		out = m.dismiss(s, out)
	}
	return out
}

// dismiss forgets a caller whose lease has ended.
func (m *Machine) dismiss(s Slot, out []Effect) []Effect {
	m.enter(s, absent)
	m.callers[s].claim = None
	return append(out, Effect{Do: DoForget, Caller: s})
}

// lower makes a read hold of a write hold of which only read leases are left. Until the
// answer the hold counts as one that writes.
func (m *Machine) lower(i Slot, now Time, out []Effect) []Effect {
	h := m.claim(i)
	if h.returning == None || h.out != OpLower {
		h.by, h.tries = after(now, m.Timeout), 0
	}
	h.seq, h.out, h.at, h.lowering = m.nextSeq(), OpLower, max(h.by, now+1), true
	if now >= h.by {
		h.at = after(now, m.Timeout)
	}
	return append(out, Effect{Do: DoSend, Call: Call{
		Op: OpLower, Mode: Write, Claim: i, Caller: None, Owner: h.owner, Seq: h.seq, Sent: now, By: h.at, TTL: max(rest(h.expiry, now), 1),
	}})
}

func (m *Machine) lowered(e *Event, now Time, out []Effect) []Effect {
	i, h := e.Call.Claim, m.find(e.Call)
	if h == nil || h.stage != held || h.out != OpLower || h.seq != e.Call.Seq {
		return out
	}
	switch e.Answer {
	case AnsOK:
		h.out, h.at = OpNone, Never
		m.count(h, -1)
		h.mode = Read
		m.count(h, 1)
		if !h.renewing {
			h.renewAt = min(h.renewAt, m.renewsAt(h, e.Call.Sent))
		}
		return m.returned(h, ResReleased, 0, out)
	case AnsGone:
		return m.lose(i, WhyTaken, true, now, out)
	}
	h.at = after(now, m.backoff(h.tries, m.BackoffMax)) // then the timer repeats it
	h.tries++
	if e.Answer == AnsRefused || h.at >= h.by {
		out = m.returned(h, ResUnavailable, 0, out)
	}
	return out
}

// renew makes a hold last: for the Extend of a caller if there is one.
func (m *Machine) renew(i, s Slot, ttl, now Time, out []Effect) []Effect {
	h := m.claim(i)
	ttl = h.within(ttl, now)
	seq, by := m.nextSeq(), after(now, m.Timeout)
	if s == None {
		by = after(now, max(1, min(m.Timeout, ttl/6, h.lasts/6))) // it leaves time for more
		h.renewing, h.renewSeq, h.renewAt = true, seq, by
	} else {
		h.extended = true
		m.callers[s].seq = seq
	}
	h.gone = max(h.gone, after(by+m.Life, ttl))
	return append(out, Effect{Do: DoSend, Call: Call{
		Op: OpRenew, Mode: h.storedMode(), Claim: i, Caller: s, Owner: h.owner, Permits: h.permits, Size: h.size,
		Seq: seq, Sent: now, By: by, TTL: ttl, Epoch: m.epoch,
	}})
}

func (m *Machine) renewed(e *Event, now Time, out []Effect) []Effect {
	i, h := e.Call.Claim, m.find(e.Call)
	if h == nil || h.stage != held {
		return out
	}
	own := h.renewing && h.renewSeq == e.Call.Seq
	if own {
		h.renewing = false
	}
	switch {
	case e.Answer == AnsOK:
		m.confirm(h, e.Call)
	case e.Answer == AnsGone && e.Call.Mode == h.storedMode(): // else it has met the OpLower
		return m.lose(i, WhyTaken, true, now, out)
	case own:
		h.renewAt = after(now, m.retryRenewal(h))
	}
	// The machine may have rested since, without the caller.
	if s := e.Call.Caller; s != None && int(s) < len(m.callers) && m.callers[s].claim == i && m.callers[s].seq == e.Call.Seq {
		return m.extended(s, e, now, out)
	}
	return out
}

// retryRenewal is how soon a renewal without an answer is tried again: often enough that
// one success before the end of trust is likely. A hold that nobody wants to last is not.
func (m *Machine) retryRenewal(h *claim) Time {
	if h.watchdog == 0 && !h.suspect && h.mode != Read {
		return Never
	}
	lasts := h.lasts
	if h.suspect {
		lasts = min(lasts, 6*min(m.Timeout, Never/6))
	}
	return max(1, min(lasts/30, m.UndoBackoff))
}

// within is a TTL that ends at the limit.
func (h *claim) within(ttl, now Time) Time {
	if h.limit > 0 {
		ttl = max(1, min(ttl, h.limit-now))
	}
	return ttl
}

// lasting is the TTL of a renewal that shortens nothing.
func (h *claim) lasting(now Time) Time { return max(1, h.watchdog, rest(h.expiry, now)) }

// holdTimer serves what is due of a hold.
func (m *Machine) holdTimer(i Slot, slack, now Time, out []Effect) []Effect {
	h := m.claim(i)
	if h.renewing && now >= h.renewAt { // no answer
		h.renewing = false
		h.renewAt = now
		if h.watchdog == 0 && !h.suspect && h.mode != Read {
			h.renewAt = Never
		}
	}
	if !h.renewing && now+min(slack, h.lasts/30) >= h.renewAt {
		out = m.renew(i, None, h.lasting(now), now, out)
	}
	if now >= h.at {
		if now >= h.by {
			out = m.returned(h, ResUnavailable, 0, out)
		}
		out = m.lower(i, now, out)
	}
	return out
}

// verify renews the holds that the head of the queue waits for.
func (m *Machine) verify(now Time, out []Effect) []Effect {
	if m.queue.head == None {
		return out // its limit has passed in the same step
	}
	mode := m.callers[m.queue.head].Mode
	m.verified = now
	for i := range m.claims {
		if h := &m.claims[i]; h.stage == held && !h.renewing && Conflict(h.mode, mode) {
			out = m.renew(Slot(i), None, h.lasting(now), now, out) //nolint:gosec // slots are small
		}
	}
	return out
}

// check has all holds renewed at once.
func (m *Machine) check(now Time) {
	for i := range m.claims {
		if m.claims[i].stage == held {
			h := m.claim(Slot(i)) //nolint:gosec // slots are small
			h.renewing, h.renewAt = false, now
		}
	}
}

// suspended doubts all holds: each is renewed at once, and lost if that isn't confirmed soon.
func (m *Machine) suspended(now Time) {
	m.epoch++
	for i := range m.claims {
		if m.claims[i].stage == held {
			h := m.claim(Slot(i)) //nolint:gosec // slots are small
			h.trust = min(h.trust, after(now, max(1, min(m.Timeout, h.lasts/6))))
			h.suspect, h.renewing, h.renewAt = true, false, now
		}
	}
}

// force removes all holds in the store. The shell gets the answer, too.
func (m *Machine) force(e *Event, now Time, out []Effect) []Effect {
	return append(out, Effect{Do: DoSend, Call: Call{
		Op: OpForce, Claim: None, Caller: e.Caller, Seq: m.nextSeq(), Sent: now, By: after(now, m.Timeout), Order: m.order,
	}})
}

// forced ends what a forced release has removed: what was granted before it was sent.
func (m *Machine) forced(e *Event, now Time, out []Effect) []Effect {
	if e.Answer != AnsOK {
		return out
	}
	for i := range m.claims {
		if h := &m.claims[i]; h.stage == held && h.order <= e.Call.Order {
			out = m.lose(Slot(i), WhyTaken, true, now, out) //nolint:gosec // slots are small
		}
	}
	return out
}

// drain lets nobody in from now on, but work that holds a lease.
func (m *Machine) drain(now Time, out []Effect) []Effect {
	m.draining = true
	for s := m.queue.head; s != None; {
		next := m.callers[s].next
		if !m.callers[s].AtWork {
			out = m.leave(s, ResClosed, now, out)
		}
		s = next
	}
	return out
}

// end lets nobody in from now on.
func (m *Machine) end(now Time, out []Effect) []Effect {
	m.draining, m.ended = true, true
	for m.queue.head != None {
		out = m.leave(m.queue.tail, ResClosed, now, out)
	}
	return out
}

// close ends everything.
func (m *Machine) close(now Time, out []Effect) []Effect {
	m.closed = true
	out = m.end(now, out)
	for i := range m.claims {
		switch i := Slot(i); m.claims[i].stage { //nolint:gosec // slots are small
		case held:
			out = m.returned(m.claim(i), ResClosed, 0, out)
			out = m.closeLeases(i, true, out)
			out = m.endHold(i, now, out)
		case lapsed:
			out = m.closeLeases(i, false, out)
			out = m.settle(i, now, out)
		case ending, undoing:
			cl := m.claim(i)
			cl.dirty = cl.dirty || cl.uncertain()
			cl.again = cl.stage == undoing && cl.open == 0 && cl.named == 0 // the next removal is the last
			switch {
			case cl.stage == ending:
			case cl.out == OpNone:
				out = m.undo(i, now, out)
			case cl.out == OpRelease: // is repeated without a pause
				cl.at = min(cl.at, cl.by)
			}
		}
	}
	return out
}

// closeLeases ends the leases of a hold that is closed. If the hold is released, one of
// them waits for the answer.
func (m *Machine) closeLeases(i Slot, waits bool, out []Effect) []Effect {
	h := m.claim(i)
	for s := h.first; s != None; s = m.callers[s].next {
		switch m.callers[s].phase {
		case extending:
			out = append(out, Effect{Do: DoReply, Caller: s, Result: ResClosed})
			fallthrough
		case holding:
			out = append(out, Effect{Do: DoEnd, Caller: s, Why: WhyClosed})
			m.enter(s, lost)
		}
	}
	for s := h.first; s != None; {
		c := &m.callers[s]
		next := c.next
		if c.Min > 0 && !c.Part && c.phase != joining {
			h.keep = max(h.keep, h.granted+c.Min)
		}
		m.unlease(s)
		switch {
		case m.callers[s].phase == joining:
			out = m.reply(s, ResClosed, out)
		case waits:
			waits = false
			m.stay(s, i)
		default:
			out = m.dismiss(s, out)
		}
		s = next
	}
	return out
}
