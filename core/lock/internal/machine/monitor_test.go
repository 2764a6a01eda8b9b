package machine

// The monitors say what must hold after every move, and what must be reachable.

// ended is that a process ends a lease.
func (w *world) ended(p int, f *Effect, e *Event, trusts []Time) {
	m := &w.p[p]
	if s := &w.seats[p][f.Caller]; s.state != leased && s.state != returning {
		w.fail("a lease ended that the caller doesn't have")
	}
	if f.Why == WhyClosed {
		w.seats[p][f.Caller].state = returning
	}
	c := m.callers[f.Caller].claim
	if f.Why == WhyHeldTooLong && c != None && w.local(p) < m.claims[c].limit-m.Margin {
		w.fail("a loss before the limit is called one at the limit")
	}
	held := c != None && w.has(m.claims[c].owner)
	if f.Why == WhyUnconfirmed && w.calm && (!w.suspended || held) && w.forcedAt == 0 && !w.lazy {
		w.fail("lost though nothing failed")
	}
	if e.Kind == EvClose || c == None || w.local(p) >= trusts[c] || w.doubted(m.claims[c].owner) {
		return
	}
	if held && m.Ordered {
		w.fail("lost though held")
	}
}

// replied is that a call of a caller returns.
func (w *world) replied(sc *scope, p int, f *Effect, e *Event, crowd int32) {
	s, m := &w.seats[p][f.Caller], &w.p[p]
	switch f.Result {
	case ResGranted:
		w.granted(p, f, e)
		return
	case ResExtended, ResUnavailable, ResLost, ResClosed:
		if s.extending {
			s.extending = false
			return
		}
	}
	switch r := f.Result; {
	case r == ResExtended:
		w.fail("an extension that nobody waits for")
	case s.state != waits && s.state != returning:
		w.fail("an answer that nobody waits for")
	case r == ResBusy && s.state == waits && !s.saw && e.Kind != EvLeave: // who leaves learns what was known
		w.fail("busy though free")
	case r == ResClosed && s.state == waits && m.callers[f.Caller].AtWork && !m.ended:
		w.fail("work is refused by a drain")
	case r == ResCrowded && (sc.most == 0 || crowd < sc.most):
		w.fail("refused though there is room")
	case r == ResBacklog && sc.ledger == 0:
		w.fail("refused though the ledger has room")
	case r == ResReleased && s.late:
		w.fail("released though it was lost before")
	case r == ResUnavailable && w.calm && !w.suspended:
		w.fail("unavailable though nothing failed")
	case r == ResLost && s.executed:
		w.fail("a release that was executed is called a loss")
	case r == ResLost && s.state == returning && !s.late && w.forcedAt == 0 && !w.suspended:
		w.fail("a release that was called in time is called a loss")
	}
	*s = seat{rounds: s.rounds, extends: s.extends}
}

// idle is that time passes, with all messages delivered and all timers served: nobody may
// wait for what is there.
func (w *world) idle(sc *scope) {
	if !w.calm || w.suspended || sc.lazy > 0 {
		return
	}
	for p := range sc.procs {
		m := &w.p[p]
		if w.dead[p] {
			continue
		}
		for s := range m.callers {
			if c := &m.callers[s]; c.Once && w.seats[p][s].state == waits && c.phase != joining {
				w.fail("a try waits")
			}
		}
		head := m.queue.head
		if head == None || len(sc.procs) > 1 && sc.p.YieldMin > 0 || w.np > 0 || w.nh > 0 || w.now < w.keep {
			continue
		}
		c := &m.callers[head]
		if m.conflicting(&m.held, c.Mode) == 0 && (c.phase == queued || w.hears[p].on && m.serves(c) && !sc.mixed) {
			w.fail("a caller waits for a free key")
		}
	}
}

// gaveUp is who gives up because the store doesn't answer: a caller that knows of another
// owner rides out an outage, and one with a short timeout speaks for nobody else.
func (w *world) gaveUp(p int, out []Effect, e *Event, phases *[maxCallers]phase, saw *[maxCallers]bool) {
	m := &w.p[p]
	private, others := false, false
	for i := range out {
		f := &out[i]
		if f.Do != DoReply || f.Result != ResUnavailable || w.seats[p][f.Caller].state != waits {
			continue
		}
		c := &m.callers[f.Caller]
		private = private || c.Timeout > 0
		others = others || c.Timeout == 0 && phases[f.Caller] == queued
		if phases[f.Caller] == calling && saw[f.Caller] && !c.Once && !c.limited && e.Answer != AnsOK && e.Answer != AnsRefused && w.local(p)-c.began < m.Patience {
			w.fail("a waiter gives up too soon")
		}
	}
	if private && others && e.Kind == EvTimer {
		w.fail("a short timeout of one caller fails another")
	}
}

// cutOff is who shares no answer any longer: only the one whose call it is ends that.
func (w *world) cutOff(p int, phases *[maxCallers]phase) {
	callers, cut, goesOn := w.p[p].callers, false, false
	for s := range callers {
		was, is := phases[s], callers[s].phase
		cut = cut || was == sharing && is == queued
		goesOn = goesOn || (was == calling || was == retrying) && is == was
	}
	if cut && goesOn {
		w.fail("a try shares a call no longer that goes on")
	}
}

// granted is that a caller gets a lease.
func (w *world) granted(p int, f *Effect, e *Event) {
	s, m := &w.seats[p][f.Caller], &w.p[p]
	c := &m.callers[f.Caller]
	if s.state != waits || c.phase != holding || c.claim == None {
		w.fail("a grant that nobody waits for")
		return
	}
	s.state = leased
	h := &m.claims[c.claim]
	switch {
	case w.local(p) >= h.trust:
		w.fail("granted though trust has ended")
	case f.Fence.handoffs() > m.Handoffs:
		w.fail("handed on too often")
	case f.Fence.handoffs() > 0 && h.leases == 1 && w.local(p)-h.granted >= m.HandoffTime:
		w.fail("handed on for too long")
	case m.draining && e.Kind != EvDrain && !c.AtWork:
		w.fail("granted after a drain")
	}
	if i := w.mine(h.owner); i >= 0 && w.calm && f.Fence.handoffs() > 0 && h.leases == 1 && w.holds[i].exp-w.now > c.Watchdog {
		w.fail("a hold was handed on that lasts longer than its lease")
	}
	if c.Lease > 0 && h.limit == 0 && w.stop[p] == 0 && h.expiry < s.at+c.length() {
		w.fail("the lease is shorter than its caller asked")
	}
	if h.leases > 1 {
		return
	}
	if c.Mode.exclusive() {
		if !w.excused(h.owner) && m.Ordered && !c.AtWork {
			if f.Fence <= w.last {
				w.fail("the fence did not rise")
			}
			w.last = f.Fence
		}
		if w.now < w.keep {
			w.fail("a minimum hold was cut")
		}
	}
	for o := range m.callers {
		other := &m.callers[o]
		if st := &w.seats[p][o]; o == int(f.Caller) || st.state != waits || st.came >= s.came || other.Once || other.phase == joining {
			continue
		}
		if Conflict(other.Mode, c.Mode) || s.behind&(1<<o) != 0 { // callers that permits were not refused yet call side by side
			w.fail("passed by a later caller")
		}
	}
}

// noteRelease is that a release is executed.
func (w *world) noteRelease(m *msg) {
	for p := range w.p {
		for s := range w.p[p].callers {
			if c := &w.p[p].callers[s]; p == int(m.proc) && c.claim != None && w.p[p].claims[c.claim].owner == m.k.Owner && w.seats[p][s].state == returning {
				w.seats[p][s].executed = true
			}
		}
	}
}

// noteRun is that a release frees the key. If it ends a run of hand-offs while another
// process listens and waits, that one is next.
func (w *world) noteRun(sc *scope, m *msg, others int32) {
	w.run1 = 0
	if sc.p.YieldMin == 0 || !w.calm || others == 0 || m.k.Owner == foreign {
		return
	}
	for i := range w.p[m.proc].claims {
		if cl := &w.p[m.proc].claims[i]; cl.owner == m.k.Owner && cl.stage != free && cl.fence.handoffs() > 0 && cl.fence.handoffs() >= w.p[m.proc].Handoffs {
			w.run1 = m.proc + 1
		}
	}
}

// noteTurn is that the store grants an acquire.
func (w *world) noteTurn(sc *scope, m *msg) {
	if !w.calm || m.k.Owner == foreign {
		return
	}
	if w.run1 == m.proc+1 {
		w.fail("the others had no turn after a run of hand-offs")
	}
	w.run1 = 0
	if m.k.Mode != Fair || sc.perOwner {
		return
	}
	before := false
	for i := range w.np {
		q := &w.queue[i]
		if q.owner == m.k.Owner {
			if before {
				w.fail("the place of a caller that left served another one")
			}
			return
		}
		before = before || q.proc != m.proc && !w.dead[q.proc] && w.wants(int(q.proc), q.owner)
	}
}

// see records for all callers that wait whether somebody else has the key.
func (w *world) see() {
	for p := range w.p {
		m := &w.p[p]
		waiting := false
		for s := range m.callers {
			st := &w.seats[p][s]
			waiting = waiting || st.state == waits
			if st.state != waits || st.saw {
				continue
			}
			c := &m.callers[s]
			own := Owner(0)
			if c.claim != None {
				own = m.claims[c.claim].owner
			}
			for i := range w.nh {
				if h := &w.holds[i]; (Conflict(h.mode, c.Mode) || c.Mode == Semaphore) && (h.owner != own || h.kept) {
					st.saw = true
				}
			}
			if c.Mode == Fair && w.np > 0 && int(w.queue[0].proc) != p {
				st.saw = true
			}
			for i := range m.claims {
				if cl := &m.claims[i]; cl.stage == held && Conflict(cl.mode, c.Mode) || !c.Once && cl.stage == ending {
					st.saw = true
				}
			}
			for o := range m.callers {
				if o != s && w.seats[p][o].state == waits && !m.callers[o].Once {
					st.saw = true
				}
			}
		}
		if w.run1 != 0 && int(w.run1) != p+1 && !waiting {
			w.run1 = 0
		}
	}
	if !w.calm {
		w.run1 = 0
	}
}

// check is what holds at any time.
func (w *world) check(sc *scope) {
	type lease struct {
		mode    Mode
		owner   Owner
		permits int32
	}
	var trusted [8]lease
	n := 0
	for p := range w.p {
		m := &w.p[p]
		if w.dead[p] {
			continue
		}
		w.counts(sc, p)
		for i := range m.claims {
			h := &m.claims[i]
			if h.stage != held || w.local(p) >= h.trust {
				continue
			}
			if w.doubted(h.owner) {
				if !w.leapt[p] && w.local(p) > w.found[p]+m.Timeout {
					w.fail("trusted after a suspension, and nothing has confirmed it")
				}
				continue
			}
			mode := h.mode
			if mode == Write && h.writes == 0 {
				if h.out != OpLower && h.at >= Never {
					w.fail("it only reads, and keeps the write hold")
				}
				mode = Read
			}
			for j := range i { // also if a forced release excuses one: its own grant says so to the process
				if g := &m.claims[j]; g.stage == held && w.local(p) < g.trust && Conflict(g.mode, h.mode) {
					w.fail("two holders in one process")
				}
			}
			if w.excused(h.owner) {
				w.verified(sc, p, h)
				continue
			}
			w.backed(sc, p, h, mode)
			if n < len(trusted) {
				trusted[n] = lease{mode, h.owner, h.permits}
				n++
			}
		}
	}
	sum := int32(0)
	for i := range n {
		sum += trusted[i].permits
		for j := range i {
			if Conflict(trusted[i].mode, trusted[j].mode) && trusted[i].owner != trusted[j].owner {
				w.fail("two holders")
			}
		}
	}
	if sum > sc.size && sc.size > 0 {
		w.fail("too many permits")
	}
	for i := range w.nh {
		if h := &w.holds[i]; !h.kept && !h.excused && h.owner != foreign && !w.known(int(h.proc), h.owner) {
			w.fail("a hold of nobody")
		}
	}
	for i := range w.nh {
		if h := &w.holds[i]; h.kept && h.exp > w.keep {
			w.fail("kept though nobody asked for it")
		}
	}
	for i := range w.np {
		q := &w.queue[i]
		for j := range w.p[q.proc].claims {
			if cl := &w.p[q.proc].claims[j]; cl.owner == q.owner && cl.stage == asking && !w.p[q.proc].callers[cl.asker].leading {
				w.fail("a place behind a caller in another mode")
			}
		}
		if !w.p[q.proc].closed && !w.known(int(q.proc), q.owner) {
			w.fail("a place of nobody")
		}
	}
}

// verified is that a hold that was removed by force is noticed while callers wait for it.
func (w *world) verified(sc *scope, p int, h *claim) {
	m := &w.p[p]
	if m.queue.head == None || !w.calm || sc.lazy > 0 {
		return
	}
	c := &m.callers[m.queue.head]
	if c.phase == queued && Conflict(h.mode, c.Mode) && w.now > max(w.forcedAt, w.seats[p][m.queue.head].at)+m.Poll+1 {
		w.fail("nobody looks at a hold that was lost")
	}
}

// backed is that the store has a hold that is trusted, for as long as it is.
func (w *world) backed(sc *scope, p int, h *claim, mode Mode) {
	i := w.mine(h.owner)
	if i < 0 {
		w.fail("trusted but gone")
		return
	}
	s := &w.holds[i]
	if s.mode != mode && (s.mode != Write || mode != Read) {
		w.fail("trusted in another mode")
	}
	if s.exp-w.now < h.trust-w.local(p) {
		w.fail("trust outlasts the key")
	}
	if s.mode == Read && sc.p.ReadRenew < Never && w.calm && !w.suspended && w.now > s.touched+sc.p.ReadRenew+1+sc.lazy && s.exp > s.touched+sc.p.ReadRenew+1 {
		w.fail("a read hold was not renewed for long")
	}
	if w.calm && h.limit > 0 && s.exp-w.now > h.limit-w.local(p) {
		w.fail("held for too long")
	}
}

// counts is that what the machine counts and schedules is what there is.
func (w *world) counts(sc *scope, p int) {
	m := &w.p[p]
	var has, ends [modes]int32
	var by [phases]int32
	var open, undo, waiting, over, trying, holds, leaving int32
	for i := range m.claims {
		cl := &m.claims[i]
		switch cl.stage {
		case held:
			has[cl.mode]++
			holds++
		case ending:
			ends[cl.mode]++
			holds++
		case undoing:
			undo++
			if cl.leaving {
				leaving++
			}
		}
		open += cl.open
		w.scheduled(p, cl.row, cl.due())
		leases, writes := int32(0), int32(0)
		for s := range m.callers {
			c := &m.callers[s]
			if c.claim != Slot(i) { //nolint:gosec // few
				continue
			}
			switch c.phase {
			case holding, extending, joining, lost:
				leases++
				if c.Mode == Write {
					writes++
				}
			}
			if (c.phase == holding || c.phase == extending) && cl.stage != held {
				w.fail("a lease of a hold that has ended")
			}
		}
		if cl.stage != free && (leases != cl.leases || writes != cl.writes) {
			w.fail("leases are counted wrongly")
		}
	}
	for s := range m.callers {
		c := &m.callers[s]
		if c.waits {
			waiting++
		}
		if c.phase != absent {
			by[absent]--
			by[c.phase]++
		}
		if c.Once && c.phase == retrying && c.tries >= m.Tries {
			w.fail("a try rides out an outage")
		}
		if c.limited && c.phase >= queued && c.phase <= sharing {
			over++
		}
		if c.Once && c.phase == queued {
			trying++
		}
		w.scheduled(p, c.row, c.due())
		if st := w.seats[p][s].state; (st == outside) != (c.phase == absent) {
			w.fail("caller and machine disagree")
		}
	}
	if head := m.queue.head; head != None && m.watch.state == watchOpen && m.watch.until < Never && m.callers[head].phase == resting && m.hears(&m.callers[head]) {
		w.fail("a subscription ends that a caller relies on")
	}
	empty := m.watch.state == watchNone && m.queue.head == None
	for s := range m.callers {
		empty = empty && m.callers[s].phase == absent
	}
	for i := range m.claims {
		empty = empty && m.claims[i].stage == free
	}
	if empty != m.Empty() {
		w.fail("the machine counts wrongly")
	}
	if sc.most > 0 && waiting > sc.most {
		w.fail("too many wait")
	}
	if has != m.held || ends != m.ending || open != m.open || undo != m.undoing || waiting != m.waiting || by != m.phases || holds != m.holds || over != m.overdue || trying != m.trying || leaving != m.leaving {
		w.fail("the machine counts wrongly")
	}
}

// scheduled is that a row of the agenda has the right time.
func (w *world) scheduled(p int, row int32, at Time) {
	if a := w.p[p].agenda; (at >= Never) != (row < 0) || row >= 0 && a[row].at != at {
		w.fail("the agenda is wrong")
	}
}

func (w *world) known(p int, o Owner) bool {
	if w.dead[p] {
		return true
	}
	for i := range w.p[p].claims {
		if c := &w.p[p].claims[i]; c.owner == o && c.stage != free {
			return true
		}
	}
	return false
}

// good is a state in which nothing is left to do.
func (w *world) good() bool {
	if w.n > 0 || w.np > 0 && !w.p[w.queue[0].proc].closed {
		return false
	}
	for i := range w.nh {
		if h := &w.holds[i]; h.owner == foreign || !h.excused && (h.exp >= Never || !h.kept && !w.dead[h.proc]) {
			return false
		}
	}
	for p := range w.p {
		if !w.dead[p] && (!w.p[p].Empty() || w.hears[p].on) {
			return false
		}
	}
	return true
}

// prune drops the answers that nobody listens to any longer: they would change nothing.
func (w *world) prune() {
	for i := 0; i < w.n; {
		m := &w.msgs[i]
		if m.reply && !m.hint && w.deaf(m) {
			w.take(i)
		} else {
			i++
		}
	}
}

func (w *world) deaf(m *msg) bool {
	p, k := &w.p[m.proc], &m.k
	var h *claim
	if k.Claim != None && int(k.Claim) < len(p.claims) && p.claims[k.Claim].stage != free && p.claims[k.Claim].owner == k.Owner {
		h = &p.claims[k.Claim]
	}
	switch k.Op {
	case OpAcquire:
		if k.Named > 1 {
			for i := range p.claims {
				if p.claims[i].named == k.Seq && p.claims[i].stage != free {
					return false
				}
			}
		}
		return h == nil && (!p.closed || !m.ans.Leaves(k.Mode))
	case OpRelease:
		return h == nil || h.out != OpRelease || h.seq != k.Seq
	case OpLower:
		return h == nil || h.stage != held || h.out != OpLower || h.seq != k.Seq
	case OpRenew:
		return h == nil || h.stage != held
	case OpWatch:
		return p.watch.state != watchOpening || p.watch.seq != k.Seq
	}
	return false
}
