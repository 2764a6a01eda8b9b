package load

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// tally is what one worker saw. Workers don't share one: they would measure
// each other.
type tally struct {
	requests int64
	refused  map[string]int64 // final answers, by code
	retried  map[string]int64 // answers that were not final, by code
	placed   map[int]int64    // orders confirmed, by user
	// unknown counts requests that may or may not have placed an order.
	unknown   int64
	lastOrder time.Time
	latency   *hdrhistogram.Histogram
}

func newTally() *tally {
	return &tally{
		refused: make(map[string]int64), retried: make(map[string]int64), placed: make(map[int]int64),
		// From a microsecond to longer than a request may take.
		latency: hdrhistogram.New(1, (2 * requestTimeout).Microseconds(), 3),
	}
}

func (t *tally) answered(took time.Duration) {
	t.requests++
	// Out of range is impossible: requests time out.
	_ = t.latency.RecordValue(max(1, took.Microseconds()))
}

func (t *tally) add(other *tally) {
	t.requests += other.requests
	t.unknown += other.unknown
	for code, n := range other.refused {
		t.refused[code] += n
	}
	for code, n := range other.retried {
		t.retried[code] += n
	}
	for user, n := range other.placed {
		t.placed[user] += n
	}
	if other.lastOrder.After(t.lastOrder) {
		t.lastOrder = other.lastOrder
	}
	t.latency.Merge(other.latency)
}

// confirmed is the number of orders that the service confirmed.
func (t *tally) confirmed() (n int64) {
	for _, orders := range t.placed {
		n += orders
	}
	return n
}
