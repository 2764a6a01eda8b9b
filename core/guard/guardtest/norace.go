//go:build !race

package guardtest

// Forgotten is how many allocations a test counts that are not of the tested code: none
// without the race detector.
const Forgotten = 0
