package lock

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxUnsettled bounds the acquire calls that are under way, together with
	// the ones that are to be undone.
	maxUnsettled = 1 << 14
	// undoBatch is how many are undone at a time.
	undoBatch = 64
	// undoWorkers send a batch.
	undoWorkers = 8
)

// undoPasses are the pauses before each removal of a hold that an unanswered
// call may have made. One is not enough: the call may sit in another
// connection's buffer and run after the removal.
var undoPasses = [...]time.Duration{0, 100 * time.Millisecond, 2 * time.Second}

// undoOnce is for a call that has certainly ended.
var undoOnce = undoPasses[:1]

var errBacklog = fmt.Errorf("%w: too many unanswered calls are to be undone first", ErrUnavailable)

// compensation removes from the store what acquisitions may have left there
// that nobody wants. It is one queue for the locker, served by one goroutine
// that exists while there is something to do, so that cleaning up never costs
// the store more at a time than a few calls. Each acquire call has a place in
// it from before it is sent: no place, no acquire.
type compensation struct {
	places  atomic.Int64 // of acquire calls that have not returned, and of the queue
	mu      sync.Mutex
	queue   []*remnant
	serving bool
	silent  bool          // the store answered nothing of the last batch
	closeBy time.Duration // when Close gives up what has no answer; 0: not closing
	givenUp int           // what it gave up
	more    chan struct{} // holds at most one hint that the queue has changed
}

// remnant is what a claim may have left in the store.
type remnant struct {
	claim  Claim
	passes []time.Duration // that remain; the first is being waited for
	at     time.Duration   // when to send
	tries  int             // without an answer, of this pass
	until  time.Duration   // when it has expired by itself
	done   bool
}

// reserve takes a place for an acquire call, which must be vacated when it has
// returned.
func (c *compensation) reserve() error {
	if c.places.Add(1) > maxUnsettled {
		c.places.Add(-1)
		return errBacklog
	}
	return nil
}

func (c *compensation) vacate(n int) { c.places.Add(-int64(n)) }

// undo removes in the background what the owner of c may hold, or its place
// in a queue. The store never sees the owner again, so nobody else's hold can
// be meant. The caller is counted in running. Close cuts the pauses short.
func (l *Locker) undo(claim Claim, passes []time.Duration) {
	c := &l.compensation
	claim.Holds, claim.Places = 0, nil
	now := l.now()
	c.places.Add(1)
	c.mu.Lock()
	c.queue = append(c.queue, &remnant{
		claim: claim, passes: passes, at: now + passes[0], until: now + max(claim.TTL, maxAcquireTTL) + l.defaults.callTimeout,
	})
	start := !c.serving
	c.serving = true
	c.mu.Unlock()
	if start {
		l.running.Go(l.compensate)
		return
	}
	c.hint()
}

// hint wakes the goroutine that serves the queue.
func (c *compensation) hint() {
	select {
	case c.more <- struct{}{}:
	default: // a hint is waiting already
	}
}

// finish makes the queue send what remains at once, and give it up by then.
func (c *compensation) finish(by time.Duration) {
	c.mu.Lock()
	c.closeBy = by
	c.mu.Unlock()
	c.hint()
}

// closed returns failed, or an error if Close gave up what may still be held.
func (c *compensation) closed(failed error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if failed != nil || c.givenUp == 0 {
		return failed
	}
	return fmt.Errorf("%w: %d calls were not undone, and what they may hold will expire", ErrUnavailable, c.givenUp)
}

// compensate serves the queue until it is empty.
func (l *Locker) compensate() {
	reported := 0
	for {
		batch, wait, length := l.dueRemnants()
		if hook := l.defaults.hooks.Backlog; hook != nil && length != reported {
			hook(length)
			reported = length
		}
		switch {
		case len(batch) > 0:
			l.sendUndo(batch)
		case wait < 0:
			return
		default:
			timer := time.NewTimer(wait)
			select {
			case <-timer.C:
			case <-l.compensation.more:
			case <-l.base.Done():
			}
			timer.Stop()
		}
	}
}

// dueRemnants returns what is to be undone now, or else how long to wait for
// the next; negative: the queue is empty, and no longer served.
func (l *Locker) dueRemnants() (batch []*remnant, wait time.Duration, length int) {
	c := &l.compensation
	c.mu.Lock()
	defer c.mu.Unlock()
	if l.base.Err() != nil {
		c.vacate(len(c.queue))
		c.queue = nil // Close gave up
	}
	length = len(c.queue)
	if length == 0 {
		c.serving = false
		return nil, -1, 0
	}
	now := l.now()
	wait = maxAcquireTTL
	size := undoBatch
	if c.silent {
		size = 1 // one call is enough to find out whether the store is back
	}
	for _, r := range c.queue {
		if left := r.at - now; left > 0 && (c.closeBy == 0 || r.tries > 0) {
			wait = min(wait, left)
			continue
		}
		if batch = append(batch, r); len(batch) == size {
			break
		}
	}
	return batch, wait, length
}

// sendUndo sends one pass of each, and removes the ones that are done.
func (l *Locker) sendUndo(batch []*remnant) {
	jobs := make(chan *remnant, len(batch))
	for _, r := range batch {
		jobs <- r
	}
	close(jobs)
	var workers sync.WaitGroup
	for range min(undoWorkers, len(batch)) {
		workers.Go(func() {
			for r := range jobs {
				l.advance(r, l.callRelease(l.base, l.now(), l.defaults.callTimeout, r.claim))
			}
		})
	}
	workers.Wait()
	c := &l.compensation
	c.mu.Lock()
	defer c.mu.Unlock()
	c.silent = !slices.ContainsFunc(batch, func(r *remnant) bool { return r.tries == 0 })
	before := len(c.queue)
	c.queue = slices.DeleteFunc(c.queue, func(r *remnant) bool { return r.done })
	c.vacate(before - len(c.queue))
}

// advance schedules what comes after a pass with that result.
func (l *Locker) advance(r *remnant, err error) {
	now := l.now()
	c := &l.compensation
	c.mu.Lock()
	defer c.mu.Unlock()
	closeBy := c.closeBy
	answered := err == nil || isDecision(err) || outcomeOf(err) == OutcomeRefused
	if answered {
		r.tries = 0
	} else {
		r.tries++
	}
	switch {
	case answered && (len(r.passes) == 1 || closeBy > 0):
		r.done = true
	case answered:
		r.passes = r.passes[1:]
		r.at = now + r.passes[0]
	case now >= r.until:
		r.done = true // it has expired
	case closeBy > 0 && now >= closeBy:
		c.givenUp++
		r.done = true
	default:
		r.at = now + backoff(r.tries)
	}
}
