package memstore

import (
	"slices"
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

// entry is what one key has.
type entry struct {
	holds []hold // in the order of their grants
	queue queue
	room  [1]hold // for the only hold, as most keys have
}

func newEntry() *entry {
	e := &entry{}
	e.holds = e.room[:0]
	return e
}

func (e *entry) free() bool { return len(e.holds) == 0 }

// last is when the last hold ends; 0: there is none.
func (e *entry) last() (end time.Duration) {
	for _, h := range e.holds {
		end = max(end, h.expires)
	}
	return end
}

// expire drops what has ended.
func (e *entry) expire(now time.Duration) {
	e.holds = slices.DeleteFunc(e.holds, func(h hold) bool { return now >= h.expires })
	e.queue = slices.DeleteFunc(e.queue, func(p place) bool { return now >= p.until })
}

// other says whether the key is a semaphore and c claims a lock, or the reverse,
// and for how long.
func (e *entry) other(c *lock.Claim, now time.Duration) (ttl time.Duration, other bool) {
	if e.free() || (e.holds[0].mode == lock.Semaphore) == (c.Mode == lock.Semaphore) {
		return 0, false
	}
	for i := range e.holds {
		ttl = max(ttl, e.holds[i].expires-now)
	}
	return ttl, true
}

// own returns the hold that c is about, nil if its owner has none.
func (e *entry) own(c *lock.Claim) *hold {
	for i := range e.holds {
		if h := &e.holds[i]; h.owner == c.Owner && !h.kept && sameLock(h.mode, c.Mode) {
			return h
		}
	}
	return nil
}

// either returns the hold of the owner of c, which may still write where c reads: see
// [lock.Store].
func (e *entry) either(c *lock.Claim) *hold {
	h := e.own(c)
	if h == nil && c.Mode == lock.Read {
		h = e.own(&lock.Claim{Owner: c.Owner, Mode: lock.Write})
	}
	return h
}

// sameLock says whether two modes differ in how they wait only, not in what
// they hold.
func sameLock(a, b lock.Mode) bool { return a == b || plain(a) && plain(b) }

func plain(m lock.Mode) bool { return m == lock.Exclusive || m == lock.Fair }

// busy says whether c has to wait, and how long the holds in its way last.
func (e *entry) busy(c *lock.Claim, now time.Duration) (ttl time.Duration, busy bool) {
	if ttl, other := e.other(c, now); other {
		return ttl, true
	}
	if c.Mode == lock.Semaphore {
		return e.exhausted(c, now)
	}
	for i := range e.holds {
		if h := &e.holds[i]; !h.admits(c) {
			busy = true
			ttl = max(ttl, h.expires-now)
		}
	}
	if c.Mode == lock.Fair && !e.queue.turn(c.Owner) {
		busy = true
	}
	return ttl, busy
}

// exhausted is busy for a semaphore, of which the first permit to come back
// may be enough.
func (e *entry) exhausted(c *lock.Claim, now time.Duration) (ttl time.Duration, busy bool) {
	left := c.Size
	for i := range e.holds {
		h := &e.holds[i]
		left -= h.permits
		if until := h.expires - now; i == 0 || until < ttl {
			ttl = until
		}
	}
	return ttl, left < c.Permits
}

// grant adds the hold of c, and ends its place in the queue.
func (e *entry) grant(c *lock.Claim, fence uint64, now time.Duration) {
	if c.Mode == lock.Fair {
		e.queue.serve(c.Owner)
	}
	e.queue.recall()
	e.holds = append(e.holds, hold{
		owner: c.Owner, mode: c.Mode, permits: c.Permits, size: c.Size,
		fence: fence, since: time.UnixMicro(int64(fence / lock.FenceStep)), expires: now + c.TTL,
	})
}

// place takes or keeps the places that c names.
func (e *entry) place(c *lock.Claim, now time.Duration) {
	if c.Mode != lock.Fair {
		return
	}
	for _, owner := range c.Places {
		if e.own(&lock.Claim{Owner: owner, Mode: c.Mode}) == nil {
			e.queue.take(owner, now+placeTTL)
		}
	}
}

func (e *entry) remove(gone *hold) {
	e.holds = slices.DeleteFunc(e.holds, func(h hold) bool { return h.fence == gone.fence })
}

func (e *entry) state(now time.Duration) lock.State {
	state := lock.State{Held: !e.free()}
	for i := range e.holds {
		h := &e.holds[i]
		if i == 0 || h.mode == lock.Write {
			state.Mode = h.mode
		}
		state.TTL = max(state.TTL, h.expires-now)
		if i < lock.MaxListed {
			state.Owners = append(state.Owners, lock.OwnerHolds{
				Owner: h.owner, Holds: max(1, h.permits), Kept: h.kept, Fence: h.fence, Since: h.since,
			})
		}
	}
	for _, p := range e.queue[:min(len(e.queue), lock.MaxListed)] {
		state.Waiters = append(state.Waiters, p.owner)
	}
	state.MoreOwners, state.MoreWaiters = len(e.holds)-len(state.Owners), len(e.queue)-len(state.Waiters)
	return state
}

// hold is one owner's.
type hold struct {
	owner   string
	mode    lock.Mode
	kept    bool // released, under a minimum hold
	fence   uint64
	since   time.Time
	expires time.Duration
	// of a semaphore
	permits, size int
}

// admits reports whether c may have the key together with h.
func (h *hold) admits(c *lock.Claim) bool {
	return c.Mode == lock.Read && h.mode == lock.Read
}

func (h *hold) renewAtLeast(until time.Duration) { h.expires = max(h.expires, until) }
