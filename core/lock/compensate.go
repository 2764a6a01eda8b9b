//go:build !machine

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
	// undoBackoff bounds the pause after a pass without an answer. All that waits
	// would be sent again after it.
	undoBackoff = time.Second
)

// undoPasses are the pauses before each removal of a hold that an unanswered
// call may have made. One is not enough: the call may sit in another
// connection's buffer and run after the removal.
var undoPasses = [...]time.Duration{0, 100 * time.Millisecond, 2 * time.Second}

// undoOnce is for a call that has certainly ended.
var undoOnce = undoPasses[:1]

// undoPasses are those for h, which has ended; mu is held.
func (h *hold) undoPasses() []time.Duration {
	if h.doubt {
		return undoPasses[:]
	}
	return undoOnce
}

// compensation removes from the store what acquisitions may have left there
// that nobody wants. It is one queue for the locker, served by one goroutine
// that exists while there is something to do. How many removals are sent at a time is
// the business of the store: it knows its servers. Each acquire call
// has a place in the queue from before it is sent: no place, no acquire.
type compensation struct {
	places  atomic.Int64 // of acquire calls that have not returned, and of the queue
	mu      sync.Mutex
	queue   []*remnant
	serving bool
	closeBy time.Duration // when Close gives up what isn't removed; 0: not closing
	givenUp int           // what it gave up
	more    chan struct{} // holds at most one hint that the queue has changed
}

// remnant is what a claim may have left in the store.
type remnant struct {
	claim  Claim
	passes []time.Duration // that remain; the first is being waited for
	at     time.Duration   // when to send, or to wait for the answer no longer
	pass   int             // counts what was sent
	sent   bool            // it has no answer
	tries  int             // of this pass, without an answer or refused
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
	claim.Places, claim.Undo = nil, true
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
	for _, r := range c.queue {
		if !r.sent {
			r.at = 0
		}
	}
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
		due, wait, length := l.dueRemnants()
		if hook := l.defaults.hooks.Backlog; hook != nil && length != reported {
			hook(length)
			reported = length
		}
		for _, r := range due {
			l.sendUndo(r, r.pass)
		}
		switch {
		case len(due) > 0:
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

// dueRemnants returns what is to be sent now, or else how long to wait for
// the next; negative: the queue is empty, and no longer served.
func (l *Locker) dueRemnants() (due []*remnant, wait time.Duration, length int) {
	c := &l.compensation
	c.mu.Lock()
	defer c.mu.Unlock()
	now := l.now()
	before := len(c.queue)
	if l.base.Err() != nil {
		c.givenUp += len(c.queue)
		c.queue = nil // Close gave up
	}
	wait = maxAcquireTTL
	c.queue = slices.DeleteFunc(c.queue, func(r *remnant) bool {
		if r.sent && r.at <= now {
			l.advance(r, errNoAnswer)
		}
		switch left := r.at - now; {
		case r.done:
		case left > 0: // until then it may be answered, if it was sent
			wait = min(wait, left)
		default:
			r.sent, r.pass, r.at = true, r.pass+1, now+l.defaults.callTimeout
			due = append(due, r)
		}
		return r.done
	})
	c.vacate(before - len(c.queue))
	length = len(c.queue)
	if length == 0 {
		c.serving = false
		return nil, -1, 0
	}
	return due, wait, length
}

// sendUndo sends a pass. What is answered twice, or after it was given up, counts once.
func (l *Locker) sendUndo(r *remnant, pass int) {
	answered := func(_ uint64, err error) {
		c := &l.compensation
		c.mu.Lock()
		if r.sent && r.pass == pass {
			l.advance(r, err)
		}
		c.mu.Unlock()
		c.hint()
		if r.claim.Mode == Fair {
			l.parted(r.claim.Key, r.claim.Owner)
		}
	}
	now, timeout := l.now(), l.defaults.callTimeout
	l.running.Add(1) // until it is answered
	p := &pending[uint64]{call: call{running: &l.running}, late: answered}
	p.decided.Store(true) // nobody waits
	p.start(func(p *pending[uint64]) {
		l.releaseCall(l.base, r.claim, l.epoch.Add(now+timeout), p)
	})
}

// advance schedules what comes after a pass with that result; c.mu is held.
func (l *Locker) advance(r *remnant, err error) {
	now := l.now()
	c := &l.compensation
	r.sent = false
	// What a server refuses to remove is still there. A wrong claim has left nothing.
	answered := err == nil || isDecision(err) || wrong(err) && outcomeOf(err) == OutcomeRefused
	if answered {
		r.tries = 0
	} else {
		r.tries++
	}
	switch {
	case answered && (len(r.passes) == 1 || c.closeBy > 0):
		r.done = true
	case answered:
		r.passes = r.passes[1:]
		r.at = now + r.passes[0]
	case now >= r.until:
		r.done = true // it has expired
	case c.closeBy > 0 && now >= c.closeBy:
		c.givenUp++
		r.done = true
	case c.closeBy > 0:
		r.at = now + backoff(r.tries)
	default:
		r.at = now + backoffUpTo(r.tries, undoBackoff)
	}
}
