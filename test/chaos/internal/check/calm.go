package check

import (
	"cmp"
	"slices"
	"time"

	"github.com/redlatch/redlatch/test/chaos/internal/history"
)

// crew is what is known of the workers as processes: when they were late, and
// what they had.
type crew struct {
	faults []history.Fault
	// late is when a worker didn't run, or under [history.Nobody] the servers
	// and what is between them.
	late map[int][]span
	// hurt is when faults were on that a worker could feel, and for as long
	// after them as it takes to recover.
	hurt   map[int][]span
	pulses map[process][]history.Event
	pulse  []process // the ones that have a pulse, sorted
}

func newCrew(s Settings, events []history.Event, faults []history.Fault) crew {
	c := crew{faults: faults, late: make(map[int][]span), hurt: make(map[int][]span), pulses: make(map[process][]history.Event)}
	for i := range events {
		e := &events[i]
		switch e.Kind {
		case history.Late:
			c.late[e.Worker] = append(c.late[e.Worker], span{e.Call, e.Return})
		case history.Pulse, history.Idle:
			p := processOf(e)
			c.pulses[p] = append(c.pulses[p], *e)
		default:
		}
	}
	for worker, spans := range c.late {
		c.late[worker] = merged(spans)
	}
	for _, f := range faults {
		if !harmless[f.Kind] {
			c.hurt[f.Worker] = append(c.hurt[f.Worker], span{f.From, f.To + int64(s.recovery(f.Kind))})
		}
	}
	for p, pulses := range c.pulses {
		c.pulse = append(c.pulse, p)
		slices.SortFunc(pulses, func(a, b history.Event) int { return cmp.Compare(a.Call, b.Call) })
		if began := pulses[0].Call; p.life == 0 { // it makes its connections then, as after a fault
			c.hurt[p.worker] = append(c.hurt[p.worker], span{began, began + int64(reconnect)})
		}
	}
	for worker, spans := range c.hurt {
		if worker != history.Nobody {
			c.hurt[worker] = merged(append(spans, c.hurt[history.Nobody]...))
		}
	}
	c.hurt[history.Nobody] = merged(c.hurt[history.Nobody])
	slices.SortFunc(c.pulse, func(a, b process) int { return cmp.Or(cmp.Compare(a.worker, b.worker), cmp.Compare(a.life, b.life)) })
	return c
}

// reconnect is how long a process needs for its connections.
const reconnect = time.Second

// recovery is how long after a fault of that kind nothing is asked of those
// whom it hit: connections are made again, a circuit is open for a moment, and
// masters that changed have to be found.
func (s Settings) recovery(kind string) time.Duration {
	switch kind {
	case "failover", "slot moved", MastersChange:
		return 4 * time.Second
	case "redis paused", "redis killed":
		return 1500 * time.Millisecond
	default:
		return reconnect
	}
}

// merged joins spans that overlap, and sorts them. It may use the slice.
func merged(spans []span) []span {
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	all := spans[:0]
	for _, s := range spans {
		if last := len(all) - 1; last >= 0 && s.from <= all[last].to {
			all[last].to = max(all[last].to, s.to)
			continue
		}
		all = append(all, s)
	}
	return all
}

// gaps are the parts of within that no span covers. The spans are merged.
func gaps(spans []span, within span) (free []span) {
	from := within.from
	for _, s := range spans {
		if s.to < from {
			continue
		}
		if s.from > within.to {
			break
		}
		if s.from > from {
			free = append(free, span{from, s.from})
		}
		from = s.to
	}
	if from < within.to {
		free = append(free, span{from, within.to})
	}
	return free
}

// covered is how much of s the spans cover. They are merged.
func covered(spans []span, s span) (total int64) {
	for _, other := range spans {
		if other.overlaps(s) {
			total += min(other.to, s.to) - max(other.from, s.from)
		}
	}
	return total
}

// lateness is how long in s a worker didn't run, or the servers didn't answer.
func (c crew) lateness(worker int, s span) time.Duration {
	late := covered(c.late[history.Nobody], s)
	if worker != history.Nobody {
		late += covered(c.late[worker], s)
	}
	return time.Duration(late)
}

// scale is how many times the lateness of the judge's own goroutines is allowed
// to others, besides what is allowed to them anyway.
const scale = 4

// allowed is how long something may take in s that takes up to d when nobody is
// late.
func (c crew) allowed(worker int, s span, d time.Duration) time.Duration {
	return d + scale*c.lateness(worker, s)
}

// calm says whether nothing disturbed the worker in s.
func (c crew) calm(worker int, s span) bool { return covered(c.felt(worker), s) == 0 }

// felt is when a worker felt a fault, one of this worker or one of all.
func (c crew) felt(worker int) []span {
	if spans, ok := c.hurt[worker]; ok {
		return spans
	}
	return c.hurt[history.Nobody]
}

// calmAfter is the first time after at before which nothing has disturbed the
// worker for d.
func (c crew) calmAfter(worker int, at int64, d time.Duration) int64 {
	to := at + int64(d)
	for _, s := range c.felt(worker) {
		if s.from <= to && s.to >= to-int64(d) {
			to = s.to + int64(d)
		}
	}
	return to + scale*int64(c.lateness(worker, span{at, to}))
}
