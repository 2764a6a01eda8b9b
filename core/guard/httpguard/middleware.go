package httpguard

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/key"
	"github.com/redlatch/redlatch/core/rule"
)

// Middleware runs handlers under their locks. An integration translates between
// it and its framework.
type Middleware struct {
	settings
	guard    *guard.Guard
	compiled *rule.Compiled // nil: the guard's rule for the route
	names    sync.Map       // operation by route
}

// New returns a middleware with a rule of its own, written as [rule.ParseRule]
// reads it: "lock:order:<userId> wait=200ms". by is the package of the
// integration. The error lists everything that is wrong.
func New(by string, g *guard.Guard, text string, opts ...Option) (*Middleware, error) {
	m := newMiddleware(by, g, opts)
	m.compile(text)
	return m, m.err()
}

// Rules returns a middleware that takes the lock of the rule that g has for the
// route, and lets routes without a rule pass. The error lists everything that is
// wrong.
func Rules(by string, g *guard.Guard, opts ...Option) (*Middleware, error) {
	m := newMiddleware(by, g, opts)
	if m.keyFunc != nil {
		m.fault("WithKeyFunc: is for a rule of its own, and Rules takes the guard's")
	}
	return m, m.err()
}

func newMiddleware(by string, g *guard.Guard, opts []Option) *Middleware {
	m := &Middleware{guard: g, settings: newSettings(by, opts)}
	if g == nil {
		m.fault("guard is nil")
	}
	return m
}

// compile makes the rule of a middleware that has its own.
func (m *Middleware) compile(text string) {
	r, err := rule.ParseRule(text)
	if err == nil {
		m.compiled, err = r.Compile()
	}
	if err != nil {
		m.fault("%w", err)
		return
	}
	vars := m.compiled.Template.Vars()
	if m.keyFunc != nil && len(vars) > 0 {
		m.fault("WithKeyFunc: <%s> of template %q would not be used, remove it", vars[0], m.compiled.Key)
	}
	for _, v := range vars {
		if reason := impossible(v, ""); reason != "" {
			m.fault("template %q, column %d: <%s> %s", m.compiled.Key, v.Column, v, reason)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.vars)) {
		if !slices.ContainsFunc(vars, func(v key.Var) bool { return v.Source == "" && v.Name == name }) {
			m.fault("WithVar(%q): template %q has no <%s>", name, m.compiled.Key, name)
		}
	}
}

// Serve runs the handler of x under its lock, or answers instead of it. There is
// no recover in it: a panic releases the lock on its way, http.ErrAbortHandler
// included.
func (m *Middleware) Serve(x Exchange) {
	if m.skip != nil && m.skip(x) {
		x.Next(x.HTTP())
		return
	}
	operation := m.operation(x)
	r, refusal := m.find(x, operation)
	if r == nil && refusal == nil {
		x.Next(x.HTTP())
		return
	}
	c := &call{Exchange: x, m: m, rule: r, r: x.HTTP()}
	entry := guard.Call{Operation: operation, Rule: r, Key: c.key}
	if refusal != nil {
		entry.Rule, entry.Key = nowhere, func() (string, error) { return "", refusal }
	}
	ctx, leave, err := m.guard.Enter(c.r.Context(), entry)
	if err != nil {
		c.fail(err, false)
		return
	}
	answered, returned := false, false
	defer func() {
		if err := leave(); err != nil && returned {
			c.fail(err, answered)
		}
	}()
	answered = x.Next(c.r.WithContext(ctx))
	returned = true
}

// call is one request on its way through the lock. It is the [Request] that
// sources and error handlers see.
type call struct {
	Exchange
	m    *Middleware
	rule *rule.Compiled

	r     *http.Request // what the handler gets
	owned bool          // r is a copy of what came from outside
}

// HTTP is the request with the body that was read.
func (c *call) HTTP() *http.Request { return c.r }

// fail answers, unless the handler has.
func (c *call) fail(err error, answered bool) {
	var e *guard.Error
	errors.As(err, &e) // a guard returns no other
	c.Refused(e)
	if !answered {
		c.m.onError(c.Writer(), c, e)
	}
}

// key makes the key. The body is read now, before the lock is taken.
func (c *call) key() (string, error) {
	if !c.m.streamed && announcesBody(c.r) {
		if _, err := c.readBody(); err != nil {
			return "", err
		}
	}
	if c.m.keyFunc != nil {
		return c.m.keyFunc(c)
	}
	return c.rule.Template.Resolve(func(v key.Var) (string, error) { return c.m.value(c, v) })
}

var (
	errNoRoute = fmt.Errorf("%w: the request has no route, put Rules behind the router", guard.ErrUnresolvable)
	errOpen    = fmt.Errorf("%w: the route takes any method, and this one has no rule", guard.ErrUnresolvable)
)

// nowhere is the rule of requests that are refused because nobody can know
// whether they have one.
var nowhere = func() *rule.Compiled {
	c, err := rule.Rule{Key: "lock:none", Name: "no rule"}.Compile()
	if err != nil {
		panic(err) //nolint:forbidigo // a constant
	}
	return c
}()

// find finds the rule of a request. Without a rule and an error it may pass.
func (m *Middleware) find(x Exchange, operation string) (*rule.Compiled, error) {
	if m.compiled != nil {
		return m.compiled, nil
	}
	r, err := m.guard.Rule(operation)
	var refused *guard.Error
	if errors.As(err, &refused) {
		return nil, refused.Err // Enter wraps it again
	}
	if r != nil || err != nil {
		return r, err
	}
	pattern := x.Pattern()
	switch {
	case pattern == "" && !m.unrouted:
		return nil, errNoRoute
	case pattern == "" || !x.AnyMethod() || m.guard.Serves(operation):
		return nil, nil //nolint:nilnil // see above
	}
	for _, r := range m.guard.Rules() {
		if _, path, ok := rule.SplitRoute(r.Operation); ok && path == pattern {
			return nil, errOpen
		}
	}
	return nil, nil //nolint:nilnil // see above
}

// operation names a route as rules do. The names of usual methods are kept: there
// are as many as routes.
func (m *Middleware) operation(q Request) string {
	at := place{q.HTTP().Method, q.Pattern()}
	if name, ok := m.names.Load(at); ok {
		return name.(string)
	}
	name := Operation(at.method, at.pattern)
	if at.pattern != "" && slices.Contains(methods, at.method) {
		m.names.Store(at, name)
	}
	return name
}

type place struct{ method, pattern string }
