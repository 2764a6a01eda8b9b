package bug

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

// stranded wakes nobody, and doesn't say when a hold ends.
type stranded struct{ unheard }

func (s *stranded) Acquire(ctx context.Context, c lock.Claim) (uint64, error) {
	fence, err := s.BlockingStore.Acquire(ctx, c)
	if errors.Is(err, lock.ErrBusy) {
		return 0, &lock.BusyError{TTL: -1}
	}
	return fence, err
}

// unheard wakes nobody.
type unheard struct{ lock.BlockingStore }

func (s unheard) Watch(ctx context.Context, c lock.Claim, _ func()) (func(), error) {
	return s.BlockingStore.Watch(ctx, c, func() {})
}

// endlessWatch ends no subscription.
type endlessWatch struct{ lock.BlockingStore }

func (s *endlessWatch) Watch(ctx context.Context, c lock.Claim, wake func()) (func(), error) {
	_, err := s.BlockingStore.Watch(ctx, c, wake)
	return func() {}, err
}

// messageGrants takes a message for a grant.
type messageGrants struct {
	lock.BlockingStore
	invited sync.Map // keys
}

func (s *messageGrants) Watch(ctx context.Context, c lock.Claim, wake func()) (func(), error) {
	return s.BlockingStore.Watch(ctx, c, func() {
		if plain(c) {
			s.invited.Store(c.Key, true)
		}
		wake()
	})
}

func (s *messageGrants) Acquire(ctx context.Context, c lock.Claim) (uint64, error) {
	if _, invited := s.invited.LoadAndDelete(c.Key); invited {
		return uint64(time.Now().UnixMicro()), nil
	}
	return s.BlockingStore.Acquire(ctx, c)
}
