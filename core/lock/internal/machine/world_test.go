package machine

import "fmt"

// script is what a caller does: it comes, waits or tries, perhaps leaves, has its lease,
// and releases it.
type script struct {
	as       Terms
	rounds   int8
	inside   int8 // it comes while that caller has its lease, with its context; -1: from outside
	wait     Time
	leaves   bool // may give up
	declines bool // may not want the lease that it gets
	extend   Time // may extend by that, once
}

// scope is what is explored.
type scope struct {
	name                               string
	p                                  Params
	procs                              [][]script
	mode                               Mode  // of the foreign process
	foreign                            int8  // how often it takes the key
	size                               int32 // of the semaphore
	faults                             int8  // messages that are late, lost, failed or refused, together
	leaves, forces, crash, drain, shut int8
	suspends, checks                   int8
	lazy                               Time // by how much timers may be late
	slack                              Time // by how much renewals may be early
	loses, breaks, denies              bool // which faults, besides lateness
	symmetric                          bool // the processes are alike
	perOwner                           bool // hints are for one owner
	grace                              Time // how long a free key is kept for the first place
	ledger, most                       int32
	calls                              int8 // how many acquires and renewals of one process in one tick are enough
	class                              [maxProcs][maxCallers]byte
	fenced, long                       bool
	mixed                              bool // modes whose hints are not heard by one another
}

const maxCallers = 4

// begin is the time at which a world begins: no moment that is looked back at is 0.
const begin = Time(100)

type state uint8 // of a caller, as it sees it

const (
	outside state = iota
	waits
	leased
	returning
)

// seat is what a caller and its monitors know.
type seat struct {
	state     state
	rounds    int8
	extends   int8
	came      int8
	behind    uint8 // callers to whom permits were refused when it came, a bit each
	saw       bool  // another owner had the key since it came
	executed  bool  // its own release was executed
	late      bool  // it released when its trust had ended
	declined  bool
	extending bool
	at        Time
}

type world struct {
	now      Time
	p        [maxProcs]Machine
	dead     [maxProcs]bool
	seats    [maxProcs][maxCallers]seat
	msgs     [maxMsgs]msg
	n        int
	holds    [maxHolds]stored
	nh       int
	queue    [maxPlaces]place
	np       int
	hears    [maxProcs]listener
	grants   Fence
	last     Fence // of the exclusive leases so far
	keep     Time  // no grant before that conflicts with keepMode
	keepMode Mode
	run1     int8 // 1+ the process whose run of hand-offs has ended while another listened
	calls    [maxProcs]int8
	foreign  int8

	faults, leaves, forces, crash, drain, shut, suspends, checks int8

	forced    [4]Owner // whose holds a forced release has removed
	forcedAt  Time
	stop      [maxProcs]Time // how long each was suspended
	leapt     [maxProcs]bool // it doesn't know yet
	found     [maxProcs]Time // when it found out
	unsure    [4]Owner       // holds that nothing has confirmed since
	suspended bool
	calm      bool // no message was late or lost
	lazy      bool // timers may be late
	bad       string
}

func (w *world) local(p int) Time { return w.now - w.stop[p] }

func among(list *[4]Owner, o Owner) bool {
	return o != 0 && (list[0] == o || list[1] == o || list[2] == o || list[3] == o)
}

func (w *world) doubted(o Owner) bool { return among(&w.unsure, o) }
func (w *world) excused(o Owner) bool { return among(&w.forced, o) }
func (w *world) excuse(o Owner) {
	if !w.excused(o) {
		copy(w.forced[1:], w.forced[:])
		w.forced[0] = o
	}
}

// set makes m a copy of v, which shares nothing with it.
func (m *Machine) set(v *Machine) {
	c, l, a, t, ids := m.callers, m.claims, m.agenda, m.touched, m.ids
	*m = *v
	m.callers = append(c[:0], v.callers...)
	m.claims = append(l[:0], v.claims...)
	m.agenda = append(a[:0], v.agenda...)
	m.touched = append(t[:0], v.touched...)
	m.ids, m.places = ids[:0], nil
}

func (w *world) set(v *world) {
	p := w.p
	*w = *v
	for i := range w.p {
		w.p[i] = p[i]
		w.p[i].set(&v.p[i])
	}
}

func (w *world) put(m msg) bool {
	if w.n == maxMsgs {
		w.fail("scope too small: messages")
		return false
	}
	w.msgs[w.n] = m
	w.n++
	return true
}

func (w *world) take(i int) msg {
	m := w.msgs[i]
	copy(w.msgs[i:], w.msgs[i+1:w.n])
	w.n--
	w.msgs[w.n] = msg{}
	return m
}

func (w *world) fail(format string, args ...any) {
	if w.bad == "" {
		w.bad = fmt.Sprintf(format, args...)
	}
}

// start is the world of a scope at its beginning.
func (sc *scope) start(w *world) {
	for p := range w.p {
		n := 0
		if p < len(sc.procs) {
			n = len(sc.procs[p])
		}
		w.p[p].Init(&sc.p, Owner(1000*p+1000)) //nolint:gosec // few
		w.dead[p] = n == 0
		for s := range n {
			w.p[p].room(Slot(s)) //nolint:gosec // few
			w.seats[p][s].rounds = sc.procs[p][s].rounds
			if sc.procs[p][s].extend > 0 {
				w.seats[p][s].extends = 1
			}
		}
	}
	w.now, w.calm, w.lazy = begin, true, sc.lazy > 0
	w.foreign, w.faults, w.leaves, w.forces, w.crash = sc.foreign, sc.faults, sc.leaves, sc.forces, sc.crash
	w.drain, w.shut, w.suspends, w.checks = sc.drain, sc.shut, sc.suspends, sc.checks
}

// step gives a process an event, and does what it wants. It returns false if the scope is
// too small.
func (w *world) step(x *explorer, p int, e *Event) bool {
	sc, m := x.sc, &w.p[p]
	var trusts [16]Time
	for i := range m.claims {
		trusts[i] = m.claims[i].trust
	}
	var buf [32]Effect
	out := buf[:0]
	if w.leapt[p] { // the shell compares the clocks before each step
		w.leapt[p], w.found[p] = false, w.local(p)
		out = x.observe(m, &Event{Kind: EvSuspended}, w.local(p), out)
	}
	e.Crowd = m.Waiting()
	e.LedgerFull = sc.ledger > 0 && m.Unsettled() >= sc.ledger
	crowd := m.Waiting()
	var phases [maxCallers]phase
	var saw [maxCallers]bool
	for s := range m.callers {
		phases[s], saw[s] = m.callers[s].phase, m.sawContention(&m.callers[s])
	}
	out = x.observe(m, e, w.local(p), out)
	if e.Kind == EvTimer && m.Due() <= w.local(p) {
		w.fail("the timer would fire again at once")
	}
	w.gaveUp(p, out, e, &phases, &saw)
	w.cutOff(p, &phases)
	for i := range out {
		f := &out[i]
		switch f.Do {
		case DoSend:
			if !w.send(sc, p, f, e.LedgerFull) {
				return false
			}
		case DoUnwatch:
			w.hears[p] = listener{}
		case DoEnd:
			w.ended(p, f, e, trusts[:])
		case DoReply:
			w.replied(sc, p, f, e, crowd)
		case DoForget:
			s := &w.seats[p][f.Caller]
			*s = seat{rounds: s.rounds, extends: s.extends}
		}
	}
	w.rest(sc, p)
	return true
}

// rest is what the shell does with a machine that rests.
func (w *world) rest(sc *scope, p int) {
	m := &w.p[p]
	if !m.Rests() {
		return
	}
	r, callers := m.Rest(), len(m.callers)
	m.Init(&sc.p, m.Owner())
	m.Wake(&r)
	m.room(Slot(callers - 1)) //nolint:gosec // few
}

func (w *world) send(sc *scope, p int, f *Effect, full bool) bool {
	r := msg{proc: int8(p), k: f.Call} //nolint:gosec // few
	if int(f.Call.Named) > len(r.places) {
		w.fail("scope too small: places of a call")
		return false
	}
	if f.Call.Named > 0 {
		copy(r.places[:], w.p[p].Places())
	}
	if f.Call.Op == OpRenew && f.Call.Caller == None {
		w.asked(p, &f.Call)
	}
	if c := f.Call.Caller; f.Call.Op == OpRenew && c != None && !w.seats[p][c].extending && !w.p[p].callers[c].AtWork && w.p[p].callers[c].length() <= sc.p.MaxTTL {
		w.fail("a new lease is extended that has its length")
	}
	if f.Call.Op == OpAcquire && f.Call.TTL > sc.p.MaxTTL {
		w.fail("an acquire writes more than it may")
	}
	if f.Call.Op == OpAcquire && full {
		w.fail("an acquire is sent though the ledger is full")
	}
	if f.Call.Op == OpAcquire || f.Call.Op == OpRenew {
		w.calls[p]++
		if sc.calls > 0 && w.calls[p] > sc.calls {
			w.fail("the store is called without a pause")
		}
	}
	return w.put(r)
}

// asked is that a renewal makes a hold last no longer than a lease asks for.
func (w *world) asked(p int, k *Call) {
	h := &w.p[p].claims[k.Claim]
	most := max(1, h.expiry-k.Sent)
	for s := h.first; s != None; s = w.p[p].callers[s].next {
		if c := &w.p[p].callers[s]; c.Lease == 0 {
			most = max(most, c.Watchdog)
		}
	}
	if k.TTL > most {
		w.fail("renewed for longer than anybody asked")
	}
}

// other is what a foreign process does.
func (w *world) other(sc *scope, op Op) bool {
	m := msg{proc: 1, k: Call{Op: op, Owner: foreign, Mode: sc.mode, TTL: Never, Permits: sc.size}}
	r, ok := w.run(sc, m)
	if op == OpAcquire {
		w.foreign--
		return ok && r.ans == AnsOK
	}
	return ok
}
