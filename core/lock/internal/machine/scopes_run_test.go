package machine

import (
	"flag"
	"runtime"
	"strings"
	"testing"
	"time"
)

var (
	all   = flag.Bool("explore", false, "explore all states of all scopes but the long ones")
	long  = flag.Bool("long", false, "explore the long scopes as well")
	only  = flag.String("scope", "", "explore only the scopes whose names begin with one of these, separated by |")
	most  = flag.Int("most", 0, "the most states of a scope; 0 means all")
	every = flag.Int("audit", 0, "compare the successors of each so many merged states")
)

// glance is how many states of each scope go test looks at without a flag.
const glance = 1500

func (sc *scope) chosen() bool {
	return matches(sc.name, *only) && (*long || !sc.long || sc.name+"$" == *only)
}

// matches says whether a name begins with one of these, separated by |; one that ends
// with $ is a whole name.
func matches(name, these string) bool {
	for o := range strings.SplitSeq(these, "|") {
		if strings.HasPrefix(name+"$", o) {
			return true
		}
	}
	return false
}

func TestExplore(t *testing.T) {
	states := *most
	if !*all && !*long && *only == "" {
		states = glance
	}
	for _, sc := range scopes() {
		if !sc.chosen() {
			continue
		}
		t.Run(sc.name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			x := sc.explore(states, *every)
			var mem runtime.MemStats
			runtime.ReadMemStats(&mem)
			t.Logf("%d states, %d moves, %.2fs, %d MB", len(x.parent), x.moves, time.Since(began).Seconds(), mem.HeapSys>>20)
			if *every > 0 {
				if checked, wrong, example := x.audit(); wrong > 0 {
					t.Errorf("audit: %d of %d merged states have other successors %s", wrong, checked, example)
				}
			}
			if x.bad != "" {
				steps, w := x.trace()
				t.Fatalf("found after %d states and %d moves: %s\n%s\n%s", len(x.parent), len(steps), x.bad, strings.Join(steps, "\n"), w)
			}
		})
	}
}
