package memstore

import (
	"context"
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

var _ lock.GroupStore = (*Store)(nil)

// AcquireGroup implements [lock.GroupStore].
func (s *Store) AcquireGroup(ctx context.Context, claims []lock.Claim) ([]uint64, error) {
	if err := ended(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.sweep(now)
	for _, c := range claims {
		e := s.look(c.Key, now)
		if ttl, other := e.other(c, now); other {
			return nil, &lock.BusyError{TTL: ttl}
		}
		if ttl, busy := e.busy(c, now); busy && e.own(c) == nil {
			return nil, &lock.BusyError{TTL: ttl}
		}
	}
	fences := make([]uint64, len(claims))
	for i, c := range claims {
		e := s.look(c.Key, now)
		h := e.own(c)
		if h != nil {
			h.renewAtLeast(now.Add(c.TTL))
			fences[i] = h.fence
			continue
		}
		fences[i] = s.nextFence(now)
		e.grant(c, fences[i], now)
		s.entries[c.Key] = e
	}
	return fences, nil
}
