package machine

type watchState uint8

const (
	watchNone watchState = iota
	watchOpening
	watchOpen
)

// subscription is to the wake-ups of the key, for the queue and for the next one.
type subscription struct {
	state watchState
	mode  Mode // whose wake-ups it hears
	seq   uint32
	owner Owner // that it was opened for
	at    Time  // opening: until when to wait. none: before that none is tried
	until Time  // open: when it ends, as nobody waits
}

func (w *subscription) due() Time {
	switch w.state {
	case watchOpening:
		return w.at
	case watchOpen:
		return w.until
	}
	return Never
}

// serves says whether a caller hears the wake-ups that are meant for it.
func (m *Machine) serves(c *caller) bool {
	w := &m.watch
	return w.mode == c.Mode.channel() && (!m.perOwner || c.claim != None && w.owner == m.claims[c.claim].owner)
}

func (m *Machine) hears(c *caller) bool { return m.watch.state == watchOpen && m.serves(c) }

// subscribe has a caller that rests hear of wake-ups.
func (m *Machine) subscribe(s Slot, now Time, out []Effect) []Effect {
	c := &m.callers[s]
	w := &m.watch
	switch {
	case w.state != watchNone && m.serves(c), !m.Watch, w.state == watchNone && now < w.at:
		return out
	case w.state != watchNone:
		out = m.unwatch(out)
	}
	*w = subscription{state: watchOpening, mode: c.Mode.channel(), seq: m.nextSeq(), owner: m.claims[c.claim].owner, at: after(now, m.Timeout), until: Never}
	return append(out, Effect{Do: DoSend, Call: Call{
		Op: OpWatch, Mode: c.Mode, Claim: None, Caller: None, Owner: w.owner, Permits: c.Permits, Size: c.Size,
		Seq: w.seq, Sent: now, By: w.at,
	}})
}

// unwatch ends the subscription.
func (m *Machine) unwatch(out []Effect) []Effect {
	m.watch = subscription{}
	return append(out, Effect{Do: DoUnwatch})
}

// keepWatch ends the subscription some time after the last waiter has left.
func (m *Machine) keepWatch(now Time, out []Effect) []Effect {
	w := &m.watch
	switch {
	case w.state != watchOpen:
	case m.queue.head != None:
		w.until = Never
	case m.KeepWatch == 0, m.closed, m.perOwner:
		out = m.unwatch(out)
	case w.until == Never:
		w.until = after(now, m.KeepWatch)
	}
	return out
}

// watched is the answer to a subscription. The head calls, as what happened before it was
// not seen.
func (m *Machine) watched(e *Event, now Time) {
	w := &m.watch
	if w.state != watchOpening || w.seq != e.Call.Seq {
		return
	}
	if e.Answer == AnsOK {
		w.state = watchOpen
	} else {
		*w = subscription{at: after(now, min(m.Poll, m.UndoBackoff))} // the next refusal tries again
	}
	m.hint()
}

func (m *Machine) watchTimer(now Time, out []Effect) []Effect {
	switch w := &m.watch; {
	case w.state == watchOpening && now >= w.at:
		out = m.unwatch(out)
		w.at = after(now, min(m.Poll, m.UndoBackoff))
		m.hint()
	case w.state == watchOpen && now >= w.until:
		out = m.unwatch(out)
	}
	return out
}

// hint has the callers that may call do so.
func (m *Machine) hint() {
	if head := m.queue.head; head != None && m.callers[head].Mode == Read {
		m.abreast = m.Abreast // all may be granted
	}
	n := int32(0)
	for s := m.queue.head; s != None && m.mayCall(s, n); s = m.callers[s].next {
		c := &m.callers[s]
		c.hint = true
		if c.phase != calling && c.Mode != Read {
			return
		}
		n++
	}
}
