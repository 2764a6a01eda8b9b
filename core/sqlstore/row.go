package sqlstore

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"time"

	"github.com/redlatch/redlatch/core/internal/entry"
	"github.com/redlatch/redlatch/core/lock"
)

// kept is added to the mode of a hold that was released, under a minimum hold.
const kept = 16

// row is what the table has of a key. Times are in microseconds since 1970, by the clock
// of the database.
type row struct {
	asked   time.Time // when the call was sent that read it, by the clock of this machine
	now     int64     // when it was read
	floor   int64     // the largest fence of the rows that were deleted
	version int64     // 0: there is no row
	expires int64
	fence   int64
	mode    int
	owner   string
	more    []byte // not nil: what the key has doesn't fit into the columns above
}

// document is the column more.
type document struct {
	Holds []entry.Hold `json:"h,omitempty"`
	Queue entry.Queue  `json:"q,omitempty"`
}

// id is that of the row of a key. Keys themselves can be too long for an index.
func id(key string) []byte {
	sum := sha256.Sum256([]byte(key))
	return sum[:16]
}

// at is a time of the database as entries count it.
func at(micros int64) time.Duration { return time.Duration(micros) * time.Microsecond }

// micros is the reverse of at, rounded up: a hold that is rounded down ends early.
func micros(at time.Duration) int64 {
	return int64((at + time.Microsecond - 1) / time.Microsecond)
}

// entry is what the row says.
func (r *row) entry() (*entry.Entry, error) {
	e := entry.New()
	switch {
	case r.more != nil:
		var d document
		if err := json.Unmarshal(r.more, &d); err != nil {
			return nil, fmt.Errorf("sqlstore: the column more: %w", err)
		}
		e.Holds, e.Queue = append(e.Holds, d.Holds...), d.Queue
	case r.owner != "":
		e.Holds = append(e.Holds, entry.Hold{
			Owner: r.owner, Mode: lock.Mode(r.mode % kept), Kept: r.mode >= kept, Fence: uint64(r.fence), Expires: at(r.expires),
		})
	}
	return e, nil
}

// next is the fence of the next grant.
func (r *row) next() uint64 {
	last := r.fence
	if r.version == 0 {
		last = r.floor
	}
	return uint64(max(last+lock.FenceStep, r.now*lock.FenceStep))
}

// with is the row with what e has instead. A plain hold is in the columns, where most
// statements look.
func (r *row) with(e *entry.Entry) (row, error) {
	next := *r
	next.mode, next.owner, next.more = 0, "", nil
	next.expires = micros(e.Ends())
	for _, h := range e.Holds {
		next.fence = max(next.fence, int64(h.Fence))
	}
	for _, p := range e.Queue {
		next.expires = max(next.expires, micros(p.Until))
	}
	if e.Empty() {
		return next, nil
	}
	if len(e.Holds) == 1 && len(e.Queue) == 0 {
		h := e.Holds[0]
		if h.Mode != lock.Semaphore && int64(h.Fence) == next.fence {
			next.owner, next.mode = h.Owner, int(h.Mode)
			if h.Kept {
				next.mode += kept
			}
			return next, nil
		}
	}
	var err error
	next.more, err = json.Marshal(document{e.Holds, e.Queue})
	return next, err
}
