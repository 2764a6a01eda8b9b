// Package memstore keeps locks in memory, for a single process and for unit tests.
// It supports every mode with the semantics of the Redis store, expiry included.
// Lockers that share a Store contend like processes that share a Redis.
//
// Where the contract of [lock.Store] leaves a choice:
//
//   - A place in the queue of Fair waiters lasts for 15 s, which each claim that
//     names it renews.
//   - A key that is free for the first in that queue is kept for it for 5 s; then
//     it is passed over. Exclusive, Read and Write claims do not look at the
//     queue.
//   - A claim of permits is checked against its own size: it is granted if the
//     permits taken and its own don't exceed it.
//   - A key that is held as a lock is busy for claims of permits, and the
//     reverse.
package memstore

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

// Store implements [lock.Store]. It starts no goroutine and needs no Close.
// Use [New].
type Store struct {
	epoch time.Time // what times are counted from, on the monotonic clock

	mu       sync.Mutex
	entries  map[string]*entry
	fence    uint64
	watchers watchers
	registry registry
	// sweepAt is the number of entries at which the ones that have ended,
	// and that nobody calls for, are looked for.
	sweepAt int
}

const minSweep = 64

// New returns an empty store.
func New() *Store {
	return &Store{
		epoch:    time.Now(),
		entries:  make(map[string]*entry),
		watchers: make(watchers),
		sweepAt:  minSweep,
	}
}

// Traits implements [lock.Store].
func (*Store) Traits() lock.Traits { return lock.Traits{Immediate: true, Spaced: true} }

// nextFence returns the fence of a grant: the clock in microseconds, or one more
// than that of the grant before, times [lock.FenceStep]. mu is held.
func (s *Store) nextFence(now time.Duration) uint64 {
	s.fence = max(s.fence+lock.FenceStep, uint64(s.epoch.Add(now).UnixMicro())*lock.FenceStep)
	return s.fence
}

func (s *Store) now() time.Duration { return time.Since(s.epoch) }

// Acquire implements [lock.Store].
func (s *Store) Acquire(ctx context.Context, c lock.Claim, _ time.Time, answer lock.Answer) {
	answer.Answered(s.acquire(ctx, c))
}

// Release implements [lock.Store].
func (s *Store) Release(ctx context.Context, c lock.Claim, _ time.Time, answer lock.Answer) {
	answer.Answered(0, s.release(ctx, c))
}

// Lower implements [lock.Store].
func (s *Store) Lower(ctx context.Context, c lock.Claim, _ time.Time, answer lock.Answer) {
	answer.Answered(0, s.lower(ctx, c))
}

func (s *Store) acquire(ctx context.Context, c lock.Claim) (uint64, error) {
	if err := check(ctx, c.Mode); err != nil {
		return 0, err
	}
	if err := checkClaim(&c); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	s.sweep(now)
	e := s.look(c.Key, now)
	if h := e.either(&c); h != nil {
		h.renewAtLeast(now + c.TTL)
		e.place(&c, now)
		return h.fence, nil
	}
	if ttl, busy := e.busy(&c, now); busy {
		e.place(&c, now)
		return 0, &lock.BusyError{TTL: ttl}
	}
	fence := s.nextFence(now)
	e.grant(&c, fence, now)
	e.place(&c, now)
	s.entries[c.Key] = e
	return fence, nil
}

// Renew implements [lock.Store].
func (s *Store) Renew(ctx context.Context, claims []lock.Claim, report func(int, error)) {
	for i, c := range claims {
		report(i, s.renew(ctx, c))
	}
}

func (s *Store) renew(ctx context.Context, c lock.Claim) error {
	if err := check(ctx, c.Mode); err != nil {
		return err
	}
	if err := checkClaim(&c); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	h := s.look(c.Key, now).either(&c)
	if h == nil {
		return lock.ErrNotHeld
	}
	h.renewAtLeast(now + c.TTL)
	return nil
}

func (s *Store) lower(ctx context.Context, c lock.Claim) error {
	if err := check(ctx, c.Mode); err != nil {
		return err
	}
	if err := checkClaim(&c); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	h := s.look(c.Key, now).either(&c)
	if h == nil {
		return lock.ErrNotHeld
	}
	h.renewAtLeast(now + c.TTL)
	if h.mode == lock.Write {
		h.mode = lock.Read
		s.watchers.wake(c.Key)
	}
	return nil
}

func (s *Store) release(ctx context.Context, c lock.Claim) error {
	if err := check(ctx, c.Mode); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	e := s.look(c.Key, now)
	if c.Mode == lock.Fair {
		e.queue.leave(c.Owner)
		s.settle(c.Key, e, now)
	}
	h := e.either(&c)
	if h == nil {
		return lock.ErrNotHeld
	}
	if keep := c.Keep.Sub(s.epoch); now < keep {
		h.kept, h.expires = true, keep
		s.wakeAll(c.Key, e)
		return nil
	}
	s.drop(c.Key, e, h, now)
	return nil
}

// wakeAll wakes all waiters, as a hold ends earlier than they know. mu is held.
func (s *Store) wakeAll(key string, e *entry) {
	s.watchers.wake(key)
	if len(e.queue) > 0 {
		s.watchers.wakeOwner(key, e.queue[0].owner)
	}
}

// drop removes a hold and wakes the waiters that it blocked. One of several readers
// blocks nobody whom the others don't, unless they end sooner than it. mu is held.
func (s *Store) drop(key string, e *entry, h *hold, now time.Duration) {
	mode, last := h.mode, e.last()
	e.remove(h)
	s.settle(key, e, now)
	if mode != lock.Read || e.last() < last {
		s.watchers.wake(key)
	}
}

// Watch implements [lock.Store].
func (s *Store) Watch(ctx context.Context, c lock.Claim, wake func()) (func(), error) {
	if err := check(ctx, c.Mode); err != nil {
		return nil, err
	}
	w := &watcher{wake: wake, fair: c.Mode == lock.Fair, owner: c.Owner, locker: c.Locker()}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watchers.add(c.Key, w)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.watchers.remove(c.Key, w)
	}, nil
}

// Inspect implements [lock.Store].
func (s *Store) Inspect(ctx context.Context, key string) (lock.State, error) {
	if err := ended(ctx); err != nil {
		return lock.State{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	return s.look(key, now).state(now), nil
}

// ForceRelease implements [lock.Store]. The queue of Fair waiters stays, and
// its first is woken.
func (s *Store) ForceRelease(ctx context.Context, key string) (bool, error) {
	if err := ended(ctx); err != nil {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	e := s.look(key, now)
	if e.free() {
		return false, nil
	}
	gone := e.holds
	e.holds = nil
	s.settle(key, e, now)
	s.watchers.wake(key)
	for i := range gone {
		s.registry.announce(lock.LockerOf(gone[i].owner), key)
	}
	return true, nil
}

// look returns the current entry of key, or an empty one that isn't stored; mu is
// held.
func (s *Store) look(key string, now time.Duration) *entry {
	e := s.entries[key]
	if e == nil {
		return newEntry()
	}
	e.expire(now)
	s.settle(key, e, now)
	return e
}

// settle follows a change of e: an entry without content is forgotten, and a
// free key is offered to the first in its queue. mu is held.
func (s *Store) settle(key string, e *entry, now time.Duration) {
	if !e.free() {
		return
	}
	if len(e.queue) == 0 {
		delete(s.entries, key)
		return
	}
	if owner, called := e.queue.call(now); called {
		s.watchers.wakeOwner(key, owner)
	}
}

// sweep looks at all entries each time their number has doubled, so that its
// cost per grant stays constant; mu is held.
func (s *Store) sweep(now time.Duration) {
	if len(s.entries) < s.sweepAt {
		return
	}
	for key := range s.entries {
		s.look(key, now)
	}
	s.sweepAt = max(minSweep, 2*len(s.entries))
}

// Len returns the number of keys that are held or waited for in a queue. It
// includes keys that have expired and were not used since.
func (s *Store) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.entries)
}

func check(ctx context.Context, m lock.Mode) error {
	if !m.Valid() {
		return fmt.Errorf("%w: memstore has no mode %s", lock.ErrUnsupported, m)
	}
	return ended(ctx)
}

// checkClaim refuses what an acquire or a renewal could not keep.
func checkClaim(c *lock.Claim) error {
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

// ended returns an error if ctx has ended, which says that nothing was done.
func ended(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return &lock.StoreError{Outcome: lock.OutcomeNotExecuted, Err: err}
	}
	return nil
}
