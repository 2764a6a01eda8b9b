package sim_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/test/sim/internal/world"
)

// worldsForFloor is how many worlds must have been played for the floor to hold:
// with fewer, chance may leave something out.
const worldsForFloor = 200

// variants are the scripts that are sent without something that servers refuse. Those
// of a latch and of force are rare, and run in the table test.
var variants = map[string][]string{
	"publish": {"release", "setnx_release", "read_release", "write_release", "lower", "semaphore_acquire", "semaphore_release"},
	"time":    {"acquire", "setnx_acquire", "read_acquire", "write_acquire"},
}

// floor is what a run must have met: every mode, every script, every kind of
// fault, and the corners that are hard to reach. A workload that does not get
// there finds nothing.
func floor(catalog *world.Catalog, off []world.Feature) (must []string) {
	must = []string{
		"NOSCRIPT", "executed after its time-out", "subscribed again", "cancelled while it waited",
		"result: granted", "result: " + lock.ErrBusy.Error(), "release: granted", "connected", "undo of nothing",
		"dead place passed over", "leader: granted", "term lost", "quorum: granted", "quorum release: granted", "fault: node stalls",
		"fault: node restarts", "handed off", "latch await: granted", "latch count down: granted",
		"service compared", "kept", "writer read on", "lowered", "re-entered without a call", "a guest reads", "held too long", "drain: granted",
	}
	for _, m := range []lock.Mode{lock.Exclusive, lock.Fair, lock.Read, lock.Write, lock.Semaphore} {
		must = append(must, "grant: "+m.String())
	}
	for _, name := range catalog.Operations() {
		must = append(must, "script: "+name)
	}
	for without, names := range variants {
		for _, name := range names {
			must = append(must, "script without "+without+": "+name)
		}
	}
	for _, f := range world.Faults {
		if f != world.Slow {
			must = append(must, "fault: "+string(f))
		}
	}
	must = append(must, "fault: slow packet", "fault: mute", "fault: refuse", "fault: node refuses", "refused to write", "fault: request lost", "fault: reply lost")
	return slices.DeleteFunc(must, func(what string) bool { return unreachable(what, off) })
}

// unreachable says whether something cannot be met without a feature.
func unreachable(what string, off []world.Feature) bool {
	needs := map[string]world.Feature{
		"script: force_release": world.Force, "script: inspect": world.Force,
		"script: token_acquire": world.Tokens, "script: setnx_acquire": world.SETNX, "script: setnx_release": world.SETNX,
		"service compared": world.Pace, "leader: granted": world.Lead, "term lost": world.Lead,
		"quorum: granted": world.Quorum, "quorum release: granted": world.Quorum, "fault: node stalls": world.Quorum,
		"fault: node restarts": world.Quorum, "fault: node refuses": world.Quorum,
		"latch await: granted": world.Latch, "latch count down: granted": world.Latch, "script: latch_set": world.Latch,
		"script: latch_count": world.Latch, "script: latch_count_down": world.Latch, "script: latch_delete": world.Latch,
		"kept": world.MinHold, "script: semaphore_keep": world.MinHold,
		"script: setnx_renew": world.SETNX, "script: setnx_inspect": world.SETNX, "writer read on": world.ReadOn, "a guest reads": world.Java, "held too long": world.MaxHold,
		"drain: granted": world.Reopen, "refused to write": world.Refuse,
	}
	for _, f := range off {
		left, of := map[world.Feature]string{world.Silent: "script without publish", world.Timeless: "script without time"}[f]
		if of && strings.HasPrefix(what, left) || f == world.SETNX && strings.HasSuffix(what, ": setnx_release") {
			return true
		}
		if f == world.Refuse && what == "fault: node refuses" || strings.TrimPrefix(what, "fault: ") == string(f) || needs[what] == f {
			return true
		}
	}
	return false
}

// checkFloor fails a run that was long enough and did not meet everything.
func checkFloor(t *testing.T, catalog *world.Catalog, met map[string]int, off []world.Feature) {
	t.Helper()
	if met["worlds"] < worldsForFloor {
		return
	}
	for _, what := range floor(catalog, off) {
		if met[what] == 0 {
			t.Errorf("%d worlds never met this: %s", met["worlds"], what)
		}
	}
}

func TestTheFloorIsThere(t *testing.T) {
	catalog := readCatalog(t)
	met := map[string]int{"worlds": worldsForFloor}
	for _, what := range floor(catalog, nil) {
		met[what] = 1
	}
	if len(met) < 40 {
		t.Errorf("the floor has only %d entries: %s", len(met), fmt.Sprint(met))
	}
}
