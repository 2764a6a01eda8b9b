package guardtest

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
	"github.com/redlatch/redlatch/core/rule"
)

// Outage is a store in memory that can be unreachable, as Redis can. It keeps its
// locks meanwhile. Use [GuardWithOutage].
type Outage struct {
	lock.Store

	away atomic.Bool
}

// GuardWithOutage returns a guard as [Guard] does, and its store, which works until
// [Outage.Begin].
func GuardWithOutage(t testing.TB, rules ...rule.Rule) (*guard.Guard, *Outage) {
	t.Helper()
	store := &Outage{Store: memstore.New()}
	g, err := guard.New(Locker(t, store), rules...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.End) // for the locker to release what is held
	return Served(g), store
}

// Begin makes every call fail until [Outage.End], as calls to a Redis that refuses
// connections. Leases that can't be renewed meanwhile are lost when they end.
func (o *Outage) Begin() { o.away.Store(true) }

// End makes the store answer again.
func (o *Outage) End() { o.away.Store(false) }

func (o *Outage) failure() error {
	if !o.away.Load() {
		return nil
	}
	return &lock.StoreError{Outcome: lock.OutcomeNotExecuted, Unreachable: true, Class: "connection refused", Err: ErrDown}
}

// Acquire implements [lock.Store].
func (o *Outage) Acquire(ctx context.Context, c lock.Claim, by time.Time, answer lock.Answer) {
	o.call(ctx, c, by, answer, o.Store.Acquire)
}

// Release implements [lock.Store].
func (o *Outage) Release(ctx context.Context, c lock.Claim, by time.Time, answer lock.Answer) {
	o.call(ctx, c, by, answer, o.Store.Release)
}

// Lower implements [lock.Store].
func (o *Outage) Lower(ctx context.Context, c lock.Claim, by time.Time, answer lock.Answer) {
	o.call(ctx, c, by, answer, o.Store.Lower)
}

func (o *Outage) call(
	ctx context.Context, c lock.Claim, by time.Time, answer lock.Answer,
	begin func(context.Context, lock.Claim, time.Time, lock.Answer),
) {
	if err := o.failure(); err != nil {
		answer.Answered(0, err)
		return
	}
	begin(ctx, c, by, answer)
}

// Renew implements [lock.Store].
func (o *Outage) Renew(ctx context.Context, claims []lock.Claim, report func(i int, err error)) {
	if err := o.failure(); err != nil {
		for i := range claims {
			report(i, err)
		}
		return
	}
	o.Store.Renew(ctx, claims, report)
}

// Watch implements [lock.Store].
func (o *Outage) Watch(ctx context.Context, c lock.Claim, wake func()) (stop func(), err error) {
	if err := o.failure(); err != nil {
		return nil, err
	}
	return o.Store.Watch(ctx, c, wake)
}

// Inspect implements [lock.Store].
func (o *Outage) Inspect(ctx context.Context, key string) (lock.State, error) {
	if err := o.failure(); err != nil {
		return lock.State{}, err
	}
	return o.Store.Inspect(ctx, key)
}

// ForceRelease implements [lock.Store].
func (o *Outage) ForceRelease(ctx context.Context, key string) (freed bool, err error) {
	if err := o.failure(); err != nil {
		return false, err
	}
	return o.Store.ForceRelease(ctx, key)
}
