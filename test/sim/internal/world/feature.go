package world

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// Feature is a part of the workload, or a kind of fault. Each world has about
// half of them, so that one fault does not hide another.
type Feature string

// What callers do.
const (
	Fair      Feature = "fair"      // keys with a queue in the store
	ReadWrite Feature = "readwrite" // read and write locks
	Semaphore Feature = "semaphore" // permits
	Extend    Feature = "extend"    // a lease is extended
	Extends   Feature = "extends"   // twice at the same time
	Fixed     Feature = "fixed"     // leases without a watchdog
	Long      Feature = "long"      // leases of minutes
	Reenter   Feature = "reenter"   // leases within leases
	Cancel    Feature = "cancel"    // contexts that end while their caller waits
	Short     Feature = "short"     // waits shorter than a round trip
	Java      Feature = "java"      // a reader of Redisson, which renews the lock for everybody
	Twins     Feature = "twins"     // keys k and {k}
	Try       Feature = "try"       // bursts of TryAcquire
	Huge      Feature = "huge"      // durations and numbers near the end of their types
	Force     Feature = "force"     // ForceRelease and Inspect
	Group     Feature = "group"     // AcquireAll
	Tokens    Feature = "tokens"    // Redisson's counters as fences
	SETNX     Feature = "setnx"     // locks are strings
	Idle      Feature = "idle"      // callers that rest and work for seconds
	Lead      Feature = "lead"      // leader.Run
	Quorum    Feature = "quorum"    // a key on three separate servers
	Latch     Feature = "latch"     // a latch that is counted down
	Silent    Feature = "silent"    // a server that refuses PUBLISH inside of scripts
	Timeless  Feature = "timeless"  // a server that refuses TIME inside of scripts
	MinHold   Feature = "minhold"   // WithMinHold
	ReadOn    Feature = "readon"    // writers who release the write lease and read on
	MaxHold   Feature = "maxhold"   // WithMaxHold
	Pace      Feature = "pace"      // a server that is busy for most of the time, and nothing else
	Listen    Feature = "listen"    // waiters look once a minute if they hear nothing
)

// What breaks.
const (
	Slow      Feature = "slow"      // some packets take seconds
	Cut       Feature = "cut"       // connections break
	CutBefore Feature = "cutbefore" // a request is lost with its connection
	CutAfter  Feature = "cutafter"  // a reply is lost with its connection
	Deaf      Feature = "deaf"      // subscriptions break
	Freeze    Feature = "freeze"    // the network of a process stands still
	Stall     Feature = "stall"     // the server stands still
	Restart   Feature = "restart"   // the server restarts with its data
	Lose      Feature = "lose"      // and without
	Failover  Feature = "failover"  // a replica that lags behind takes over
	Clock     Feature = "clock"     // the server's clock steps
	Flush     Feature = "flush"     // SCRIPT FLUSH
	Reopen    Feature = "reopen"    // a locker is closed, and another one made
	Kill      Feature = "kill"      // a process dies, and another one starts
	Forge     Feature = "forge"     // somebody publishes what is not true
	Mute      Feature = "mute"      // connections carry nothing any longer, and don't end
	Refuse    Feature = "refuse"    // the server refuses to write, as its disk is full
)

// Workload and Faults are all features.
var (
	Workload = []Feature{
		Fair, ReadWrite, Semaphore, Extend, Extends, Fixed, Long, Reenter, Cancel, Short, Java, Twins, Try, Huge,
		Force, Group, Tokens, Idle,
	}
	Faults = []Feature{
		Slow, Cut, CutBefore, CutAfter, Deaf, Freeze, Stall, Restart, Lose, Failover, Clock, Flush, Reopen, Kill, Forge,
	}
)

// late are features that came later. They are drawn after all others, so that a
// seed means what it meant.
var late = []Feature{SETNX, Lead, Quorum, Latch, Silent, Timeless, Pace, MinHold, ReadOn, Mute, Listen, MaxHold, Refuse}

var (
	// unheard are the faults after which a key may be free and nobody is notified.
	unheard = []Feature{Lose, Failover, Clock, Silent, Mute}
	// delaying are the faults that may keep renewals away for longer than a reader of
	// Redisson leaves the lock.
	delaying = []Feature{Slow, Freeze, Mute}
	// disturbing are the faults that disturb a waiter.
	disturbing = []Feature{Slow, Cut, CutBefore, CutAfter, Deaf, Freeze, Stall, Restart, Kill, Refuse}
)

func everything() []Feature { return slices.Concat(Workload, Faults, late) }

// Features are those of one world.
type Features map[Feature]bool

// Draw chooses features for a seed, each with probability 1/2, except the
// pinned ones. Redisson's counters and the SETNX format are for exclusive
// locks alone, so they come rarely.
func Draw(seed uint64, on, off []Feature) Features {
	rng := rand.New(rand.NewPCG(seed, 1))
	features := make(Features)
	for _, f := range everything() {
		odds := 2
		switch f {
		case Tokens:
			rng.IntN(2)
			odds = 16
		case SETNX, Pace:
			odds = 16
		case Java:
			rng.IntN(2)
			odds = 4
		case Quorum, MinHold, Mute, Listen, MaxHold, Refuse:
			odds = 4
		case Silent, Timeless:
			if odds = 16; features[SETNX] { // so that these scripts are met in this way, too
				odds = 2
			}
		}
		features[f] = rng.IntN(odds) == 0
	}
	if features[Listen] && rng.IntN(2) == 0 { // no waiter is disturbed then
		for _, f := range disturbing {
			features[f] = false
		}
	}
	for _, f := range off {
		features[f] = false
	}
	if features[Pace] {
		features = Features{Pace: true}
	}
	for _, f := range on {
		features[f] = true
	}
	if features[Listen] {
		for _, f := range unheard {
			features[f] = false
		}
		features[Java] = false // it notifies nobody when it makes a lock end earlier
		if features[Group] {   // it may have a key, and find out only when it has all that it was released by force
			features[Force] = false
		}
	}
	if features[Java] {
		for _, f := range delaying {
			features[f] = false
		}
	}
	if features[SETNX] {
		features[Tokens] = false
	}
	if features[Tokens] || features[SETNX] {
		features[Fair], features[ReadWrite], features[Semaphore] = false, false, false
	}
	if features[Silent] {
		features[Fair] = false
	}
	if features[Timeless] {
		features[Fair], features[Semaphore] = false, false
	}
	return features
}

// List returns the features that are on, in their order.
func (f Features) List() (on []Feature) {
	for _, one := range everything() {
		if f[one] {
			on = append(on, one)
		}
	}
	return on
}

func (f Features) String() string {
	var names []string
	for _, one := range f.List() {
		names = append(names, string(one))
	}
	return strings.Join(names, ",")
}

// Parse reads names of features, separated by commas. "all" are all of them.
func Parse(text string) ([]Feature, error) {
	if text == "all" {
		return everything(), nil
	}
	var features []Feature
	for name := range strings.SplitSeq(text, ",") {
		switch f := Feature(strings.TrimSpace(name)); {
		case f == "":
		case !slices.Contains(everything(), f):
			return nil, fmt.Errorf("there is no feature %q", f)
		default:
			features = append(features, f)
		}
	}
	return features, nil
}
