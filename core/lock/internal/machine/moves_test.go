package machine

import "fmt"

// expand makes every move that is possible.
func (x *explorer) expand(w *world) {
	sc := x.sc
	if w.foreign > 0 {
		x.try(w, false, func() string { return "foreign takes" }, func(v *world) bool { return v.other(sc, OpAcquire) })
	}
	if w.has(foreign) {
		x.try(w, true, func() string { return "foreign releases" }, func(v *world) bool { return v.other(sc, OpRelease) })
	}
	for p := range sc.procs {
		if !w.dead[p] {
			x.callers(w, p)
			x.process(w, p)
		}
	}
	x.network(w)
	x.tick(w)
	if w.suspends > 0 && w.only(0) {
		x.try(w, false, func() string { return "0: suspended for 3" }, func(v *world) bool {
			v.suspends--
			v.now += 3
			v.stop[0] += 3
			v.suspended, v.leapt[0] = true, true
			for i := range v.p[0].claims {
				if h := &v.p[0].claims[i]; h.stage == held {
					copy(v.unsure[1:], v.unsure[:])
					v.unsure[0] = h.owner
				}
			}
			v.expire()
			return true
		})
	}
}

// event is a move that gives a process an event.
func (x *explorer) event(w *world, p int, progress bool, name string, e Event, before func(v *world)) {
	x.try(w, progress, func() string { return fmt.Sprintf("%d: %s", p, name) }, func(v *world) bool {
		if before != nil {
			before(v)
		}
		e := e
		return v.step(x, p, &e)
	})
}

// process are the moves of a process as a whole.
func (x *explorer) process(w *world, p int) {
	m := &w.p[p]
	if m.Due() <= w.local(p) || w.leapt[p] {
		x.event(w, p, true, "timer", Event{Kind: EvTimer, TTL: x.sc.slack}, nil)
	}
	if w.forces > 0 {
		x.event(w, p, false, "force", Event{Kind: EvForce, Caller: None}, func(v *world) { v.forces-- })
	}
	if w.checks > 0 {
		x.event(w, p, false, "check", Event{Kind: EvCheck}, func(v *world) { v.checks-- })
	}
	if w.drain > 0 && !m.draining {
		x.event(w, p, false, "drain", Event{Kind: EvDrain}, func(v *world) { v.drain-- })
	}
	if m.draining && !m.ended && !w.works(p) { // the shell knows that nothing is held
		x.event(w, p, true, "end", Event{Kind: EvEnd}, nil)
	}
	if w.shut > 0 && !m.closed {
		x.event(w, p, false, "close", Event{Kind: EvClose}, func(v *world) {
			v.shut--
			v.keepAll(p)
		})
	}
	if w.crash > 0 {
		x.try(w, false, func() string { return fmt.Sprintf("%d: crash", p) }, func(v *world) bool {
			v.crash--
			v.dead[p], v.hears[p] = true, listener{}
			for i := 0; i < v.n; {
				if int(v.msgs[i].proc) == p && v.msgs[i].reply {
					v.take(i)
				} else {
					i++
				}
			}
			return true
		})
	}
}

// keepAll is that the minimum holds of a process stay when it closes.
func (w *world) keepAll(p int) {
	m := &w.p[p]
	for s := range m.callers {
		c := &m.callers[s]
		if (c.phase != holding && c.phase != extending) || c.Min == 0 || c.Part {
			continue
		}
		if h := &m.claims[c.claim]; w.local(p) < h.trust && !w.excused(h.owner) {
			w.keep = max(w.keep, h.granted+c.Min+w.stop[p])
			w.keepMode = c.Mode
		}
	}
}

// works says whether a process holds anything.
func (w *world) works(p int) bool {
	for i := range w.p[p].claims {
		if s := w.p[p].claims[i].stage; s == held || s == ending {
			return true
		}
	}
	return false
}

// only says whether all messages are of that process.
func (w *world) only(p int8) bool {
	for i := range w.n {
		if w.msgs[i].proc != p {
			return false
		}
	}
	return true
}

func (x *explorer) callers(w *world, p int) {
	m := &w.p[p]
	for s := range m.callers {
		sc, c, st := &x.sc.procs[p][s], &m.callers[s], &w.seats[p][s]
		at := Slot(s) //nolint:gosec // few
		name := func(verb string) string { return fmt.Sprintf("%d: caller %d %s", p, s, verb) }
		do := func(progress bool, verb string, e Event, before func(v *world)) {
			e.Caller = at
			x.try(w, progress, func() string { return name(verb) }, func(v *world) bool {
				if before != nil {
					before(v)
				}
				e := e
				return v.step(x, p, &e)
			})
		}
		switch c.phase {
		case absent:
			x.arrive(w, p, s, do)
		case queued, calling, resting, retrying, sharing, joining:
			if w.leaves > 0 && sc.leaves {
				do(false, "leaves", Event{Kind: EvLeave}, func(v *world) { v.leaves-- })
			}
		case holding, lost:
			release := func(v *world) {
				c := &v.p[p].callers[s]
				trusted := c.phase == holding && v.local(p) < v.p[p].claims[c.claim].trust
				if c.Min > 0 && !c.Part && trusted && !v.excused(v.p[p].claims[c.claim].owner) {
					v.keep = max(v.keep, v.p[p].claims[c.claim].granted+c.Min+v.stop[p])
					v.keepMode = c.Mode
				}
				v.seats[p][s].late = !trusted && (c.phase == lost || !v.leapt[p])
				v.seats[p][s].state = returning
			}
			do(true, "releases", Event{Kind: EvRelease}, release)
			if sc.declines && c.phase == holding {
				do(false, "declines", Event{Kind: EvRelease, Decline: true}, func(v *world) {
					keep := v.keep
					release(v)
					v.keep = keep
				})
			}
			if c.Part && c.phase == holding {
				do(true, "has its group", Event{Kind: EvCommit}, nil)
			}
			if c.phase == holding && st.extends > 0 {
				do(false, "extends", Event{Kind: EvExtend, TTL: sc.extend}, func(v *world) {
					v.seats[p][s].extends--
					v.seats[p][s].extending = true
				})
			}
		}
	}
}

func (x *explorer) arrive(w *world, p, s int, do func(bool, string, Event, func(*world))) {
	m, sc, st := &w.p[p], &x.sc.procs[p][s], &w.seats[p][s]
	if st.rounds == 0 || m.closed {
		return
	}
	e := Event{Kind: EvArrive, Of: None, Terms: sc.as}
	e.Terms.CrowdAll = x.sc.most
	if sc.inside >= 0 {
		outer := &m.callers[sc.inside]
		if outer.phase != holding {
			return
		}
		e.Of, e.Owner, e.Terms.AtWork = outer.claim, m.claims[outer.claim].owner, true
	}
	for o := range s { // of callers that are alike, in their order
		if x.sc.class[p][o] == x.sc.class[p][s] && m.callers[o].phase == absent && w.seats[p][o].rounds == st.rounds {
			return
		}
	}
	if sc.wait > 0 {
		e.Terms.Until = w.local(p) + sc.wait
	}
	do(false, "comes", e, func(v *world) {
		st := &v.seats[p][s]
		st.rounds--
		st.state, st.at = waits, v.now
		for o := range m.callers {
			if v.seats[p][o].state == waits && o != s {
				st.came = max(st.came, v.seats[p][o].came+1)
				if e.Terms.Mode == Semaphore && m.callers[o].refused && !m.callers[o].Once {
					st.behind |= 1 << o
				}
			}
		}
		row, touched := v.p[p].callers[s].row, v.p[p].callers[s].touched
		v.p[p].callers[s] = caller{Terms: e.Terms, claim: None, prev: None, next: None, row: row, touched: touched}
		v.see()
	})
}

func (x *explorer) network(w *world) {
	sc := x.sc
	for i := range w.n {
		m := &w.msgs[i]
		dup := false
		for j := range i {
			dup = dup || w.msgs[j] == *m
		}
		if dup {
			continue
		}
		try := func(progress bool, verb string, f func(v *world) bool) {
			x.try(w, progress, func() string { return fmt.Sprintf("%d: %s %s", m.proc, m.text(), verb) }, f)
		}
		fault := func(verb string, f func(v *world) bool) {
			try(false, verb, func(v *world) bool {
				v.faults--
				v.calm = false
				return f(v)
			})
		}
		fails := func(verb string, a Answer, late bool) {
			fault(verb, func(v *world) bool {
				k := v.msgs[i]
				if late { // it may still be on its way
					v.msgs[i].slow = true
				} else {
					v.take(i)
				}
				k.reply, k.ans = true, a
				return v.put(k)
			})
		}
		if w.faults > 0 && !m.slow {
			fault("is slow", func(v *world) bool {
				v.msgs[i].slow = true
				return true
			})
			if sc.loses && (!m.hint || sc.p.Poll < Never) {
				fault("is lost", func(v *world) bool {
					v.take(i)
					return true
				})
			}
		}
		if w.faults > 0 && sc.breaks && !m.reply {
			fails("fails", AnsUnknown, true)
			fails("does not run", AnsNotExecuted, false)
		}
		if w.faults > 0 && sc.denies && !m.reply {
			fails("is refused", AnsRefused, false)
			fails("is not sent", AnsDown, false)
		}
		if m.reply {
			try(true, "is heard", func(v *world) bool { return x.hear(v, i) })
			continue
		}
		try(true, "runs", func(v *world) bool {
			m := v.take(i)
			r, ok := v.run(sc, m)
			if !ok || v.dead[m.proc] {
				return ok
			}
			return v.put(r)
		})
	}
}

// hear gives a process an answer or a hint.
func (x *explorer) hear(v *world, i int) bool {
	m := v.take(i)
	p := int(m.proc)
	if v.dead[p] {
		return true
	}
	if m.hint {
		return v.step(x, p, &Event{Kind: EvHint})
	}
	k := &m.k
	if (k.Op == OpRenew || k.Op == OpAcquire) && m.ans == AnsOK && k.Epoch == v.p[p].epoch && !v.leapt[p] {
		for i := range v.unsure {
			if v.unsure[i] == k.Owner {
				v.unsure[i] = 0
			}
		}
	}
	if i := v.mine(k.Owner); k.Op == OpAcquire && m.ans.Leaves(Exclusive) && i >= 0 {
		v.holds[i].excused = false // a closed process knows of it, too
	}
	h := v.p[p].about(k)
	met := h != nil && h.lowering && k.Mode == Write && k.Op == OpRenew   // the OpLower, perhaps
	if (k.Op == OpRenew || k.Op == OpLower) && m.ans == AnsGone && !met { // now it knows
		for i := range v.forced {
			if v.forced[i] == k.Owner {
				v.forced[i] = 0
			}
		}
	}
	if k.Op == OpWatch && m.ans.failed() { // the shell ends what may have begun
		v.hears[p] = listener{}
	}
	kind := map[Op]Kind{OpAcquire: EvAcquired, OpRelease: EvReleased, OpLower: EvLowered, OpRenew: EvRenewed, OpForce: EvForced, OpWatch: EvWatched}[k.Op]
	call := *k
	return v.step(x, p, &Event{Kind: kind, Call: &call, Answer: m.ans, Fence: m.fence, TTL: m.left, Others: m.others, PerOwner: m.perOwner})
}

// tick lets time pass. It doesn't while a message is on its way that isn't slow, or a timer
// is due.
func (x *explorer) tick(w *world) {
	sc := x.sc
	for i := range w.n {
		m := &w.msgs[i]
		limit := m.k.By + w.stop[m.proc] + sc.p.Life
		if m.hint {
			limit = m.k.Sent + w.stop[m.proc] + sc.p.Timeout + sc.p.Life
		}
		if m.reply {
			limit++
		}
		if !m.slow || w.now >= limit {
			return
		}
	}
	for p := range sc.procs {
		if !w.dead[p] && (w.p[p].Due() <= w.local(p)-sc.lazy || w.leapt[p]) {
			return
		}
	}
	x.try(w, true, func() string { return "tick" }, func(v *world) bool {
		v.idle(sc)
		v.now++
		v.calls = [maxProcs]int8{}
		v.expire()
		return true
	})
}

var (
	opNames  = [...]string{"nothing", "acquire", "release", "lower", "renew", "force", "watch"}
	ansNames = [...]string{"", "ok", "busy", "gone", "unknown", "not executed", "down", "refused"}
)

func (m *msg) text() string {
	if m.hint {
		return "hint"
	}
	s := fmt.Sprintf("%s of %d #%d", opNames[m.k.Op], m.k.Owner, m.k.Seq)
	if m.reply {
		s += " = " + ansNames[m.ans]
	}
	return s
}
