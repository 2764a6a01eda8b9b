package sim_test

import (
	"fmt"
	"maps"
	"testing"

	"github.com/redlatch/redlatch/test/sim/internal/world"
)

// A seed is not replayed exactly, as the runtime chooses among goroutines that
// can run. So a smaller world is one in which the same rule is broken in some of
// several runs.
const shrinkRuns = 4

// shrink switches features off, one by one, for as long as the same rule is
// broken.
func shrink(t *testing.T, r *world.Report) {
	t.Helper()
	rule := r.Findings[0].Rule
	smallest := r.Config
	for _, f := range r.Features.List() {
		smaller := smallest
		smaller.Features = maps.Clone(smallest.Features)
		smaller.Features[f] = false
		if breaks(t, smaller, rule) > 0 {
			smallest = smaller
		}
	}
	t.Errorf("%q with fewer features (in %d of %d runs):  make sim-replay SEED=%d FEATURES=%s",
		rule, breaks(t, smallest, rule), shrinkRuns, smallest.Seed, smallest.Features)
}

// breaks counts the runs in which a rule is broken.
func breaks(t *testing.T, c world.Config, rule string) (n int) {
	t.Helper()
	for i := range shrinkRuns {
		t.Run(fmt.Sprintf("%s %d", c.Features, i), func(t *testing.T) {
			if play(t, c).Rules()[rule] > 0 {
				n++
			}
		})
	}
	return n
}
