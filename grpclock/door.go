package grpclock

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/key"
	"github.com/redlatch/redlatch/core/rule"
)

// Door has the four interceptors as methods, which share what they know of
// rules and requests. It is safe for concurrent use.
type Door struct {
	config
	guard *guard.Guard
	// options has the *declared of methods that were looked up, nil included,
	// plans the *plan of methods that have a rule.
	options, plans sync.Map
}

// Build returns a door for options that come from outside of the program. The
// error lists everything that is wrong with them, or with a rule of the guard
// that is for a method; see [Door.Validate] for what only a server can tell.
func Build(g *guard.Guard, opts ...Option) (*Door, error) {
	d := &Door{guard: g, config: newConfig(opts)}
	if g == nil {
		d.fault("guard is nil")
	}
	d.checkRules()
	if err := errors.Join(d.faults...); err != nil {
		return nil, err
	}
	return d, nil
}

// UnaryServerInterceptor runs the handlers of unary methods under the locks of
// their rules. It panics where [Build] returns an error.
func UnaryServerInterceptor(g *guard.Guard, opts ...Option) grpc.UnaryServerInterceptor {
	return must(Build(g, opts...)).UnaryServer
}

// StreamServerInterceptor runs the handlers of streams under the locks of
// their rules. It panics where [Build] returns an error.
func StreamServerInterceptor(g *guard.Guard, opts ...Option) grpc.StreamServerInterceptor {
	return must(Build(g, opts...)).StreamServer
}

// UnaryClientInterceptor holds a lock around outgoing calls, retries included.
// Only [WithRule] and the guard's rules count: the option in a .proto is for
// the server, and a client that took the same lock would keep the server out.
// For the same reason, a program that serves what it calls needs a guard of
// its own here. It panics where [Build] returns an error.
func UnaryClientInterceptor(g *guard.Guard, opts ...Option) grpc.UnaryClientInterceptor {
	return must(Build(g, opts...)).UnaryClient
}

// StreamClientInterceptor holds a lock around outgoing streams, from their
// beginning until they end: when RecvMsg has returned an error, or the one
// answer of a method that streams none; when the context ends; or when the
// connection is closed. As gRPC asks, one of these must happen.
//
// The key of a stream of one request is made when it is sent; that of a
// stream of many before the stream is opened, or, by [WithFirstMessage], when
// the first message is sent. See [UnaryClientInterceptor] for the rules. It
// panics where [Build] returns an error.
func StreamClientInterceptor(g *guard.Guard, opts ...Option) grpc.StreamClientInterceptor {
	return must(Build(g, opts...)).StreamClient
}

func must(d *Door, err error) *Door {
	if err != nil {
		panic(err) //nolint:forbidigo // the constructors say so
	}
	return d
}

// checkRules looks through the rules for what no method can have.
func (d *Door) checkRules() {
	for _, r := range d.allRules() {
		for _, v := range r.Template.Vars() {
			if !isKnown(v) {
				d.fault("%s: template %q, column %d: <%s>: does not exist in gRPC", r.Operation, r.Key, v.Column, v)
			}
		}
	}
}

// allRules are the rules for methods that are not in a .proto.
func (d *Door) allRules() []*rule.Compiled {
	var rules []*rule.Compiled
	for _, r := range d.rules {
		rules = append(rules, r)
	}
	if d.guard == nil {
		return rules
	}
	for _, r := range d.guard.Rules() {
		if isMethod(r.Operation) && d.rules[r.Operation] == nil {
			rules = append(rules, r)
		}
	}
	return rules
}

// call is a call of a method that has a rule.
type call struct {
	door     *Door
	method   string
	rule     *rule.Compiled
	fault    error // of the option in the .proto; there is no rule then
	plan     *plan // once it has asked for the lock
	metadata func(ctx context.Context, name string) []string
}

// incoming returns a call that a server received; false if it needs no lock.
func (d *Door) incoming(method string) (call, bool) {
	c := call{door: d, method: method, metadata: metadata.ValueFromIncomingContext}
	if c.rule, c.fault = d.configured(method); c.rule != nil || c.fault != nil {
		return c, true
	}
	option := d.declared(method)
	if option == nil {
		return c, false
	}
	c.rule, c.fault = option.rule, option.fault
	return c, true
}

// outgoing returns a call that a client makes; false if it needs no lock.
func (d *Door) outgoing(method string) (call, bool) {
	r, err := d.configured(method)
	return call{door: d, method: method, rule: r, fault: err, metadata: outgoingMetadata}, r != nil || err != nil
}

// configured is the rule that is not in a .proto.
func (d *Door) configured(method string) (*rule.Compiled, error) {
	if r, ok := d.rules[method]; ok {
		return r, nil
	}
	return d.guard.Rule(method)
}

// enter takes the lock. The error is a [*guard.Error].
func (c *call) enter(ctx context.Context, req any) (inside context.Context, leave func() error, err error) {
	if c.fault != nil {
		return c.refuse(ctx, fmt.Errorf("%w: %w", rule.ErrInvalid, c.fault))
	}
	message := messageOf(req)
	c.plan = c.door.plan(c.method, c.rule, message)
	if c.plan.fault != nil {
		return c.refuse(ctx, fmt.Errorf("%w: %w", guard.ErrUnresolvable, c.plan.fault))
	}
	method, find := c.method, values{plan: c.plan, door: c.door, metadata: c.metadata, req: req, message: message}
	return c.door.guard.Enter(ctx, guard.Call{
		Operation: method,
		Rule:      c.rule,
		Vars:      func(v key.Var) (string, error) { return find.value(ctx, method, v) },
	})
}

// refuse does not enter, for a key that cannot be made.
func (c *call) refuse(ctx context.Context, reason error) (inside context.Context, leave func() error, err error) {
	r := c.rule
	if r == nil {
		r = &rule.Compiled{Rule: rule.Rule{Operation: c.method, Name: c.method}}
	}
	return c.door.guard.Enter(ctx, guard.Call{
		Operation: c.method,
		Rule:      r,
		Key:       func() (string, error) { return "", reason },
	})
}
