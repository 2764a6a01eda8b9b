package check

import (
	"slices"
	"time"

	"github.com/redlatch/redlatch/test/chaos/internal/history"
)

const (
	// shortest is the least time without faults in which the service is measured.
	shortest = 800 * time.Millisecond
	// fraction is the part of the service before a fault that must be there after
	// it: less than what chance and other work on the machine leave, and more
	// than is left of a service that has collapsed.
	fraction = 10
	// fewest attempts show whether a worker is served at all.
	fewest = 100
)

// calls are when acquisitions were made, and when those returned that were
// granted.
type calls struct{ made, granted []int64 }

func (c *calls) add(a asked) {
	c.made = append(c.made, a.from)
	if a.granted {
		c.granted = append(c.granted, a.to)
	}
}

func (c *calls) sort() {
	slices.Sort(c.made)
	slices.Sort(c.granted)
}

// within counts times in a span.
func within(times []int64, s span) int {
	from, _ := slices.BinarySearch(times, s.from)
	to, _ := slices.BinarySearch(times, s.to+1)
	return to - from
}

// service: after each fault, as many locks are granted as before it, and every
// process gets some.
func (v *liveness) service() {
	var all calls
	by := make(map[process]*calls)
	for _, l := range v.lives {
		for p, made := range l.asked {
			if by[p] == nil {
				by[p] = &calls{}
			}
			for _, a := range made {
				all.add(a)
				by[p].add(a)
			}
		}
	}
	all.sort()
	for _, c := range by {
		c.sort()
	}
	if len(all.granted) == 0 {
		return
	}
	calm := v.truces(span{all.granted[0], all.made[len(all.made)-1]})
	v.returns(calm, all)
	for _, p := range v.pulse {
		for _, s := range calm {
			if c := by[p]; c != nil && v.alive(p, s) && within(c.made, s) >= fewest && within(c.granted, s) == 0 {
				v.fail("no service", "", s.to, "worker %d, life %d, made %d attempts in %v without faults, and was granted nothing",
					p.worker, p.life, within(c.made, s), time.Duration(s.to-s.from))
			}
		}
	}
}

// present is the part of s in which neither a worker nor the servers were late,
// counted strictly: 0 says that s is no measure.
func (v *liveness) present(worker int, s span) float64 {
	return max(0, 1-2*v.lateness(worker, s).Seconds()/time.Duration(s.to-s.from).Seconds())
}

// truces are the times in which nobody feels a fault, and that are a measure.
func (v *liveness) truces(within span) []span {
	var felt []span
	for _, spans := range v.hurt {
		felt = append(felt, spans...)
	}
	return slices.DeleteFunc(gaps(merged(felt), within), func(s span) bool {
		return time.Duration(s.to-s.from) < shortest || v.present(history.Nobody, s) == 0
	})
}

// returns compares each truce with those before it.
func (v *liveness) returns(truces []span, all calls) {
	var before []float64
	for _, s := range truces {
		rate := float64(within(all.granted, s)) / time.Duration(s.to-s.from).Seconds()
		if len(before) > 0 {
			slices.Sort(before)
			if usual := before[len(before)/2]; rate < usual*v.present(history.Nobody, s)/fraction {
				v.fail("no service", "", s.from, "%.0f grants a second in %v without faults, of %d attempts; before the faults it were %.0f",
					rate, time.Duration(s.to-s.from), within(all.made, s), usual)
				continue // what has collapsed is no measure
			}
		}
		before = append(before, rate)
	}
}

// alive says whether a process ran all the time.
func (v *liveness) alive(p process, s span) bool {
	const between = int64(time.Second)
	pulses := v.pulses[p]
	return pulses[0].Call <= s.from && pulses[len(pulses)-1].Call+between >= s.to && v.present(p.worker, s) > 0
}

const (
	// settling is how long after the last fault a process has its usual number of
	// goroutines: the longest call, and what it still cleans up then.
	settling = 2500 * time.Millisecond
	// childhood is how long a process has to show how many it needs.
	childhood = 1500 * time.Millisecond
	// times and more are how much it may differ from what is usual, for longer than
	// peak: many calls at once are no growth, however slow a busy machine answers them.
	times, more = 2, 32
	peak        = time.Second
	// answered is how long calls without an answer may have to be undone.
	answered = 4 * time.Second
)

// growth: the number of goroutines of a process, and how much it has to undo, is
// what it was when nothing breaks, and nothing in the end.
func (v *liveness) growth() {
	for _, p := range v.pulse {
		usual, backlog, born := 0, more, v.pulses[p][0].Call
		low := born // the last time that it had its usual number
		for _, e := range v.pulses[p] {
			s := span{e.Call - int64(settling), e.Call}
			if e.Goroutines <= times*usual+more {
				low = e.Call
			}
			switch {
			case e.Kind == history.Idle && e.Goroutines > 0:
				v.fail("growth", "", e.Call, "worker %d has %d goroutines too many when all clients have ended", p.worker, e.Goroutines)
			case e.Kind == history.Idle && e.Backlog > 0:
				v.fail("growth", "", e.Call, "worker %d has %d calls to undo when all clients have ended", p.worker, e.Backlog)
			case e.Kind == history.Idle:
			case e.Call < born+int64(childhood):
				usual, low = max(usual, e.Goroutines), e.Call
			case v.present(p.worker, s) == 0:
			case v.calm(p.worker, s) && e.Call-low > int64(peak):
				v.fail("growth", "", e.Call, "worker %d, life %d, has %d goroutines when nothing breaks; in the beginning it were %d",
					p.worker, p.life, e.Goroutines, usual)
				usual = e.Goroutines // and again when it has doubled
			case v.calm(p.worker, s) && e.Backlog > v.unanswered(p, e.Call)+backlog:
				v.fail("growth", "", e.Call, "worker %d, life %d, has %d calls to undo when nothing breaks, of %d without an answer",
					p.worker, p.life, e.Backlog, v.unanswered(p, e.Call))
				backlog = 2 * e.Backlog
			}
		}
	}
}

// unanswered counts the calls of a process that a pulse may have to undo.
func (v *liveness) unanswered(p process, at int64) int {
	n, _ := slices.BinarySearch(v.missing[p], at-int64(answered))
	m, _ := slices.BinarySearch(v.missing[p], at)
	return m - n
}
