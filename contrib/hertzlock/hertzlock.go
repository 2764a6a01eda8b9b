package hertzlock

import (
	"context"
	"fmt"

	"github.com/cloudwego/hertz/pkg/app"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/guard/httpguard"
	"github.com/redlatch/redlatch/core/rule"
)

// name is this package in messages.
const name = "hertzlock"

// Option is a setting of a middleware; package httpguard has them.
type Option = httpguard.Option

// New returns a middleware that runs the handlers behind it under the lock that text
// describes: a template of the key, and the rule's fields.
//
//	hertzlock.New(g, "lock:order:<userId> wait=200ms maxWaiters=50")
//
// By default it tries once and answers 409 when another owner holds the lock. It
// panics where [Build] returns an error.
func New(g *guard.Guard, text string, opts ...Option) app.HandlerFunc {
	return must(Build(g, text, opts...))
}

// Build is [New] for strings and options that come from outside of the program.
// The error lists everything that is wrong.
func Build(g *guard.Guard, text string, opts ...Option) (app.HandlerFunc, error) {
	return handler(httpguard.New(name, g, text, opts...))
}

// Route returns a middleware that takes the lock of the rule that g has for one route:
// pattern is the route with the prefixes of its groups, "POST /vouchers/:id/orders", or
// "/vouchers/:id/orders" for all its methods. Without a rule requests pass through.
//
// A rule counts as served when there is a Route for it: make one where the handler is
// registered, and nowhere else, and call [guard.Guard.Validate] before the server starts: it
// names the rules without a Route, and the guard lets nobody in while there is one.
//
// A request that comes by another route is refused as LOCK_RULE_INVALID, and so is one
// without a route.
//
// Route panics where [BuildRoute] returns an error.
func Route(g *guard.Guard, pattern string, opts ...Option) app.HandlerFunc {
	return must(BuildRoute(g, pattern, opts...))
}

// BuildRoute is [Route] for patterns and options that come from outside of the
// program. The error lists everything that is wrong.
func BuildRoute(g *guard.Guard, pattern string, opts ...Option) (app.HandlerFunc, error) {
	return handler(httpguard.ForRoute(name, g, pattern, opts...))
}

// Source makes a source of a func that reads Hertz' context. For a request of another
// framework it returns [guard.ErrUnresolvable].
//
//	httpguard.WithVar("tenant", hertzlock.Source(func(c *app.RequestContext) (string, error) { return tenantOf(c) }))
func Source(f func(*app.RequestContext) (string, error)) httpguard.Source {
	return func(q httpguard.Request) (string, error) {
		c := Context(q)
		if c == nil {
			return "", fmt.Errorf("%w: hertzlock.Source is for requests of Hertz", guard.ErrUnresolvable)
		}
		return f(c)
	}
}

// Context is Hertz' context of a request, for the skippers and error handlers of a
// middleware of this package. It is nil for other requests.
func Context(q httpguard.Request) *app.RequestContext {
	c, _ := q.Value(own{}).(*app.RequestContext)
	return c
}

// Problem answers as [httpguard.Problem] does, for handlers that enter a guard
// themselves.
func Problem(ctx context.Context, c *app.RequestContext, e *guard.Error) {
	c.Abort()
	x := &exchange{c: c, r: requestOf(ctx, c)}
	httpguard.Problem(x.Writer(), x, e)
	x.send()
}

func handler(m *httpguard.Middleware, err error) (app.HandlerFunc, error) {
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, c *app.RequestContext) {
		x := &exchange{c: c, r: requestOf(ctx, c)}
		if c.FullPath() != "" && int(c.GetIndex()) == len(c.Handlers())-1 {
			m.Refuse(x, errBehind) //nolint:contextcheck // the request of x has it
		} else {
			m.Serve(x) //nolint:contextcheck // as above
		}
		x.send()
	}, nil
}

var errBehind = fmt.Errorf("%w: a lock stands behind the handler, put it in front", rule.ErrInvalid)

func must(h app.HandlerFunc, err error) app.HandlerFunc {
	if err != nil {
		panic(err) //nolint:forbidigo // New and Route say so
	}
	return h
}

// own is the key under which a request has Hertz' context.
type own struct{}
