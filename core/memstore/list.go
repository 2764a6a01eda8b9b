package memstore

import (
	"context"
	"iter"
	"slices"

	"github.com/redlatch/redlatch/core/internal/glob"
	"github.com/redlatch/redlatch/core/lock"
)

var _ lock.Lister = (*Store)(nil)

// List implements [lock.Lister], in the order of the keys as they are when it begins.
func (s *Store) List(ctx context.Context, pattern string, page int) iter.Seq2[[]lock.Listed, error] {
	return func(yield func([]lock.Listed, error) bool) {
		for keys := range slices.Chunk(s.matching(pattern), max(page, 1)) {
			if err := ended(ctx); err != nil {
				yield(nil, err)
				return
			}
			if !yield(s.listed(keys), nil) {
				return
			}
		}
	}
}

// matching are the keys that match, sorted.
func (s *Store) matching(pattern string) (keys []string) {
	s.mu.Lock()
	for key := range s.entries {
		if glob.Match(pattern, key) {
			keys = append(keys, key)
		}
	}
	s.mu.Unlock()
	slices.Sort(keys)
	return keys
}

// listed are those of the keys that are held now.
func (s *Store) listed(keys []string) (listed []lock.Listed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	for _, key := range keys {
		e := s.look(key)
		state := e.State(now)
		s.settle(key, e)
		if !state.Held {
			continue
		}
		waiting := len(state.Waiters) + state.MoreWaiters
		for w := range s.watchers[key] {
			if !w.fair {
				waiting++
			}
		}
		listed = append(listed, lock.Listed{Key: key, State: state, Waiting: waiting})
	}
	return listed
}
