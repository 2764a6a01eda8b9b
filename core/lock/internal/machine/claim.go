package machine

// stage is what the process wants of an owner's hold, and what the store may have of it.
type stage uint8

const (
	free    stage = iota
	asking        // a caller wants it
	held          // it was granted, and is trusted
	ending        // nobody wants it, and callers wait for the answer to its release
	lapsed        // trust has ended, and its leases have not been released
	undoing       // nobody wants it or waits, and the store may have it: the ledger
	stages
)

// claim is what one owner has, or may have, in the store. It is there from the first call
// that names the owner until the store certainly has nothing of it.
type claim struct {
	stage stage
	mode  Mode
	out   Op // the call that is waited for, besides renewals

	// What the store may have.
	unknown bool // an acquire has failed, and may run
	dirty   bool // something may be there, and no release was sent since
	leaving bool // its place is being removed, and was that of a waiter
	again   bool // it was removed once more before the acquire could run no longer

	// The hold.
	unsure   bool // a release had no answer
	lowering bool // the store may know the write hold as a read hold
	renewing bool // a renewal is under way
	suspect  bool // the process was suspended, and nothing was confirmed since
	extended bool // a caller's extension was sent
	spent    bool // it ends a run of hand-offs
	touched  bool
	listed   bool // it is in the list of Machine.naming

	asker     Slot // the caller that wants it; of a free claim the next free one
	first     Slot // of its leases
	returning Slot // of the callers that wait for the answer to their release
	leases    int32
	writes    int32 // those of its leases that write
	permits   int32
	size      int32
	open      int32 // acquires of the owner without an answer
	tries     int32 // releases without an answer
	row       int32
	next      Slot // in the list of Machine.naming

	order    uint32 // of the grant among those of this machine
	seq      uint32 // of the call that is waited for
	renewSeq uint32
	named    uint32 // the last acquire of another owner that names its place; 0: none without an answer

	owner Owner
	fence Fence

	late   Time // until when an acquire without an answer may still run
	gone   Time // when the store has certainly nothing
	placed Time // when an answered call named its place; negative: none has

	granted  Time // when the acquire was sent
	trust    Time
	expiry   Time // of what the store has confirmed
	lasts    Time // the TTL that trust rests on
	watchdog Time // the TTL of a renewal: the longest of its leases; 0 means that none is due
	limit    Time // maximum hold; 0 means none
	keep     Time // minimum hold; 0 means none

	at      Time // when the call is waited for no longer, or the next is due
	renewAt Time // when to renew, or to wait for the renewal no longer
	by      Time // until when a release is to be sent; its callers wait no longer
}

// uncertain says whether an acquire of the owner may still run.
func (cl *claim) uncertain() bool { return cl.open > 0 || cl.unknown || cl.named > 0 }

// storedMode is the mode of calls for the claim. A call for a reader finds a writer, too.
func (cl *claim) storedMode() Mode {
	if cl.lowering {
		return Read
	}
	return cl.mode
}

// due is when something is to be done about the claim.
func (cl *claim) due() Time {
	switch cl.stage {
	case asking:
		if cl.out != OpNone {
			return cl.at
		}
	case held:
		at := min(cl.trust, cl.renewAt)
		if cl.out == OpLower || cl.at < Never {
			at = min(at, cl.at)
		}
		return at
	case ending, undoing:
		return cl.at
	case lapsed:
		return cl.gone
	}
	return Never
}

// claim returns a claim that the step may change.
func (m *Machine) claim(i Slot) *claim {
	cl := &m.claims[i]
	m.touch(int32(i)<<1|1, &cl.touched)
	return cl
}

// move puts a claim in a stage.
func (m *Machine) move(i Slot, to stage) {
	cl := m.claim(i)
	m.count(cl, -1)
	if cl.stage == undoing && cl.leaving {
		m.placeGone(cl)
	}
	cl.stage = to
	m.count(cl, 1)
	if to == free {
		m.open -= cl.open
		m.live--
		*cl = claim{asker: m.free, row: cl.row, touched: cl.touched, listed: cl.listed, next: cl.next}
		m.free = i
	}
}

// placeGone ends the pause for a place that was removed.
func (m *Machine) placeGone(cl *claim) {
	cl.leaving = false
	m.leaving--
}

func (m *Machine) count(cl *claim, n int32) {
	switch cl.stage {
	case held:
		m.held[cl.mode] += n
		m.holds += n
	case ending:
		m.ending[cl.mode] += n
		m.holds += n
	case undoing:
		m.undoing += n
	}
}

// newClaim makes the claim of a caller, with a new owner.
func (m *Machine) newClaim(s Slot) *claim {
	i := m.unused()
	cl := m.claim(i)
	c := &m.callers[s]
	m.owners++
	*cl = claim{
		stage: asking, mode: c.Mode, owner: m.owners, asker: s, first: None, returning: None,
		permits: c.Permits, size: c.Size, placed: -1, at: Never, renewAt: Never, row: cl.row, touched: true, listed: cl.listed, next: cl.next,
	}
	m.live++
	c.claim = i
	return cl
}

// unused is a free claim.
func (m *Machine) unused() Slot {
	i := m.free
	if i == None {
		m.claims = append(m.claims, claim{row: -1, asker: None})
		return Slot(len(m.claims) - 1) //nolint:gosec // slots are small
	}
	m.free = m.claims[i].asker
	return i
}

// find returns the claim of a call. If there is none, the store had certainly nothing of it
// when the call was answered, or the machine waits for nothing of it.
func (m *Machine) find(k *Call) *claim {
	if m.about(k) == nil {
		return nil
	}
	return m.claim(k.Claim)
}

// nextSeq is the number of a call.
func (m *Machine) nextSeq() uint32 {
	if m.seqs++; m.seqs == 0 {
		m.seqs = 1
	}
	return m.seqs
}

// settle gives up a claim that nobody wants. The answer to an acquire that is under way
// decides what is to be undone.
func (m *Machine) settle(i Slot, now Time, out []Effect) []Effect {
	m.move(i, undoing)
	cl := m.claim(i)
	cl.asker, cl.renewAt, cl.renewing = None, Never, false
	m.linger(cl, now)
	if cl.out == OpAcquire && cl.open == 1 && !cl.unknown && !cl.dirty && cl.named == 0 && now < cl.at {
		return out // at is when it is waited for no longer
	}
	cl.dirty = cl.dirty || cl.uncertain()
	return m.undo(i, now, out)
}

// linger has the machine know for some time of what the store may have.
func (m *Machine) linger(cl *claim, now Time) {
	if m.Linger > 0 {
		cl.gone = max(cl.gone, after(now, m.Linger))
	}
}

// undo does what is to be done next about a claim that nobody wants: a release at once if
// something may be there, one more when no acquire without an answer can run any longer,
// or nothing.
func (m *Machine) undo(i Slot, now Time, out []Effect) []Effect {
	cl := m.claim(i)
	switch uncertain := cl.uncertain(); {
	case cl.dirty:
		return m.remove(i, now, out)
	case m.closed && (cl.open > 0 || cl.named > 0) && now < cl.late-m.Life: // the answer is to come
		cl.out, cl.at = OpNone, cl.late-m.Life
	case m.closed && uncertain && !cl.again:
		cl.again, cl.dirty = true, true
		return m.remove(i, now, out)
	case m.closed, !uncertain:
		m.move(i, free)
	default:
		if cl.leaving && cl.open == 0 { // its place has gone, and no call is under way that may take another
			m.placeGone(cl)
		}
		cl.out, cl.at = OpNone, cl.late+1
		if soon := after(now, m.UndoSoon); !cl.again && m.UndoSoon > 0 {
			cl.at = min(cl.at, soon) // most late calls run soon
		}
	}
	return out
}

// remove sends a release.
func (m *Machine) remove(i Slot, now Time, out []Effect) []Effect {
	cl := m.claim(i)
	cl.seq, cl.out, cl.dirty = m.nextSeq(), OpRelease, false
	if cl.stage == undoing {
		cl.by = after(now, m.Timeout)
	}
	cl.at = cl.by
	if cl.stage == undoing && !m.closed { // a server that is slow has it in its queue: one more makes it slower
		cl.at = after(cl.by, m.UndoBackoff)
	}
	return append(out, Effect{Do: DoSend, Call: Call{
		Op: OpRelease, Mode: cl.storedMode(), Undo: cl.stage == undoing, Claim: i, Caller: None, Owner: cl.owner,
		Permits: cl.permits, Size: cl.size, Seq: cl.seq, Sent: now, By: cl.by, TTL: max(rest(cl.gone, now), 0), Keep: cl.keep,
	}})
}

// endHold releases a hold.
func (m *Machine) endHold(i Slot, now Time, out []Effect) []Effect {
	m.move(i, ending)
	h := m.claim(i)
	h.unsure, h.renewing, h.renewAt, h.tries, h.by = false, false, Never, 0, after(now, m.Timeout)
	m.heardSince = 0
	return m.remove(i, now, out)
}

// released is the answer to a release.
func (m *Machine) released(e *Event, now Time, out []Effect) []Effect {
	i, cl := e.Call.Claim, m.find(e.Call)
	if cl == nil || cl.out != OpRelease || cl.seq != e.Call.Seq {
		return out
	}
	cl.out = OpNone
	switch cl.stage {
	case ending:
		return m.endedHold(e, now, out)
	case undoing:
		if e.Answer.failed() {
			cl.dirty = true
			cl.at = after(now, m.backoff(cl.tries, m.UndoBackoff))
			cl.tries++
			if now >= cl.gone {
				m.move(i, free)
			}
			return out
		}
		freed := e.Answer == AnsOK || cl.tries > 0 // now, or by a release whose answer was lost
		cl.tries = 0
		if freed {
			m.freed(cl.mode)
			m.displaced(cl.mode)
		}
		if e.Call.Sent > cl.late {
			m.open -= cl.open
			cl.open, cl.unknown, cl.named = 0, false, 0
		}
		return m.undo(i, now, out)
	}
	return out
}

// endedHold is the answer to the release of a hold, for which callers wait.
func (m *Machine) endedHold(e *Event, now Time, out []Effect) []Effect {
	i := e.Call.Claim
	h := m.claim(i)
	switch {
	case e.Answer == AnsRefused:
		return m.giveUp(i, now, out)
	case e.Answer.failed():
		h.unsure = h.unsure || e.Answer == AnsUnknown
		h.at = after(now, m.backoff(h.tries, m.BackoffMax))
		h.tries++
		if h.at >= h.by {
			return m.giveUp(i, now, out)
		}
		return out
	}
	r := ResReleased
	if e.Answer == AnsGone && !h.unsure && now < h.trust { // it has not expired
		r = ResLost
	}
	out = m.returned(h, r, WhyTaken, out)
	m.yieldTo(h, e.Others, now)
	m.move(i, undoing)
	h.asker = None
	m.freed(h.mode)
	return m.undo(i, now, out)
}

// freed has the head of the queue call after a release that no message tells it of.
func (m *Machine) freed(mode Mode) {
	if head := m.queue.head; head != None && (!m.hears(&m.callers[head]) || m.watch.mode.kin() != mode.kin()) {
		m.callers[head].hint = true
	}
}

// giveUp goes on with a release whose callers wait no longer.
func (m *Machine) giveUp(i Slot, now Time, out []Effect) []Effect {
	h := m.claim(i)
	out = m.returned(h, ResUnavailable, 0, out)
	m.move(i, undoing)
	m.linger(h, now)
	h.asker, h.dirty, h.out = None, true, OpNone
	h.at = after(now, m.backoff(h.tries, m.UndoBackoff))
	return out
}

// displaced has the head of the queue name the places of all fair waiters anew: an acquire
// of a fair owner that nobody wants was granted, perhaps for the place of another.
func (m *Machine) displaced(mode Mode) {
	head := m.queue.head
	if mode != Fair || head == None || m.callers[head].Mode != Fair {
		return
	}
	m.callers[head].hint = true
	for s := head; s != None && m.callers[s].leading; s = m.callers[s].next {
		if i := m.callers[s].claim; i != None {
			m.claims[i].placed = -1
		}
	}
}

// returned ends the wait for the answer to a release.
func (m *Machine) returned(h *claim, r Result, why Why, out []Effect) []Effect {
	for s := h.returning; s != None; {
		next := m.callers[s].next
		m.callers[s].next = None
		out = m.replyWhy(s, r, why, out)
		s = next
	}
	h.returning = None
	return out
}

// claimTimer serves what is due of a claim.
func (m *Machine) claimTimer(i Slot, slack, now Time, out []Effect) []Effect {
	switch cl := m.claim(i); cl.stage {
	case asking:
		if cl.out == OpAcquire && now >= cl.at {
			cl.out = OpNone
			return m.failed(cl.asker, AnsUnknown, m.waitsLess(cl), now, out)
		}
	case held:
		return m.holdTimer(i, slack, now, out)
	case ending:
		switch {
		case now < cl.at:
		case now >= cl.by:
			cl.tries++
			return m.giveUp(i, now, out)
		default: // the pause before a repetition has ended
			return m.remove(i, now, out)
		}
	case lapsed:
		if now >= cl.gone {
			out = m.forget(cl, out)
			m.move(i, free)
		}
	case undoing:
		switch {
		case now < cl.at:
		case now >= cl.gone:
			m.move(i, free)
		default: // the acquire, the release or the pause has ended
			if cl.out == OpRelease {
				cl.tries++
			}
			cl.again = cl.again || cl.out == OpNone && !cl.dirty && !m.closed
			cl.dirty, cl.out = true, OpNone
			return m.undo(i, now, out)
		}
	}
	return out
}
