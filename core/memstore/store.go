// Package memstore keeps locks in memory: the embedded default of a single
// process, and what unit tests run on. It has the same semantics as the
// Redis store, expiry included; lockers that share a Store contend like
// processes that share a Redis.
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
	mu       sync.Mutex
	holds    map[string]*hold
	fence    uint64
	watchers map[string]map[*watcher]struct{}
	// sweepAt is the number of holds at which expired ones, that nobody asks
	// for any more, are looked for.
	sweepAt int
}

const minSweep = 64

type hold struct {
	owner   string
	mode    lock.Mode
	count   int
	fence   uint64
	expires time.Time
}

type watcher struct{ wake func() }

// New returns an empty store.
func New() *Store {
	return &Store{
		holds:    make(map[string]*hold),
		watchers: make(map[string]map[*watcher]struct{}),
		sweepAt:  minSweep,
	}
}

// Prompt tells the engine that no call ever waits.
func (*Store) Prompt() {}

// Acquire implements [lock.Store].
func (s *Store) Acquire(ctx context.Context, c lock.Claim) (uint64, error) {
	if err := check(ctx, c.Mode); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.alive(c.Key)
	switch {
	case h != nil && h.owner == c.Owner:
		h.count = c.Holds
		if expires := time.Now().Add(c.TTL); expires.After(h.expires) {
			h.expires = expires
		}
		return h.fence, nil
	case c.Holds > 1:
		return 0, lock.ErrNotHeld
	case h != nil:
		return 0, &lock.BusyError{TTL: time.Until(h.expires)}
	}
	s.sweep()
	s.fence = max(s.fence+1, uint64(time.Now().UnixMicro()))
	s.holds[c.Key] = &hold{owner: c.Owner, mode: c.Mode, count: c.Holds, fence: s.fence, expires: time.Now().Add(c.TTL)}
	return s.fence, nil
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
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.alive(c.Key)
	if h == nil || h.owner != c.Owner {
		return lock.ErrNotHeld
	}
	h.expires = time.Now().Add(c.TTL)
	return nil
}

// Release implements [lock.Store].
func (s *Store) Release(ctx context.Context, c lock.Claim) error {
	if err := check(ctx, c.Mode); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.alive(c.Key)
	if h == nil || h.owner != c.Owner {
		return lock.ErrNotHeld
	}
	h.count = min(h.count, c.Holds)
	if h.count == 0 {
		s.free(c.Key)
	}
	return nil
}

// Watch implements [lock.Store].
func (s *Store) Watch(ctx context.Context, c lock.Claim, wake func()) (func(), error) {
	if err := check(ctx, c.Mode); err != nil {
		return nil, err
	}
	w := &watcher{wake: wake}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.watchers[c.Key] == nil {
		s.watchers[c.Key] = make(map[*watcher]struct{})
	}
	s.watchers[c.Key][w] = struct{}{}
	return func() { s.unwatch(c.Key, w) }, nil
}

func (s *Store) unwatch(key string, w *watcher) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.watchers[key], w)
	if len(s.watchers[key]) == 0 {
		delete(s.watchers, key)
	}
}

// Inspect implements [lock.Store].
func (s *Store) Inspect(ctx context.Context, key string) (lock.State, error) {
	if err := ended(ctx); err != nil {
		return lock.State{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.alive(key)
	if h == nil {
		return lock.State{}, nil
	}
	return lock.State{
		Held: true, Mode: h.mode, TTL: time.Until(h.expires),
		Owners: []lock.OwnerHolds{{Owner: h.owner, Holds: h.count}},
	}, nil
}

// ForceRelease implements [lock.Store].
func (s *Store) ForceRelease(ctx context.Context, key string) (bool, error) {
	if err := ended(ctx); err != nil {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.alive(key) == nil {
		return false, nil
	}
	s.free(key)
	return true, nil
}

// alive returns the hold of key unless it has expired; mu is held.
func (s *Store) alive(key string) *hold {
	h := s.holds[key]
	if h != nil && !time.Now().Before(h.expires) {
		delete(s.holds, key)
		return nil
	}
	return h
}

// sweep drops expired holds each time their number has doubled, so that its
// cost per grant stays constant; mu is held.
func (s *Store) sweep() {
	if len(s.holds) < s.sweepAt {
		return
	}
	for key := range s.holds {
		s.alive(key)
	}
	s.sweepAt = max(minSweep, 2*len(s.holds))
}

// free removes the hold of key and wakes who watches it; mu is held, so that
// no wake comes after its stop.
func (s *Store) free(key string) {
	delete(s.holds, key)
	for w := range s.watchers[key] {
		w.wake()
	}
}

func check(ctx context.Context, m lock.Mode) error {
	if m != lock.Exclusive {
		return fmt.Errorf("%w: memstore has no mode %s", lock.ErrUnsupported, m)
	}
	return ended(ctx)
}

// ended is nil while ctx is not over; nothing was done if it is.
func ended(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return &lock.StoreError{Outcome: lock.OutcomeNotExecuted, Err: err}
	}
	return nil
}

// Len returns the number of entries, expired ones included that were not
// looked at since.
func (s *Store) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.holds)
}
