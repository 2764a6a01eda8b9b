package sim_test

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/redlatch/redlatch/test/sim/internal/world"
)

var controlsFlag = flag.Bool("controls", false, "look for all planted bugs, for two minutes each")

// control is a bug that must be found, and the world it lives in.
type control struct {
	bug      string
	features string
	rule     string // by which it is found
	rare     bool   // it takes some dozens of worlds
}

var controls = []control{
	{world.LIFO, "fair", "fair order", false},
	{world.Stranded, "idle", "free while somebody waits", true},
	{world.NoUndo, "cancel,cutafter,slow", "hold of nobody", true},
	{world.ExtendShortens, "extend,extends", "trust outlasts the key", false},
	{world.OwnerReuse, "slow,freeze,cancel", "trusted but gone", false},
	{world.MessageGrants, "fair,forge", "two holders", false},
	{world.NoEnd, "", "hold without an end", false},
	{world.Forgetful, "quorum", "trusted but gone", false},
	{world.Unkept, "minhold", "minimum hold", false},
	{world.Collapse, "pace", "no service", false},
	{world.Unstepped, "", "fence did not rise", false},
	{world.BlindRenew, "force", "confirmed but gone", false},
	{world.DeafRenew, "force,lead", "trusted but gone", true},
	{world.LateLoss, "freeze,cutbefore", "trust outlasts the key", false},
	{world.Forgotten, "reopen", "held after close", false},
	{world.Unended, "", "subscribed for nobody", false},
	{world.Unlimited, "maxhold,idle", "hold of nobody", false},
	{world.Unrepeated, "refuse", "held after close", false},
	{world.Unlowered, "readwrite,readon", "hold of nobody", false},
	{world.LoweredOnce, "readwrite,readon,cutbefore,cut,cutafter", "hold of nobody", true},
	{world.LowerRemoves, "readwrite,readon", "trusted but gone", false},
	{world.LowerMakes, "readwrite,readon,force,slow", "hold out of nothing", true},
	{world.Overtaken, "readwrite,readon", "lost but there", true},
	{world.Unhurried, "readwrite,java", "trusted but gone", false},
	{world.Recounted, "reenter", "re-entry called", false},
	{world.Misdirected + "release", "listen,idle", "free while somebody waits", false},
	{world.Misdirected + "fair_release", "listen,fair", "free while somebody waits", false},
	{world.Misdirected + "read_release", "listen,readwrite", "free while somebody waits", false},
	{world.Misdirected + "write_release", "listen,readwrite", "free while somebody waits", false},
	{world.Misdirected + "lower", "listen,readwrite,readon", "free while somebody waits", false},
	{world.Misdirected + "semaphore_release", "listen,semaphore", "free while somebody waits", false},
	{world.Misdirected + "latch_count_down", "listen,latch", "free while somebody waits", false},
}

// controlSeeds is how many worlds a planted bug may hide in. Each of them takes
// some tenths of a second.
const controlSeeds = 40

// Planted bugs are found. A judge that finds nothing there says nothing when it
// finds nothing elsewhere.
func TestControls(t *testing.T) {
	catalog := readCatalog(t)
	for _, c := range controls {
		t.Run(c.bug, func(t *testing.T) {
			if c.rare && !*controlsFlag {
				t.Skip("it may take a minute: make sim-controls")
			}
			t.Parallel()
			only, all := parse(t, c.features), parse(t, "all")
			began := time.Now()
			for n := 0; mayHide(n, began); n++ {
				var r *world.Report
				t.Run(fmt.Sprintf("seed %d", n), func(t *testing.T) {
					r = play(t, world.Config{
						Seed: *seedFlag + uint64(n), Features: world.Draw(0, only, all), Load: *loadFlag, Catalog: catalog, Bug: c.bug, Until: c.rule,
					})
				})
				if r.Rules()[c.rule] > 0 {
					t.Logf("%s found as %q by seed %d, after %v; findings: %v", c.bug, c.rule, r.Seed, time.Since(began).Round(time.Millisecond), r.Rules())
					return
				}
			}
			t.Errorf("the bug %s was not found as %q", c.bug, c.rule)
		})
	}
}

func mayHide(seeds int, began time.Time) bool {
	if *controlsFlag {
		return time.Since(began) < 2*time.Minute
	}
	return seeds < controlSeeds
}

func TestEveryBugIsAControl(t *testing.T) {
	for _, bug := range world.Bugs() {
		found := false
		for _, c := range controls {
			found = found || c.bug == bug
		}
		if !found {
			t.Errorf("nobody looks for %s", bug)
		}
	}
}
