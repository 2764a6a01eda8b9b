package guard

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync"

	"github.com/redlatch/redlatch/core/key"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/rule"
)

// Call is one call of an operation, before it runs.
type Call struct {
	// Operation is the name of the operation, as rules and errors write it.
	Operation string
	// Rule is used instead of the guard's rules for Operation. A guard that isn't valid
	// lets no call in, whatever its rule.
	Rule *rule.Compiled
	// Vars finds the values for the templates of the rules. It returns
	// [ErrUnresolvable] for a variable that no request could give a value.
	Vars key.Lookup
	// Key, if not empty, is used as it is instead of a key of the rule's template. The
	// code that makes it must keep its parts apart. An operation with several rules has
	// no such key.
	Key string
}

// Enter takes the lock of the call, or those of all rules of its operation, as
// [Guard.EnterAll] does. It returns the context to run the work with,
// which ends when the lease does (see [lock.Lease.Context]), and leave, which
// releases the lock.
//
// The error is an [*Error]; the work must not run then, and leave is a no-op. An
// operation without a rule is an error of kind [Invalid]: a misspelled name must not
// run its work unlocked. Integrations that let operations without a rule pass look
// for the rules first, with [Guard.RulesOf].
//
// Call leave when the work is done, also when it panicked. It releases the lock
// even if ctx has ended. It returns nil, or an [*Error] of kind [Lost] if the lease
// was lost before: the work may have overlapped with another owner's. A second call
// returns the same and does nothing else. A release that the store didn't confirm
// goes on in the background and is no error.
func (g *Guard) Enter(ctx context.Context, c Call) (inside context.Context, leave func() error, err error) {
	e := &entry{guard: g}
	e.calls = append(e.few[:0], c)
	return e.enter(ctx)
}

// entry is one or several calls that enter together, and leave once.
type entry struct {
	guard *Guard
	calls []Call
	few   [1]Call // where the only call is kept
	held  Held
	once  sync.Once
	lost  error
}

// enter takes the locks of the calls, which are the entry's own.
func (e *entry) enter(ctx context.Context) (inside context.Context, leave func() error, err error) {
	var failed *Error
	if e.calls, failed = e.guard.prepare(ctx, e.calls); failed != nil {
		return ctx, stay, failed
	}
	if len(e.calls) == 0 {
		return ctx, stay, nil
	}
	if e.held, failed = e.guard.acquire(ctx, e.calls); failed != nil {
		return ctx, stay, failed
	}
	return e.held.Context(), func() error { return e.leave(ctx) }, nil
}

func (e *entry) leave(ctx context.Context) error {
	e.once.Do(func() {
		if lost := e.guard.Release(ctx, e.calls, e.held); lost != nil {
			e.lost = lost
		}
	})
	return e.lost
}

// Held are the leases of calls that have entered together.
type Held struct {
	one *lock.Lease
	all *lock.Leases // of several calls
}

// Context ends when any of the leases does. The zero Held has none.
func (h Held) Context() context.Context {
	if h.all != nil {
		return h.all.Context()
	}
	return h.one.Context()
}

// Acquire is [Guard.EnterAll] for integrations, which have found the rules and made the
// keys, and keep the calls and their leases until the work is done. Each call, and there
// is one at least, has its Rule and its Key. The work must run with the context of what
// is returned, and [Guard.Release] must follow, also when the work panicked.
func (g *Guard) Acquire(ctx context.Context, calls []Call) (Held, *Error) {
	if _, err := g.ready(); err != nil {
		return Held{}, g.refuse(ctx, calls[0].fail(Invalid, err))
	}
	return g.acquire(ctx, calls)
}

func (g *Guard) acquire(ctx context.Context, calls []Call) (Held, *Error) {
	var held Held
	var err error
	if len(calls) == 1 {
		held.one, err = g.locker.Acquire(ctx, calls[0].Key, calls[0].Rule.Options()...)
	} else {
		requests := make([]lock.Request, len(calls))
		for i := range calls {
			requests[i] = g.locker.Request(calls[i].Key, calls[i].Rule.Options()...)
		}
		held.all, err = lock.AcquireAll(ctx, requests...)
	}
	if err != nil {
		c := blamed(calls, err)
		return Held{}, g.refuse(ctx, c.fail(acquireKind(ctx, c.Rule, err), err))
	}
	return held, nil
}

// Release releases the leases of calls that were acquired with ctx. It returns what
// the leave of [Guard.Enter] returns.
func (g *Guard) Release(ctx context.Context, calls []Call, held Held) *Error {
	if held.all == nil {
		return g.released(ctx, &calls[0], held.one)
	}
	_ = held.all.Release(ctx) // each of them reports it again
	var first *Error
	for _, lease := range held.all.Each() {
		if lost := g.released(ctx, of(calls, lease.Key()), lease); lost != nil && first == nil {
			first = lost
		}
	}
	return first
}

// released releases a lease, and reports whether it was lost before.
func (g *Guard) released(ctx context.Context, c *Call, lease *lock.Lease) *Error {
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

// prepare returns the calls with their rules and keys: one for each rule.
func (g *Guard) prepare(ctx context.Context, calls []Call) ([]Call, *Error) {
	set, err := g.ready()
	if err != nil {
		if len(calls) == 0 {
			return nil, nil
		}
		return nil, g.refuse(ctx, calls[0].fail(Invalid, err))
	}
	for i := 0; i < len(calls); i++ {
		c := &calls[i]
		if c.Rule == nil {
			rules, err := rulesOf(set, c)
			if err != nil {
				return nil, g.refuse(ctx, c.fail(Invalid, err))
			}
			if len(rules) > 1 {
				calls = slices.Replace(calls, i, i+1, c.each(rules)...)
				c = &calls[i]
			}
			c.Rule = rules[0]
		}
		text, err := c.key()
		if err != nil {
			return nil, g.refuse(ctx, c.fail(keyKind(ctx, err), err))
		}
		c.Key = text
	}
	return calls, nil
}

// each returns the call once for each of the rules.
func (c *Call) each(rules []*rule.Compiled) []Call {
	calls := make([]Call, len(rules))
	for i, r := range rules {
		calls[i] = *c
		calls[i].Rule = r
	}
	return calls
}

// rulesOf returns the rules of a call, whose operation must have one.
func rulesOf(set *rule.Set, c *Call) ([]*rule.Compiled, error) {
	if c.Operation == "" {
		return nil, rule.Fault{Reason: "the call has neither an operation nor a rule"}
	}
	switch rules := set.Lookup(c.Operation); {
	case len(rules) > 1 && c.Key != "":
		return nil, rule.Fault{Operation: c.Operation, Reason: "has several rules, and the call has one key: give the call Vars, or each rule its own call"}
	case len(rules) > 0:
		return rules, nil
	}
	return nil, rule.Fault{Operation: c.Operation, Reason: "has no rule" + rule.DidYouMean(c.Operation, operationsOf(set))}
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
// lookup is the request's fault, unless the request ended meanwhile, or didn't come in time.
func keyKind(ctx context.Context, err error) Kind {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return Canceled
	}
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
