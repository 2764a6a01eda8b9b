package machine

import (
	"bytes"
	"math/bits"
)

// canon writes the canonical form of a world: two worlds with the same form have the same
// future. Times are relative to now, owners are named by their first appearance, fences by
// their rank, and calls as the current one or not. Callers that are alike are sorted.
type canon struct {
	b      []byte
	room   []byte
	w      *world
	sc     *scope
	now    Time // of the clock of what is written
	rank   [maxProcs][maxCallers]byte
	names  [40]Owner
	nn     int
	fences [24]Fence
	nf     int
}

// time writes a moment exactly.
func (e *canon) time(t Time) {
	d := t - e.now
	switch {
	case t == 0:
		e.b = append(e.b, 0)
	case t >= Never/2:
		e.b = append(e.b, 255)
	case t <= -Never/2:
		e.b = append(e.b, 254)
	default:
		e.b = append(e.b, byte(max(-40, min(d, 100))+60))
	}
}

// until writes a moment that means nothing once it has passed, but how late timers are.
func (e *canon) until(t Time) { e.since(t, e.sc.lazy) }

// since writes a moment that means nothing once it has passed for so long.
func (e *canon) since(t, d Time) {
	if least := e.now - d; t != 0 && t < least {
		t = least
	}
	e.time(t)
}

func (e *canon) known(o Owner) byte {
	for i := range e.nn {
		if e.names[i] == o {
			return byte(i + 1)
		}
	}
	return 0
}

func (e *canon) name(o Owner) byte {
	if o == 0 {
		return 0
	}
	if n := e.known(o); n > 0 {
		return n
	}
	e.names[e.nn] = o
	e.nn++
	return byte(e.nn)
}

func (e *canon) addFence(f Fence) {
	f -= f.handoffs()
	if f == 0 {
		return
	}
	for i := range e.nf {
		if e.fences[i] == f {
			return
		}
	}
	e.fences[e.nf] = f
	e.nf++
}

func (e *canon) fence(f Fence) {
	n := byte(0)
	if f != 0 {
		n = 1
		for i := range e.nf {
			if e.fences[i] < f-f.handoffs() {
				n++
			}
		}
	}
	e.b = append(e.b, n, byte(f.handoffs()))
}

func flags(bs ...bool) (n byte) {
	for i, b := range bs {
		if b {
			n |= 1 << i
		}
	}
	return n
}

// caller writes what one caller has, without references.
func (e *canon) caller(p, s int) {
	w := e.w
	m := &w.p[p]
	c, st := &m.callers[s], &w.seats[p][s]
	e.b = append(e.b, byte(c.phase), byte(st.state), byte(st.rounds), byte(st.extends),
		flags(st.saw, st.executed, st.extending, st.late, st.declined, c.Part),
		flags(c.hint, m.sawContention(c), c.limited, c.waits, c.refused && c.Mode == Semaphore))
	switch c.phase {
	case absent:
		return
	case calling:
		e.b = append(e.b, byte(c.tries))
		if m.Patience < Never {
			e.since(c.began, max(m.Patience, m.Timeout))
		}
	case retrying:
		e.b = append(e.b, byte(c.tries))
		e.until(c.askAt)
		if m.Patience < Never {
			e.since(c.began, max(m.Patience, m.Timeout))
		}
	case joining, extending:
		e.until(c.askAt)
		e.until(c.giveUp)
		e.b = append(e.b, byte(c.tries))
	case resting:
		e.until(c.askAt)
	}
	if c.Until > 0 {
		e.until(c.Until)
		e.until(c.giveUp)
	}
	if m.BackoffMin != m.BackoffMax {
		e.b = append(e.b, byte(c.polls))
	}
	pos, later, behind := byte(0), byte(0), byte(0)
	if c.phase >= queued && c.phase <= sharing {
		for q := m.queue.head; q != None; q = m.callers[q].next {
			pos++
			if int(q) == s {
				break
			}
		}
	}
	switch {
	case st.state != waits:
	case c.Lease > 0:
		e.since(st.at, 20)
	case e.sc.forces > 0 && m.Poll < Never && w.calm:
		e.since(st.at, m.Poll+2)
	}
	if st.state == waits {
		later = w.before(p, st.came)
		for o := range m.callers {
			if other := &w.seats[p][o]; other.state == waits && other.came < st.came && st.behind&(1<<o) != 0 {
				behind |= 1 << w.before(p, other.came)
			}
		}
	}
	e.b = append(e.b, pos, later, behind)
}

// before counts the callers of a process that wait and came before that.
func (w *world) before(p int, came int8) (n byte) {
	for o := range w.p[p].callers {
		if st := &w.seats[p][o]; st.state == waits && st.came < came {
			n++
		}
	}
	return n
}

func (e *canon) claim(p, i int) {
	w := e.w
	m := &w.p[p]
	h := &m.claims[i]
	e.b = append(e.b, byte(h.stage), byte(h.mode), byte(h.out), byte(h.open),
		flags(h.unknown, h.dirty, h.leaving, h.unsure, h.renewing, h.suspect, h.extended, h.spent),
		flags(h.named > 0, h.placed >= 0, w.excused(h.owner), w.doubted(h.owner), h.again, h.lowering),
		byte(h.leases), byte(h.writes), byte(h.permits))
	if m.BackoffMin != m.BackoffMax || m.UndoBackoff != m.BackoffMin {
		e.b = append(e.b, byte(min(h.tries, 4)))
	}
	if h.placed >= 0 && m.PlacePoll < Never {
		e.since(h.placed, m.PlacePoll)
	}
	if h.uncertain() {
		e.time(h.late) // the time at which calls are sent is compared with it
	}
	switch h.stage {
	case asking, undoing:
		e.until(h.at)
	case ending:
		e.until(h.at)
		e.until(h.by)
		e.until(h.trust)
		e.fence(h.fence)
	case held:
		e.held(p, i, m, h)
	}
	e.until(h.keep)
	e.until(h.gone)
}

func (e *canon) held(p, i int, m *Machine, h *claim) {
	w := e.w
	for j := range w.n { // forced releases that mean it
		if f := &w.msgs[j]; f.k.Op == OpForce && int(f.proc) == p {
			e.b = append(e.b, flags(h.order <= f.k.Order))
		}
	}
	e.until(h.at)
	e.until(h.trust)
	e.until(h.expiry)
	e.until(h.renewAt)
	e.until(h.limit)
	if h.lasts < Never {
		e.b = append(e.b, byte(h.lasts), byte(h.watchdog))
	} else {
		e.b = append(e.b, flags(h.watchdog > 0))
	}
	if m.HandoffTime < Never {
		e.since(h.granted, m.HandoffTime)
	}
	for s := range m.callers {
		if c := &m.callers[s]; c.claim == Slot(i) && c.Min > 0 { //nolint:gosec // few
			e.until(h.granted + c.Min)
		}
	}
	if h.limit > 0 {
		e.since(h.granted, 20)
	}
	e.fence(h.fence)
}

// process writes the process p.
func (e *canon) process(p int) {
	w, sc := e.w, e.sc
	m := &w.p[p]
	e.now = w.local(p)
	defer func() { e.now = w.now }()
	l := &w.hears[p]
	e.b = append(e.b, flags(w.dead[p], m.draining, m.ended, m.closed, l.on, w.leapt[p], m.perOwner), byte(m.watch.state))
	if sc.suspends > 0 {
		e.since(w.found[p], m.Timeout+1)
		e.b = append(e.b, byte(w.suspends))
	}
	if w.dead[p] {
		return
	}
	if l.on {
		e.b = append(e.b, byte(l.mode))
	}
	switch m.watch.state {
	case watchNone:
		e.until(m.watch.at)
	case watchOpening:
		e.until(m.watch.at)
		e.b = append(e.b, byte(m.watch.mode))
	case watchOpen:
		e.until(m.watch.until)
		e.b = append(e.b, byte(m.watch.mode))
	}
	e.b = append(e.b, byte(m.abreast))
	e.until(m.callAt)
	if m.Poll < Never {
		e.since(m.verified, m.Poll+1)
	}
	if m.YieldMin > 0 {
		e.until(m.yield.until)
		e.until(m.yield.after)
		e.b = append(e.b, byte(m.yield.length), byte(m.yield.unused), byte(m.yield.echoes), byte(m.heardSince), flags(m.yield.pending))
	}
	if m.PlaceLook < Never && m.PlaceLook > 0 {
		e.since(m.looked, m.PlaceLook)
	} else {
		e.b = append(e.b, flags(m.looked < 0))
	}
	if m.leaving > 0 {
		e.until(m.leaveTill)
		e.until(m.pauseTill)
	}
	e.callers(p)
	e.claims(p)
}

// callers writes the callers, sorted by what they have.
func (e *canon) callers(p int) {
	w := e.w
	m := &w.p[p]
	var keys [maxCallers][]byte
	var room [maxCallers][32]byte
	var order [maxCallers]int
	n := len(m.callers)
	save := e.b
	for s := range n {
		order[s] = s
		e.b = append(room[s][:0], e.sc.class[p][s])
		e.caller(p, s)
		if c := m.callers[s].claim; c != None {
			e.b = append(e.b, byte(m.claims[c].stage), byte(m.claims[c].open))
		}
		keys[s] = e.b
	}
	e.b = save
	for i := 1; i < n; i++ {
		for j := i; j > 0 && bytes.Compare(keys[order[j-1]], keys[order[j]]) > 0; j-- {
			order[j-1], order[j] = order[j], order[j-1]
		}
	}
	for i := range n {
		e.rank[p][order[i]] = byte(i)
		e.b = append(append(e.b, keys[order[i]]...), 0xfe)
	}
}

// alike is a number that is the same for claims that are alike.
func (e *canon) alike(p, i int) uint32 {
	save := e.b
	e.b = e.room[:0]
	e.claim(p, i)
	e.room = e.b
	e.b = save
	return uint32(hash(e.room) >> 44)
}

// claims writes the claims: in the order of their callers, then by what they have.
func (e *canon) claims(p int) {
	w := e.w
	m := &w.p[p]
	type row struct {
		key uint32
		i   int
	}
	var rows [16]row
	n := 0
	for i := range m.claims {
		h := &m.claims[i]
		if h.stage == free {
			continue
		}
		key := uint32(1 << 20)
		for s := range m.callers {
			if c := &m.callers[s]; c.claim == Slot(i) && c.phase != absent { //nolint:gosec // few
				key = min(key, uint32(e.rank[p][s]))
			}
		}
		if key == 1<<20 {
			key += e.alike(p, i)
		}
		rows[n] = row{key, i}
		n++
	}
	for i := 1; i < n; i++ {
		for j := i; j > 0 && rows[j-1].key > rows[j].key; j-- {
			rows[j-1], rows[j] = rows[j], rows[j-1]
		}
	}
	for r := range n {
		i := rows[r].i
		e.b = append(e.b, e.name(m.claims[i].owner))
		e.claim(p, i)
		refs := byte(0)
		for s := range m.callers {
			if c := &m.callers[s]; c.claim == Slot(i) && c.phase != absent { //nolint:gosec // few
				refs |= 1 << e.rank[p][s]
			}
		}
		e.b = append(e.b, refs, 0xfd)
	}
	if m.perOwner {
		e.b = append(e.b, e.name(m.watch.owner), e.name(w.hears[p].owner))
	}
}

func (e *canon) message(m *msg, procs *[maxProcs]byte) {
	w := e.w
	k := &m.k
	e.b = append(e.b, procs[m.proc], flags(m.reply, m.hint, m.slow, m.perOwner, k.Undo), byte(k.Op))
	e.now = w.local(int(m.proc))
	defer func() { e.now = w.now }()
	if m.hint {
		if m.slow {
			e.time(k.Sent)
		}
		return
	}
	e.b = append(e.b, e.name(k.Owner), byte(m.ans), byte(k.Mode))
	e.time(k.Sent)
	e.time(k.By)
	if k.TTL < Never && k.TTL > 0 && k.Op != OpRelease {
		e.b = append(e.b, byte(k.TTL))
	}
	e.until(k.Keep)
	e.b = append(e.b, byte(k.Permits))
	if m.reply {
		e.fence(m.fence)
		if m.ans == AnsBusy {
			e.time(e.now + min(m.left, 50))
		}
		if k.Op == OpRelease && e.sc.p.YieldMin > 0 {
			e.b = append(e.b, byte(m.others))
		}
	}
	p := int(m.proc)
	mm := &w.p[p]
	for _, o := range m.places {
		if o == 0 {
			break
		}
		current := false
		for i := range mm.claims {
			current = current || mm.claims[i].owner == o && mm.claims[i].named == k.Seq
		}
		e.b = append(e.b, e.name(o), flags(current))
	}
	if w.dead[p] {
		return
	}
	if k.Epoch != mm.epoch && (k.Op == OpAcquire || k.Op == OpRenew) {
		e.b = append(e.b, 99)
	}
	if k.Claim != None && int(k.Claim) < len(mm.claims) {
		if cl := &mm.claims[k.Claim]; cl.stage != free && cl.owner == k.Owner {
			e.b = append(e.b, 1+flags(k.Seq == cl.seq, k.Seq == cl.renewSeq,
				k.Op == OpAcquire && cl.placed >= k.Sent, k.Op == OpAcquire && k.Sent > cl.late))
		}
	}
	if k.Caller != None && int(k.Caller) < len(mm.callers) {
		e.b = append(e.b, 10+2*e.rank[p][k.Caller]+flags(mm.callers[k.Caller].seq == k.Seq))
	}
	if k.Op == OpWatch {
		e.b = append(e.b, flags(k.Seq == mm.watch.seq))
	}
}

// encode writes the world, with its processes in the other order if swap is set.
func (e *canon) encode(w *world, sc *scope, swap bool, out []byte) []byte {
	e.w, e.sc, e.nn, e.nf, e.b, e.now = w, sc, 0, 0, out[:0], w.now
	for p := range w.p {
		for i := range w.p[p].claims {
			if h := &w.p[p].claims[i]; (h.stage == held || h.stage == ending) && !w.dead[p] {
				e.addFence(h.fence)
			}
		}
	}
	for i := range w.nh {
		e.addFence(w.holds[i].fence)
	}
	for i := range w.n {
		e.addFence(w.msgs[i].fence)
	}
	e.addFence(w.last)
	e.b = append(e.b, byte(w.foreign), byte(w.faults), byte(w.leaves), byte(w.forces), byte(w.crash), byte(w.drain), byte(w.shut), byte(w.checks), flags(w.calm, w.forcedAt > 0, w.suspended))
	e.until(w.keep)
	e.b = append(e.b, byte(w.keepMode))
	if w.calm && sc.forces > 0 && sc.p.Poll < Never {
		e.sinceForced()
	}
	if sc.fenced {
		e.fence(w.last)
	}
	procs := [maxProcs]byte{0, 1}
	n := len(sc.procs)
	for i := range n {
		p := i
		if swap {
			p = n - 1 - i
		}
		procs[p] = byte(i)
		if w.run1 != 0 {
			e.b = append(e.b, flags(int(w.run1) == p+1))
		}
		if sc.calls > 0 {
			e.b = append(e.b, byte(w.calls[p]))
		}
		e.process(p)
	}
	for i := range w.nh {
		h := &w.holds[i]
		e.b = append(e.b, e.name(h.owner), byte(h.mode), flags(h.kept, h.owner == foreign, h.excused), byte(h.permits))
		e.time(h.exp)
		e.fence(h.fence)
		if h.mode == Read && sc.p.ReadRenew < Never {
			e.since(h.touched, sc.p.ReadRenew+2)
		}
	}
	for i := range w.np {
		q := &w.queue[i]
		e.b = append(e.b, 0xfc, e.name(q.owner), procs[q.proc], flags(q.called))
		e.time(q.until)
	}
	e.messages(&procs)
	return e.b
}

// sinceForced writes what the monitor of verifications looks at.
func (e *canon) sinceForced() {
	w := e.w
	for p := range w.p {
		m := &w.p[p]
		for i := range m.claims {
			if h := &m.claims[i]; h.stage == held && w.excused(h.owner) {
				e.since(w.forcedAt, m.Poll+2)
			}
		}
	}
}

// messages writes the messages, sorted; names are given in an order that doesn't depend on
// the slots.
func (e *canon) messages(procs *[maxProcs]byte) {
	w := e.w
	var rows [maxMsgs][]byte
	var room [maxMsgs][64]byte
	var at [maxMsgs]int
	var keys [maxMsgs]uint64
	for i := range w.n {
		m := &w.msgs[i]
		at[i] = i
		keys[i] = uint64(procs[m.proc])<<40 | uint64(flags(m.reply, m.hint, m.slow))<<32 | uint64(m.k.Op)<<24 | uint64(m.ans)<<16 | uint64(uint8(m.k.Sent-w.local(int(m.proc))+50))<<8 | uint64(e.known(m.k.Owner))
		for j := i; j > 0 && keys[at[j-1]] > keys[at[j]]; j-- {
			at[j-1], at[j] = at[j], at[j-1]
		}
	}
	save := e.b
	for i := range w.n {
		e.b = room[i][:0]
		e.message(&w.msgs[at[i]], procs)
		rows[i] = e.b
	}
	e.b = save
	s := rows[:w.n]
	for i := 1; i < len(s); i++ {
		for j := i; j > 0 && bytes.Compare(s[j-1], s[j]) > 0; j-- {
			s[j-1], s[j] = s[j], s[j-1]
		}
	}
	for i := range s {
		e.b = append(append(e.b, 0xfb), s[i]...)
	}
}

func hash(b []byte) uint64 {
	h := uint64(len(b))*0x9e3779b97f4a7c15 + 0x1234567
	for len(b) > 0 {
		var v uint64
		n := min(8, len(b))
		for i := range n {
			v |= uint64(b[i]) << (8 * i)
		}
		b = b[n:]
		hi, lo := bits.Mul64(h^v, 0xa0761d6478bd642f)
		h = hi ^ lo ^ 0xe7037ed1a0b428db
	}
	hi, lo := bits.Mul64(h^0x8ebc6af09c88c6e3, 0x589965cc75374cc3)
	if h = hi ^ lo; h == 0 {
		h = 1
	}
	return h
}
