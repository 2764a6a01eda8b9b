package world

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

// counted counts the calls that a store gets for an acquisition.
type counted struct{ lock.Store }

type callsKey struct{}

// counting returns a context for an acquisition whose calls are counted.
func counting(ctx context.Context) (context.Context, *atomic.Int64) {
	calls := new(atomic.Int64)
	return context.WithValue(ctx, callsKey{}, calls), calls
}

func count(ctx context.Context) {
	if calls, ok := ctx.Value(callsKey{}).(*atomic.Int64); ok {
		calls.Add(1)
	}
}

func (s counted) Acquire(ctx context.Context, c lock.Claim, by time.Time, answer lock.Answer) {
	count(ctx)
	s.Store.Acquire(ctx, c, by, answer)
}

func (s counted) Release(ctx context.Context, c lock.Claim, by time.Time, answer lock.Answer) {
	count(ctx)
	s.Store.Release(ctx, c, by, answer)
}

func (s counted) Lower(ctx context.Context, c lock.Claim, by time.Time, answer lock.Answer) {
	count(ctx)
	s.Store.Lower(ctx, c, by, answer)
}

func (s counted) Renew(ctx context.Context, claims []lock.Claim, report func(i int, err error)) {
	count(ctx)
	s.Store.Renew(ctx, claims, report)
}

func (s counted) Watch(ctx context.Context, c lock.Claim, wake func()) (stop func(), err error) {
	count(ctx)
	return s.Store.Watch(ctx, c, wake)
}
