package httplock

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"reflect"
	"runtime"
	"strings"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/guard/httpguard"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/rule"
)

// name is this package in messages.
const name = "httplock"

// Option is a setting of a middleware; package httpguard has them.
type Option = httpguard.Option

// New returns a middleware that runs the handler behind it under the lock that
// text describes: a template of the key, and the rule's fields.
//
//	httplock.New(g, "lock:order:<userId> wait=200ms maxWaiters=50")
//
// By default it tries once and answers 409 when another owner holds the lock. It
// panics where [Build] returns an error.
func New(g *guard.Guard, text string, opts ...Option) func(http.Handler) http.Handler {
	return must(Build(g, text, opts...))
}

// Build is [New] for strings and options that come from outside of the program.
// The error lists everything that is wrong.
func Build(g *guard.Guard, text string, opts ...Option) (func(http.Handler) http.Handler, error) {
	return middleware(httpguard.New(name, g, text, opts...))
}

// Route returns a middleware that takes the lock of the rule that g has for one
// route: pattern is the route as it is registered, "POST /vouchers/{id}/orders", or
// "/vouchers/{id}/orders" for all its methods. Without a rule requests pass through.
//
//	handle := func(pattern string, h http.HandlerFunc) {
//		mux.Handle(pattern, auth(httplock.Route(g, pattern)(h)))
//	}
//
// A rule counts as served when there is a Route for it: no router shows which
// middlewares stand in front of a handler. Make one where the handler is registered,
// and nowhere else, and call [guard.Guard.Validate] before the server starts: it
// names the rules without a Route, and the guard lets nobody in while there is one.
//
// A request that comes by another route is refused as LOCK_RULE_INVALID, and so is
// one without a route, because the middleware was put in front of the router. On a
// pattern for all methods a method without a rule is refused if another one has one.
//
// Route panics where [BuildRoute] returns an error.
func Route(g *guard.Guard, pattern string, opts ...Option) func(http.Handler) http.Handler {
	return must(BuildRoute(g, pattern, opts...))
}

// BuildRoute is [Route] for patterns and options that come from outside of the
// program. The error lists everything that is wrong.
func BuildRoute(g *guard.Guard, pattern string, opts ...Option) (func(http.Handler) http.Handler, error) {
	return middleware(httpguard.ForRoute(name, g, pattern, opts...))
}

// From returns the lease that the request runs under: the innermost, if there are
// several. It is [lock.FromContext] of the request's context.
func From(r *http.Request) (*lock.Lease, bool) {
	return lock.FromContext(r.Context())
}

// Problem answers as [httpguard.Problem] does, for handlers that enter a guard
// themselves.
func Problem(w http.ResponseWriter, r *http.Request, e *guard.Error) {
	httpguard.Problem(w, &exchange{w: w, r: r}, e)
}

func middleware(m *httpguard.Middleware, err error) (func(http.Handler) http.Handler, error) {
	if err != nil {
		return nil, err
	}
	return func(next http.Handler) http.Handler {
		if runsLater(next) {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { m.Refuse(&exchange{w: w, r: r, next: next}, errLater) })
		}
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			m.Serve(&exchange{w: w, r: r, next: next})
		})
	}, nil
}

var errLater = fmt.Errorf("%w: Fiber's adaptor.HTTPMiddleware runs the handler after its middlewares have returned, when the lock is released: "+
	"with Fiber 3 use contrib/fiberlock, as docs/other-frameworks.md shows; with Fiber 2 enter the guard in its handler (Guard.Enter)", rule.ErrInvalid)

// runsLater reports whether next only notes that it was called, for a handler that runs
// when the middleware has returned. Of Fiber's adaptor, the func that it passes shows where
// it was written.
func runsLater(next http.Handler) bool {
	f, ok := next.(http.HandlerFunc)
	if !ok || f == nil {
		return false
	}
	fn := runtime.FuncForPC(reflect.ValueOf(f).Pointer())
	if fn == nil {
		return false
	}
	file, _ := fn.FileLine(fn.Entry())
	return strings.Contains(file, "gofiber/fiber/") && strings.HasSuffix(file, "/middleware/adaptor/adaptor.go")
}

func must(wrap func(http.Handler) http.Handler, err error) func(http.Handler) http.Handler {
	if err != nil {
		panic(err) //nolint:forbidigo // New and Route say so
	}
	return wrap
}

// exchange is a request and its answer.
type exchange struct {
	w    http.ResponseWriter
	r    *http.Request
	next http.Handler
	sent *response // of the handler, nil where it runs without a lock
}

func (x *exchange) HTTP() *http.Request         { return x.r }
func (x *exchange) Pattern() string             { return x.r.Pattern }
func (x *exchange) Writer() http.ResponseWriter { return x.w }
func (x *exchange) Value(key any) any           { return x.r.Context().Value(key) }

// Refused discards what is still written for the handler once the lost lock is the
// answer: Echo answers the error of a handler after its middlewares have returned.
func (x *exchange) Refused(*guard.Error) {
	if x.sent != nil && !x.sent.begun {
		x.sent.ResponseWriter = discarded{}
	}
}

// PathValue is the path value that routers set as ServeMux does. One that is empty
// exists if the pattern names it.
func (x *exchange) PathValue(name string) (value string, ok bool) {
	value = x.r.PathValue(name)
	return value, value != "" || httpguard.HasParameter(x.r.Pattern, name)
}

// ClientIP is the address of the connection, or the one that a middleware in front
// has put in its place, which has no port. Each address has one spelling.
func (x *exchange) ClientIP() string {
	host, _, err := net.SplitHostPort(x.r.RemoteAddr)
	if err != nil {
		host = x.r.RemoteAddr
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return ""
	}
	return ip.Unmap().String()
}

// Next runs the handler. A request that passes without a lock keeps its writer.
func (x *exchange) Next(r *http.Request) (answered bool) {
	if r == x.r {
		x.next.ServeHTTP(x.w, r)
		return true
	}
	var w http.ResponseWriter
	w, x.sent = observe(x.w)
	x.next.ServeHTTP(w, r)
	return x.sent.begun
}

// Answer calls f with the writer of the request, not with that of the handler.
func (x *exchange) Answer(f func(http.ResponseWriter)) (answered bool) {
	w, sent := observe(x.w)
	f(w)
	return sent.begun
}
