package guard

import (
	"context"
	"errors"
	"sync"

	"github.com/redlatch/redlatch/core/key"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/rule"
)

// Call is one call of an operation, before it runs.
type Call struct {
	// Operation is the name of the operation, as rules and errors write it.
	Operation string
	// Rule is used instead of the guard's rule for Operation. A guard that isn't valid
	// lets no call in, whatever its rule.
	Rule *rule.Compiled
	// Vars finds the values for the rule's template. It returns
	// [ErrUnresolvable] for a variable that no request could give a value.
	Vars key.Lookup
	// Key, if not empty, is used as it is instead of a key of the rule's template. The
	// code that makes it must keep its parts apart.
	Key string
}

// Enter takes the lock of the call. It returns the context to run the work with,
// which ends when the lease does (see [lock.Lease.Context]), and leave, which
// releases the lock.
//
// The error is an [*Error]; the work must not run then, and leave is a no-op. An
// operation without a rule is an error of kind [Invalid]: a misspelled name must not
// run its work unlocked. Integrations that let operations without a rule pass look
// for the rule first, with [Guard.Rule].
//
// Call leave when the work is done, also when it panicked. It releases the lock
// even if ctx has ended. It returns nil, or an [*Error] of kind [Lost] if the lease
// was lost before: the work may have overlapped with another owner's. A second call
// returns the same and does nothing else. A release that the store didn't confirm
// goes on in the background and is no error.
func (g *Guard) Enter(ctx context.Context, c Call) (inside context.Context, leave func() error, err error) {
	lease, failed := g.Acquire(ctx, &c)
	if failed != nil {
		return ctx, stay, failed
	}
	// All of c would have to be kept.
	e := &entry{guard: g, call: Call{Operation: c.Operation, Rule: c.Rule}, lease: lease}
	return lease.Context(), func() error { return e.leave(ctx) }, nil
}

// entry is a call that has entered and leaves once.
type entry struct {
	guard *Guard
	call  Call
	lease *lock.Lease
	once  sync.Once
	lost  error
}

func (e *entry) leave(ctx context.Context) error {
	e.once.Do(func() {
		if lost := e.guard.Release(ctx, &e.call, e.lease); lost != nil {
			e.lost = lost
		}
	})
	return e.lost
}

// Acquire is [Guard.Enter] for integrations, which keep the call and its lease until
// the work is done. The work must run with the lease's context, and [Guard.Release]
// must follow, also when the work panicked. Acquire sets the rule and the key of c.
func (g *Guard) Acquire(ctx context.Context, c *Call) (*lock.Lease, *Error) {
	if failed := g.prepare(ctx, c); failed != nil {
		return nil, g.refuse(ctx, failed)
	}
	lease, err := g.locker.Acquire(ctx, c.Key, c.Rule.Options()...)
	if err != nil {
		return nil, g.refuse(ctx, c.fail(acquireKind(ctx, c.Rule, err), err))
	}
	return lease, nil
}

// Release releases the lease of a call that was acquired with ctx. It returns what
// the leave of [Guard.Enter] returns.
func (g *Guard) Release(ctx context.Context, c *Call, lease *lock.Lease) *Error {
	err := lease.Release(ctx)
	if KindOf(err) == Lost || errors.Is(err, lock.ErrClosed) {
		return g.refuse(ctx, c.fail(Lost, err))
	}
	return nil
}

// Refuse reports a call that can't be entered because err leaves it without a key,
// as [Guard.Enter] does with an error of c.Vars. The call needs no rule. It returns
// the error to answer with; the work must not run.
func (g *Guard) Refuse(ctx context.Context, c Call, err error) *Error {
	return g.refuse(ctx, c.fail(keyKind(ctx, err), err))
}

// prepare sets the rule and the key of the call.
func (g *Guard) prepare(ctx context.Context, c *Call) *Error {
	set, err := g.ready()
	if err == nil && c.Rule == nil {
		c.Rule, err = ruleOf(set, c.Operation)
	}
	if err != nil {
		return c.fail(Invalid, err)
	}
	text, err := c.key()
	if err != nil {
		return c.fail(keyKind(ctx, err), err)
	}
	c.Key = text
	return nil
}

// ruleOf returns the rule of an operation, which must have one.
func ruleOf(set *rule.Set, operation string) (*rule.Compiled, error) {
	if operation == "" {
		return nil, rule.Fault{Reason: "the call has neither an operation nor a rule"}
	}
	if r, ok := set.Lookup(operation); ok {
		return r, nil
	}
	return nil, rule.Fault{Operation: operation, Reason: "has no rule" + rule.DidYouMean(operation, operationsOf(set))}
}

func stay() error { return nil }

// key returns the key of the call, whose rule is set.
func (c *Call) key() (string, error) {
	switch {
	case len(c.Key) > key.MaxKey:
		return "", key.ErrTooLong
	case c.Key != "":
		return c.Key, nil
	case c.Vars == nil:
		return c.Rule.Template.Resolve(unresolvable)
	}
	return c.Rule.Template.Resolve(c.Vars)
}

func unresolvable(key.Var) (string, error) { return "", ErrUnresolvable }

// keyKind returns the kind of an error from making the key. An unknown error of the
// lookup is the request's fault, unless the request ended meanwhile.
func keyKind(ctx context.Context, err error) Kind {
	switch kind := KindOf(err); kind { //nolint:exhaustive // others are the request's fault
	case BadKey, Invalid, Unauthenticated:
		return kind
	}
	if ctx.Err() != nil {
		return Canceled
	}
	return BadKey
}

// acquireKind returns the kind of an error from taking the lock. Only here it's
// known whose time ran out: the caller's or the rule's.
func acquireKind(ctx context.Context, r *rule.Compiled, err error) Kind {
	kind := KindOf(err)
	switch {
	case ctx.Err() != nil && kind != Unavailable && endedBy(err):
		return Canceled
	case (kind == Contended || kind == Overloaded) && r.OnBusy == rule.Skip:
		return Skipped
	case kind == None, // an error outside the contract of the store
		kind == Lost: // of a key, while another was waited for: the operation has not run
		return Unavailable
	}
	return kind
}

func endedBy(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

func (c *Call) fail(kind Kind, err error) *Error {
	failed := &Error{Kind: kind, Operation: c.Operation, Err: err}
	if c.Rule != nil {
		failed.Name = c.Rule.Name
	}
	return failed
}
