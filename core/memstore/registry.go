package memstore

import (
	"context"
	"maps"
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

var _ lock.Registry = (*Store)(nil)

// registry is who the lockers are, and who hears of forced releases. The mutex of the store
// guards it.
type registry struct {
	lockers   map[string]registered
	listeners map[*listener]struct{}
}

type registered struct {
	lock.Registration
	expires time.Duration
}

type listener struct{ heard func(locker, name string) }

func (r *registry) announce(locker, key string) {
	for l := range r.listeners {
		l.heard(locker, key)
	}
}

// Register implements [lock.Registry].
func (s *Store) Register(ctx context.Context, r lock.Registration, ttl time.Duration) error {
	if err := ended(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if s.registry.lockers == nil {
		s.registry.lockers = make(map[string]registered)
	}
	maps.DeleteFunc(s.registry.lockers, func(_ string, r registered) bool { return now >= r.expires })
	s.registry.lockers[r.Locker] = registered{r, now + ttl}
	return nil
}

// Unregister implements [lock.Registry].
func (s *Store) Unregister(ctx context.Context, locker string) error {
	if err := ended(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.registry.lockers, locker)
	return nil
}

// Registered implements [lock.Registry].
func (s *Store) Registered(ctx context.Context, lockers []string) (map[string]lock.Registration, error) {
	if err := ended(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now, known := s.now(), make(map[string]lock.Registration)
	for _, id := range lockers {
		if r, ok := s.registry.lockers[id]; ok && now < r.expires {
			known[id] = r.Registration
		}
	}
	return known, nil
}

// Announced implements [lock.Registry].
func (s *Store) Announced(ctx context.Context, heard func(locker, name string)) (stop func(), err error) {
	if err := ended(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.registry.listeners == nil {
		s.registry.listeners = make(map[*listener]struct{})
	}
	l := &listener{heard}
	s.registry.listeners[l] = struct{}{}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.registry.listeners, l)
	}, nil
}

// NameOf implements [lock.Registry]: the key itself.
func (*Store) NameOf(key string) string { return key }
