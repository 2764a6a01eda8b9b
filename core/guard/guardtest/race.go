//go:build race

package guardtest

// Forgotten is how many allocations a test counts that are not of the tested code: with the
// race detector, a sync.Pool forgets some of what it is given.
const Forgotten = 1
