package check

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redlatch/redlatch/test/chaos/internal/history"
)

// poll is how long the waiters of a run rely on wake-ups.
const poll = 100 * time.Millisecond

// notice is how long after its poll a waiter may take to have a key that is
// free: two calls that are lost to others, and the connection.
const notice = 400 * time.Millisecond

// campaign is how long a candidate may rest between two tries, when one has failed.
const campaign = 2 * time.Second

// wait is an acquisition that has slept.
type wait struct {
	*history.Event
	since int64 // when it began to sleep: then it is in the queue of its process
}

func (w *wait) span() span { return span{w.since, w.Return} }

// liveness looks for callers who got nothing although nothing was in the way.
type liveness struct {
	*Timeline
	found []Violation
}

func (v *liveness) fail(rule, key string, at int64, format string, args ...any) {
	v.found = append(v.found, Violation{Rule: rule, Key: key, At: at, Detail: fmt.Sprintf(format, args...)})
}

// Liveness checks that callers who could go on did. All its deadlines grow with how
// late the control goroutines of the run were.
func (t *Timeline) Liveness() []Violation {
	v := &liveness{Timeline: t}
	for _, key := range t.keys() {
		l := t.lives[key]
		for _, w := range l.waits {
			v.passed(l, w)
			v.stranded(l, w)
		}
		v.refused(l)
	}
	v.closed()
	v.remains()
	v.subscribed()
	v.service()
	v.growth()
	return v.found
}

// sideBySide is how long callers for permits may pass one another: until all that called at the
// same time have their answers.
const sideBySide = time.Second

// passed: nobody of a process who comes later is served before one who waits, except for
// permits by one who called at the same time. Faults excuse nothing where the queue is in the
// process.
func (v *liveness) passed(l *life, w *wait) {
	if (l.mode == "fair" || l.mode == "semaphore") && !v.calm(w.Worker, w.span()) {
		return // the store has the queue as well, and may not know of w, or the call for its permits has no answer
	}
	var first *hold
	for _, h := range l.holds {
		served := span{h.asked, h.reported}
		switch {
		case h.worker != w.Worker || !conflicting(h.mode, w.Mode) || h.nested:
		case served.from <= w.since:
		case served.to+int64(v.allowed(w.Worker, span{w.since, w.Return}, 50*time.Millisecond)) >= w.Return: // it may have left before
		case l.mode == "semaphore" && first == nil:
			first = h
		case l.mode == "semaphore" && served.from-first.asked <= int64(v.allowed(w.Worker, span{w.since, w.Return}, sideBySide)):
		default:
			v.fail("passed", l.key, served.to, "client %d of worker %d waited since %v, and %s, who came %v later, was served before",
				w.Client, w.Worker, time.Duration(w.since), h.owner, time.Duration(served.from-w.since))
			return
		}
	}
}

// stranded: no key is free for long while somebody waits for it whom nothing
// disturbs.
func (v *liveness) stranded(l *life, w *wait) {
	rule, most := "stranded", poll+notice
	switch {
	case l.office():
		rule, most = "leaderless", most+campaign
	case l.doubtful:
		return // a hold may have come back
	case strings.Contains(l.key, history.Rare):
		rule, most = "unheard", notice
	}
	if w.Return-w.since <= int64(most) {
		return
	}
	for _, gap := range gaps(v.excuses(l, w), w.span()) {
		if gap.to-gap.from <= int64(most) {
			continue
		}
		if free := gap.to - gap.from; free > int64(v.allowed(w.Worker, gap, most)) {
			v.fail(rule, l.key, gap.from, "the key was free for %v, and client %d of worker %d waited for it",
				time.Duration(free), w.Client, w.Worker)
			return
		}
	}
}

// excuses are the times in which w may wait.
func (v *liveness) excuses(l *life, w *wait) []span {
	spans := slices.Concat(v.felt(w.Worker), l.blocking(w.Event))
	for _, g := range l.ghosts {
		spans = append(spans, g.span)
	}
	for _, other := range l.asked[processOf(w.Event)] { // those before it in its process
		if l.mode != "fair" && other.from < w.Call && other.overlaps(w.span()) {
			spans = append(spans, other.span)
		}
	}
	if v.Topology == "quorum" { // votes are split
		for _, all := range l.asked {
			for _, other := range all {
				if (other.client != w.Client || other.id != w.ID) && other.overlaps(w.span()) {
					spans = append(spans, other.span)
				}
			}
		}
	}
	if l.mode == "fair" {
		spans = append(spans, v.absent(l)...)
	}
	return merged(spans)
}

// place and grace of a waiter in the queue of a fair lock that doesn't come:
// how long it is kept, and how long a release holds the lock for it.
const (
	placeLasts = 15 * time.Second
	grace      = 5 * time.Second
)

// absent is when one that is first in the queue of a fair lock may not come.
func (v *liveness) absent(l *life) (spans []span) {
	for _, q := range l.queued {
		if at, killed := v.Kills[[2]int{q.Worker, q.Life}]; killed {
			spans = append(spans, span{q.Call, at + int64(placeLasts+grace)})
		}
		spans = append(spans, v.felt(q.Worker)...)
	}
	for _, s := range l.dead {
		spans = append(spans, span{s.from, s.to + int64(placeLasts+grace)})
	}
	return spans
}

// blocking are the times in which holds may keep the key from a caller.
func (l *life) blocking(e *history.Event) (spans []span) {
	if l.mode == "semaphore" {
		return l.crowded(e)
	}
	for _, h := range l.holds {
		if conflicting(h.mode, e.Mode) {
			spans = append(spans, h.lasted())
		}
	}
	return spans
}

// lasted is the longest time for which the store may have had the hold.
func (h *hold) lasted() span {
	if h.final != 0 {
		return span{h.granted.from, max(h.final, h.keptHi+epsilon)}
	}
	return span{h.granted.from, max(h.expHi, h.keptHi) + epsilon}
}

// crowded are the times in which a semaphore may not have had enough permits.
func (l *life) crowded(e *history.Event) (spans []span) {
	for _, h := range l.holds {
		s, taken := h.lasted(), 0
		for _, other := range l.holds {
			if other.lasted().overlaps(s) {
				taken += other.permits
			}
		}
		if taken+e.Permits > e.Size {
			spans = append(spans, s)
		}
	}
	return spans
}

// refused: a limit of its wait keeps nobody from a key that is free, and no caller
// gets an error of the store when nothing is broken.
func (v *liveness) refused(l *life) {
	for _, e := range l.refusals {
		s := span{e.Call, e.Return}
		around := span{s.from - int64(time.Second), s.to + int64(time.Second)} // what is late may be late for longer
		if e.Canceled || l.doubtful || !v.calm(e.Worker, s) || v.lateness(e.Worker, around) > 100*time.Millisecond {
			continue
		}
		if e.Outcome == history.Unknown {
			v.fail("unavailable", l.key, e.Return, "client %d of worker %d got %q after %v, and nothing was broken",
				e.Client, e.Worker, e.Note, time.Duration(e.Return-e.Call))
			continue
		}
		w := &wait{Event: e, since: e.Call}
		if l.mode != "fair" && !anyOverlaps(v.excuses(l, w), s) {
			v.fail("refused", l.key, e.Return, "client %d of worker %d gave up after %v, and the key was free all the time",
				e.Client, e.Worker, time.Duration(e.Return-e.Call))
		}
	}
}
