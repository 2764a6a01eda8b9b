// Package check judges histories: fast rules that every history has to keep,
// and models that a search compares it with.
package check

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/redlatch/redlatch/test/chaos/internal/history"
)

// epsilon is what two times may be wrong against each other: Redis counts in
// milliseconds, and looks at its clock once per command.
const epsilon = int64(5 * time.Millisecond)

// straggler is how long after the end of all delays a request may still run
// that nobody waits for.
const straggler = int64(300 * time.Millisecond)

// Settings are what the checkers must know of a run.
type Settings struct {
	Topology string        `json:"topology"`
	Lease    time.Duration `json:"lease"`
	// Patience is how long the search in one history may take: 30 s if it is
	// zero. A search that doesn't end says nothing, so it counts as a failure.
	Patience time.Duration `json:"patience,omitempty"`
}

// span is an interval of time, both ends included.
type span struct{ from, to int64 }

func (s span) overlaps(other span) bool { return s.from <= other.to && other.from <= s.to }

// ghost is an owner of whom nobody knows whether it had the key. What it asked
// for can run until the time in ran, and not after it.
type ghost struct {
	span
	ran int64
}

func anyOverlaps(spans []span, s span) bool {
	return slices.ContainsFunc(spans, s.overlaps)
}

// op is one thing that happened to a key, at some time in its span.
type op struct {
	history.Event
	span
	// expLo and expHi bound when a hold ends that this call set the TTL of.
	expLo, expHi int64
	// turn, of a first grant, is how many fences of the key are smaller.
	turn int
	// handed: the lease continues the hold of the one before. passed: the release
	// handed it on. rest: the store's release of what was handed on to a caller who
	// had given up.
	handed, passed, rest bool
	// resent: the store didn't answer a call of the release, which may have done it.
	resent bool
	// keptLo and keptHi, of a release under a minimum hold, bound when that ends.
	keptLo, keptHi int64
}

// first says whether o is the grant that a hold begins with.
func (o op) first() bool {
	return o.Kind == history.Acquire && o.Outcome == history.OK && !o.Nested
}

// hold is what one caller had of a key, from its first grant to its release. Those
// of a chain have one owner, as each was handed on to the next.
type hold struct {
	*chain
	owner, mode    string
	nested         bool  // its caller reads as a writer
	shares         int   // leases that it is, if nested
	left           int64 // when the last of them that is known was released
	key            string
	worker, client int
	life           int
	fence          uint64
	permits, size  int
	granted        span  // when the store granted it, or it was handed on
	reported       int64 // when the caller had it
	trusted        int64 // the last moment at which the lease, or the grant, said so
	asked          int64 // when the caller came
	released       int64 // when a release that may have worked was called; 0: never
	final          int64 // when the release was confirmed; 0: never
	passed         bool  // the release handed it on
	next           *hold // whom to, as far as is known
	keep           int64 // minimum hold; 0: it has none
	keptLo         int64 // nobody may get in before that
	keptHi         int64 // a release keeps the key until then, at the latest
}

// chain is what the store has of an owner.
type chain struct {
	began int64 // when the store was called that granted it
	expLo int64 // not before this the store forgets it by itself
	expHi int64 // after this it has certainly forgotten it
}

// life is one key's history.
type life struct {
	key, mode string
	ops       []op
	holds     []*hold
	// ghosts are when the key may have been held by an owner of whom nobody
	// knows: a claim without an answer, a process that was killed.
	ghosts []ghost
	// asked are all acquisitions, whatever came of them, by process.
	asked map[process][]asked
	// lowering are when a process may not know yet that its writer only reads. Until it
	// does, it lets no reader of its own in, whatever the store says by then.
	lowering map[process][]span
	writes   []history.Event
	queued   []history.Event
	// unanswered are claims that the store may have queued.
	unanswered []history.Event
	doubtful   bool // data may have been lost, or was removed by force
	waits      []*wait
	dead       []span           // attempts that a kill has ended, and places that it may have brought back
	refusals   []*history.Event // of callers who waited, or got an error of the store
	forced     []span           // releases by force, after which the store knows of no hold
}

// process is one life of a worker.
type process struct{ worker, life int }

func processOf(e *history.Event) process { return process{e.Worker, e.Life} }

// asked is an acquisition while it was under way.
type asked struct {
	span
	client  int
	id      uint64
	granted bool
}

func (l *life) ask(e *history.Event) {
	if l.asked == nil {
		l.asked = make(map[process][]asked)
	}
	p := processOf(e)
	l.asked[p] = append(l.asked[p], asked{span{e.Call, e.Return}, e.Client, e.ID, e.Outcome == history.OK})
}

// behind says whether a refusal came while another caller of the same process, who
// had asked before it ended, was waiting for the key: it is reserved for that one.
func (l *life) behind(o op) bool {
	return slices.ContainsFunc(l.asked[processOf(&o.Event)], func(a asked) bool {
		return (a.client != o.Client || a.id != o.ID || a.span != o.span) && a.overlaps(o.span)
	})
}

// unaware says whether the process itself may have kept a reader out.
func (l *life) unaware(o op) bool {
	return o.Mode == read && anyOverlaps(l.lowering[processOf(&o.Event)], o.span)
}

func (l *life) span() span {
	all := span{from: 1 << 62}
	for _, o := range l.ops {
		all.from, all.to = min(all.from, o.from), max(all.to, o.to)
	}
	return all
}

// Timeline is a history, sorted by keys, with what isn't known made explicit.
type Timeline struct {
	Settings
	lives   map[string]*life
	broken  []Violation // of the record itself
	Kills   map[[2]int]int64
	amnesia []span
	crew
	// handoffs are how many holds were handed on to callers who got them, and
	// declined to ones who had given up.
	handoffs, declined int
	closes             []history.Event
	left               []history.Event // holds that Close has left
	heard              []history.Event // keys that had subscribers
	// missing is when the acquisitions of a process ended of which an answer was missing.
	missing map[process][]int64
}

// NewTimeline sorts a history.
func NewTimeline(s Settings, events []history.Event, faults []history.Fault) *Timeline {
	t := &Timeline{Settings: s, crew: newCrew(s, events, faults), lives: make(map[string]*life), Kills: make(map[[2]int]int64), missing: make(map[process][]int64)}
	lives := make(map[int]int)
	for _, f := range faults {
		if f.Amnesia {
			t.amnesia = append(t.amnesia, span{f.From, f.To})
		}
		if f.Kind == KillWorker {
			t.Kills[[2]int{f.Worker, lives[f.Worker]}] = f.To
			lives[f.Worker]++
		}
	}
	b := newBuilder(t)
	for i := range events {
		b.add(&events[i])
	}
	b.finish()
	for _, l := range t.lives {
		slices.SortStableFunc(l.ops, func(a, b op) int { return cmp.Compare(a.from, b.from) })
		slices.SortFunc(l.holds, func(a, b *hold) int { return cmp.Compare(a.fence, b.fence) })
		l.doubtful = len(l.forced) > 0 || anyOverlaps(t.amnesia, widened(l.span()))
	}
	return t
}

func widened(s span) span { return span{s.from - straggler, s.to + straggler} }

// Faults that the checkers know by name.
const (
	KillWorker = "worker killed"
	KillServer = "redis killed"
	// MastersChange is nobody's doing, or what follows from a failover.
	MastersChange = "masters change"
)

func (t *Timeline) life(e *history.Event) *life {
	l := t.lives[e.Key]
	if l == nil {
		l = &life{key: e.Key, mode: e.Mode}
		if l.mode == "read" || l.mode == "write" {
			l.mode = "readwrite"
		}
		t.lives[e.Key] = l
	}
	return l
}

// delaying faults keep requests that are under way from the server for a while.
// All others lose them, or are about something else.
var delaying = map[string]bool{
	"requests held": true, "delay": true, "redis paused": true, "redis killed": true, "failover": true, "slot moved": true,
	MastersChange: true,
}

// settled is until when a request of that worker may run that was given up at
// the given time: requests wait in buffers while something is stopped. What is
// stopped again within a straggler's time may have run nothing meanwhile. Servers that
// don't answer on a busy machine are stopped, too.
func (t *Timeline) settled(worker int, at int64) int64 {
	for moved := true; moved; {
		moved = false
		for _, f := range t.faults {
			if (f.Worker < 0 || f.Worker == worker) && delaying[f.Kind] && f.Overlaps(at, at+straggler) && f.To > at {
				at, moved = f.To, true
			}
		}
		for _, s := range t.late[history.Nobody] {
			if s.from <= at && at < s.to {
				at, moved = s.to, true
			}
		}
	}
	return at + straggler
}

// cutting faults end connections.
var cutting = map[string]bool{"links cut": true, "request cut": true, "reply cut": true, "redis killed": true, "failover": true, MastersChange: true}

// doubted is until when a request may run that failed with e. One whose
// connection was cut ends with the fault, if that was waited for.
func (t *Timeline) doubted(e *history.Event) int64 {
	cuts := slices.DeleteFunc(slices.Clone(t.faults), func(f history.Fault) bool {
		return f.Worker >= 0 && f.Worker != e.Worker || !cutting[f.Kind] || !f.Overlaps(e.Call, e.Return)
	})
	waited := !slices.ContainsFunc(cuts, func(f history.Fault) bool { return !f.Settled })
	if len(cuts) == 0 || !waited || !wasCut(e.Note) {
		return t.settled(e.Worker, e.Return)
	}
	ran := e.Return
	for _, f := range cuts {
		ran = max(ran, f.To)
	}
	return ran
}

// wasCut says whether an error is that of a connection which the other side has
// ended.
func wasCut(text string) bool {
	return slices.ContainsFunc([]string{"EOF", "connection reset by peer", "broken pipe"}, func(part string) bool {
		return strings.HasSuffix(text, part)
	})
}

// keys are the keys of the lives, sorted.
func (t *Timeline) keys() []string {
	keys := make([]string, 0, len(t.lives))
	for key := range t.lives {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
