package check

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/redlatch/redlatch/test/chaos/internal/history"
)

// call names one call of a worker's life.
type call struct {
	worker, life int
	id           uint64
}

// builder makes a timeline of events in whatever order they come: processes
// write side by side.
type builder struct {
	*Timeline
	begun    map[call]*history.Event
	acquired []*history.Event
	released []*history.Event
	grants   map[string][]*history.Event // by owner
	renews   []*history.Event
	doubts   []*history.Event
	holds    map[string]*hold // by owner
}

func newBuilder(t *Timeline) *builder {
	return &builder{
		Timeline: t,
		begun:    make(map[call]*history.Event),
		grants:   make(map[string][]*history.Event),
		holds:    make(map[string]*hold),
	}
}

func (b *builder) add(e *history.Event) {
	id := call{e.Worker, e.Life, e.ID}
	switch e.Kind {
	case history.Begin:
		b.begun[id] = e
	case history.Acquire:
		delete(b.begun, id)
		b.acquired = append(b.acquired, e)
	case history.Release:
		delete(b.begun, id)
		b.released = append(b.released, e)
	case history.Grant:
		b.grants[e.Owner] = append(b.grants[e.Owner], e)
	case history.Renew:
		b.renews = append(b.renews, e)
	case history.Doubt:
		b.doubts = append(b.doubts, e)
	case history.Queued:
		l := b.Timeline.life(e)
		l.queued = append(l.queued, *e)
	case history.Claim, history.Write:
		l := b.Timeline.life(e)
		l.writes = append(l.writes, *e)
	case history.Exit:
	}
}

func (b *builder) finish() {
	for _, e := range b.acquired {
		if e.Holds <= 1 {
			b.acquire(e)
		}
	}
	for _, e := range b.acquired {
		if e.Holds > 1 {
			b.acquire(e)
		}
	}
	b.orphans()
	for _, e := range b.renews {
		b.renew(e)
	}
	for _, e := range b.released {
		b.release(e)
	}
	for _, e := range b.doubts {
		b.doubt(e)
	}
	b.killed()
	for _, l := range b.lives {
		l.exorcise()
	}
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
	switch e.Outcome {
	case history.OK:
		grant := b.grant(l, e)
		if grant == nil {
			b.broken = append(b.broken, Violation{
				Rule: "record", Key: e.Key, At: e.Return,
				Detail: fmt.Sprintf("%s was given the key, and the store never granted it", e.Owner),
			})
			return
		}
		within := span{grant.Call, grant.Return}
		l.ops = append(l.ops, op{Event: *e, span: within, expLo: within.from + e.TTL, expHi: within.to + e.TTL})
		b.granted(l, e, within)
	case history.Busy:
		l.ops = append(l.ops, op{Event: *e, span: span{e.Call, e.Return}})
	default: // nothing is promised about when it gave up
	}
}

// grant finds the answer of the store that made the acquisition succeed: the
// last before it returned. Those before it came too late to be of use, but had
// the key taken already.
func (b *builder) grant(l *life, e *history.Event) (last *history.Event) {
	var first int64
	for i, g := range b.grants[e.Owner] {
		if g == nil || g.Holds != e.Holds || g.Return > e.Return {
			continue
		}
		if last == nil || g.Return > last.Return {
			last = g
		}
		if first == 0 || g.Call < first {
			first = g.Call
		}
		b.grants[e.Owner][i] = nil
	}
	if last != nil && first < last.Call {
		l.haunt(first, last.Return, 0)
	}
	return last
}

func (b *builder) granted(l *life, e *history.Event, within span) {
	h := b.holds[e.Owner]
	if h == nil {
		h = &hold{
			owner: e.Owner, mode: e.Mode, worker: e.Worker, client: e.Client, fence: e.Fence,
			permits: e.Permits, size: e.Size, granted: within, reported: e.Return, trusted: within.to,
		}
		b.holds[e.Owner] = h
		l.holds = append(l.holds, h)
	} else {
		h.regrants = append(h.regrants, within)
	}
	if h.fence != e.Fence {
		b.broken = append(b.broken, Violation{
			Rule: "fence of a re-entry", Key: l.key, At: e.Return,
			Detail: fmt.Sprintf("%s had fence %d and has %d now", e.Owner, h.fence, e.Fence),
		})
	}
	h.expLo = max(h.expLo, within.from+e.TTL)
}

// orphans are grants that nobody got: the caller had given up.
func (b *builder) orphans() {
	for _, grants := range b.grants {
		for _, g := range grants {
			if g != nil {
				l := b.Timeline.life(g)
				l.haunt(g.Call, g.Return, g.TTL+epsilon)
			}
		}
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
		h.expLo = max(h.expLo, within.from+e.TTL)
		h.renews = append(h.renews, within)
	}
}

func (b *builder) release(e *history.Event) {
	l := b.Timeline.life(e)
	l.ops = append(l.ops, op{Event: *e, span: span{e.Call, e.Return}})
	h := b.holds[e.Owner]
	if h == nil {
		return
	}
	h.trusted = max(h.trusted, e.Trusted)
	if e.Holds == 0 || e.Outcome == history.Lost || e.Outcome == history.NotHeld {
		h.leaving(e.Call)
	}
	if e.Holds == 0 && e.Outcome == history.OK {
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
	if h := b.holds[e.Owner]; h != nil && h.final != 0 && (e.Op == history.Renew || ran <= h.released) {
		to = min(to, h.final)
	}
	l.ghosts = append(l.ghosts, ghost{span{e.Call, to}, ran})
	if b.holds[e.Owner] != nil { // then the call may have prolonged what it has
		again := *e
		again.Kind, again.Outcome = history.Renew, history.Unknown
		l.ops = append(l.ops, op{Event: again, span: span{e.Call, ran}, expHi: ran + e.TTL})
	}
	if e.Op == history.Acquire {
		l.unanswered = append(l.unanswered, *e)
	}
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
		l.haunt(e.Call, until, e.TTL)
		if h := b.holds[e.Owner]; e.Op == history.Release && h != nil && e.Holds == 0 {
			unknown := *e
			unknown.Kind, unknown.Outcome, unknown.Return = history.Release, history.Unknown, until
			l.ops = append(l.ops, op{Event: unknown, span: span{e.Call, until}})
			h.leaving(e.Call)
		}
	}
	for _, l := range b.lives {
		for _, h := range l.holds {
			if h.final != 0 || h.released != 0 {
				continue
			}
			if at, killed := b.killOf(h); killed {
				l.haunt(h.granted.from, b.settled(h.worker, at), int64(b.Lease))
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
