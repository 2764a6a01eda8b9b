package check

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/redlatch/redlatch/test/chaos/internal/history"
)

// A process hands a hold on from a caller who releases it to one who waits for it,
// and the store sees nothing of that: the next lease has the same owner and a larger
// fence. So a lease is known by its owner and its fence. A caller to whom a hold was
// handed on may have given up by then. The process releases it then, or hands it on
// once more, and of that lease only the gap in the fences is seen, or the store's
// release.

// releases notes the releases of all leases.
func (b *builder) releases() {
	for _, e := range b.begun {
		if e.Op == history.Release && !e.Nested {
			b.gave[leaseOf(e)] = e
		}
	}
	for _, e := range b.released {
		if !e.Nested {
			b.gave[leaseOf(e)] = e
		}
	}
	for _, freed := range b.freed {
		slices.SortFunc(freed, func(a, b history.Event) int { return cmp.Compare(a.Call, b.Call) })
	}
}

// leased is the hold of the lease that e is about, or the last one of its owner.
func (b *builder) leased(e *history.Event) *hold {
	if h := b.leases[leaseOf(e)]; h != nil {
		return h
	}
	return b.holds[e.Owner]
}

// reenter adds a lease that shares its hold with the one of its caller. A writer that
// reads has a hold of its own as a reader: who else may have the key depends on both.
func (b *builder) reenter(l *life, e *history.Event) {
	outer := b.leases[leaseOf(e)]
	if outer == nil && e.Mode == read {
		outer = b.leases[lease{e.Owner, e.Fence, write}]
	}
	if outer == nil {
		b.broken = append(b.broken, Violation{
			Rule: "fence of a re-entry", Key: l.key, At: e.Return, Detail: fmt.Sprintf("%s has fence %d, and none of its leases had", e.Owner, e.Fence),
		})
		return
	}
	l.ops = append(l.ops, op{Event: *e, span: span{e.Call, e.Return}})
	switch {
	case e.Mode != outer.mode:
		last := b.holds[e.Owner]
		h := b.begin(l, e, outer.granted, outer.chain)
		h.nested, h.shares, h.keep = true, 1, 0
		b.holds[e.Owner] = last
	case outer.nested:
		outer.shares++
	}
}

// lowers notes the release of a write lease whose owner reads on. The store says when it
// has made a reader of the writer.
func (b *builder) lowers(e *history.Event) {
	h := b.leased(e)
	if h == nil {
		return
	}
	h.trusted = max(h.trusted, e.Trusted)
	h.leaving(e.Call)
	if reads := b.leases[lease{e.Owner, e.Fence, read}]; reads != nil {
		b.holds[e.Owner] = reads
	}
	l := b.Timeline.life(e)
	if l.lowering == nil {
		l.lowering = make(map[process][]span)
	}
	l.lowering[processOf(e)] = append(l.lowering[processOf(e)], span{e.Call, b.knows(e)})
	if e.Outcome == history.OK && !slices.ContainsFunc(b.lowered, func(s *history.Event) bool {
		return s.Owner == e.Owner && s.Outcome == history.OK && s.Call >= e.Call && s.Return <= e.Return
	}) {
		b.broken = append(b.broken, Violation{
			Rule: "record", Key: e.Key, At: e.Return, Detail: fmt.Sprintf("%s writes no longer, and the store was not told", e.Owner),
		})
	}
}

// knows is when the process knows at the latest what became of Lower: when the release
// e that called it returns. If the store didn't answer by then, a later answer may get
// lost as well, and the process doesn't know for as long as the owner reads.
func (b *builder) knows(e *history.Event) int64 {
	if e.Outcome != history.Unknown {
		return e.Return
	}
	if r := b.gave[lease{e.Owner, e.Fence, read}]; r != nil && r.Kind == history.Release {
		return r.Return
	}
	return math.MaxInt64 // its process was killed
}

// handed adds the hold of a caller to whom one was handed on. That happened while
// the one before it was being released.
func (b *builder) handed(l *life, e *history.Event, before *hold) {
	within := span{e.Call, e.Return}
	if r := b.gave[lease{before.owner, before.fence, before.mode}]; r != nil && r.Call <= e.Return {
		within.from = max(within.from, r.Call)
		if r.Kind == history.Release && e.Fence == before.fence+1 {
			within.to = min(within.to, r.Return)
		}
	}
	b.handoffs++
	b.declined += int(max(e.Fence, before.fence+1) - before.fence - 1)
	l.ops = append(l.ops, op{Event: *e, span: within, handed: true})
	h := b.begin(l, e, within, before.chain)
	before.passed, before.final, before.next = true, within.to, h
}

// rests adds the releases in the store of what was handed on to callers who had
// given up.
func (b *builder) rests() {
	for owner, h := range b.holds {
		if !h.passed {
			continue
		}
		b.declined++
		b.kept(h)
		for _, e := range b.freed[owner] {
			if e.Call < h.released {
				continue
			}
			l := b.Timeline.life(&e)
			e.Kind = history.Release
			l.ops = append(l.ops, op{Event: e, span: span{e.Call, e.Return}, rest: true})
			if e.Outcome != history.Unknown {
				h.final = e.Return
				break
			}
		}
	}
}

// kept: what was handed on to a caller who had given up is released.
func (b *builder) kept(h *hold) {
	by := b.calmAfter(h.worker, h.released, undoing)
	called := slices.ContainsFunc(b.freed[h.owner], func(e history.Event) bool { return e.Call >= h.released && e.Call <= by })
	pulses := b.pulses[process{h.worker, h.life}]
	if called || len(pulses) == 0 || pulses[len(pulses)-1].Call < by {
		return
	}
	b.broken = append(b.broken, Violation{
		Rule: "kept", Key: h.key, At: h.released, Detail: fmt.Sprintf("%s was handed on to nobody, and wasn't released by %v", h.owner, time.Duration(by)),
	})
}

// unanswered says whether the store was called for that release without an answer.
func (b *builder) unanswered(e *history.Event) bool {
	return slices.ContainsFunc(b.freed[e.Owner], func(f history.Event) bool {
		return f.Call >= e.Call && f.Call <= e.Return && f.Outcome == history.Unknown
	})
}

// handsOn says whether a release of a lease that nobody is known to have got handed
// it on: it worked, and the store was not called.
func (b *builder) handsOn(e *history.Event) bool {
	return !e.Nested && e.Outcome == history.OK && !slices.ContainsFunc(b.freed[e.Owner], func(f history.Event) bool {
		return f.Call >= e.Call && f.Return <= e.Return && f.Outcome != history.Unknown
	})
}
