package bug

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
)

// noOwner releases by deleting the key.
type noOwner struct {
	lock.BlockingStore
	rdb redis.UniversalClient
}

func (s *noOwner) Release(ctx context.Context, c lock.Claim) error {
	if !plain(c) {
		return s.BlockingStore.Release(ctx, c)
	}
	return s.rdb.Del(ctx, c.Key).Err()
}

// ownerReuse gives an owner the name of an earlier one of its locker, once that
// has released. What is still under way for the earlier one meets the later one.
type ownerReuse struct {
	lock.BlockingStore

	mu      sync.Mutex
	aliases map[string]string // by owner
	taken   map[string]bool   // aliases
}

func (s *ownerReuse) renamed(c lock.Claim) lock.Claim {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.aliases[c.Owner] == "" {
		s.aliases[c.Owner] = s.choose(c.Owner)
	}
	c.Owner = s.aliases[c.Owner]
	return c
}

// choose finds the first name that is free; mu is held.
func (s *ownerReuse) choose(owner string) string {
	client, _, _ := strings.Cut(owner, ":")
	for n := 1; ; n++ {
		alias := fmt.Sprintf("%s:%d", client, n)
		if !s.taken[alias] {
			s.taken[alias] = true
			return alias
		}
	}
}

func (s *ownerReuse) Acquire(ctx context.Context, c lock.Claim) (uint64, error) {
	return s.BlockingStore.Acquire(ctx, s.renamed(c))
}

func (s *ownerReuse) Renew(ctx context.Context, claims []lock.Claim, report func(int, error)) {
	known := make([]lock.Claim, len(claims))
	for i, c := range claims {
		known[i] = s.renamed(c)
	}
	s.BlockingStore.Renew(ctx, known, report)
}

func (s *ownerReuse) Release(ctx context.Context, c lock.Claim) error {
	known := s.renamed(c)
	err := s.BlockingStore.Release(ctx, known)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.taken, known.Owner)
	return err
}

func (s *ownerReuse) Watch(ctx context.Context, c lock.Claim, wake func()) (func(), error) {
	return s.BlockingStore.Watch(ctx, s.renamed(c), wake)
}
