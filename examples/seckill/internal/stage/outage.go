package stage

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
)

// outage stops the lock store for everybody.
type outage struct{ down atomic.Bool }

// link is the way from one instance to the lock store of its lane.
type link struct {
	*memstore.Store
	outage *outage
	cut    atomic.Bool // the instance is paused or dead
}

var errNoAnswer = errors.New("the lock store doesn't answer")

func (l *link) away() error {
	if l.cut.Load() || l.outage.down.Load() {
		return &lock.StoreError{Outcome: lock.OutcomeRefused, Unreachable: true, Err: errNoAnswer}
	}
	return nil
}

// Acquire implements [lock.Store].
func (l *link) Acquire(ctx context.Context, c lock.Claim, by time.Time, answer lock.Answer) {
	if err := l.away(); err != nil {
		answer.Answered(0, err)
		return
	}
	l.Store.Acquire(ctx, c, by, answer)
}

// Release implements [lock.Store].
func (l *link) Release(ctx context.Context, c lock.Claim, by time.Time, answer lock.Answer) {
	if err := l.away(); err != nil {
		answer.Answered(0, err)
		return
	}
	l.Store.Release(ctx, c, by, answer)
}

// Renew implements [lock.Store].
func (l *link) Renew(ctx context.Context, claims []lock.Claim, report func(int, error)) {
	if err := l.away(); err != nil {
		for i := range claims {
			report(i, err)
		}
		return
	}
	l.Store.Renew(ctx, claims, report)
}
