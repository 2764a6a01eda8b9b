package bug

import (
	"context"
	"sync"

	"github.com/redlatch/redlatch/core/lock"
)

// unspaced has a counter for its fences, and says that there is room between them.
type unspaced struct{ incrFence }

// Traits implements [lock.BlockingStore].
func (*unspaced) Traits() lock.Traits { return lock.Traits{Spaced: true} }

// staleHandoff keeps what a lease of the process releases for the next call for the
// key. That one believes that its lease begins then.
type staleHandoff struct {
	lock.BlockingStore

	mu     sync.Mutex
	kept   map[string]string // owners, by key
	owners map[string]string // of what was handed on, by the owners who have it now
	fences sync.Map          // by owner
}

func (s *staleHandoff) known(c lock.Claim) lock.Claim {
	s.mu.Lock()
	defer s.mu.Unlock()
	if owner, ok := s.owners[c.Owner]; ok {
		c.Owner = owner
	}
	return c
}

// take hands on what was kept.
func (s *staleHandoff) take(c lock.Claim) (owner string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if owner, ok = s.kept[c.Key]; ok {
		delete(s.kept, c.Key)
		s.owners[c.Owner] = owner
	}
	return owner, ok
}

func (s *staleHandoff) Acquire(ctx context.Context, c lock.Claim) (uint64, error) {
	if plain(c) {
		if owner, ok := s.take(c); ok {
			fence, _ := s.fences.Load(owner)
			s.fences.Store(owner, fence.(uint64)+1)
			return fence.(uint64) + 1, nil
		}
	}
	c = s.known(c)
	fence, err := s.BlockingStore.Acquire(ctx, c)
	if err == nil {
		s.fences.Store(c.Owner, fence)
	}
	return fence, err
}

func (s *staleHandoff) Renew(ctx context.Context, claims []lock.Claim, report func(int, error)) {
	known := make([]lock.Claim, len(claims))
	for i, c := range claims {
		known[i] = s.known(c)
	}
	s.BlockingStore.Renew(ctx, known, report)
}

func (s *staleHandoff) Release(ctx context.Context, c lock.Claim) error {
	c = s.known(c)
	if _, granted := s.fences.Load(c.Owner); !plain(c) || !granted {
		return s.BlockingStore.Release(ctx, c)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept[c.Key] = c.Owner
	return nil
}
