package check

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/redlatch/redlatch/test/chaos/internal/history"
)

// place is one waiter of a fair lock.
type place struct {
	owner       string
	worker      int
	asked, told int64 // when it may first have been queued, and was first told so
	fence       uint64
	granted     int64
}

// Fair checks the order of fair locks: who had been told to wait before another
// one first asked, and waited on, comes before it. Whoever was stopped, killed
// or cut off meanwhile may be passed over, as nobody answers for it.
// passed counts those.
func (t *Timeline) Fair() (found []Violation, passed int) {
	for _, key := range t.keys() {
		l := t.lives[key]
		if l.mode != "fair" || l.doubtful {
			continue
		}
		places := l.places()
		slices.SortFunc(places, func(a, b *place) int { return cmp.Compare(a.fence, b.fence) })
		// Those who came later and were granted before: for each place, look at
		// the grants with smaller fences that asked after it had been told.
		for i, a := range places {
			if a.told == 0 {
				continue
			}
			for _, b := range places[:i] {
				if b.asked <= a.told+epsilon {
					continue
				}
				if t.disturbed(a.worker, a.asked, a.granted) {
					passed++
				} else {
					found = append(found, Violation{
						Rule: "fair order", Key: key, At: b.granted,
						Detail: fmt.Sprintf("%s was queued, then %s asked, and got the key first", a.owner, b.owner),
					})
				}
				break
			}
		}
	}
	return found, passed
}

// places are the owners that were granted the key in the end.
func (l *life) places() []*place {
	by := make(map[string]*place)
	var all []*place
	for _, h := range l.holds {
		p := &place{owner: h.owner, worker: h.worker, fence: h.fence, asked: h.granted.from, granted: h.granted.to}
		by[h.owner] = p
		all = append(all, p)
	}
	for _, q := range l.queued {
		p := by[q.Owner]
		if p == nil {
			continue
		}
		p.asked = min(p.asked, q.Call)
		if p.told == 0 || q.Return < p.told {
			p.told = q.Return
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
