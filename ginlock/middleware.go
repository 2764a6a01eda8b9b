package ginlock

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"

	"github.com/gin-gonic/gin"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/guard/httpguard"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/rule"
)

// name is this package in messages.
const name = "ginlock"

// Option is a setting of a middleware; package httpguard has them.
type Option = httpguard.Option

// New returns a middleware that runs the handlers behind it under the lock that
// text describes: a template of the key, and the rule's fields.
//
//	ginlock.New(g, "lock:order:<userId> wait=200ms maxWaiters=50")
//
// By default it tries once and answers 409 when another owner holds the lock. It
// panics where [Build] returns an error.
func New(g *guard.Guard, text string, opts ...Option) gin.HandlerFunc {
	return must(Build(g, text, opts...))
}

// Build is [New] for strings and options that come from outside of the program.
// The error lists everything that is wrong.
func Build(g *guard.Guard, text string, opts ...Option) (gin.HandlerFunc, error) {
	return handler(httpguard.New(name, g, text, opts...))
}

// Rules returns a middleware that takes the lock of the rule that g has for the
// route, named "POST /vouchers/:id/orders": its method and its path as registered,
// but a literal colon without its backslash. Routes without a rule pass through, so it
// can be used for a whole group or engine. Use it before the routes are registered:
//
//	r.Use(auth, ginlock.Rules(g, r, httpguard.WithProvided("userId"))) // auth sets "userId"
//
// engine is the one whose routes it is for. The guard looks at them when it is
// validated, at the latest with the first request that comes to it, and lets nobody
// in while [Check] would find a fault. A route with a rule that is registered outside
// of the middleware's group is one, and is open until then: call
// [guard.Guard.Validate] before the server starts.
//
// Rules panics where [BuildRules] returns an error: also when the engine has a route
// with a rule already.
func Rules(g *guard.Guard, engine *gin.Engine, opts ...Option) gin.HandlerFunc {
	return must(BuildRules(g, engine, opts...))
}

// BuildRules is [Rules] for options that come from outside of the program. The
// error lists everything that is wrong.
func BuildRules(g *guard.Guard, engine *gin.Engine, opts ...Option) (gin.HandlerFunc, error) {
	if engine == nil {
		return nil, errEngine
	}
	m, err := httpguard.Rules(name, g, opts...)
	if err != nil {
		return nil, err
	}
	routes, err := routesOf(engine)
	if err == nil {
		err = m.Unlocked(routes)
	}
	if err != nil {
		return nil, err
	}
	attach(m, engine, g)
	return handler(m, nil)
}

var errEngine = errors.New("ginlock: engine is nil")

// From returns the lease that the request runs under: the innermost, if there are
// several. It is [lock.FromContext] of the request's context.
func From(c *gin.Context) (*lock.Lease, bool) {
	return lock.FromContext(c.Request.Context())
}

// Source makes a source of a func that reads Gin's context. For a request of another
// framework it returns [guard.ErrUnresolvable].
//
//	httpguard.WithVar("tenant", ginlock.Source(func(c *gin.Context) (string, error) { return tenantOf(c) }))
func Source(f func(*gin.Context) (string, error)) httpguard.Source {
	return func(q httpguard.Request) (string, error) {
		c := Context(q)
		if c == nil {
			return "", fmt.Errorf("%w: ginlock.Source is for requests of Gin", guard.ErrUnresolvable)
		}
		defer func(outside *http.Request) { c.Request = outside }(c.Request)
		c.Request = q.HTTP() // its body was read, and can be read again
		return f(c)
	}
}

// Context is Gin's context of a request, for the skippers and error handlers of a
// middleware of this package. It is nil for other requests.
func Context(q httpguard.Request) *gin.Context {
	c, _ := q.Value(gin.ContextKey).(*gin.Context)
	return c
}

// Problem answers as [httpguard.Problem] does, for handlers that enter a guard
// themselves.
func Problem(c *gin.Context, e *guard.Error) {
	c.Abort()
	httpguard.Problem(c.Writer, exchange{c}, e)
}

func handler(m *httpguard.Middleware, err error) (gin.HandlerFunc, error) {
	if err != nil {
		return nil, err
	}
	own := &middleware{Middleware: m}
	own.code = codeOf(own.handle)
	return own.handle, nil
}

func must(h gin.HandlerFunc, err error) gin.HandlerFunc {
	if err != nil {
		panic(err) //nolint:forbidigo // New and Rules say so
	}
	return h
}

type middleware struct {
	*httpguard.Middleware
	code uintptr // of handle
}

func (m *middleware) handle(c *gin.Context) {
	if c.Request == probe {
		c.Set(probed{}, m.Middleware)
		return
	}
	switch {
	case c.FullPath() == "": // for the NoRoute handlers
		if m.TakesRules() {
			return
		}
	case identify(c.Handler(), m.code) == m.Middleware:
		m.Refuse(exchange{c}, errBehind)
		return
	}
	m.Serve(exchange{c})
}

var errBehind = fmt.Errorf("%w: a lock stands behind the handler, put it in front", rule.ErrInvalid)

// exchange is a request of Gin.
type exchange struct{ *gin.Context }

func (x exchange) HTTP() *http.Request         { return x.Request }
func (x exchange) Pattern() string             { return x.FullPath() }
func (x exchange) Writer() http.ResponseWriter { return x.Context.Writer }

func (x exchange) PathValue(name string) (string, bool) { return x.Params.Get(name) }

// ClientIP is the address that Gin trusts. Each address has one spelling.
func (x exchange) ClientIP() string {
	text := x.Context.ClientIP()
	if ip, err := netip.ParseAddr(text); err == nil {
		return ip.Unmap().String()
	}
	return text
}

// Value is what c.Set has stored, or else what the request's context has.
func (x exchange) Value(key any) any {
	if key == gin.ContextKey {
		return x.Context
	}
	if value, ok := x.Get(key); ok {
		return value
	}
	return x.Request.Context().Value(key)
}

// BodyBytes are what an earlier ShouldBindBodyWith has read and kept.
func (x exchange) BodyBytes() []byte {
	kept, _ := x.Get(gin.BodyBytesKey)
	text, _ := kept.([]byte)
	return text
}

// unanswered is the key in gin.Context of how many errors there were before a handler that
// added some and answered nothing.
type unanswered struct{}

// Next runs the rest of the chain with r, and puts the request and the writer back: one
// that a handler has left in Gin's context is closed by now, or is another request's. The
// lease is in Gin's context, too: unless the engine's ContextWithFallback is set, that one
// doesn't find what the request's context has.
func (x exchange) Next(r *http.Request) (answered bool) {
	if outside := x.Request; r != outside {
		lease, _ := lock.FromContext(r.Context())
		around, nested := x.Get(lock.ContextKey)
		defer func() {
			x.Request = outside
			if x.Delete(lock.ContextKey); nested {
				x.Set(lock.ContextKey, around)
			}
		}()
		x.Request = r
		x.Set(lock.ContextKey, lease)
	}
	outside, errs := x.Context.Writer, len(x.Errors)
	defer func() { x.Context.Writer = outside }()
	if isGins(outside) {
		x.Context.Next()
		answered = outside.Written()
	} else {
		w := x.observe()
		x.Context.Next()
		answered = w.begun || outside.Written()
	}
	if !answered && len(x.Errors) > errs {
		x.Set(unanswered{}, errs)
	}
	return answered
}

// Answer calls f with the writer, which f may also find in Gin's context. Gin writes a
// status with the body, or when all handlers have returned. An error that f adds to
// c.Errors is for a middleware in front, which answers.
func (x exchange) Answer(f func(http.ResponseWriter)) (answered bool) {
	w, errs := x.observe(), len(x.Errors)
	defer func() { x.Context.Writer = w.ResponseWriter }()
	f(w)
	return w.begun || w.status || len(x.Errors) > errs
}

// observe puts a writer in place that notes what is written.
func (x exchange) observe() *observed {
	w := &observed{ResponseWriter: x.Context.Writer}
	x.Context.Writer = w
	return w
}

// Refused aborts the chain before an error handler runs, so that none can let the
// request through. The error isn't added to c.Errors, from which middlewares such as
// [gin.ErrorLogger] would answer a second time, with what is for the operator alone. For the
// same reason it takes out the errors of a handler that lost its lock and answered nothing.
func (x exchange) Refused(e *guard.Error) {
	x.Abort()
	if errs, ok := x.Get(unanswered{}); ok && e.Kind == guard.Lost {
		x.Errors = x.Errors[:min(errs.(int), len(x.Errors))]
	}
}
