// Package plan has the scenarios, and runs them: each measurement on its own
// server and processes, in a random order in every round.
package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redlatch/redlatch/test/bench/internal/load"
	"github.com/redlatch/redlatch/test/bench/internal/peer"
)

// Scenario is one load for several peers.
type Scenario struct {
	// ID is "R" and a number, with a name behind it where one requirement
	// needs several loads.
	ID    string
	Title string
	Peers []string

	Kind       load.Kind
	Processes  int
	Goroutines int
	Hot        bool
	Section    time.Duration
	Nested     bool
	HeldHere   bool
	// Elsewhere makes another client hold the hot key.
	Elsewhere bool
	// Latency is added to each direction of the network.
	Latency time.Duration
	// Far is added to each direction of the network of the last process alone.
	Far time.Duration
	// KillEvery is how often the connections of subscribers are killed.
	KillEvery time.Duration
	Count     int
	// Cluster makes the server a cluster of three masters.
	Cluster bool
	Lease   time.Duration
	Window  time.Duration
}

// Requirement is the part of the ID before a name: "R9" of "R9 16 waiting".
func (s Scenario) Requirement() string {
	requirement, _, _ := strings.Cut(s.ID, " ")
	return requirement
}

// Contended reports whether goroutines wait for each other.
func (s Scenario) Contended() bool { return s.Hot && s.Kind == load.Cycle }

// Scale says how large the scenarios are.
type Scale struct {
	Window    time.Duration // of a measurement without contention
	Contended time.Duration // of one with, and of held locks
	Held      int           // locks that are held (R11)
	Lease     time.Duration // theirs: the window has several renewals of each
	Keys      int           // keys that are used once (R15)
}

// Full is what figures are published from. Quick is for a look.
var (
	Full  = Scale{Window: 2 * time.Second, Contended: 10 * time.Second, Held: 10_000, Lease: 9 * time.Second, Keys: 100_000}
	Quick = Scale{Window: 500 * time.Millisecond, Contended: 1500 * time.Millisecond, Held: 2_000, Lease: 3 * time.Second, Keys: 10_000}
)

const lease = 30 * time.Second

// IDs of scenarios that the requirements name.
const (
	Far128     = "R5 128"
	Far1024    = "R5 1024"
	Fair16     = "R9 16 waiting"
	Fair128    = "R9"
	Fair1000   = "R9 1000 waiting"
	Elsewhere  = "R10 elsewhere"
	Here       = "R10 here"
	HotOne     = "R6"
	HotFour    = "R7"
	HotSection = "R8"
	Killed     = "R13"
	Held       = "R11"
	HandOff    = "R12"
	Keys       = "R15"
	Handlers   = "R16"
	Far5Short  = "R17 5 ms, work of 0.3 ms"
	Far5Long   = "R17 5 ms, work of 2 ms"
	Far20Short = "R17 20 ms, work of 0.3 ms"
	Far20Long  = "R17 20 ms, work of 2 ms"
	Reentry    = "R18"
)

// Scenarios returns all of them.
func Scenarios(scale Scale) []Scenario {
	all := []string{peer.Redlatch, peer.Floor, peer.Pipelined, peer.Redsync, peer.Bsm, peer.Rueidis1, peer.Rueidis}
	libraries := []string{peer.Redlatch, peer.Redsync, peer.Bsm, peer.Rueidis1, peer.Rueidis}
	ours := []string{peer.Redlatch}
	fair := []string{peer.RedlatchFair}

	var scenarios []Scenario
	for _, cycles := range []struct {
		id         string
		goroutines int
	}{{"R1", 1}, {"R2 4", 4}, {"R2", 16}, {"R3", 128}, {"R4", 1024}} {
		scenarios = append(scenarios, Scenario{
			ID: cycles.id, Title: fmt.Sprintf("uncontended, goroutines with a key each: %d", cycles.goroutines),
			Peers: slices.Insert(slices.Clone(all), 2, peer.RedlatchSETNX), Kind: load.Cycle, Goroutines: cycles.goroutines,
		})
	}
	for _, goroutines := range []int{128, 1024} {
		scenarios = append(scenarios, Scenario{
			ID: fmt.Sprintf("R5 %d", goroutines), Title: fmt.Sprintf("the same with 1 ms of network each way: %d", goroutines),
			Peers: all, Kind: load.Cycle, Goroutines: goroutines, Latency: time.Millisecond,
		})
	}
	scenarios = append(
		scenarios,
		Scenario{
			ID: HotOne, Title: "one hot key, 1 process × 100 goroutines, empty critical section",
			Peers: libraries, Kind: load.Cycle, Goroutines: 100, Hot: true, Window: scale.Contended,
		},
		Scenario{
			ID: HotFour, Title: "one hot key, 4 processes × 25 goroutines, empty critical section",
			Peers: libraries, Kind: load.Cycle, Processes: 4, Goroutines: 25, Hot: true, Window: scale.Contended,
		},
		Scenario{
			ID: HotSection, Title: "one hot key, 4 processes × 25 goroutines, held for 1 ms",
			Peers: libraries, Kind: load.Cycle, Processes: 4, Goroutines: 25, Hot: true, Section: time.Millisecond, Window: scale.Contended,
		},
		Scenario{
			ID: Fair128, Title: "fair lock, 8 processes × 16 goroutines",
			Peers: []string{peer.RedlatchFair, peer.Rueidis1}, Kind: load.Cycle, Processes: 8, Goroutines: 16, Hot: true, Window: scale.Contended,
		},
		Scenario{
			ID: Fair16, Title: "fair lock, 8 processes × 2 goroutines",
			Peers: fair, Kind: load.Cycle, Processes: 8, Goroutines: 2, Hot: true, Window: scale.Contended,
		},
		Scenario{
			ID: Fair1000, Title: "fair lock, 8 processes × 125 goroutines",
			Peers: fair, Kind: load.Cycle, Processes: 8, Goroutines: 125, Hot: true, Window: scale.Contended,
		},
		Scenario{
			ID: Elsewhere, Title: "one attempt, 128 goroutines, the key is held by another process",
			Peers: without(all, peer.Pipelined), Kind: load.Try, Goroutines: 128, Hot: true, Elsewhere: true,
		},
		Scenario{
			ID: Here, Title: "one attempt, 128 goroutines, the key is held by this process",
			Peers: without(all, peer.Pipelined), Kind: load.Try, Goroutines: 128, Hot: true, HeldHere: true,
		},
		Scenario{
			ID: Held, Title: fmt.Sprintf("%d locks held and renewed, lease %v", scale.Held, scale.Lease),
			Peers: libraries, Kind: load.Hold, Count: scale.Held, Lease: scale.Lease, Window: max(scale.Contended, scale.Lease),
		},
		Scenario{
			ID: HandOff, Title: "hand-off between two processes",
			Peers: libraries, Kind: load.HandOff, Processes: 2, Goroutines: 1, Hot: true, Window: scale.Contended / 2,
		},
		Scenario{
			ID: Killed, Title: "as R7, subscribers' connections killed every 50 ms",
			Peers: ours, Kind: load.Cycle, Processes: 4, Goroutines: 25, Hot: true, KillEvery: 50 * time.Millisecond, Window: scale.Contended,
		},
		Scenario{
			ID: Keys, Title: fmt.Sprintf("%d keys, once each, 128 goroutines", scale.Keys),
			Peers: without(all, peer.Pipelined), Kind: load.Keys, Goroutines: 128, Count: scale.Keys,
		},
		Scenario{
			ID: Handlers, Title: "a request through an integration, locks in memory",
			Peers: []string{load.BareGin, load.GinLock, load.BareGRPC, load.GRPCLock}, Kind: load.Handler, Goroutines: 1,
		},
		Scenario{
			ID: Reentry, Title: "a lock inside a lock: redlatch re-enters the key, the others need a second key",
			Peers: []string{peer.Redlatch, peer.Redsync, peer.Bsm}, Kind: load.Cycle, Goroutines: 1, Nested: true,
		},
	)
	for _, far := range []struct {
		id              string
		roundTrip, work time.Duration
	}{
		{Far5Short, 5 * time.Millisecond, 300 * time.Microsecond},
		{Far5Long, 5 * time.Millisecond, 2 * time.Millisecond},
		{Far20Short, 20 * time.Millisecond, 300 * time.Microsecond},
		{Far20Long, 20 * time.Millisecond, 2 * time.Millisecond},
	} {
		scenarios = append(scenarios, Scenario{
			ID: far.id, Title: fmt.Sprintf("one hot key, 2 processes × 8 goroutines, one of them %v from Redis, held for %v", far.roundTrip, far.work),
			Peers: []string{peer.Redlatch, peer.RedlatchNoHandoff}, Kind: load.Cycle, Processes: 2, Goroutines: 8, Hot: true,
			Far: far.roundTrip / 2, Section: far.work, Window: scale.Contended,
		})
	}
	for i := range scenarios {
		scenarios[i].complete(scale)
	}
	return scenarios
}

// complete sets what a scenario leaves out.
func (s *Scenario) complete(scale Scale) {
	s.Processes = max(s.Processes, 1)
	if s.Window == 0 {
		s.Window = scale.Window
	}
	if s.Lease == 0 {
		s.Lease = lease
	}
}

func without(names []string, name string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == name })
}
