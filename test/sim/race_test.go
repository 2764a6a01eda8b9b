//go:build race

package sim_test

// defaultSeeds is small, as the race detector makes worlds slow.
const defaultSeeds = 6
