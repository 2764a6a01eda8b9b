package httplock

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/guard/httpguard"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/rule"
)

// New returns a middleware that runs the handler behind it under the lock that
// template names. By default it tries once and answers 409 when another owner
// holds the lock; see [WithWait]. It panics where [Build] returns an error.
func New(g *guard.Guard, template string, opts ...Option) func(http.Handler) http.Handler {
	return must(Build(g, template, opts...))
}

// Build is [New] for templates and options that come from outside of the
// program. The error lists everything that is wrong.
func Build(g *guard.Guard, template string, opts ...Option) (func(http.Handler) http.Handler, error) {
	m := newMiddleware(g, opts)
	m.compiled = m.Compile(template)
	return m.build()
}

// Rules returns a middleware that takes the lock of the rule that g has for
// the route, named "POST /vouchers/{id}/orders": its pattern as registered,
// with the request's method in front of a pattern that has none. Routes without
// a rule pass through, so it can be put around all handlers. [Check] finds
// rules that no route has. A request that has no pattern is refused as
// LOCK_RULE_INVALID: the middleware has been put in front of the router, where
// no rule would ever be found.
//
// Options that are part of a rule ([WithWait], [WithLease], [WithMode],
// [WithPermits], [WithOnBusy], [WithName], [WithKeyFunc]) are refused. It
// panics where [BuildRules] returns an error.
func Rules(g *guard.Guard, opts ...Option) func(http.Handler) http.Handler {
	return must(BuildRules(g, opts...))
}

// BuildRules is [Rules] for rules and options that come from outside of the
// program. The error lists everything that is wrong.
func BuildRules(g *guard.Guard, opts ...Option) (func(http.Handler) http.Handler, error) {
	m := newMiddleware(g, opts)
	m.CheckRules(g)
	return m.build()
}

// From returns the lease that the request runs under: the innermost, if there
// are several. It is [lock.FromContext] of the request's context.
func From(r *http.Request) (*lock.Lease, bool) {
	return lock.FromContext(r.Context())
}

func must(wrap func(http.Handler) http.Handler, err error) func(http.Handler) http.Handler {
	if err != nil {
		panic(err) //nolint:forbidigo // New and Rules say so
	}
	return wrap
}

type middleware struct {
	config
	guard    *guard.Guard
	compiled *rule.Compiled // nil: the guard's rule for the route
}

func newMiddleware(g *guard.Guard, opts []Option) *middleware {
	m := &middleware{guard: g, config: newConfig(opts)}
	m.CheckGuard(g)
	return m
}

func (m *middleware) build() (func(http.Handler) http.Handler, error) {
	if err := m.Err(); err != nil {
		return nil, err
	}
	return m.wrap, nil
}

func (m *middleware) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { m.serve(w, r, next) })
}

// serve is the middleware. There is no recover in it: a panic releases the
// lock on its way to whoever recovers, http.ErrAbortHandler included.
func (m *middleware) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	if m.Skip != nil && m.Skip(r) {
		next.ServeHTTP(w, r)
		return
	}
	q := &request{m: m, w: w, r: r, rule: m.compiled}
	operation := operationOf(r.Method, m.pattern(r))
	if q.rule == nil {
		var err error
		if q.rule, err = m.guard.Rule(operation); err != nil {
			m.answer(w, r, err)
			return
		} else if q.rule == nil {
			m.pass(q, operation, next)
			return
		}
	}
	ctx, leave, err := m.guard.Enter(r.Context(), guard.Call{Operation: operation, Rule: q.rule, Key: q.key})
	if err != nil {
		m.answer(w, r, err)
		return
	}
	m.run(w, q.r.WithContext(ctx), next, leave)
}

// pass lets a request without a rule through. One without a pattern may have a
// rule: the middleware stands where nobody knows.
func (m *middleware) pass(q *request, operation string, next http.Handler) {
	if m.placed && m.pattern(q.r) == "" {
		m.answer(q.w, q.r, &guard.Error{Kind: guard.Invalid, Operation: operation, Err: errNoPattern})
		return
	}
	next.ServeHTTP(q.w, q.r)
}

// run runs the handler under the lock. Where the lease ended before the
// handler did, and the handler has not begun an answer, it gets another one.
func (m *middleware) run(w http.ResponseWriter, r *http.Request, next http.Handler, leave func() error) {
	inner, sent := observe(w)
	returned := false
	defer func() {
		if err := leave(); err != nil && returned && !sent.begun {
			m.answer(w, r, err)
		}
	}()
	next.ServeHTTP(inner, r)
	returned = true
}

func (m *middleware) answer(w http.ResponseWriter, r *http.Request, err error) {
	var e *guard.Error
	errors.As(err, &e) // a guard returns no other
	m.onError(w, r.WithContext(context.WithValue(r.Context(), answers{}, m.Answers)), e)
}

// operationOf names a route as rules do. Patterns of ServeMux may bring their
// method, which a request with another one can match: "GET /x" is for HEAD too.
func operationOf(method, pattern string) string {
	if strings.Contains(pattern, " ") {
		return pattern
	}
	return httpguard.Operation(method, pattern)
}

var errNoPattern = fmt.Errorf("%w: the request has no pattern, put Rules behind the router", guard.ErrUnresolvable)

type answers struct{} // key of a context: the settings of the middleware that answers
