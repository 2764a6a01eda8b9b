package httpguard

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"mime/multipart"
	"net/http"
	"slices"
	"strconv"
	"strings"
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
	compiled []*rule.Compiled // nil: the guard's rules for the route

	// The route that it is for, empty where it finds out: its path, and its operation
	// unless it is for all methods.
	path, operation string

	plans sync.Map // by route
}

// New returns a middleware with its own rule, written as [rule.ParseRule]
// reads it: "lock:order:<userId> wait=200ms", and those of [WithRule]. by is the package of the
// integration. The error lists everything that is wrong.
func New(by string, g *guard.Guard, text string, opts ...Option) (*Middleware, error) {
	m := newMiddleware(by, g, opts)
	m.compile(append([]string{text}, m.more...)...)
	return m, m.err()
}

// Rules returns a middleware that takes the lock of the rule that g has for the
// route. Routes without a rule, and requests without a route, pass through. It is
// for frameworks whose routes can be listed with their handlers: attach a
// [Middleware.Survey] of them to the guard. The error lists everything that is
// wrong.
func Rules(by string, g *guard.Guard, opts ...Option) (*Middleware, error) {
	m := newMiddleware(by, g, opts)
	if m.keyFunc != nil {
		m.fault("WithKeyFunc: is for a middleware with its own rule, and Rules takes the guard's")
	}
	if len(m.more) > 0 {
		m.fault("WithRule: is for a middleware with its own rule, and Rules takes the guard's: give the guard a second rule for the operation, with also: true")
	}
	return m, m.err()
}

// ForRoute is [Rules] for one route, "POST /orders/{id}", or "/orders/{id}" for all
// methods of it. It declares to g that the route is served, and refuses the requests of
// other routes. It is for routers that don't show what stands in front of a handler.
func ForRoute(by string, g *guard.Guard, pattern string, opts ...Option) (*Middleware, error) {
	m, _ := Rules(by, g, opts...)
	method, path, named := cutMethod(pattern)
	served := []string{method}
	if m.path = path; named {
		m.operation = method + " " + path
	} else {
		served = methods
	}
	if path == "" {
		m.fault(`the route is missing, name it as it is registered: "POST /orders/{id}"`)
	} else if _, err := rule.ShapeOf(served[0] + " " + path); err != nil {
		m.fault("route: %w", err)
	}
	if err := m.err(); err != nil {
		return m, err
	}
	routes := make([]Route, len(served))
	for i, method := range served {
		routes[i] = Route{Method: method, Pattern: path, Any: !named, Handlers: []*Middleware{m, nil}}
	}
	g.Attach(by, nil, func(rules *rule.Set) ([]string, error) { return m.Survey(rules, routes) })
	return m, nil
}

func newMiddleware(by string, g *guard.Guard, opts []Option) *Middleware {
	m := &Middleware{guard: g, settings: newSettings(by, opts)}
	if g == nil {
		m.fault("guard is nil")
	}
	return m
}

// compile makes the rules of a middleware that has its own.
func (m *Middleware) compile(texts ...string) {
	rules := make([]rule.Rule, len(texts))
	var faults []error
	for i, text := range texts {
		var err error
		if rules[i], err = rule.ParseRule(text); err != nil {
			faults = append(faults, err)
		}
	}
	err := errors.Join(faults...)
	if err == nil {
		m.compiled, err = rule.JoinAll(rules...)
	}
	if err != nil {
		m.fault("%w", err)
		return
	}
	var vars []key.Var
	for _, c := range m.compiled {
		vars = append(vars, c.Template.Vars()...)
		m.checkTemplate(c)
	}
	m.checkKeyFunc(vars)
	templates := fmt.Sprintf("template %q has", m.compiled[0].Key)
	if len(m.compiled) > 1 {
		templates = "the templates have"
	}
	for _, name := range m.identity {
		if !slices.ContainsFunc(vars, func(v key.Var) bool { return v.String() == name }) {
			m.fault("WithIdentity(%q): %s no <%s>", name, templates, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.vars)) {
		if !slices.ContainsFunc(vars, func(v key.Var) bool { return v.Source == "" && v.Name == name }) {
			m.fault("WithVar(%q): %s no <%s>", name, templates, name)
		}
	}
}

// checkTemplate reports what is wrong with one of the middleware's own rules.
func (m *Middleware) checkTemplate(c *rule.Compiled) {
	if m.guard != nil {
		if err := m.guard.Fits(c); err != nil {
			m.fault("template %q: %w", c.Key, err)
		}
	}
	known := func(name string) bool { return m.keyFunc == nil && slices.Contains(m.provided, name) }
	if reason, column := rule.Unbracketed(c.Template, known); reason != "" {
		m.fault("template %q, column %d: %s", c.Key, column, reason)
	}
	for _, v := range c.Template.Vars() {
		if reason := impossible(v, ""); reason != "" {
			m.fault("template %q, column %d: <%s> %s", c.Key, v.Column, v, reason)
		}
	}
}

// checkKeyFunc reports a func that can't make the key alone.
func (m *Middleware) checkKeyFunc(vars []key.Var) {
	switch {
	case m.keyFunc == nil:
	case len(m.compiled) > 1:
		m.fault("WithKeyFunc: makes one key, and there are %d rules: name the parts by variables (WithVar)", len(m.compiled))
	case len(vars) > 0:
		m.fault("WithKeyFunc: <%s> of template %q would not be used, remove it", vars[0], m.compiled[0].Key)
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
	at := place{x.HTTP().Method, x.Pattern()}
	p := m.planOf(at)
	rules, err := m.find(x, p.operation)
	switch {
	case err != nil:
		m.Refuse(x, err)
	case len(rules) == 0:
		x.Next(x.HTTP())
	case x.HTTP().Context().Value(locked{}) != nil:
		front := x.HTTP().Context().Value(locked{}).(*Middleware)
		m.Refuse(x, fmt.Errorf("%w: %s", rule.ErrInvalid, behindAnother(m.by, m.compiled != nil || front.compiled != nil)))
	default:
		m.enter(x, m.bind(at, p, rules))
	}
}

// Refuse answers a request that must not run, because of a fault of the program: one
// that wraps [rule.ErrInvalid] and names the cure.
func (m *Middleware) Refuse(x Exchange, fault error) {
	c := &call{Exchange: x, m: m, plan: m.planOf(place{x.HTTP().Method, x.Pattern()}), r: x.HTTP()}
	c.refuse(nil, fault)
}

// TakesRules reports whether the middleware uses the rules of a guard.
func (m *Middleware) TakesRules() bool { return m.compiled == nil }

// locked is the key under which the context of a handler says that it runs under a
// middleware of ours. Two locks that are taken one after the other are taken in two
// orders by requests whose keys cross, and wait for each other.
type locked struct{}

// behindAnother is what is wrong with a second lock on the way. own says that one of the two
// has its own rule. Two that take the guard's rules are one that was given twice.
func behindAnother(by string, own bool) string {
	if !own {
		return "the lock of the guard's rules stands in front of the handler twice: remove one"
	}
	return "a lock stands behind another one, and crossing requests would wait for each other: give both rules to one middleware, " +
		"as in " + by + ".New(g, a, httpguard.WithRule(b)), or in a file with also: true"
}

// inner is the context of a handler that runs under its locks.
type inner struct {
	context.Context
	m *Middleware
}

func (i *inner) Value(key any) any {
	if key == (locked{}) {
		return i.m
	}
	return i.Context.Value(key)
}

// enter runs the handler under the locks of a plan.
func (m *Middleware) enter(x Exchange, p *plan) {
	c := &call{Exchange: x, m: m, plan: p, r: x.HTTP()}
	c.context.m = m
	if m.streamed && announcesBody(c.r) && c.r.Trailer == nil {
		c.r.Trailer = make(http.Header) // the server fills it as the body ends: the handler's copy shares it
	}
	defer c.removeFiles()
	var one [1]guard.Call // so that the usual case allocates nothing
	calls, refused, err := c.keys(one[:0])
	if err != nil {
		c.refuse(refused, err)
		return
	}
	// Of a middleware in front that compresses. Its writer may panic, so it's called
	// before there is a lock.
	encoding := c.Writer().Header()["Content-Encoding"]
	outside := c.r.Context()
	held, failed := m.guard.Acquire(outside, calls)
	if failed != nil {
		c.fail(failed, false)
		return
	}
	answered, returned := false, false
	defer func() {
		if lost := m.guard.Release(outside, calls, held); lost != nil && returned {
			if !answered {
				restore(c.Writer().Header(), "Content-Encoding", encoding) // the handler's is not that of a problem
			}
			c.fail(lost, answered)
		}
	}()
	c.context.Context = held.Context() //nolint:fatcontext // once for each request
	c.inside = *c.r.WithContext(&c.context)
	answered = x.Next(&c.inside)
	returned = true
}

func restore(h http.Header, name string, values []string) {
	if values == nil {
		h.Del(name)
		return
	}
	h[name] = values
}

// removeFiles removes the uploaded files that a form has on disk, parsed by a source or
// by the handler. The server does so for the request that it made, and they got a copy.
func (c *call) removeFiles() {
	outside := c.Exchange.HTTP().MultipartForm
	for _, form := range [...]*multipart.Form{c.r.MultipartForm, c.inside.MultipartForm} {
		if form != nil && form != outside {
			_ = form.RemoveAll() // nobody is left to tell
		}
	}
}

// call is one request on its way through the lock. It is the [Request] that
// sources and error handlers see.
type call struct {
	Exchange
	m       *Middleware
	plan    *plan
	r       *http.Request
	owned   bool         // r is a copy of what came from outside
	inside  http.Request // what the handler gets: r with the lease's context
	context inner

	unreadable error // why a source could not read a body that is streamed
}

// HTTP is the request with the body that was read.
func (c *call) HTTP() *http.Request { return c.r }

// refuse answers a request that has no key for a rule.
func (c *call) refuse(r *rule.Compiled, err error) {
	c.fail(c.m.guard.Refuse(c.r.Context(), guard.Call{Operation: c.plan.operation, Rule: r}, err), false)
}

// fail answers the request unless the handler has done so. Servers make a success of what
// nobody answers.
func (c *call) fail(e *guard.Error, answered bool) {
	c.Refused(e)
	if own := c.m.onError; !answered && own != nil {
		answered = c.Answer(func(w http.ResponseWriter) { own(w, c, e) })
	}
	if !answered {
		Problem(c.Writer(), c, e)
	}
}

// keys appends a call with its key for each rule of the plan. It returns the rule
// whose key can't be made. The body is read now, before a lock is taken, or if it is
// streamed when a source reads it.
func (c *call) keys(calls []guard.Call) (_ []guard.Call, refused *rule.Compiled, err error) {
	switch {
	case !announcesBody(c.r):
	case !c.m.streamed:
		if _, err := c.readBody(); err != nil {
			return nil, c.plan.rules[0], err
		}
	case c.m.keyFunc != nil || len(c.plan.sources) > 0:
		c.own()
		c.r.Body = &unread{ReadCloser: c.r.Body, c: c}
		defer c.unwrapBody()
	}
	next := 0 // of the sources
	for _, r := range c.plan.rules {
		text, err := c.key(r, &next)
		if err != nil {
			return nil, r, err
		}
		calls = append(calls, guard.Call{Operation: c.plan.operation, Rule: r, Key: text})
	}
	return calls, nil, nil
}

// key makes the key of a rule, whose first source is the next one.
func (c *call) key(r *rule.Compiled, next *int) (string, error) {
	if c.m.keyFunc != nil {
		text, err := c.ask(c.m.keyFunc)
		if err == nil && text == "" {
			err = key.ErrMissing
		}
		return text, err
	}
	return r.Template.Resolve(func(v key.Var) (string, error) {
		value, err := c.ask(c.plan.sources[*next])
		*next++
		return guard.Identify(c.m.identity, v, value, err)
	})
}

// ask returns the value that a source finds. The next one, and the handler, read the
// body from its start again.
func (c *call) ask(source Source) (string, error) {
	value, err := source(c)
	if read, ok := c.r.Body.(*body); ok {
		read.Reset(read.text)
	}
	if c.unreadable != nil {
		return "", c.unreadable // whatever the source makes of it, the handler can't read it either
	}
	return value, err
}

// find finds the rules of a request. Without a rule and an error it may pass.
func (m *Middleware) find(x Exchange, operation string) ([]*rule.Compiled, error) {
	if m.compiled != nil {
		return m.compiled, nil
	}
	rules, err := m.guard.RulesOf(operation)
	if err != nil {
		return nil, errors.Unwrap(err) // Enter wraps it again
	}
	if m.path == "" {
		return rules, nil
	}
	switch _, path, _ := strings.Cut(operation, " "); {
	case path == "":
		return nil, m.misplaced("is a lock in front of the router, where a request has no route yet: put it around the handler of the route; " + unsaid)
	case operation != m.operation && (m.operation != "" || path != m.path):
		return nil, m.misplaced("is a lock for this route, and " + strconv.Quote(operation) + " came to it: write " + m.by + ".Route(g, " + strconv.Quote(operation) + ")")
	case len(rules) == 0 && m.operation == "" && !slices.Contains(methods, x.HTTP().Method) && m.hasRules():
		return nil, m.misplaced("takes any method, and " + strconv.Quote(x.HTTP().Method) + " has no rule: register the route for one method")
	}
	return rules, nil
}

// misplaced returns the fault of a lock for one route that got a request of
// another.
func (m *Middleware) misplaced(reason string) error {
	at := m.operation
	if at == "" {
		at = m.path
	}
	return rule.Fault{Operation: at, Reason: reason}
}

// hasRules reports whether the guard has a rule for some method of the route.
func (m *Middleware) hasRules() bool {
	return slices.ContainsFunc(m.guard.Rules(), func(r *rule.Compiled) bool {
		_, path, ok := rule.SplitRoute(r.Operation)
		return ok && path == m.path
	})
}

// plan holds the rules of one route, made ready for its requests.
type plan struct {
	operation string
	rules     []*rule.Compiled
	sources   []Source // of the variables of all templates, in their order
}

// place is where a request comes in.
type place struct{ method, pattern string }

// planOf returns what is known of a route: at least its name, as rules have it. A
// router that sends a HEAD to the route for GET means that one.
func (m *Middleware) planOf(at place) *plan {
	if p, ok := m.plans.Load(at); ok {
		return p.(*plan)
	}
	name := Operation(at.method, at.pattern)
	if at.method == http.MethodHead && m.operation == http.MethodGet+" "+at.pattern {
		name = m.operation
	}
	return m.keep(at, &plan{operation: name})
}

// bind returns the plan of a route that has these rules.
func (m *Middleware) bind(at place, p *plan, rules []*rule.Compiled) *plan {
	if slices.Equal(p.rules, rules) {
		return p
	}
	bound := &plan{operation: p.operation, rules: rules}
	for _, r := range rules {
		for _, v := range r.Template.Vars() {
			bound.sources = append(bound.sources, m.source(v))
		}
	}
	return m.keep(at, bound)
}

// keep keeps plans for usual methods: there are as many as routes.
func (m *Middleware) keep(at place, p *plan) *plan {
	if at.pattern != "" && slices.Contains(methods, at.method) {
		m.plans.Store(at, p)
	}
	return p
}
