package sqlstore

import (
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"slices"
	"sync"
	"time"
)

const (
	// Polls come after minPoll when something has changed, and later each time nothing
	// has, up to maxPoll.
	minPoll, maxPoll = 2 * time.Millisecond, 50 * time.Millisecond
	// pollTimeout bounds one poll.
	pollTimeout = 5 * time.Second
	// refreshEvery is how often the rows of watched keys are told that somebody listens:
	// they know it for 30 s.
	refreshEvery = 10 * time.Second
	// relisten is the pause before a listener that has failed is started again.
	relisten = time.Second
)

// seen is a row and its version when it was seen last, as a statement reads it.
type seen struct {
	I       int    `json:"i"`
	ID      string `json:"id"`
	Version int64  `json:"version"`
}

// newSeen is a row that was never seen.
func newSeen(row []byte) seen { return seen{ID: hex.EncodeToString(row)} }

// listed is the argument of a statement about several rows, in the order in which they
// are locked.
func listed(rows []seen) (string, error) {
	for i := range rows {
		rows[i].I = i
	}
	sorted := slices.Clone(rows)
	slices.SortFunc(sorted, func(a, b seen) int {
		if a.ID < b.ID {
			return -1
		}
		return 1
	})
	text, err := json.Marshal(sorted)
	return string(text), err
}

// changed reads the rows whose version is another now.
func (k *keys) changed(ctx context.Context, rows []seen, found func(i int, r *row)) error {
	for from := 0; from < len(rows); from += maxBatch {
		text, err := listed(rows[from:min(from+maxBatch, len(rows))])
		if err != nil {
			return err
		}
		err = k.query(ctx, &k.sql.changed, []any{text}, func(result *sql.Rows) error {
			r, i := new(row), 0
			if err := result.Scan(&i, &r.now, &r.version, &r.expires, &r.fence, &r.mode, &r.owner, &r.more); err != nil {
				return err
			}
			found(from+i, r)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// run serves until nobody needs it. Its listener has ended before another one begins.
func (h *hub) run() {
	for more := true; more; {
		h.serve()
		h.mu.Lock()
		h.running = h.needed()
		more = h.running
		h.mu.Unlock()
	}
}

// needed says whether somebody watches, or wants to hear of forced releases; mu is held.
func (h *hub) needed() bool { return len(h.watched) > 0 || len(h.announcees) > 0 }

// serve polls, or listens, until nobody has watched for a moment.
func (h *hub) serve() {
	ctx, cancel := context.WithCancel(context.Background())
	var listener sync.WaitGroup
	defer listener.Wait()
	defer cancel()
	if h.keys.listener != nil {
		listener.Go(func() { h.listen(ctx) })
	}
	wait, idleSince, refreshed := minPoll, time.Time{}, time.Now()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-h.changed:
			wait = minPoll
			timer.Reset(wait)
			continue
		}
		rows, listening := h.rows()
		switch {
		case len(rows) > 0:
			idleSince = time.Time{}
		case idleSince.IsZero():
			idleSince = time.Now()
		case time.Since(idleSince) > idle && h.rest(cancel):
			return
		}
		wait = h.next(ctx, rows, listening, wait)
		if h.keys.listener != nil && time.Since(refreshed) > refreshEvery {
			refreshed = time.Now()
			h.refresh(ctx, rows)
		}
		timer.Reset(wait)
	}
}

// rest ends the listener if nobody needs it. Who comes from now on waits for the next one.
func (h *hub) rest(end func()) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.needed() {
		return false
	}
	end()
	h.turn(false)
	return true
}

// next polls the rows once unless a listener hears of them, and returns when to come
// again.
func (h *hub) next(ctx context.Context, rows []seen, listening bool, wait time.Duration) time.Duration {
	if listening || len(rows) == 0 {
		return maxPoll
	}
	changed, err := h.poll(ctx, rows)
	switch {
	case err != nil:
		return relisten / 4
	case changed:
		return minPoll
	}
	return min(wait*3/2, maxPoll)
}

// rows returns the rows that a waiter watches.
func (h *hub) rows() (rows []seen, listening bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for row, at := range h.watched {
		if at.seen != nil || h.listening {
			rows = append(rows, seen{ID: hex.EncodeToString([]byte(row)), Version: at.version})
		} else {
			rows = append(rows, newSeen([]byte(row)))
		}
	}
	return rows, h.listening
}

func (h *hub) poll(ctx context.Context, rows []seen) (changed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	var failed error
	err = h.keys.changed(ctx, rows, func(i int, r *row) {
		changed = true
		row, err := hex.DecodeString(rows[i].ID)
		if err == nil {
			err = h.see(string(row), r, true)
		}
		if err != nil {
			failed = err
		}
	})
	if err == nil {
		err = failed
	}
	return changed, err
}
