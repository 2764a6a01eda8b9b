package machine

// phase is what a caller waits for. It has one from its arrival until its lease ends.
type phase uint8

const (
	absent    phase = iota
	queued          // waits for its turn: other callers, or a hold of this process, come first
	calling         // its acquire is under way
	resting         // another owner has the key: it calls on a hint, or at askAt
	retrying        // its call failed: it calls again at askAt
	sharing         // a try: the answer to a call of another caller is its answer, too
	joining         // it has a hold, and waits for the extension that its lease needs
	holding         // has a lease
	extending       // has a lease, and waits for an Extend
	releasing       // has released its lease, and waits for the answer
	lost            // its lease has ended, and it has not released it
	phases
)

// Terms are what a caller asks for.
type Terms struct {
	Mode     Mode
	Once     bool  // a try
	AtWork   bool  // its context has a lease of the locker: Drain doesn't refuse it
	Part     bool  // of a group that isn't complete: it keeps nothing yet
	Apart    bool  // it does not re-enter
	Permits  int32 // of Size, in mode Semaphore
	Size     int32
	Crowd    int32 // of the key, in which it may have to wait; 0 means no limit
	CrowdAll int32 // the same for all keys of the locker
	Lease    Time  // a fixed length; 0 means that the hold is renewed
	Watchdog Time  // what a renewal sets
	Min      Time  // minimum hold
	Max      Time  // maximum hold
	Until    Time  // when its wait is limited; 0 means never
	Timeout  Time  // of its calls; 0 means that of the locker
	Poll     Time  // how long it relies on hints; 0 means as long as the locker
}

// length is how long a lease lasts without a renewal.
func (t *Terms) length() Time {
	d := t.Watchdog
	if t.Lease > 0 {
		d = t.Lease
	}
	d = max(d, t.Min) // the end of the process must not cut it short
	if t.Max > 0 {
		d = min(d, t.Max)
	}
	return d
}

// caller is one acquisition, and then its lease.
type caller struct {
	Terms
	phase   phase
	hint    bool // the key may be free
	limited bool // its limit has passed: it waits for an answer that is under way
	saw     bool // another owner had the key
	waits   bool // it is counted as a waiter
	refused bool // the store has answered it that another owner has the key
	leading bool // nobody is before it in another mode
	touched bool

	claim      Slot
	prev, next Slot   // in the queue, or among the leases of its claim
	tries      int32  // of its calls without an answer
	polls      int32  // without a subscription
	seq        uint32 // of the extension it waits for
	row        int32
	number     uint64 // of its arrival
	askAt      Time   // resting, retrying: when to call. joining, extending: until when to wait
	began      Time   // when the first of its unanswered calls was sent
	giveUp     Time   // limited, joining, extending: until when it waits for an answer
	want       Time   // joining, extending: the TTL that it asks for
}

// due is when something is to be done about the caller itself. When it calls is the
// queue's business.
func (c *caller) due() Time {
	at := Never
	switch c.phase {
	case queued, calling, resting, retrying, sharing:
		switch {
		case c.Until == 0:
		case !c.limited:
			at = c.Until
		case c.phase != calling:
			at = c.giveUp
		}
	case joining, extending:
		at = c.askAt
	}
	return at
}

// enter puts a caller in a phase.
func (m *Machine) enter(s Slot, p phase) {
	c := &m.callers[s]
	m.phases[c.phase]--
	m.phases[p]++
	if c.Once && c.phase == queued {
		m.trying--
	}
	if c.Once && p == queued {
		m.trying++
	}
	c.phase = p
	if c.Until > 0 || c.row >= 0 || p == joining || p == extending { // else it has no time
		m.touch(int32(s)<<1, &c.touched)
	}
}

// sawContention says whether another owner was seen to have the key since the caller came.
func (m *Machine) sawContention(c *caller) bool { return c.saw || c.number <= m.seen }

// room makes room for a caller.
func (m *Machine) room(s Slot) {
	for int(s) >= len(m.callers) {
		m.callers = append(m.callers, caller{claim: None, prev: None, next: None, row: -1})
	}
}

func (m *Machine) arrive(e *Event, now Time, out []Effect) []Effect {
	s := e.Caller
	m.room(s)
	m.arrivals++
	c := &m.callers[s]
	*c = caller{Terms: e.Terms, claim: None, prev: None, next: None, row: c.row, touched: c.touched, number: m.arrivals}
	if m.ended || m.draining && !c.AtWork {
		return m.reply(s, ResClosed, out)
	}
	if i := e.Of; i != None && m.claims[i].owner == e.Owner && m.claims[i].stage == held && (c.Mode != Semaphore || m.claims[i].mode != Semaphore) {
		return m.reenter(s, i, now, out)
	}
	if c.Once && m.takenHere(c.Mode) {
		return m.reply(s, ResBusy, out)
	}
	m.queue.push(m.callers, s)
	m.enter(s, queued)
	if mayCall := m.mayCall(s, m.calling(s)); !mayCall || m.blocked(c) {
		if !c.Once && m.crowded(c, e) {
			return m.leave(s, ResCrowded, now, out)
		}
		out = m.wait(s, out)
	}
	if head := m.queue.head; c.Mode == Fair && c.leading && head != s {
		m.callers[head].hint = true // the head takes a place for it
	}
	return out
}

// calling counts the callers that call, before s, if all do.
func (m *Machine) calling(s Slot) (n int32) {
	if !m.callers[s].Mode.shared() {
		return 0
	}
	for p := m.callers[s].prev; p != None && n < m.abreast; p = m.callers[p].prev {
		if c := &m.callers[p]; c.phase != calling || c.Mode == Semaphore && c.refused {
			return m.Abreast
		}
		n++
	}
	return n
}

// crowded says whether the caller may not wait, as too many do.
func (m *Machine) crowded(c *caller, e *Event) bool {
	return c.Crowd > 0 && m.waiting >= c.Crowd || c.CrowdAll > 0 && e.Crowd >= c.CrowdAll
}

// wait counts a caller as a waiter.
func (m *Machine) wait(s Slot, out []Effect) []Effect {
	c := &m.callers[s]
	if c.waits {
		return out
	}
	c.waits = true
	m.waiting++
	return append(out, Effect{Do: DoWait, Caller: s})
}

// takenHere says whether a try need not call: another caller of this process has the key,
// or waits for it.
func (m *Machine) takenHere(mode Mode) bool {
	if m.conflicting(&m.held, mode) > 0 {
		return true
	}
	for s := m.queue.head; s != None; s = m.callers[s].next {
		w := &m.callers[s]
		switch {
		case w.Once:
		case mode.shared() && w.Mode == mode && !m.sawContention(w):
		default:
			return true
		}
	}
	return false
}

// reenter adds a lease to the hold that the caller's context has. It makes no call, but
// for one extension if its lease is longer than what the hold has.
func (m *Machine) reenter(s, i Slot, now Time, out []Effect) []Effect {
	c, h := &m.callers[s], m.claim(i)
	reads := h.mode == Write && c.Mode == Read
	switch {
	case !reads && (c.Mode != h.mode || h.out == OpLower):
		return m.replyWhy(s, ResInvalid, WhyMode, out)
	case h.mode == Write && c.Min > 0 && (reads || h.writes < h.leases), reads && m.keeps(h, now):
		return m.replyWhy(s, ResInvalid, WhyKept, out) // the store can't keep a hold that changes its mode
	case h.limit > 0 && h.granted+c.Min > h.limit:
		return m.replyWhy(s, ResInvalid, WhyLimit, out)
	case c.Apart:
		return m.replyWhy(s, ResInvalid, WhyApart, out)
	}
	m.lease(s, i)
	return m.lengthen(s, now, out)
}

// keeps says whether the hold stays for a minimum.
func (m *Machine) keeps(h *claim, now Time) bool {
	for s := h.first; s != None; s = m.callers[s].next {
		if c := &m.callers[s]; c.Min > 0 && (c.Part || h.granted+c.Min > now) {
			return true
		}
	}
	return h.keep > now
}

// lengthen gives the caller its lease of the claim that it is one of, or first extends
// what is too short for the lease.
func (m *Machine) lengthen(s Slot, now Time, out []Effect) []Effect {
	c := &m.callers[s]
	h := m.claim(c.claim)
	renewed := c.Lease == 0 && c.Watchdog <= min(h.watchdog, h.lasts)
	if need := max(c.length(), c.Min); renewed && c.Min == 0 || after(now, need) <= h.expiry || h.limit > 0 && h.expiry >= h.limit {
		return m.lend(s, now, out)
	}
	m.enter(s, joining)
	return m.ask(s, c.length(), now, out)
}

// lend gives the caller its lease.
func (m *Machine) lend(s Slot, now Time, out []Effect) []Effect {
	c := &m.callers[s]
	h := m.claim(c.claim)
	m.enter(s, holding)
	if c.Lease == 0 && c.Watchdog > h.watchdog {
		h.watchdog = c.Watchdog
		if h.renewAt >= Never && !h.renewing && (h.limit == 0 || h.expiry < h.limit) && h.expiry < Never {
			h.renewAt = max(now, min(after(now, h.watchdog/3), h.expiry-h.watchdog*2/3))
		}
	}
	return append(out, Effect{Do: DoReply, Caller: s, Result: ResGranted, Fence: h.fence})
}

// giveIn ends the wait of a caller whose context has ended. The answer says whether another
// owner is known to have the key.
func (m *Machine) giveIn(s Slot, now Time, out []Effect) []Effect {
	c := &m.callers[s]
	switch c.phase {
	case absent, holding, lost: // the answer came first
		return out
	}
	r := ResCanceled
	if c.phase != joining && (m.sawContention(c) || c.phase != calling && m.knownBusy(c)) {
		r = ResBusy
	}
	return m.leave(s, r, now, out)
}

// leave ends the wait of a caller.
func (m *Machine) leave(s Slot, r Result, now Time, out []Effect) []Effect {
	c := &m.callers[s]
	switch c.phase {
	case queued, calling, resting, retrying, sharing:
		if (c.phase == calling || c.phase == retrying) && m.phases[sharing] > 0 { // they call for themselves
			for other := m.queue.head; other != None; other = m.callers[other].next {
				if m.callers[other].phase == sharing {
					m.enter(other, queued)
				}
			}
		}
		i, wasHead := c.claim, m.queue.head == s
		m.pop(s, false, now)
		out = m.reply(s, r, out)
		if i != None {
			cl := m.claim(i)
			cl.leaving = cl.mode == Fair
			if cl.leaving {
				m.leaving++
				m.leaveTill = after(now, m.PlacePause)
				if wasHead {
					m.pauseTill = m.leaveTill
				}
			}
			out = m.settle(i, now, out)
		}
	case joining:
		out = m.decline(s, r, now, out)
	}
	return out
}

// pop takes a caller out of the queue. The next head calls, as the caller may have missed
// a hint. A fair one that has a place and hears need not: the store says when its turn is.
func (m *Machine) pop(s Slot, granted bool, now Time) {
	c := &m.callers[s]
	if c.waits {
		c.waits = false
		m.waiting--
	}
	if c.limited {
		m.overdue--
	}
	wasHead, rested := m.queue.head == s, !c.hint && (granted || c.phase == resting)
	joined := m.queue.remove(m.callers, s)
	head := m.queue.head
	if wasHead && m.leaving > 0 {
		m.pauseTill = m.leaveTill
	}
	if head == None {
		return
	}
	next := &m.callers[head]
	switch {
	case !wasHead:
		next.hint = next.hint || joined && next.Mode == Fair // it takes places for them
	case next.Mode == Fair && c.Mode == Fair && next.placed(m) && m.hears(next) && rested:
		next.askAt = c.askAt
		if granted {
			next.askAt = after(now, min(m.Poll, m.PlacePoll))
		}
		next.hint = next.hint || joined
		m.enter(head, resting)
	default:
		next.hint = true
	}
}

// placed says whether the caller has a place in the store's queue.
func (c *caller) placed(m *Machine) bool { return c.claim != None && m.claims[c.claim].placed >= 0 }

// reply returns the caller's Acquire or Release.
func (m *Machine) reply(s Slot, r Result, out []Effect) []Effect {
	m.enter(s, absent)
	m.callers[s].claim = None
	return append(out, Effect{Do: DoReply, Caller: s, Result: r})
}

// replyWhy is reply with the reason.
func (m *Machine) replyWhy(s Slot, r Result, why Why, out []Effect) []Effect {
	out = m.reply(s, r, out)
	out[len(out)-1].Why = why
	return out
}

// lease makes the caller one of the leases of the claim.
func (m *Machine) lease(s, i Slot) {
	c, h := &m.callers[s], m.claim(i)
	c.claim, c.prev, c.next = i, None, h.first
	if h.first != None {
		m.callers[h.first].prev = s
	}
	h.first = s
	h.leases++
	if c.Mode == Write {
		h.writes++
	}
}

// unlease takes it out. It may still wait for the answer to its release.
func (m *Machine) unlease(s Slot) {
	c := &m.callers[s]
	h := m.claim(c.claim)
	h.leases--
	if c.Mode == Write {
		h.writes--
	}
	m.unlink(s)
}

// unlink takes the caller out of the list of its claim.
func (m *Machine) unlink(s Slot) {
	c := &m.callers[s]
	if c.next != None {
		m.callers[c.next].prev = c.prev
	}
	if c.prev != None {
		m.callers[c.prev].next = c.next
	} else {
		m.claim(c.claim).first = c.next
	}
	c.prev, c.next = None, None
}

// decline ends a lease that its caller didn't get. The caller waits for nothing.
func (m *Machine) decline(s Slot, r Result, now Time, out []Effect) []Effect {
	i := m.callers[s].claim
	m.unlease(s)
	out = m.reply(s, r, out)
	h := m.claim(i)
	switch {
	case h.stage == lapsed && h.leases == 0:
		return m.settle(i, now, out)
	case h.stage != held:
	case h.leases == 0:
		return m.endHold(i, now, out)
	case h.mode == Write && h.writes == 0 && h.out != OpLower:
		return m.lower(i, now, out)
	}
	return out
}

// release ends a lease. The caller waits for an answer only if it is the last of its
// hold, or the last that writes.
func (m *Machine) release(e *Event, now Time, out []Effect) []Effect {
	s := e.Caller
	c := &m.callers[s]
	done := ResReleased
	if e.Decline {
		done = ResCanceled
	}
	switch c.phase {
	case lost:
		i := c.claim
		m.unlease(s)
		out = m.reply(s, ResLost, out)
		if m.claims[i].leases == 0 {
			out = m.settle(i, now, out)
		}
	case holding, extending:
		if c.phase == extending { // its Extend returns first
			out = append(out, Effect{Do: DoReply, Caller: s, Result: ResUnavailable})
		}
		i := c.claim
		h := m.claim(i)
		if c.Min > 0 && !c.Part && !e.Decline {
			h.keep = max(h.keep, h.granted+c.Min)
		}
		wrote := h.mode == Write && c.Mode == Write
		m.unlease(s)
		m.dropWatchdog(h, c, now)
		switch {
		case h.leases > 0 && wrote && h.writes == 0:
			m.stay(s, i)
			return m.lower(i, now, out)
		case h.leases > 0:
			return m.reply(s, done, out)
		}
		if next, ok := m.handOff(i, now, out); ok {
			return m.reply(s, done, next)
		}
		m.stay(s, i)
		out = m.endHold(i, now, out)
	}
	return out
}

// stay has a caller wait for the answer to its release.
func (m *Machine) stay(s, i Slot) {
	c, h := &m.callers[s], m.claim(i)
	c.prev, c.next = None, h.returning
	h.returning = s
	m.enter(s, releasing)
}

// dropWatchdog goes on without the watchdog of a lease that was released.
func (m *Machine) dropWatchdog(h *claim, c *caller, now Time) {
	if h.leases == 0 || c.Lease > 0 || c.Watchdog < h.watchdog {
		return
	}
	h.watchdog = 0
	for s := h.first; s != None && h.watchdog < c.Watchdog; s = m.callers[s].next {
		if w := &m.callers[s]; w.Lease == 0 && w.phase != joining {
			h.watchdog = max(h.watchdog, w.Watchdog)
		}
	}
	switch {
	case h.watchdog > 0 && h.renewAt < Never && !h.renewing:
		h.renewAt = min(h.renewAt, after(now, h.watchdog/3))
	case h.watchdog == 0 && !h.suspect && !h.renewing:
		h.renewAt = m.renewsAt(h, now)
	}
}

// handOff passes a hold without leases to the head of the queue, if it may.
func (m *Machine) handOff(i Slot, now Time, out []Effect) ([]Effect, bool) {
	h := m.claim(i)
	s := m.queue.head
	if !m.Spaced || h.mode != Exclusive && h.mode != Write {
		return out, false
	}
	over := h.fence.handoffs() >= m.Handoffs || now-h.granted >= m.HandoffTime
	h.spent = over && h.fence.handoffs() > 0
	if over || s == None {
		return out, false
	}
	c := &m.callers[s]
	switch {
	case c.Mode != h.mode, c.Once, c.phase != queued && c.phase != resting:
		return out, false
	case c.Lease > 0, c.Watchdog != h.watchdog, c.Min > 0, c.Max > 0:
		return out, false
	case h.extended, h.out == OpLower, h.suspect, h.limit > 0, h.keep > now:
		return out, false
	case h.trust < Never && h.trust-now <= h.lasts/2:
		return out, false
	}
	old := c.claim
	m.pop(s, true, now)
	c.claim = None
	if old != None { // its own calls were for another owner
		out = m.settle(old, now, out)
		h = m.claim(i)
	}
	m.lease(s, i)
	h.fence++
	m.seen = m.arrivals
	return m.lend(s, now, out), true
}

// extend makes the hold of a lease last longer.
func (m *Machine) extend(e *Event, now Time, out []Effect) []Effect {
	c := &m.callers[e.Caller]
	if c.phase != holding {
		return append(out, Effect{Do: DoReply, Caller: e.Caller, Result: ResLost})
	}
	m.enter(e.Caller, extending)
	return m.ask(e.Caller, e.TTL, now, out)
}

// ask has the hold of a caller extended.
func (m *Machine) ask(s Slot, ttl, now Time, out []Effect) []Effect {
	c := &m.callers[s]
	c.want, c.tries, c.giveUp = ttl, 0, after(now, m.Timeout)
	c.askAt = c.giveUp
	return m.renew(c.claim, s, ttl, now, out)
}

// extended is the answer to an extension. One that fails is repeated while there is time.
func (m *Machine) extended(s Slot, e *Event, now Time, out []Effect) []Effect {
	c := &m.callers[s]
	ok := e.Answer == AnsOK && e.Call.Epoch == m.epoch
	if pause := m.backoff(c.tries, m.BackoffMax); !ok && e.Answer != AnsRefused && after(now, pause) < c.giveUp {
		c.tries++
		c.askAt = after(now, pause)
		m.touch(int32(s)<<1, &c.touched)
		return out
	}
	return m.lengthened(s, ok, now, out)
}

// lengthened is the end of an extension.
func (m *Machine) lengthened(s Slot, ok bool, now Time, out []Effect) []Effect {
	c := &m.callers[s]
	switch {
	case c.phase == extending:
		m.enter(s, holding)
		r := ResUnavailable
		if ok {
			r = ResExtended
		}
		return append(out, Effect{Do: DoReply, Caller: s, Result: r})
	case c.phase == joining && ok:
		return m.lend(s, now, out)
	case c.phase == joining:
		return m.decline(s, ResUnavailable, now, out)
	}
	return out
}

// callerTimer serves what is due of a caller.
func (m *Machine) callerTimer(s Slot, now Time, out []Effect) []Effect {
	c := &m.callers[s]
	if c.due() > now {
		return out
	}
	switch c.phase {
	case joining, extending:
		if now >= c.giveUp {
			return m.lengthened(s, false, now, out)
		}
		c.askAt = c.giveUp
		m.touch(int32(s)<<1, &c.touched)
		return m.renew(c.claim, s, c.want, now, out)
	}
	if c.limited { // no answer has come
		return m.leave(s, ResUnavailable, now, out)
	}
	// Its limit ends no call. While nobody knows of another owner, the answer to a call that
	// is under way decides.
	c.limited = true
	c.giveUp = after(now, m.Timeout)
	m.overdue++
	m.touch(int32(s)<<1, &c.touched)
	if c.phase != calling && m.knownBusy(c) {
		return m.leave(s, ResBusy, now, out)
	}
	return out
}

// knownBusy says whether another owner is known to have the key, for a caller that doesn't
// call: one was seen since it came, or before without a call since. A hold of this process
// whose release has no answer counts, and so does one that only the head waits for.
func (m *Machine) knownBusy(c *caller) bool {
	if m.sawContention(c) || m.takenBy(c) > 0 {
		return true
	}
	head := &m.callers[m.queue.head]
	return head.phase == resting || head.phase == queued && m.takenBy(head) > 0
}
