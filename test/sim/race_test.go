//go:build race

package sim_test

// The race detector makes worlds slow: there are few seeds, and one in so many of the kept
// worlds.
const (
	defaultSeeds = 6
	keptShare    = 4
)
