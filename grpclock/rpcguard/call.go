package rpcguard

import (
	"context"
	"fmt"
	"sync"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/key"
	"github.com/redlatch/redlatch/core/rule"
)

// Request is what a call brings.
type Request struct {
	// Method is the full name, "/shop.v1.Orders/Place". [Locks.Enter] needs it.
	Method string
	// Message is the request, usually a [proto.Message]; nil where there is none before the
	// handler runs.
	Message any
	// Metadata returns the values that a name has in the metadata or headers of the call with
	// that context; nil if the transport has none.
	Metadata func(ctx context.Context, name string) []string
}

// Enter takes the locks of a call that a server received. It returns the context to run
// the handler with, which ends when a lease does, and leave, which releases the locks. A
// call without a rule enters with ctx. If it returns a [Refusal] the handler must not run.
//
// Call leave when the handler has returned, also when it panicked. It returns a Refusal of
// kind [guard.Lost] if a lease was lost before: that is the answer then. A second call
// returns the same and does nothing else.
func (l *Locks) Enter(ctx context.Context, q Request) (inside context.Context, leave func() *Refusal, refused *Refusal) {
	c, ok := l.Incoming(q.Method)
	if !ok {
		return ctx, func() *Refusal { return nil }, nil
	}
	held, failed := c.Acquire(ctx, q)
	if failed != nil {
		return ctx, func() *Refusal { return nil }, c.Refusal(ctx, failed)
	}
	return held.Context(), sync.OnceValue(func() *Refusal {
		if lost := c.Release(ctx, held); lost != nil {
			return c.Refusal(ctx, lost)
		}
		return nil
	}), nil
}

// Call is a call of a method that has rules. [Locks.Incoming] and [Locks.Outgoing] make
// it, for integrations that take the locks later than a handler begins.
type Call struct {
	locks  *Locks
	method string
	rules  []*rule.Compiled
	fault  error         // of the options in the .proto; there is no rule then
	closed error         // why the guard lets nobody in, nil if it does
	plan   *plan         // once it has asked for the locks
	one    [1]guard.Call // of a single rule
	calls  []guard.Call  // of several
}

// IsLocked reports whether the call has rules, and not only a reason to be refused.
func (c *Call) IsLocked() bool { return len(c.rules) > 0 }

// Acquire takes the locks.
func (c *Call) Acquire(ctx context.Context, q Request) (guard.Held, *guard.Error) {
	switch {
	case c.closed != nil:
		return guard.Held{}, c.Refuse(ctx, c.closed)
	case c.fault != nil:
		return guard.Held{}, c.Refuse(ctx, fmt.Errorf("%w: %w", rule.ErrInvalid, c.fault))
	}
	message := messageOf(q.Message)
	c.plan = c.locks.plan(c.method, c.rules, message)
	if c.plan.fault != nil {
		return guard.Held{}, c.Refuse(ctx, fmt.Errorf("%w: %w", guard.ErrUnresolvable, c.plan.fault))
	}
	if len(c.rules) > 1 {
		c.calls = make([]guard.Call, len(c.rules))
	}
	for i, r := range c.rules {
		text, err := r.Template.Resolve(func(v key.Var) (string, error) {
			value, err := c.value(ctx, &q, message, v)
			return guard.Identify(c.locks.config.Identity, v, value, err)
		})
		if err != nil {
			return guard.Held{}, c.locks.guard.Refuse(ctx, guard.Call{Operation: c.method, Rule: r}, err)
		}
		c.entered()[i] = guard.Call{Operation: c.method, Rule: r, Key: text}
	}
	return c.locks.guard.Acquire(ctx, c.entered())
}

// entered are the calls of the guard: one for each rule.
func (c *Call) entered() []guard.Call {
	if c.calls == nil {
		return c.one[:]
	}
	return c.calls
}

// Release releases the locks that were acquired with ctx. It returns an error of kind
// [guard.Lost] if a lease was lost before.
func (c *Call) Release(ctx context.Context, held guard.Held) *guard.Error {
	return c.locks.guard.Release(ctx, c.entered(), held)
}

// Lost returns the error of a call that finds, while its handler still runs, that a lease
// was lost. [Call.Release] reports it.
func (c *Call) Lost(cause error) *guard.Error {
	return &guard.Error{Kind: guard.Lost, Operation: c.method, Name: c.rules[0].Name, Err: cause}
}

// Refuse reports a call whose key can't be made.
func (c *Call) Refuse(ctx context.Context, reason error) *guard.Error {
	call := guard.Call{Operation: c.method}
	if len(c.rules) > 0 {
		call.Rule = c.rules[0]
	}
	return c.locks.guard.Refuse(ctx, call, reason)
}

// Empty is the answer to a call of a method that is skipped; nil if the type of answers
// isn't known.
func (l *Locks) Empty(method string) proto.Message {
	descriptor := l.descriptor(method)
	if descriptor == nil {
		return nil
	}
	if known, err := protoregistry.GlobalTypes.FindMessageByName(descriptor.Output().FullName()); err == nil {
		return known.New().Interface()
	}
	return dynamicpb.NewMessage(descriptor.Output())
}
