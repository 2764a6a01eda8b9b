package check

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/redlatch/redlatch/test/chaos/internal/history"
)

// Violation is a promise that a history breaks.
type Violation struct {
	Rule   string `json:"rule"`
	Key    string `json:"key"`
	At     int64  `json:"at"`
	Detail string `json:"detail"`
}

func (v Violation) String() string {
	return fmt.Sprintf("%-20s %s at %v: %s", v.Rule, v.Key, time.Duration(v.At).Round(time.Microsecond), v.Detail)
}

// rules holds every life to what must be true whatever happens.
type rules struct {
	*Timeline
	found   []Violation
	excused int // overlaps where Redis may have lost data
}

func (r *rules) fail(rule string, l *life, at int64, format string, args ...any) {
	r.found = append(r.found, Violation{Rule: rule, Key: l.key, At: at, Detail: fmt.Sprintf(format, args...)})
}

// Rules checks all lives. excused counts what would be a violation if Redis had
// kept its data.
func (t *Timeline) Rules() (found []Violation, excused int) {
	r := &rules{Timeline: t, found: slices.Clone(t.broken)}
	for _, key := range t.keys() {
		l := t.lives[key]
		r.fences(l)
		r.trust(l)
		r.endings(l)
		r.unkept(l)
		if l.mode == "semaphore" {
			r.permits(l)
		} else {
			r.overlaps(l)
		}
		if l.mode == "exclusive" || l.mode == "fair" {
			r.handovers(l)
		}
		r.resource(l)
	}
	return r.found, r.excused
}

// fences: no two owners have the same one, and a grant that begins after
// another one was reported has a larger one. What the store has forgotten is handed
// on until its process knows, and the resource refuses these fences.
func (r *rules) fences(l *life) {
	for i := 1; i < len(l.holds); i++ {
		if a, b := l.holds[i-1], l.holds[i]; a.fence == b.fence && !together(a, b) {
			r.fail("fence twice", l, b.granted.to, "%d for %s and for %s", a.fence, a.owner, b.owner)
		}
	}
	// Sorted by fences, no hold may begin after one with a larger fence ended
	// its grant: walk down, and remember the earliest end.
	earliest := &hold{granted: span{to: 1 << 62}}
	for i := len(l.holds) - 1; i >= 0; i-- {
		h := l.holds[i]
		switch {
		case earliest.granted.to >= h.granted.from:
		case h.began < h.granted.from && l.doubtful && r.forgotten(l, h) <= earliest.granted.to:
			r.excused++
		default:
			r.fail("fence order", l, h.granted.to, "%s got %d after %s had got %d", h.owner, h.fence, earliest.owner, earliest.fence)
		}
		if h.granted.to < earliest.granted.to {
			earliest = h
		}
	}
}

// trust: no lease says that it is held when the store may have forgotten it.
func (r *rules) trust(l *life) {
	for _, h := range l.holds {
		if h.trusted > h.expLo {
			r.fail("trust", l, h.trusted, "%s trusts its lease %v longer than the store was asked to keep it",
				h.owner, time.Duration(h.trusted-h.expLo))
		}
	}
}

// endings: nothing of an owner happens after its release was confirmed.
func (r *rules) endings(l *life) {
	for _, h := range l.holds {
		if h.final == 0 {
			continue
		}
		for _, o := range l.ops {
			of := o.Owner == h.owner && (o.Fence == h.fence || o.Fence == 0 && h.next == nil)
			if of && o.from > h.final && o.Outcome == history.OK {
				r.fail("after the release", l, o.from, "%s of %s, which had released", o.Kind, h.owner)
			}
		}
	}
}

// forgotten is the earliest moment at which the store may have forgotten h.
func (r *rules) forgotten(l *life, h *hold) int64 { return r.removed(l, h, h.expLo) }

// removed is the earliest moment at which something may have removed h from the
// store that lasts until then.
func (r *rules) removed(l *life, h *hold, at int64) int64 {
	for _, a := range slices.Concat(r.amnesia, l.forced) {
		if a.to >= h.began {
			at = min(at, max(a.from, h.began))
		}
	}
	return at
}

// held is while the lease was reported as held. It ends before it begins if the
// caller never saw that: its process may have been stopped since the grant.
func (h *hold) held() span {
	to := h.trusted
	if h.released != 0 {
		to = min(to, h.released)
	}
	return span{h.reported, to}
}

// seen are the holds that were reported as held, by when they began to be.
func (l *life) seen() []*hold {
	seen := slices.DeleteFunc(slices.Clone(l.holds), func(h *hold) bool { return h.held().to < h.held().from })
	slices.SortFunc(seen, func(a, b *hold) int { return cmp.Compare(a.held().from, b.held().from) })
	return seen
}

// together says whether two leases share their hold, of a writer who reads.
func together(a, b *hold) bool { return a.chain == b.chain && (a.nested || b.nested) }

func conflicting(a, b string) bool { return a != "read" || b != "read" }

// overlaps: no two leases that exclude each other are reported as held at one
// moment.
func (r *rules) overlaps(l *life) {
	var open []*hold
	for _, h := range l.seen() {
		from := h.held().from
		open = slices.DeleteFunc(open, func(o *hold) bool { return o.held().to < from })
		for _, o := range open {
			switch {
			case !conflicting(o.mode, h.mode), together(o, h):
			case l.doubtful && min(r.forgotten(l, o), r.forgotten(l, h)) <= from:
				r.excused++
			default:
				r.fail("overlap", l, from, "%s (fence %d) holds it, and %s (fence %d) as well: for %v",
					o.owner, o.fence, h.owner, h.fence, time.Duration(min(o.held().to, h.held().to)-from))
			}
		}
		open = append(open, h)
	}
}

// permits: no more of them are reported as taken than there are.
func (r *rules) permits(l *life) {
	var open []*hold
	for _, h := range l.seen() {
		from := h.held().from
		open = slices.DeleteFunc(open, func(o *hold) bool { return o.held().to < from })
		open = append(open, h)
		taken := 0
		for _, o := range open {
			taken += o.permits
		}
		if taken <= h.size {
			continue
		}
		if l.doubtful {
			r.excused++
			continue
		}
		r.fail("permits", l, from, "%d of %d are taken, the last ones by %s", taken, h.size, h.owner)
	}
}

// handovers: between two owners lies a release or an expiry.
func (r *rules) handovers(l *life) {
	for i := 1; i < len(l.holds); i++ {
		a, b := l.holds[i-1], l.holds[i]
		latest := b.granted.to
		switch {
		case a.released != 0 && a.released <= latest:
		case r.forgotten(l, a) <= latest+epsilon:
		default:
			r.fail("handover", l, latest, "%s (fence %d) got it, and %s (fence %d) had it for %v more",
				b.owner, b.fence, a.owner, a.fence, time.Duration(a.expLo-latest))
		}
	}
}

// resource: what the resource took came with fences that never fell, and no
// write that it confirmed is missing.
func (r *rules) resource(l *life) {
	var fence uint64
	var value int64
	for _, w := range l.writes {
		if w.Fence < fence {
			r.fail("stale write", l, w.Call, "the resource took %s with fence %d after %d", w.Kind, w.Fence, fence)
		}
		fence = max(fence, w.Fence)
		if w.Kind != history.Write {
			continue
		}
		if w.Value != value+1 {
			r.fail("lost update", l, w.Call, "%s wrote %d over %d", w.Owner, w.Value, value)
		}
		value = w.Value
	}
}
