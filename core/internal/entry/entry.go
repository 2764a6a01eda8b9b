// Package entry is what one key has: its holds and its queue, as a value. It decides
// what the calls of [lock.Store] do to them, for the stores that keep a key in one
// piece. It knows no clock, no storage and no waiters: the store passes the time, keeps
// the value, and delivers the wake-ups.
//
// Where the contract of [lock.Store] leaves a choice:
//
//   - A place in the queue of Fair waiters lasts for 15 s from the last claim that
//     names it, and for 10 s at least.
//   - A key that is free for the first in that queue is kept for it for 5 s; then
//     it is passed over. Exclusive, Read and Write claims do not look at the
//     queue.
//   - A claim of permits is checked against its own size: it is granted if the
//     permits taken and its own don't exceed it.
//   - A key that is held as a lock is busy for claims of permits, and the
//     reverse.
package entry

import (
	"fmt"
	"slices"
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

// Entry is what one key has. All times are counted from an epoch of the store.
type Entry struct {
	Holds []Hold // in the order of their grants
	Queue Queue
	// Wake collects whom the calls have woken. The store delivers that, and clears it.
	Wake Wake

	room [1]Hold // for the only hold, as most keys have
}

// Hold is that of one owner.
type Hold struct {
	Owner   string        `json:"o"`
	Mode    lock.Mode     `json:"m"`
	Kept    bool          `json:"k,omitempty"` // released, under a minimum hold
	Fence   uint64        `json:"f"`
	Expires time.Duration `json:"e"`
	Permits int           `json:"p,omitempty"` // of a semaphore
}

// Wake says who is to call again.
type Wake struct {
	All   bool   // the waiters in modes without a queue
	First string // the owner whose turn it is; others of its locker may call for it
}

// New returns the entry of a key that nobody has.
func New() *Entry {
	e := &Entry{}
	e.Holds = e.room[:0]
	return e
}

// Empty reports whether there is nothing to keep.
func (e *Entry) Empty() bool { return e.Free() && len(e.Queue) == 0 }

// Free reports whether nobody has the key.
func (e *Entry) Free() bool { return len(e.Holds) == 0 }

// Ends is when the last hold ends; 0: there is none.
func (e *Entry) Ends() (end time.Duration) {
	for _, h := range e.Holds {
		end = max(end, h.Expires)
	}
	return end
}

// Expire drops what has ended.
func (e *Entry) Expire(now time.Duration) {
	e.Holds = slices.DeleteFunc(e.Holds, func(h Hold) bool { return now >= h.Expires })
	e.Queue = slices.DeleteFunc(e.Queue, func(p Place) bool { return now >= p.Until })
}

// Settle is Expire, and offers a free key to the first in the queue. All other calls
// begin with it.
func (e *Entry) Settle(now time.Duration) {
	e.Expire(now)
	e.offer(now)
}

// offer calls the first in the queue if the key is free for it.
func (e *Entry) offer(now time.Duration) {
	if !e.Free() || len(e.Queue) == 0 {
		return
	}
	if owner, called := e.Queue.call(now); called {
		e.Wake.First = owner
	}
}

// Acquire grants the claim with the given fence, which is larger than all before, or with
// that of the hold that its owner has already and that keeps all others out. Otherwise the error is a [*lock.BusyError].
func (e *Entry) Acquire(c *lock.Claim, now time.Duration, fence uint64) (uint64, error) {
	e.Settle(now)
	if h := e.either(c); h != nil {
		h.renewAtLeast(now + c.TTL)
		if h.Mode == lock.Read || h.Mode == lock.Semaphore {
			h.Fence = fence // others may have been granted the key since
		}
		e.place(c, now)
		return h.Fence, nil
	}
	if ttl, busy := e.busy(c, now); busy {
		e.place(c, now)
		return 0, &lock.BusyError{TTL: ttl}
	}
	e.grant(c, fence, now)
	e.place(c, now)
	return fence, nil
}

// Renew lengthens the hold of the claim, or returns [lock.ErrNotHeld].
func (e *Entry) Renew(c *lock.Claim, now time.Duration) error {
	e.Settle(now)
	h := e.either(c)
	if h == nil {
		return lock.ErrNotHeld
	}
	h.renewAtLeast(now + c.TTL)
	return nil
}

// Lower is Renew, and makes a write hold a read hold.
func (e *Entry) Lower(c *lock.Claim, now time.Duration) error {
	e.Settle(now)
	h := e.either(c)
	if h == nil {
		return lock.ErrNotHeld
	}
	h.renewAtLeast(now + c.TTL)
	if h.Mode == lock.Write {
		h.Mode = lock.Read
		e.Wake.All = true
	}
	return nil
}

// Release removes the hold of the claim and its place in the queue. If keep is later
// than now, the hold stays until then without an owner.
func (e *Entry) Release(c *lock.Claim, now, keep time.Duration) error {
	e.Settle(now)
	if c.Mode == lock.Fair {
		e.Queue.leave(c.Owner)
		e.offer(now)
	}
	h := e.either(c)
	if h == nil {
		return lock.ErrNotHeld
	}
	if now < keep {
		h.Kept, h.Expires = true, keep
		e.Wake.All = true // the hold ends earlier than they know
		if len(e.Queue) > 0 {
			e.Wake.First = e.Queue[0].Owner
		}
		return nil
	}
	e.drop(h, now)
	return nil
}

// Take removes the hold of the claim even if it has expired, as long as nobody else has
// taken the key. It reports whether there was one.
func (e *Entry) Take(c *lock.Claim) bool {
	h := e.own(c)
	if h == nil {
		return false
	}
	fence := h.Fence
	e.Holds = slices.DeleteFunc(e.Holds, func(h Hold) bool { return h.Fence == fence })
	return true
}

// drop removes a hold and wakes the waiters that it blocked. One of several readers
// blocks nobody whom the others don't, unless they end sooner than it.
func (e *Entry) drop(h *Hold, now time.Duration) {
	mode, last, fence := h.Mode, e.Ends(), h.Fence
	e.Holds = slices.DeleteFunc(e.Holds, func(h Hold) bool { return h.Fence == fence })
	e.offer(now)
	if mode != lock.Read || e.Ends() < last {
		e.Wake.All = true
	}
}

// Force removes all holds; the queue stays. freed is false if there were none.
func (e *Entry) Force(now time.Duration) (freed bool) {
	e.Settle(now)
	if e.Free() {
		return false
	}
	e.Holds = nil
	e.offer(now)
	e.Wake.All = true
	return true
}

// own returns the hold that c is about, nil if its owner has none.
func (e *Entry) own(c *lock.Claim) *Hold {
	for i := range e.Holds {
		if h := &e.Holds[i]; h.Owner == c.Owner && !h.Kept && sameLock(h.Mode, c.Mode) {
			return h
		}
	}
	return nil
}

// either returns the hold of the owner of c, which may still write where c reads: see
// [lock.Store].
func (e *Entry) either(c *lock.Claim) *Hold {
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

// other says whether the key is a semaphore and c claims a lock, or the reverse,
// and for how long.
func (e *Entry) other(c *lock.Claim, now time.Duration) (ttl time.Duration, other bool) {
	if e.Free() || (e.Holds[0].Mode == lock.Semaphore) == (c.Mode == lock.Semaphore) {
		return 0, false
	}
	return e.Ends() - now, true
}

// Admits reports whether c would be granted now.
func (e *Entry) Admits(c *lock.Claim, now time.Duration) bool {
	_, busy := e.busy(c, now)
	return !busy
}

// busy says whether c has to wait, and how long the holds in its way last.
func (e *Entry) busy(c *lock.Claim, now time.Duration) (ttl time.Duration, busy bool) {
	if ttl, other := e.other(c, now); other {
		return ttl, true
	}
	if c.Mode == lock.Semaphore {
		return e.exhausted(c, now)
	}
	for i := range e.Holds {
		if h := &e.Holds[i]; !h.admits(c) {
			busy = true
			ttl = max(ttl, h.Expires-now)
		}
	}
	if c.Mode == lock.Fair && !e.Queue.turn(c.Owner) {
		busy = true
	}
	return ttl, busy
}

// exhausted is busy for a semaphore, of which the first permit to come back
// may be enough.
func (e *Entry) exhausted(c *lock.Claim, now time.Duration) (ttl time.Duration, busy bool) {
	left := c.Size
	for i := range e.Holds {
		h := &e.Holds[i]
		left -= h.Permits
		if until := h.Expires - now; i == 0 || until < ttl {
			ttl = until
		}
	}
	return ttl, left < c.Permits
}

// grant adds the hold of c, and ends its place in the queue.
func (e *Entry) grant(c *lock.Claim, fence uint64, now time.Duration) {
	if c.Mode == lock.Fair {
		e.Queue.serve(c.Owner)
	}
	e.Queue.recall()
	e.Holds = append(e.Holds, Hold{
		Owner: c.Owner, Mode: c.Mode, Permits: c.Permits, Fence: fence, Expires: now + c.TTL,
	})
}

// place takes or keeps the places that c names.
func (e *Entry) place(c *lock.Claim, now time.Duration) {
	if c.Mode != lock.Fair {
		return
	}
	for _, owner := range c.Places {
		if e.own(&lock.Claim{Owner: owner, Mode: c.Mode}) == nil {
			e.Queue.take(owner, now)
		}
	}
}

// State is what [lock.Store] shows of the key.
func (e *Entry) State(now time.Duration) lock.State {
	e.Settle(now)
	state := lock.State{Held: !e.Free()}
	for i := range e.Holds {
		h := &e.Holds[i]
		if i == 0 || h.Mode == lock.Write {
			state.Mode = h.Mode
		}
		state.TTL = max(state.TTL, h.Expires-now)
		if i < lock.MaxListed {
			state.Owners = append(state.Owners, lock.OwnerHolds{
				Owner: h.Owner, Holds: max(1, h.Permits), Kept: h.Kept, Fence: h.Fence, Since: time.UnixMicro(int64(h.Fence / lock.FenceStep)),
			})
		}
	}
	for _, p := range e.Queue[:min(len(e.Queue), lock.MaxListed)] {
		state.Waiters = append(state.Waiters, p.Owner)
	}
	state.MoreOwners, state.MoreWaiters = len(e.Holds)-len(state.Owners), len(e.Queue)-len(state.Waiters)
	return state
}

// admits reports whether c may have the key together with h.
func (h *Hold) admits(c *lock.Claim) bool {
	return c.Mode == lock.Read && h.Mode == lock.Read
}

func (h *Hold) renewAtLeast(until time.Duration) { h.Expires = max(h.Expires, until) }

// Check refuses an acquire, a renewal or a lower that no store could keep.
func Check(c *lock.Claim) error {
	switch {
	case c.Owner == "":
		return fmt.Errorf("%w: a claim without an owner", lock.ErrInvalid)
	case c.TTL <= 0, c.TTL > lock.MaxDuration:
		return fmt.Errorf("%w: TTL %v, the limit is %v", lock.ErrInvalid, c.TTL, lock.MaxDuration)
	case c.Mode != lock.Semaphore:
		return nil
	case c.Permits < 1, c.Size < c.Permits, c.Size > lock.MaxPermits:
		return fmt.Errorf("%w: %d permits of %d, the limit is %d", lock.ErrInvalid, c.Permits, c.Size, lock.MaxPermits)
	}
	return nil
}
