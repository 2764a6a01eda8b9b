//go:build !race

package sim_test

// defaultSeeds takes some seconds.
const defaultSeeds = 40
