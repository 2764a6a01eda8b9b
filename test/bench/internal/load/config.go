// Package load is what a worker process does: it drives one library with one
// kind of load, and reports what happened. The process that started it says
// when to warm up, when to measure and when to stop, on the worker's standard
// input, and gets a line of JSON for each.
package load

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Kind is a kind of load.
type Kind string

// Kinds of load.
const (
	// Cycle locks and unlocks in a loop on every goroutine.
	Cycle Kind = "cycle"
	// Try tries in a loop to lock a key that is held.
	Try Kind = "try"
	// Hold keeps many locks while one goroutine works on other keys.
	Hold Kind = "hold"
	// Keys locks many different keys once each.
	Keys Kind = "keys"
	// HandOff exchanges one lock with another process.
	HandOff Kind = "hand-off"
	// Handler calls a request handler, bare or with an integration.
	Handler Kind = "handler"
)

// HotKey is the key that everybody wants.
const HotKey = "bench:hot"

// Config says what a worker does.
type Config struct {
	Kind    Kind
	Peer    string
	Addr    string
	Lease   time.Duration
	Process int // number of this worker among those of the run

	Goroutines int
	// Hot makes all goroutines want [HotKey]. Else each has a key for itself.
	Hot bool
	// Section is how long a goroutine keeps the lock.
	Section time.Duration
	// Nested makes each goroutine lock inside a lock that it holds: the same key again,
	// or one more key where the library doesn't re-enter.
	Nested bool
	// HeldHere makes this process hold the key that it tries.
	HeldHere bool
	// Count is how many keys there are (Hold, Keys).
	Count int
	// Window is how long is measured.
	Window time.Duration
	// Page is the file of the referee.
	Page string
}

// Commands to a worker.
const (
	Warm    = "warm"
	Measure = "measure"
	Stop    = "stop"
)

// Reply answers a command.
type Reply struct {
	Error  string  `json:",omitempty"`
	Result *Result `json:",omitempty"` // of Stop
}

// Result is what one worker saw while it measured.
type Result struct {
	Ops      int64
	Counts   []int64                // of each goroutine
	Waits    *hdrhistogram.Snapshot // in microseconds
	Stuck    int                    // goroutines whose call does not end
	Failures int64                  // calls that failed, of the whole run
	Failure  string                 // one of them
	CPU      time.Duration
	Allocs   uint64
	Values   map[string]float64 // what only this kind of load has
	// Statements is how many statements the locker has sent, 0 if it does not count them.
	Statements int64
}

// newHistogram counts microseconds up to two minutes, to two digits.
func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, (2 * time.Minute).Microseconds(), 2)
}

// record adds a duration in nanoseconds.
func record(h *hdrhistogram.Histogram, nanos int64) {
	limit := h.HighestTrackableValue()
	_ = h.RecordValue(min(max(nanos/1000, 1), limit)) // fails only outside of the limits
}
