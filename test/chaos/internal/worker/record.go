package worker

import (
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/redlatch/redlatch/test/chaos/internal/history"
)

var errFull = errors.New("worker: the record is full")

// record writes events where they survive the process: to memory that is
// shared with a file.
type record struct {
	clock        history.Clock
	worker, life int
	ids          atomic.Uint64
	page         *history.Page
	full         atomic.Bool
	// pending are attempts whose call the store hasn't answered.
	pending sync.Map
	// waiters are how to end the waits of clients that others may end.
	waiters sync.Map
}

// add writes an event; when it returns, no kill can undo it.
func (r *record) add(e history.Event) {
	e.Worker, e.Life = r.worker, r.life
	line, err := json.Marshal(e)
	if err != nil {
		panic(err) //nolint:forbidigo // an Event can always be encoded
	}
	if !r.page.Append(append(line, '\n')) {
		r.full.Store(true)
	}
}

// failed is why the record is of no use.
func (r *record) failed() error {
	if r.full.Load() {
		return errFull
	}
	return nil
}
