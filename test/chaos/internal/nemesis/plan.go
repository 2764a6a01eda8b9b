// Package nemesis breaks things: it plans what to break, from a seed and
// nothing else, and carries the plan out.
package nemesis

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/redlatch/redlatch/test/chaos/internal/check"
)

// Kinds of faults.
const (
	PauseWorker = "worker paused" // SIGSTOP, then SIGCONT
	KillWorker  = check.KillWorker
	PauseRedis  = "redis paused"
	KillRedis   = "redis killed" // SIGKILL, then started again
	RollRedis   = "redis rolled" // all servers are, one after the other, each away for longer than a lease
	CutLinks    = "links cut"    // all connections of a worker
	CutRequest  = "request cut"  // the connection, before the server sees the script
	CutReply    = "reply cut"    // … after the server has run it
	Delay       = "delay"        // of all that a worker sends and receives
	HoldRequest = "requests held"
	HoldReply   = "replies held"
	KillPubSub  = "pubsub killed" // CLIENT KILL TYPE pubsub
	ScriptFlush = "script flush"
	Failover    = "failover" // the master is killed, another one takes over, the old one comes back
	MoveSlot    = "slot moved"
)

// weights say how often the kinds come, relative to each other.
type weights map[string]int

// mixes are named choices of faults.
var mixes = map[string]weights{
	"all": {
		PauseWorker: 15, KillWorker: 4, PauseRedis: 3, KillRedis: 2, RollRedis: 2, CutLinks: 14, CutRequest: 18, CutReply: 22,
		Delay: 8, HoldRequest: 4, HoldReply: 4, KillPubSub: 6, ScriptFlush: 6, Failover: 1, MoveSlot: 8,
	},
	"pause":    {PauseWorker: 1},
	"network":  {CutLinks: 14, CutRequest: 18, CutReply: 22, Delay: 8, HoldRequest: 4, HoldReply: 4, KillPubSub: 6},
	"crash":    {KillWorker: 4, KillRedis: 4, PauseWorker: 4},
	"replies":  {CutReply: 1},
	"hang":     {HoldRequest: 1, HoldReply: 1},
	"failover": {Failover: 1},
	"slots":    {MoveSlot: 4, CutReply: 1, ScriptFlush: 1},
	"stall":    {PauseRedis: 1},
	"none":     {},
}

// A stall is one pause of Redis, so long that all calls are given up.
const stall = 2 * time.Second

// Mixes are the names of all mixes.
func Mixes() []string { return slices.Sorted(maps.Keys(mixes)) }

// possible says where a kind makes sense.
func possible(kind, topology string) bool {
	several := topology == "sentinel" || topology == "cluster"
	switch kind {
	case Failover:
		return several
	case MoveSlot:
		return topology == "cluster"
	case KillPubSub, ScriptFlush:
		return topology != "postgresql" && topology != "mariadb"
	case PauseRedis, KillRedis: // would be a failover
		return !several
	case RollRedis: // a single one would be away for as long as nobody can bear it
		return topology == "quorum"
	default:
		return true
	}
}

// rare kinds come at least this far apart.
var rare = map[string]time.Duration{Failover: 8 * time.Second, KillRedis: 2 * time.Second, RollRedis: 8 * time.Second, MoveSlot: 700 * time.Millisecond}

// Step is one planned fault.
type Step struct {
	At     time.Duration `json:"at"` // since the start
	Kind   string        `json:"kind"`
	Worker int           `json:"worker"`
	Server int           `json:"server"`
	For    time.Duration `json:"for"`
	// Dice is for what is decided when the time has come.
	Dice uint64 `json:"dice"`
}

// Setting is what a plan depends on, besides its seed.
type Setting struct {
	Mix      string
	Topology string
	Workers  int
	Servers  int
	Duration time.Duration
	Rate     float64 // faults per second
	Lease    time.Duration
}

// Plan makes the plan of a seed: the same one every time.
func Plan(seed uint64, s Setting) ([]Step, error) {
	mix, ok := mixes[s.Mix]
	if !ok {
		return nil, fmt.Errorf("nemesis: there is no mix %q", s.Mix)
	}
	dice := rand.New(rand.NewPCG(seed, 2))
	var kinds []string // each as often as it weighs
	for _, kind := range slices.Sorted(maps.Keys(mix)) {
		if possible(kind, s.Topology) {
			kinds = append(kinds, slices.Repeat([]string{kind}, mix[kind])...)
		}
	}
	if len(kinds) == 0 {
		return nil, nil
	}
	if s.Mix == "stall" {
		return []Step{{At: s.Duration / 4, Kind: PauseRedis, For: stall}}, nil
	}
	var plan []Step
	last := make(map[string]time.Duration)
	mean := float64(time.Second) / s.Rate
	for at := time.Duration(mean); ; at += time.Duration(dice.ExpFloat64() * mean) {
		if at > s.Duration {
			return plan, nil
		}
		step := Step{
			At: at, Kind: kinds[dice.IntN(len(kinds))], Worker: dice.IntN(s.Workers), Server: dice.IntN(s.Servers), Dice: dice.Uint64(),
		}
		low, high := s.lasting(step.Kind)
		step.For = low + time.Duration(dice.Int64N(int64(high-low)))
		if before, again := last[step.Kind]; again && at-before < rare[step.Kind] {
			continue
		}
		last[step.Kind] = at
		if !s.truce(at) && !s.truce(at+s.takes(step)) {
			plan = append(plan, step)
		}
	}
}

// cycle is from truce to truce.
const cycle = 20 * time.Second

// truce says whether nothing is to break at that time of a run: at its start,
// and in the middle of each cycle, long enough for the service to come back from
// what was broken, and to be seen. Short runs have none.
func (s Setting) truce(at time.Duration) bool {
	long := 3500 * time.Millisecond
	if s.Topology == "sentinel" || s.Topology == "cluster" {
		long = 6 * time.Second
	}
	return s.Duration > cycle && (at < long/2 || at%cycle > cycle/2-long && at%cycle < cycle/2)
}

// takes is how long a step goes on, if that is for longer than a moment.
func (s Setting) takes(step Step) time.Duration {
	if step.Kind != RollRedis {
		return 0
	}
	return time.Duration(s.Servers) * (step.For + started)
}

// started is how long a server takes to start.
const started = 100 * time.Millisecond

// lasting is how long a kind of fault lasts.
func (s Setting) lasting(kind string) (low, high time.Duration) {
	const ms = time.Millisecond
	switch kind {
	case PauseWorker, RollRedis: // longer than a lease
		return s.Lease + 50*ms, s.Lease + 450*ms
	case PauseRedis:
		return 50 * ms, 400 * ms
	case KillRedis, KillWorker:
		return 1 * ms, 100 * ms
	case HoldRequest, HoldReply:
		return 50 * ms, 700 * ms
	case Delay:
		return 50 * ms, 400 * ms
	case CutRequest, CutReply: // for a request to come
		return 200 * ms, 201 * ms
	default:
		return 1 * ms, 2 * ms
	}
}
