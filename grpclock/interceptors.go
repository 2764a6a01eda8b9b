package grpclock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/key"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/rule"
)

// Interceptors run the methods of servers, and the calls of clients, under the
// locks of their rules. They are safe for concurrent use.
type Interceptors struct {
	config
	guard *guard.Guard
	// options has the *declared of methods in the files, plans the *plan of
	// methods that have a rule.
	options, plans sync.Map
	// made says which interceptors there are.
	made    struct{ unaryServer, streamServer, unaryClient, streamClient atomic.Bool }
	version atomic.Int64 // of what the guard has to look at

	mu      sync.Mutex
	servers []Registry
}

// New returns the interceptors for a guard. The error lists everything that is
// wrong with the options. What only a server can show, [guard.Guard.Validate]
// reports, see [Interceptors.Attach].
func New(g *guard.Guard, opts ...Option) (*Interceptors, error) {
	i := &Interceptors{guard: g, config: newConfig(opts)}
	if g == nil {
		i.fault("guard is nil")
	}
	if err := errors.Join(i.faults...); err != nil {
		return nil, err
	}
	i.attach()
	return i, nil
}

// attach has the guard look at the interceptors, once more if it has done so: they
// are made and get their servers one by one, maybe while others use the guard.
func (i *Interceptors) attach() {
	version := i.version.Add(1)
	i.guard.Attach("grpclock", nil, func(rules *rule.Set) ([]string, error) {
		if i.version.Load() != version {
			return nil, nil // a later one looks at everything
		}
		return i.survey(rules)
	})
}

// make notes that there is an interceptor of a kind.
func (i *Interceptors) make(kind *atomic.Bool) {
	if !kind.Swap(true) {
		i.attach()
	}
}

// UnaryServerInterceptor returns an interceptor that runs the handlers of unary
// methods under the locks of their rules. It doesn't recover: a panic releases the
// lock and goes on.
func (i *Interceptors) UnaryServerInterceptor() grpc.UnaryServerInterceptor {
	i.make(&i.made.unaryServer)
	return i.unaryServer
}

// StreamServerInterceptor returns an interceptor that runs the handlers of streams
// under the locks of their rules. It doesn't recover: a panic releases the lock and
// goes on.
func (i *Interceptors) StreamServerInterceptor() grpc.StreamServerInterceptor {
	i.make(&i.made.streamServer)
	return i.streamServer
}

// UnaryClientInterceptor returns an interceptor that holds a lock around outgoing
// calls, retries included. Only [WithRule] and the guard's rules count: the option
// in a .proto is for the server, and a client that took the same lock would keep
// the server out. For the same reason, a program that serves what it calls needs a
// separate guard here. A call that is skipped leaves its reply as it is.
//
// A rule for an outgoing method is served if the files (see [WithFiles]) have
// the method.
func (i *Interceptors) UnaryClientInterceptor() grpc.UnaryClientInterceptor {
	i.make(&i.made.unaryClient)
	return i.unaryClient
}

// StreamClientInterceptor returns an interceptor that holds a lock around outgoing
// streams, from their beginning until they end: when RecvMsg has returned an error,
// or the one answer of a method that streams none; when the context ends; or when
// the connection is closed. gRPC requires that one of these happens. A stream that
// is skipped ends at once, without an error: RecvMsg returns io.EOF or the one empty
// answer, and SendMsg returns io.EOF if the client streams.
//
// The key of a stream of one request is made when it is sent; that of a
// stream of many before the stream is opened, or, by [WithFirstMessage], when
// the first message is sent, by the rule that is in force then. A stream that
// begins while its method has no rule has no lock. See
// [Interceptors.UnaryClientInterceptor] for the rules.
//
// An interceptor that retries streams belongs in front, where each attempt takes
// the lock. One behind has no time left when the first attempt ends, as the lock
// and its context end too. The retryPolicy of a service config retries under one
// lock.
func (i *Interceptors) StreamClientInterceptor() grpc.StreamClientInterceptor {
	i.make(&i.made.streamClient)
	return i.streamClient
}

// call is a call of a method that has a rule.
type call struct {
	locks    *Interceptors
	method   string
	rule     *rule.Compiled
	fault    error // of the option in the .proto; there is no rule then
	closed   error // why the guard lets nobody in, nil if it does
	plan     *plan // once it has asked for the lock
	metadata func(ctx context.Context, name string) []string
}

// incoming returns a call that a server received; false if it needs no lock.
func (i *Interceptors) incoming(method string) (call, bool) {
	c := i.configured(method)
	c.metadata = metadata.ValueFromIncomingContext
	if c.rule == nil && c.closed == nil {
		if option := i.declared(method); option != nil {
			c.rule, c.fault = option.rule, option.fault
		}
	}
	return c, c.rule != nil || c.fault != nil || c.closed != nil
}

// outgoing returns a call that a client makes; false if it needs no lock.
func (i *Interceptors) outgoing(method string) (call, bool) {
	c := i.configured(method)
	c.metadata = outgoingMetadata
	return c, c.rule != nil || c.closed != nil
}

// configured is a call with the rule that isn't in a .proto.
func (i *Interceptors) configured(method string) call {
	r, err := i.guard.Rule(method)
	if own, ok := i.rules[method]; ok {
		r = own
	}
	return call{locks: i, method: method, rule: r, closed: errors.Unwrap(err)} // Refuse wraps it again
}

// acquire takes the lock.
func (c *call) acquire(ctx context.Context, req any) (*lock.Lease, *guard.Error) {
	switch {
	case c.closed != nil:
		return nil, c.refuse(ctx, c.closed)
	case c.fault != nil:
		return nil, c.refuse(ctx, fmt.Errorf("%w: %w", rule.ErrInvalid, c.fault))
	}
	message := messageOf(req)
	c.plan = c.locks.plan(c.method, c.rule, message)
	if c.plan.fault != nil {
		return nil, c.refuse(ctx, fmt.Errorf("%w: %w", guard.ErrUnresolvable, c.plan.fault))
	}
	find := values{plan: c.plan, locks: c.locks, metadata: c.metadata, req: req, message: message}
	text, err := c.rule.Template.Resolve(func(v key.Var) (string, error) {
		value, err := find.value(ctx, c.method, v)
		return guard.Identify(c.locks.identity, v, value, err)
	})
	if err != nil {
		return nil, c.refuse(ctx, err)
	}
	return c.locks.guard.Acquire(ctx, &guard.Call{Operation: c.method, Rule: c.rule, Key: text})
}

// release releases the lock that was acquired with ctx.
func (c *call) release(ctx context.Context, lease *lock.Lease) *guard.Error {
	return c.locks.guard.Release(ctx, &guard.Call{Operation: c.method, Rule: c.rule}, lease)
}

// refuse reports a call whose key can't be made.
func (c *call) refuse(ctx context.Context, reason error) *guard.Error {
	return c.locks.guard.Refuse(ctx, guard.Call{Operation: c.method, Rule: c.rule}, reason)
}
