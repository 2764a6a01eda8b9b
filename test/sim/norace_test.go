//go:build !race

package sim_test

// The seeds take some seconds. All kept worlds are played.
const (
	defaultSeeds = 40
	keptShare    = 1
)
