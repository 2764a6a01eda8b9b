package sim_test

import (
	"github.com/redlatch/redlatch/test/sim/internal/world"
)

// known are faults that the simulator has found and that are not mended yet.
// They would hide others, so what shows them is off unless -all is given. A fault
// that is mended leaves this list, and its seed goes to testdata/seeds.txt.
var known = []struct {
	fault    string
	features []world.Feature
}{
	{
		fault:    "the read hold that a named writer gave up is released late, and takes a new read hold of the same owner with it",
		features: []world.Feature{world.Named},
	},
	{
		fault:    "a call that arrives after Close, or after the last attempt to undo it, holds the key for its whole lease",
		features: []world.Feature{world.Reopen, world.Long},
	},
}

func knownFeatures() (off []world.Feature) {
	for _, k := range known {
		off = append(off, k.features...)
	}
	return off
}
