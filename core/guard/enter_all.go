package guard

import (
	"context"
	"errors"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/rule"
)

// EnterAll is [Guard.Enter] for work that needs the locks of several calls: it
// takes all of them or none, in an order in which callers whose keys overlap can't
// block each other (see [lock.AcquireAll]). Without any call it returns ctx and a
// leave that does nothing. A key that two calls share is re-entered.
//
// All keys are made before the first lock is taken. The shortest wait among the
// rules bounds the whole. The error is an [*Error] that names the call and the rule
// that failed; the OnBusy of that rule applies.
//
// The context ends when any of the leases does: to lose one is to lose all.
// leave releases them all, as that of [Guard.Enter] does.
func (g *Guard) EnterAll(ctx context.Context, calls ...Call) (inside context.Context, leave func() error, err error) {
	parts, failed := g.parts(ctx, calls)
	if failed != nil {
		return ctx, stay, g.refuse(ctx, failed)
	}
	if len(parts) == 0 {
		return ctx, stay, nil
	}
	requests := make([]lock.Request, len(parts))
	for i, p := range parts {
		requests[i] = g.locker.Request(p.key, p.rule.Options()...)
	}
	leases, err := lock.AcquireAll(ctx, requests...)
	if err != nil {
		p := blamed(parts, err)
		return ctx, stay, g.refuse(ctx, p.call.fail(p.rule, acquireKind(ctx, p.rule, err), err))
	}
	leave = func() error {
		_ = leases.Release(ctx) // each of them reports it again
		for _, lease := range leases.Each() {
			err := lease.Release(ctx)
			if KindOf(err) == Lost || errors.Is(err, lock.ErrClosed) {
				p := blamed(parts, err)
				return g.refuse(ctx, p.call.fail(p.rule, Lost, err))
			}
		}
		return nil
	}
	return leases.Context(), leave, nil
}

// part is one lock of an [Guard.EnterAll].
type part struct {
	call *Call
	rule *rule.Compiled
	key  string
}

// parts finds the rules of the calls and makes their keys.
func (g *Guard) parts(ctx context.Context, calls []Call) ([]part, *Error) {
	parts := make([]part, 0, len(calls))
	for i := range calls {
		c := &calls[i]
		r, failed := g.ruleOf(c)
		if failed != nil {
			return nil, failed
		}
		text, err := c.key(r)
		if err != nil {
			return nil, c.fail(r, keyKind(ctx, err), err)
		}
		parts = append(parts, part{call: c, rule: r, key: text})
	}
	return parts, nil
}

// blamed returns the part whose key the error names, or the first.
func blamed(parts []part, err error) *part {
	var failed *lock.Error
	if errors.As(err, &failed) {
		for i := range parts {
			if parts[i].key == failed.Key {
				return &parts[i]
			}
		}
	}
	return &parts[0]
}
