package fiberlock

import (
	"fmt"
	"reflect"

	"github.com/gofiber/fiber/v3"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/guard/httpguard"
	"github.com/redlatch/redlatch/core/lock"
)

// name is this package in messages.
const name = "fiberlock"

// Option is a setting of a middleware; package httpguard has them.
type Option = httpguard.Option

// New returns a middleware that runs the handler behind it under the lock that text
// describes: a template of the key, and the rule's fields.
//
//	fiberlock.New(g, "lock:order:<userId> wait=200ms maxWaiters=50")
//
// By default it tries once and answers 409 when another owner holds the lock. It
// panics where [Build] returns an error.
func New(g *guard.Guard, text string, opts ...Option) fiber.Handler {
	return must(Build(g, text, opts...))
}

// Build is [New] for strings and options that come from outside of the program.
// The error lists everything that is wrong.
func Build(g *guard.Guard, text string, opts ...Option) (fiber.Handler, error) {
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
// without a route, because the middleware was given to Use.
//
// Route panics where [BuildRoute] returns an error.
func Route(g *guard.Guard, pattern string, opts ...Option) fiber.Handler {
	return must(BuildRoute(g, pattern, opts...))
}

// BuildRoute is [Route] for patterns and options that come from outside of the
// program. The error lists everything that is wrong.
func BuildRoute(g *guard.Guard, pattern string, opts ...Option) (fiber.Handler, error) {
	return handler(httpguard.ForRoute(name, g, pattern, append(opts[:len(opts):len(opts)], httpguard.WithParameters(parameters))...))
}

// parameters are those of a path, as Fiber reads it.
func parameters(path string) []string {
	app := fiber.New()
	app.Get(path, func(fiber.Ctx) error { return nil })
	return app.GetRoutes()[0].Params
}

// From returns the lease that the request runs under: the innermost, if there are
// several. It is [lock.FromContext] of c.Context().
func From(c fiber.Ctx) (*lock.Lease, bool) { return lock.FromContext(c.Context()) }

// Source makes a source of a func that reads Fiber's context. For a request of another
// framework it returns [guard.ErrUnresolvable].
//
//	httpguard.WithVar("tenant", fiberlock.Source(func(c fiber.Ctx) (string, error) { return tenantOf(c) }))
func Source(f func(fiber.Ctx) (string, error)) httpguard.Source {
	return func(q httpguard.Request) (string, error) {
		c := Context(q)
		if c == nil {
			return "", fmt.Errorf("%w: fiberlock.Source is for requests of Fiber", guard.ErrUnresolvable)
		}
		return f(c)
	}
}

// Context is Fiber's context of a request, for the skippers and error handlers of a
// middleware of this package. It is nil for other requests.
func Context(q httpguard.Request) fiber.Ctx {
	c, _ := q.Value(own{}).(fiber.Ctx)
	return c
}

// Problem answers as [httpguard.Problem] does, for handlers that enter a guard
// themselves.
func Problem(c fiber.Ctx, e *guard.Error) error {
	x := &exchange{c: c, r: requestOf(c)}
	httpguard.Problem(x.Writer(), x, e)
	x.send()
	return nil
}

func handler(m *httpguard.Middleware, err error) (fiber.Handler, error) {
	if err != nil {
		return nil, err
	}
	own := &middleware{Middleware: m}
	own.code = codeOf(own.handle)
	return own.handle, nil
}

func must(h fiber.Handler, err error) fiber.Handler {
	if err != nil {
		panic(err) //nolint:forbidigo // New and Route say so
	}
	return h
}

type middleware struct {
	*httpguard.Middleware

	code uintptr // of handle
}

// codeOf is the code of a handler. All of this package share theirs.
func codeOf(h fiber.Handler) uintptr { return reflect.ValueOf(h).Pointer() }

func (m *middleware) handle(c fiber.Ctx) error {
	x := &exchange{c: c, r: requestOf(c), pattern: m.patternOf(c)}
	m.Serve(x)
	if x.send() {
		return nil // whatever error the handler returned when it had lost its lock
	}
	return x.err
}

// patternOf is the route of a request, if a handler of it is still to come. The middleware
// is the last of its own route where it was given to Use, before the route is known.
func (m *middleware) patternOf(c fiber.Ctx) string {
	route := c.Route()
	if n := len(route.Handlers); n == 0 || codeOf(route.Handlers[n-1]) == m.code {
		return ""
	}
	return route.Path
}

// own is the key under which a request has Fiber's context.
type own struct{}
