package check

import (
	"fmt"
	"slices"

	"github.com/redlatch/redlatch/test/chaos/internal/history"
)

// place is one waiter of a fair lock.
type place struct {
	owner         string
	worker        int
	asked, queued int64  // when it may first have been queued, and first was for certain
	fence         uint64 // 0: it was never granted the key
	end           int64  // when it was, or when it waited last
}

// Fair checks the order of fair locks: a waiter that was queued before another
// one first called, and waited on, comes before it, whether it was granted the
// key in the end or gave up. A waiter that was stopped, killed or cut off meanwhile
// may be passed over, as nobody answers for it, and so may one that didn't hear of its
// grant. passed counts those.
func (t *Timeline) Fair() (found []Violation, passed int) {
	for _, key := range t.keys() {
		l := t.lives[key]
		if l.mode != "fair" || l.doubtful {
			continue
		}
		places := l.places()
		for _, a := range places {
			b := l.passing(a, places)
			switch {
			case b == nil:
			case t.disturbed(a.worker, a.asked, a.end), l.served(a, b):
				passed++
			default:
				found = append(found, Violation{
					Rule: "fair order", Key: key, At: b.end,
					Detail: fmt.Sprintf("%s was queued, then %s asked, and got the key first", a.owner, b.owner),
				})
			}
		}
	}
	return found, passed
}

// passing finds one that called after a had been queued, and got the key while it
// waited.
func (l *life) passing(a *place, places []*place) *place {
	if a.queued == 0 {
		return nil
	}
	for _, b := range places {
		if b.fence == 0 || b.asked <= a.queued+epsilon || l.inherited(a, b) {
			continue
		}
		if a.fence != 0 && b.fence < a.fence || a.fence == 0 && b.end < a.end {
			return b
		}
	}
	return nil
}

// inherited says whether b may have been served in the place of another of its process,
// which called before a was queued and got no answer. The engine goes on undoing it.
func (l *life) inherited(a, b *place) bool {
	return slices.ContainsFunc(l.unanswered, func(u history.Event) bool {
		return u.Worker == b.worker && u.Call < a.queued && b.asked < u.Return+int64(undoing+lastPass)
	})
}

// served says whether a call of a that has no answer may have been granted before b's was.
// Then a has lost its place, and gets another one at the end.
func (l *life) served(a, b *place) bool {
	return slices.ContainsFunc(l.unanswered, func(u history.Event) bool { return u.Owner == a.owner && u.Call < b.end })
}

// places are those of the owners that were granted the key in the end, and of
// the ones that were busy more than once.
func (l *life) places() []*place {
	by := make(map[string]*place)
	var all []*place
	for _, h := range l.holds {
		p := &place{owner: h.owner, worker: h.worker, fence: h.fence, asked: h.granted.from, end: h.granted.to}
		by[h.owner] = p
		all = append(all, p)
	}
	for _, q := range l.queued {
		p := by[q.Owner]
		if p == nil {
			p = &place{owner: q.Owner, worker: q.Worker, asked: q.Call}
			by[q.Owner] = p
			all = append(all, p)
		}
		p.asked = min(p.asked, q.Call)
		if q.Outcome != history.OK {
			continue
		}
		if p.queued == 0 || q.Return < p.queued {
			p.queued = q.Return
		}
		if p.fence == 0 {
			p.end = max(p.end, q.Call) // it still waited when it asked last
		}
	}
	for _, u := range l.unanswered {
		if p := by[u.Owner]; p != nil {
			p.asked = min(p.asked, u.Call)
		}
	}
	return all
}

// harmless faults neither delay a worker nor what it asks for.
var harmless = map[string]bool{"script flush": true, "pubsub killed": true}

func (t *Timeline) disturbed(worker int, from, to int64) bool {
	return slices.ContainsFunc(t.faults, func(f history.Fault) bool {
		return (f.Worker < 0 || f.Worker == worker) && !harmless[f.Kind] && f.Overlaps(from, to)
	})
}
