package check

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/redlatch/redlatch/test/chaos/internal/history"
)

// call names one call of a worker's life.
type call struct {
	worker, life int
	id           uint64
}

// lease names what one caller had of an owner.
type lease struct {
	owner string
	fence uint64
	mode  string
}

func leaseOf(e *history.Event) lease { return lease{e.Owner, e.Fence, e.Mode} }

// Modes of read/write locks.
const read, write = "read", "write"

// builder makes a timeline of events in whatever order they come: processes
// write side by side.
type builder struct {
	*Timeline
	begun    map[call]*history.Event
	acquired []*history.Event
	released []*history.Event
	grants   map[string][]*history.Event // by owner
	gaveUp   []*history.Event            // releases of writers who read on
	lowered  []*history.Event            // calls of the store that were answered
	renews   []*history.Event
	promises map[string][]*history.Event // answers of the store that hold for a TTL, by owner
	doubts   []*history.Event
	holds    map[string]*hold // by owner: the last one of the chain
	leases   map[lease]*hold
	gave     map[lease]*history.Event   // the release, or the beginning of one that a kill has ended
	freed    map[string][]history.Event // releases in the store, by owner
	waiting  map[call]int64             // since when an acquisition sleeps
	ended    map[call]int64             // when an acquisition returned
}

func newBuilder(t *Timeline) *builder {
	return &builder{
		Timeline: t,
		begun:    make(map[call]*history.Event),
		grants:   make(map[string][]*history.Event),
		promises: make(map[string][]*history.Event),
		holds:    make(map[string]*hold),
		leases:   make(map[lease]*hold),
		gave:     make(map[lease]*history.Event),
		freed:    make(map[string][]history.Event),
		waiting:  make(map[call]int64),
		ended:    make(map[call]int64),
	}
}

func (b *builder) add(e *history.Event) {
	id := call{e.Worker, e.Life, e.ID}
	switch e.Kind {
	case history.Begin:
		b.begun[id] = e
	case history.Acquire:
		delete(b.begun, id)
		b.ended[id] = e.Return
		b.acquired = append(b.acquired, e)
	case history.Release:
		delete(b.begun, id)
		b.released = append(b.released, e)
	case history.Lower:
		delete(b.begun, id)
		b.gaveUp = append(b.gaveUp, e)
	case history.Lowered:
		b.lowered = append(b.lowered, e)
		if e.Outcome == history.OK {
			b.promises[e.Owner] = append(b.promises[e.Owner], e)
		}
	case history.Grant:
		b.grants[e.Owner] = append(b.grants[e.Owner], e)
		b.promises[e.Owner] = append(b.promises[e.Owner], e)
	case history.Renew:
		b.renews = append(b.renews, e)
		if e.Outcome == history.OK {
			b.promises[e.Owner] = append(b.promises[e.Owner], e)
		}
	case history.Doubt:
		b.doubts = append(b.doubts, e)
	case history.Queued:
		l := b.Timeline.life(e)
		l.queued = append(l.queued, *e)
	case history.Claim, history.Write:
		l := b.Timeline.life(e)
		l.writes = append(l.writes, *e)
	case history.Freed:
		b.freed[e.Owner] = append(b.freed[e.Owner], *e)
	case history.Force:
		delete(b.begun, id)
		l := b.Timeline.life(e)
		l.forced = append(l.forced, span{e.Call, e.Return})
	case history.Close:
		b.closes = append(b.closes, *e)
	case history.Left:
		b.left = append(b.left, *e)
	case history.Heard:
		b.heard = append(b.heard, *e)
	case history.Waiting:
		b.waiting[id] = e.Call
	default: // of the crew
	}
}

func (b *builder) finish() {
	b.releases()
	slices.SortStableFunc(b.acquired, func(a, b *history.Event) int { // re-entries last
		return cmp.Or(compareBool(a.Nested, b.Nested), cmp.Compare(a.Fence, b.Fence))
	})
	for _, e := range b.acquired {
		b.acquire(e)
	}
	b.orphans()
	b.minima()
	for _, e := range b.renews {
		b.renew(e)
	}
	for _, e := range b.gaveUp {
		b.lowers(e)
	}
	for _, e := range b.lowered {
		b.lower(e)
	}
	for _, e := range b.released {
		b.release(e)
	}
	b.rests()
	for _, e := range b.doubts {
		b.doubt(e)
	}
	b.killed()
	b.unflushed()
	for _, l := range b.lives {
		l.exorcise()
	}
	for _, times := range b.missing {
		slices.Sort(times)
	}
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// haunt adds a ghost that may have asked between the two times, for a TTL.
func (l *life) haunt(from, ran, ttl int64) {
	l.ghosts = append(l.ghosts, ghost{span{from, ran + ttl}, ran})
}

// exorcise ends ghosts with the first grant after they ran for the last time
// that none but a free key allows.
func (l *life) exorcise() {
	var alone []span
	for _, h := range l.holds {
		if l.mode == "exclusive" || l.mode == "fair" || h.mode == "write" {
			alone = append(alone, h.granted)
		}
	}
	slices.SortFunc(alone, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	for i := range l.ghosts {
		g := &l.ghosts[i]
		n, _ := slices.BinarySearchFunc(alone, g.ran, func(s span, ran int64) int { return cmp.Compare(s.from, ran) })
		if n < len(alone) {
			g.to = min(g.to, alone[n].to)
		}
	}
}

func (b *builder) acquire(e *history.Event) {
	l := b.Timeline.life(e)
	l.ask(e)
	id := call{e.Worker, e.Life, e.ID}
	if since, ok := b.waiting[id]; ok && !l.office() {
		l.waits = append(l.waits, &wait{Event: e, since: since})
	}
	if l.office() { // a candidate tries again by itself
		l.waits = append(l.waits, &wait{Event: e, since: e.Call})
	}
	b.forsaken(e)
	if e.Outcome == history.GaveUp || e.Outcome == history.Unknown {
		l.refusals = append(l.refusals, e)
	}
	if e.Pending || e.Outcome == history.Unknown {
		b.missing[processOf(e)] = append(b.missing[processOf(e)], e.Return)
	}
	switch e.Outcome {
	case history.OK:
		b.covered(e)
		if e.Nested {
			b.reenter(l, e)
			return
		}
		if before := b.holds[e.Owner]; before != nil {
			b.handed(l, e, before)
			return
		}
		grant := b.grant(l, e)
		if grant == nil {
			b.broken = append(b.broken, Violation{
				Rule: "record", Key: e.Key, At: e.Return,
				Detail: fmt.Sprintf("%s was given the key, and the store never granted it", e.Owner),
			})
			return
		}
		within := span{grant.Call, grant.Return}
		e.TTL = grant.TTL
		l.ops = append(l.ops, op{Event: *e, span: within, expLo: within.from + e.TTL, expHi: within.to + l.atMost(e.TTL)})
		b.granted(l, e, within)
	case history.Busy:
		l.ops = append(l.ops, op{Event: *e, span: span{e.Call, e.Return}})
	default: // nothing is promised about when it gave up
	}
}

// covered: a lease trusts nothing that the store wasn't asked for by then. So it is
// known at once that trust is too long, and not only if nothing renews it.
func (b *builder) covered(e *history.Event) {
	var until int64
	for _, p := range b.promises[e.Owner] {
		if p.Call <= e.Return {
			until = max(until, p.Call+p.TTL)
		}
	}
	if e.Until > until {
		b.broken = append(b.broken, Violation{
			Rule: "trust", Key: e.Key, At: e.Return,
			Detail: fmt.Sprintf("%s (fence %d) trusts its lease %v longer than the store was asked to keep it", e.Owner, e.Fence, time.Duration(e.Until-until)),
		})
	}
}

// grant finds the answer of the store that made the acquisition succeed: that of
// the last call. Those before it were given up, but may have had the key taken
// already, and may have been answered later.
func (b *builder) grant(l *life, e *history.Event) (last *history.Event) {
	var first, answered int64
	for i, g := range b.grants[e.Owner] {
		if g == nil || g.Return > e.Return {
			continue
		}
		if last == nil || g.Call > last.Call {
			last = g
		}
		answered = max(answered, g.Return)
		if first == 0 || g.Call < first {
			first = g.Call
		}
		b.grants[e.Owner][i] = nil
	}
	if last != nil && first < last.Call {
		l.haunt(first, answered, 0)
	}
	return last
}

func (b *builder) granted(l *life, e *history.Event, within span) {
	h := b.begin(l, e, within, &chain{began: within.from})
	h.lasts(within, e.TTL)
	h.expHi = max(h.expHi, within.to+l.atMost(e.TTL))
}

// begin adds the hold that an acquisition made.
func (b *builder) begin(l *life, e *history.Event, within span, of *chain) *hold {
	h := &hold{
		chain: of, key: e.Key, life: e.Life, owner: e.Owner, mode: e.Mode, worker: e.Worker, client: e.Client, fence: e.Fence,
		permits: e.Permits, size: e.Size, granted: within, reported: e.Return, trusted: within.to, asked: e.Call, keep: e.Keep,
	}
	b.holds[e.Owner], b.leases[leaseOf(e)] = h, h
	l.holds = append(l.holds, h)
	return h
}

// atMost is how long a grant may last. A fair lock that was handed to its owner
// has got a TTL then that no acquire shortens.
func (l *life) atMost(ttl int64) int64 {
	if l.mode == "fair" {
		return max(ttl, int64(grace))
	}
	return ttl
}

// lasts notes that a call in that time set the TTL.
func (c *chain) lasts(within span, ttl int64) {
	c.expLo, c.expHi = max(c.expLo, within.from+ttl), max(c.expHi, within.to+ttl)
}

// orphans are grants that nobody got: the caller had given up, and they are undone once, as
// they have been answered. Or it had got the key by another call: what it has lasts for longer.
func (b *builder) orphans() {
	for _, grants := range b.grants {
		for _, g := range grants {
			if g == nil {
				continue
			}
			to := g.Return + g.TTL + epsilon
			if by, ok := b.undone(g, g.Return); ok {
				to = min(to, by)
			}
			l := b.Timeline.life(g)
			l.ghosts = append(l.ghosts, ghost{span{g.Call, to}, g.Return})
			b.mayProlong(l, g, g.Return)
			if h := b.holds[g.Owner]; h != nil {
				h.lasts(span{g.Call, g.Return}, g.TTL)
			}
		}
	}
}

// How long the engine takes to undo what nobody has a lease of. It releases the
// owner at once, a tenth of a second later, for what ran after that, and
// again after two seconds.
const (
	undoing  = 500 * time.Millisecond
	soon     = 50 * time.Millisecond
	lastPass = 2200 * time.Millisecond
)

// undone is when the engine must have released what the call e may have left,
// which ran until then, and whose acquisition has ended without a lease. It
// isn't known if the process was killed.
func (b *builder) undone(e *history.Event, ran int64) (by int64, known bool) {
	end, known := b.ended[call{e.Worker, e.Life, e.ID}]
	if !known || e.ID == 0 {
		return 0, false
	}
	at := max(end, ran)
	if ran > end+int64(soon) && e.Kind == history.Doubt {
		pass := b.calmAfter(e.Worker, end, undoing) + int64(lastPass)
		if at = pass; ran > pass {
			return 0, false
		}
	}
	by = b.calmAfter(e.Worker, at, undoing)
	kill, killed := b.Kills[[2]int{e.Worker, e.Life}]
	return by, !killed || kill > by
}

// forsaken makes a ghost of a call that was under way when its caller left, if
// the process was killed before anybody could see the answer.
func (b *builder) forsaken(e *history.Event) {
	at, killed := b.Kills[[2]int{e.Worker, e.Life}]
	if killed && e.Pending {
		l, until := b.Timeline.life(e), b.settled(e.Worker, at)
		l.dead = append(l.dead, span{e.Call, until})
		l.haunt(e.Call, until, e.TTL)
	}
}

func (b *builder) renew(e *history.Event) {
	l := b.Timeline.life(e)
	within := span{e.Call, e.Return}
	h := b.holds[e.Owner]
	if h == nil { // of an owner that never got to know that it was one
		return
	}
	l.ops = append(l.ops, op{Event: *e, span: within, expLo: within.from + e.TTL, expHi: within.to + e.TTL})
	if e.Outcome == history.OK {
		h.lasts(within, e.TTL)
	}
}

// lower adds an answer of the store to Lower.
func (b *builder) lower(e *history.Event) {
	h := b.holds[e.Owner]
	if h == nil {
		return
	}
	l, within := b.Timeline.life(e), span{e.Call, e.Return}
	l.ops = append(l.ops, op{Event: *e, span: within, expLo: within.from + e.TTL, expHi: within.to + e.TTL})
	if e.Outcome == history.OK {
		h.lasts(within, e.TTL)
	}
}

func (b *builder) release(e *history.Event) {
	l, h := b.Timeline.life(e), b.leased(e)
	if h != nil && h.next == nil {
		h.passed = b.handsOn(e)
	}
	o := op{Event: *e, span: span{e.Call, e.Return}, passed: h != nil && h.passed, resent: b.unanswered(e)}
	l.ops = append(l.ops, o.keeping(h))
	if h == nil {
		return
	}
	h.trusted = max(h.trusted, e.Trusted)
	if h.nested {
		h.shares, h.left = h.shares-1, max(h.left, e.Call)
	}
	switch {
	case h.nested && h.shares == 0:
		h.leaving(h.left)
	case !e.Nested && !h.nested, e.Outcome == history.Lost, e.Outcome == history.NotHeld:
		h.leaving(e.Call)
	}
	if !e.Nested && e.Outcome == history.OK && !h.passed {
		h.final = e.Return
	}
}

// doubt makes a ghost of a call without an answer. That of an owner who is known
// ends with a release that was confirmed, unless the call could still run and
// take the key again.
func (b *builder) doubt(e *history.Event) {
	l := b.Timeline.life(e)
	ran := b.doubted(e)
	to := ran + e.TTL
	if b.holds[e.Owner] == nil && e.Op == history.Acquire {
		if by, ok := b.undone(e, ran); ok {
			to = min(to, by)
		}
	}
	if h := b.holds[e.Owner]; h != nil && h.final != 0 && (e.Op != history.Acquire || ran <= h.released) {
		to = min(to, h.final)
	}
	l.ghosts = append(l.ghosts, ghost{span{e.Call, to}, ran})
	b.mayProlong(l, e, ran)
	b.missing[processOf(e)] = append(b.missing[processOf(e)], e.Return)
	if e.Op == history.Acquire {
		l.unanswered = append(l.unanswered, *e)
	}
}

// mayProlong: a call of an owner that has the key may have prolonged what it has,
// whatever came of it, until it ran for the last time.
func (b *builder) mayProlong(l *life, e *history.Event, ran int64) {
	h := b.holds[e.Owner]
	if h == nil {
		return
	}
	h.expHi = max(h.expHi, ran+e.TTL)
	again := *e
	again.Kind, again.Outcome = history.Renew, history.Unknown
	if e.Op == history.Lowered {
		again.Kind = history.Lowered
	}
	l.ops = append(l.ops, op{Event: again, span: span{e.Call, ran}, expHi: ran + e.TTL})
}

func (h *hold) leaving(at int64) {
	if h.released == 0 || at < h.released {
		h.released = at
	}
}

// killed makes ghosts of what killed workers may have left: calls that were
// under way, and holds whose last renewal nobody saw the answer of.
func (b *builder) killed() {
	for id, e := range b.begun {
		at, killed := b.Kills[[2]int{id.worker, id.life}]
		if !killed {
			b.broken = append(b.broken, Violation{
				Rule: "record", Key: e.Key, At: e.Call,
				Detail: fmt.Sprintf("a call of worker %d never returned", e.Worker),
			})
			continue
		}
		l := b.Timeline.life(e)
		until := b.settled(e.Worker, at)
		if e.Op == history.Force {
			l.forced = append(l.forced, span{e.Call, until})
			continue
		}
		l.dead = append(l.dead, span{e.Call, until})
		l.haunt(e.Call, until, e.TTL)
		h := b.leased(e)
		if e.Op == history.Lower && h != nil {
			unknown := *e
			unknown.Kind, unknown.Outcome, unknown.Return = history.Lowered, history.Unknown, until
			l.ops = append(l.ops, op{Event: unknown, span: span{e.Call, until}, expHi: until + e.TTL})
			h.leaving(e.Call)
			h.expHi = max(h.expHi, until+e.TTL)
		}
		if e.Op == history.Release && h != nil && !e.Nested {
			unknown := *e
			unknown.Kind, unknown.Outcome, unknown.Return = history.Release, history.Unknown, until
			if h.next != nil { // the next lease says what became of it
				unknown.Outcome = history.OK
			}
			o := op{Event: unknown, span: span{e.Call, until}, passed: h.next != nil}
			l.ops = append(l.ops, o.keeping(h))
			h.leaving(e.Call)
		}
	}
	for _, l := range b.lives {
		for _, h := range l.holds {
			if h.final != 0 || h.released != 0 && !h.passed {
				continue
			}
			if at, killed := b.killOf(h); killed {
				l.haunt(h.granted.from, b.settled(h.worker, at), max(h.expHi-h.granted.from, 2*int64(b.Lease)))
			}
		}
	}
}

// killOf is when the holder's process was killed.
func (b *builder) killOf(h *hold) (at int64, killed bool) {
	for id, kill := range b.Kills {
		if id[0] == h.worker && kill >= h.reported && (!killed || kill < at) {
			at, killed = kill, true
		}
	}
	return at, killed
}
