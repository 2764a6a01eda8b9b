package machine

// The explored store executes one request at a time.

const (
	maxProcs  = 2
	maxMsgs   = 14
	maxHolds  = 6
	maxPlaces = 6
	foreign   = Owner(9000) // the hold of an abstract, foreign process
)

// msg is a request on its way to the store, an answer on its way back, or a hint.
type msg struct {
	proc     int8
	reply    bool
	hint     bool
	slow     bool
	perOwner bool
	ans      Answer
	others   int32
	fence    Fence
	left     Time
	k        Call
	places   [4]Owner
}

// stored is a hold in the store.
type stored struct {
	proc    int8
	mode    Mode
	kept    bool // released, and kept for its minimum
	excused bool // its process was closed when it was granted
	owner   Owner
	permits int32
	exp     Time
	fence   Fence
	touched Time // when it was granted or renewed last
}

// place is one of the queue of Fair waiters.
type place struct {
	proc   int8
	called bool // the key is free for it
	owner  Owner
	until  Time
}

// listener is the subscription of a process.
type listener struct {
	on    bool
	mode  Mode
	owner Owner
}

func (w *world) has(o Owner) bool { return w.mine(o) >= 0 }

// mine is the hold of an owner, -1 if there is none.
func (w *world) mine(o Owner) int {
	for i := range w.nh {
		if w.holds[i].owner == o && !w.holds[i].kept {
			return i
		}
	}
	return -1
}

func (w *world) drop(i int) {
	copy(w.holds[i:], w.holds[i+1:w.nh])
	w.nh--
	w.holds[w.nh] = stored{}
}

func (w *world) unplace(o Owner) bool {
	for i := range w.np {
		if w.queue[i].owner == o {
			copy(w.queue[i:], w.queue[i+1:w.np])
			w.np--
			w.queue[w.np] = place{}
			return true
		}
	}
	return false
}

// expire drops what has ended.
func (w *world) expire() {
	for i := 0; i < w.nh; {
		if w.holds[i].exp <= w.now {
			w.drop(i)
		} else {
			i++
		}
	}
	for i := 0; i < w.np; {
		q := &w.queue[i]
		if q.until > w.now {
			i++
			continue
		}
		if w.calm && !w.dead[q.proc] && !w.suspended && w.wants(int(q.proc), q.owner) {
			w.fail("a waiter lost its place")
		}
		w.unplace(q.owner)
	}
}

// wants says whether a caller waits as that owner.
func (w *world) wants(p int, o Owner) bool {
	m := &w.p[p]
	for i := range m.claims {
		if cl := &m.claims[i]; cl.owner == o && cl.stage == asking {
			return true
		}
	}
	return false
}

// wake sends hints for what was freed in a mode: to the process of the first place, which
// then has its turn for a while, or to all that listen.
func (w *world) wake(sc *scope, mode Mode, by int8) (others int32, ok bool) {
	if w.np > 0 && w.nh == 0 && (mode == Exclusive || mode == Fair) {
		w.turn(sc)
	}
	for p := range w.p {
		l := &w.hears[p]
		switch {
		case !l.on, w.dead[p]:
			continue
		case mode == Exclusive || mode == Fair:
			if l.mode != Exclusive && l.mode != Fair {
				continue
			}
			if mode == Fair && w.np > 0 && int(w.queue[0].proc) != p {
				continue
			}
		case l.mode.channel() != mode.channel():
			continue
		}
		if sc.perOwner && w.np > 0 && l.owner != w.queue[0].owner {
			continue
		}
		if int8(p) != by {
			others++
		}
		if !w.sendHint(int8(p)) {
			return 0, false
		}
	}
	return others, true
}

func (w *world) sendHint(p int8) bool {
	for i := range w.n {
		if m := &w.msgs[i]; m.hint && m.proc == p && !m.slow {
			return true
		}
	}
	return w.put(msg{proc: p, reply: true, hint: true, k: Call{Sent: w.local(int(p))}})
}

// turn has the first place served next, for a while.
func (w *world) turn(sc *scope) {
	if first := &w.queue[0]; !first.called {
		first.called = true
		first.until = min(first.until, after(w.now, sc.grace))
	}
}

// blocked says whether an acquire is busy, and for how long.
func (w *world) blocked(sc *scope, m *msg) (busy Time) {
	k := &m.k
	var sum int32
	for i := range w.nh {
		h := &w.holds[i]
		if Conflict(h.mode, k.Mode) || (h.mode == Semaphore) != (k.Mode == Semaphore) {
			busy = max(busy, h.exp-w.now)
		}
		sum += h.permits
	}
	if k.Mode == Semaphore && sum+k.Permits > sc.size {
		for i := range w.nh {
			if left := w.holds[i].exp - w.now; i == 0 || left < busy {
				busy = left
			}
		}
	}
	if k.Mode == Fair && busy == 0 && w.np > 0 && w.queue[0].proc != m.proc {
		w.turn(sc)
		busy = max(1, w.queue[0].until-w.now)
	}
	return busy
}

// run executes a request. ok is false if the scope is too small.
func (w *world) run(sc *scope, m msg) (r msg, ok bool) {
	r = m
	r.reply, r.slow, r.ans, r.places = true, false, AnsOK, m.places
	k := &m.k
	i := w.mine(k.Owner)
	switch k.Op {
	case OpAcquire:
		return w.acquire(sc, m, r, i)
	case OpRelease:
		had := w.unplace(k.Owner)
		if i < 0 {
			r.ans = AnsGone
			if had && w.np > 0 && w.nh == 0 && w.queue[0].proc >= 0 {
				_, ok := w.wake(sc, Fair, m.proc)
				return r, ok
			}
			return r, true
		}
		mode := w.holds[i].mode
		w.noteRelease(&m)
		if k.Keep > w.local(int(m.proc)) {
			w.holds[i].kept, w.holds[i].exp = true, k.Keep
			return r, true
		}
		w.drop(i)
		r.others, ok = w.wake(sc, mode, m.proc)
		w.noteRun(sc, &m, r.others)
		return r, ok
	case OpLower:
		if i < 0 {
			r.ans = AnsGone
			return r, true
		}
		w.holds[i].mode = Read
		_, ok = w.wake(sc, Read, m.proc)
		return r, ok
	case OpRenew:
		if i < 0 || k.Mode == Write && w.holds[i].mode == Read { // an OpLower has overtaken it
			r.ans = AnsGone
			return r, true
		}
		h := &w.holds[i]
		h.exp = max(h.exp, after(w.now, k.TTL))
		h.touched = w.now
		return r, true
	case OpForce:
		for w.nh > 0 {
			mode := w.holds[0].mode
			if w.holds[0].owner != foreign {
				w.excuse(w.holds[0].owner)
			}
			w.forcedAt = w.now
			w.drop(0)
			if _, ok := w.wake(sc, mode, -1); !ok {
				return r, false
			}
		}
		w.keep = 0
		return r, true
	case OpWatch:
		if s := &w.p[m.proc].watch; s.state == watchOpening && s.seq == k.Seq { // else the shell ends it
			w.hears[m.proc] = listener{true, k.Mode, k.Owner}
		}
	}
	return r, true
}

func (w *world) acquire(sc *scope, m, r msg, i int) (msg, bool) {
	k := &m.k
	if i >= 0 {
		h := &w.holds[i]
		h.exp = max(h.exp, after(w.now, k.TTL))
		r.fence = h.fence
		return r, w.takePlaces(sc, &m)
	}
	if busy := w.blocked(sc, &m); busy > 0 {
		r.ans, r.left, r.perOwner = AnsBusy, busy, sc.perOwner
		ok := w.takePlaces(sc, &m)
		if ok && w.nh == 0 && w.np > 0 && w.queue[0].proc != m.proc { // it may not know
			p := w.queue[0].proc
			if w.hears[p].on && !w.dead[p] {
				ok = w.sendHint(p)
			}
		}
		return r, ok
	}
	if w.now < w.keep && Conflict(w.keepMode, k.Mode) {
		w.fail("granted under a minimum hold")
	}
	if w.nh == maxHolds {
		w.fail("scope too small: holds")
		return r, false
	}
	w.noteTurn(sc, &m)
	w.grants++
	r.fence = w.grants * FenceStep
	w.holds[w.nh] = stored{
		proc: m.proc, owner: k.Owner, mode: k.Mode, permits: k.Permits, exp: after(w.now, k.TTL), fence: r.fence,
		excused: k.Owner != foreign && w.p[m.proc].closed, touched: w.now,
	}
	w.nh++
	if k.Mode == Fair && !w.unplace(k.Owner) && w.np > 0 && w.queue[0].proc == m.proc {
		w.unplace(w.queue[0].owner)
	}
	if w.np > 0 {
		w.queue[0].called = false
	}
	return r, w.takePlaces(sc, &m)
}

// takePlaces takes or keeps the places that an acquire names.
func (w *world) takePlaces(sc *scope, m *msg) bool {
	for _, o := range m.places {
		if o == 0 || w.has(o) {
			continue
		}
		known := false
		for i := range w.np {
			if w.queue[i].owner == o {
				known = true
				if !w.queue[i].called || w.nh > 0 {
					w.queue[i].until = after(w.now, sc.p.PlaceTTL)
				}
			}
		}
		if known {
			continue
		}
		if w.np == maxPlaces {
			w.fail("scope too small: places")
			return false
		}
		w.queue[w.np] = place{proc: m.proc, owner: o, until: after(w.now, sc.p.PlaceTTL)}
		w.np++
	}
	return true
}
