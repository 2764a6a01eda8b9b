package world

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

// unlowered lets no writer go on as a reader, and says that it does.
type unlowered struct{ lock.Store }

func (s unlowered) Lower(_ context.Context, _ lock.Claim, _ time.Time, answer lock.Answer) {
	answer.Answered(0, nil)
}

// loweredOnce makes each call of Lower once. If it has no answer, that is taken for done.
type loweredOnce struct {
	lock.Store
	called sync.Map // owners
}

func (s *loweredOnce) Lower(ctx context.Context, c lock.Claim, by time.Time, answer lock.Answer) {
	if _, again := s.called.LoadOrStore(c.Owner, true); again {
		answer.Answered(0, nil)
		return
	}
	s.Store.Lower(ctx, c, by, answer)
}

// overtaken takes the answer to the renewal of a write hold that Lower has overtaken for that to
// the next renewal.
type overtaken struct {
	lock.Store
	mu      sync.Mutex
	refuted map[string]bool // owners who had no write hold
}

func (s *overtaken) Renew(ctx context.Context, claims []lock.Claim, report func(i int, err error)) {
	s.Store.Renew(ctx, claims, func(i int, err error) {
		c := claims[i]
		s.mu.Lock()
		switch {
		case c.Mode == lock.Write && errors.Is(err, lock.ErrNotHeld):
			s.refuted[c.Owner] = true
		case c.Mode == lock.Read && s.refuted[c.Owner]:
			err = lock.ErrNotHeld
		}
		s.mu.Unlock()
		report(i, err)
	})
}

// unhurried renews readers no sooner than others: when a third of their TTL is over, and
// those with a lease of fixed length never.
type unhurried struct {
	lock.Store
	mu   sync.Mutex
	last map[string]renewed // by owner
}

// renewed is a renewal: for how long, and when.
type renewed struct {
	ttl time.Duration
	at  time.Time
}

var errEarly = &lock.StoreError{Outcome: lock.OutcomeNotExecuted, Err: errors.New("it is early")}

func (s *unhurried) Renew(ctx context.Context, claims []lock.Claim, report func(i int, err error)) {
	for i, c := range claims {
		if s.early(c) {
			report(i, errEarly)
			continue
		}
		s.Store.Renew(ctx, claims[i:i+1], func(_ int, err error) { report(i, err) })
	}
}

func (s *unhurried) early(c lock.Claim) bool {
	if c.Mode != lock.Read || c.TTL <= lock.DefaultWatchdog {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now, last := time.Now(), s.last[c.Owner]
	left := c.TTL < last.ttl // of a lease of fixed length
	if left || now.Sub(last.at) < c.TTL/3 {
		return true
	}
	s.last[c.Owner] = renewed{c.TTL, now}
	return false
}
