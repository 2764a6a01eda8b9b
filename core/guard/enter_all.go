package guard

import (
	"context"
	"errors"
	"slices"

	"github.com/redlatch/redlatch/core/lock"
)

// EnterAll is [Guard.Enter] for work that needs the locks of several calls: it
// takes all of them or none, in an order in which callers whose keys overlap can't
// block each other (see [lock.AcquireAll]). Without any call it returns ctx and a
// leave that does nothing. A key that two calls share is re-entered, and permits of it are
// taken together, as one lease.
//
// All keys are made before the first lock is taken. The shortest wait among the
// rules bounds the whole. The error is an [*Error] that names the call and the rule
// that failed; the OnBusy of that rule applies.
//
// The context ends when any of the leases does: to lose one is to lose all.
// leave releases them all, as that of [Guard.Enter] does. Of several that were lost it
// returns the first by key. [Hooks] and the log get each.
func (g *Guard) EnterAll(ctx context.Context, calls ...Call) (inside context.Context, leave func() error, err error) {
	e := &entry{guard: g, calls: slices.Clone(calls)}
	return e.enter(ctx)
}

// blamed returns the call whose key the error names, or the first.
func blamed(calls []Call, err error) *Call {
	if failed, ok := errors.AsType[*lock.Error](err); ok {
		return of(calls, failed.Key)
	}
	return &calls[0]
}

// of returns the call with that key, or the first.
func of(calls []Call, key string) *Call {
	return &calls[max(0, slices.IndexFunc(calls, func(c Call) bool { return c.Key == key }))]
}
