// Package memstore keeps locks in memory, for a single process and for unit tests.
// It supports every mode with the semantics of the Redis store, expiry included.
// Lockers that share a Store contend like processes that share a Redis. Where the
// contract of [lock.Store] leaves a choice, it does what core/sqlstore does.
package memstore

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/redlatch/redlatch/core/internal/entry"
	"github.com/redlatch/redlatch/core/lock"
)

// Store implements [lock.Store]. It starts no goroutine and needs no Close.
// Use [New].
type Store struct {
	epoch time.Time // what times are counted from, on the monotonic clock

	mu       sync.Mutex
	entries  map[string]*entry.Entry
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
		entries:  make(map[string]*entry.Entry),
		watchers: make(watchers),
		sweepAt:  minSweep,
	}
}

// Traits implements [lock.Store].
func (*Store) Traits() lock.Traits { return lock.Traits{Immediate: true, Spaced: true} }

// nextFence returns the fence of the next grant: the clock in microseconds, or one more
// than that of the grant before, times [lock.FenceStep]. mu is held.
func (s *Store) nextFence(now time.Duration) uint64 {
	return max(s.fence+lock.FenceStep, uint64(s.epoch.Add(now).UnixMicro())*lock.FenceStep)
}

func (s *Store) now() time.Duration { return time.Since(s.epoch) }

// Acquire implements [lock.Store].
func (s *Store) Acquire(ctx context.Context, c lock.Claim, _ time.Time, answer lock.Answer) {
	answer.Answered(s.acquire(ctx, c))
}

// Release implements [lock.Store].
func (s *Store) Release(ctx context.Context, c lock.Claim, _ time.Time, answer lock.Answer) {
	answer.Answered(s.release(ctx, c))
}

// Lower implements [lock.Store].
func (s *Store) Lower(ctx context.Context, c lock.Claim, _ time.Time, answer lock.Answer) {
	answer.Answered(0, s.lower(ctx, c))
}

func (s *Store) acquire(ctx context.Context, c lock.Claim) (fence uint64, err error) {
	err = s.change(ctx, &c, func(e *entry.Entry, now time.Duration) error {
		fence, err = e.Acquire(&c, now, s.nextFence(now))
		s.fence = max(s.fence, fence)
		return err
	})
	return fence, err
}

// Renew implements [lock.Store].
func (s *Store) Renew(ctx context.Context, claims []lock.Claim, report func(int, error)) {
	for i, c := range claims {
		report(i, s.change(ctx, &c, func(e *entry.Entry, now time.Duration) error { return e.Renew(&c, now) }))
	}
}

func (s *Store) lower(ctx context.Context, c lock.Claim) error {
	return s.change(ctx, &c, func(e *entry.Entry, now time.Duration) error { return e.Lower(&c, now) })
}

// change lets do decide about a claim.
func (s *Store) change(ctx context.Context, c *lock.Claim, do func(*entry.Entry, time.Duration) error) error {
	if err := check(ctx, c.Mode); err != nil {
		return err
	}
	if err := entry.Check(c); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	s.sweep(now)
	e := s.look(c.Key)
	err := do(e, now)
	s.settle(c.Key, e)
	return err
}

// release returns how many watches there are, and one more.
func (s *Store) release(ctx context.Context, c lock.Claim) (watches uint64, err error) {
	if err := check(ctx, c.Mode); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.look(c.Key)
	err = e.Release(&c, s.now(), c.Keep.Sub(s.epoch))
	s.settle(c.Key, e)
	return uint64(1 + len(s.watchers[c.Key])), err
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
	e := s.look(key)
	defer s.settle(key, e)
	return e.State(s.now()), nil
}

// ForceRelease implements [lock.Store]. The queue of Fair waiters stays, and
// its first is woken.
func (s *Store) ForceRelease(ctx context.Context, key string) (bool, error) {
	if err := ended(ctx); err != nil {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.look(key)
	defer s.settle(key, e)
	e.Settle(s.now())
	gone := e.Holds
	if !e.Force(s.now()) {
		return false, nil
	}
	for i := range gone {
		s.registry.announce(lock.LockerOf(gone[i].Owner), key)
	}
	return true, nil
}

// look returns the entry of key, or an empty one that isn't stored; mu is held.
func (s *Store) look(key string) *entry.Entry {
	if e := s.entries[key]; e != nil {
		return e
	}
	return entry.New()
}

// settle follows a change of e: it delivers the wake-ups, and keeps e unless it is empty.
// mu is held.
func (s *Store) settle(key string, e *entry.Entry) {
	s.watchers.deliver(key, e.Wake)
	e.Wake = entry.Wake{}
	if e.Empty() {
		delete(s.entries, key)
	} else {
		s.entries[key] = e
	}
}

// sweep looks at all entries each time their number has doubled, so that its
// cost per grant stays constant; mu is held.
func (s *Store) sweep(now time.Duration) {
	if len(s.entries) < s.sweepAt {
		return
	}
	for key, e := range s.entries {
		e.Settle(now)
		s.settle(key, e)
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

// ended returns an error if ctx has ended, which says that nothing was done.
func ended(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return &lock.StoreError{Outcome: lock.OutcomeNotExecuted, Err: err}
	}
	return nil
}
