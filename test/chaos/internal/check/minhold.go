package check

import (
	"strings"
	"time"

	"github.com/redlatch/redlatch/test/chaos/internal/history"
)

// A minimum hold is counted from the call that was granted. A release before its
// end leaves something in the store that is nobody's and lasts until then; the TTL
// of what isn't released lasts as long.

// minima finds out until when holds with a minimum are kept: by what their callers
// asked for, and what the store was asked for when they were released.
func (b *builder) minima() {
	for _, h := range b.leases {
		if h.keep == 0 {
			continue
		}
		h.keptLo = h.asked + h.keep
		confirmed := false
		for _, f := range b.freed[h.owner] {
			confirmed = confirmed || f.Outcome == history.OK
			if f.Keep == 0 || f.Outcome == history.NotHeld {
				continue
			}
			ran := f.Return
			if f.Outcome == history.Unknown {
				ran = b.settled(f.Worker, ran)
			}
			h.keptLo, h.keptHi = max(h.keptLo, f.Keep), max(h.keptHi, ran+f.Keep-f.Call)
		}
		if at, killed := b.Kills[[2]int{h.worker, h.life}]; killed && !confirmed {
			h.keptHi = max(h.keptHi, b.settled(h.worker, at)+h.keep)
		}
	}
}

// keeping completes a release of h by what it keeps.
func (o op) keeping(h *hold) op {
	if h != nil && !o.Nested {
		o.keptLo, o.keptHi = h.keptLo, h.keptHi
	}
	return o
}

// unkept: nobody gets in before the end of a minimum hold, except after a release
// by force. A hold with a smaller fence was granted before: if it was removed, its
// owner may hand it on once more before a renewal says so, which is no new grant.
func (r *rules) unkept(l *life) {
	for _, a := range l.holds {
		if a.keep == 0 {
			continue
		}
		for _, b := range l.holds {
			switch at := b.granted.to; {
			case b.fence < a.fence, b.granted.from <= a.granted.to, at+epsilon >= a.keptLo, !r.crowds(l, a, b):
			case l.doubtful && r.removed(l, a, a.keptLo) <= at:
				r.excused++
			default:
				r.fail("unkept", l, at, "%s (fence %d) got in %v before the end of the minimum hold of %s (fence %d)",
					b.owner, b.fence, time.Duration(a.keptLo-at), a.owner, a.fence)
				return
			}
		}
	}
}

// crowds says whether b got what a had, and can't have both of them. Of the permits of
// others, only those count that nothing may have removed.
func (r *rules) crowds(l *life, a, b *hold) bool {
	if l.mode != "semaphore" {
		return conflicting(a.mode, b.mode)
	}
	taken := b.permits
	for _, h := range l.holds {
		until := max(h.keptLo, h.held().to)
		if l.doubtful && h != a {
			until = r.removed(l, h, until)
		}
		if h != b && h.granted.to < b.granted.from && until > b.granted.to+epsilon {
			taken += h.permits
		}
	}
	return taken > b.size
}

// office says whether the key is one that candidates campaign for.
func (l *life) office() bool { return strings.HasPrefix(l.key, history.Offices) }
