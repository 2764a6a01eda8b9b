package httpguard

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/key"
	"github.com/redlatch/redlatch/core/rule"
)

// methods are the standard ones. A route for any method also takes made-up ones.
var methods = []string{
	http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch,
	http.MethodDelete, http.MethodConnect, http.MethodOptions, http.MethodTrace,
}

// Operation returns the name of a route in rules: the method, a space, and the path
// as registered. A pattern may begin with a method, and a request with another
// method can match it: "GET /x" of ServeMux is for HEAD too. Where there is no route, the
// method stands alone.
func Operation(method, pattern string) string {
	if first, rest, ok := cutMethod(pattern); ok {
		method, pattern = first, rest
	}
	if pattern == "" {
		return method
	}
	return method + " " + pattern
}

// cutMethod splits a pattern with a method, as ServeMux does.
func cutMethod(pattern string) (method, rest string, ok bool) {
	at := strings.IndexAny(pattern, " \t/")
	if at <= 0 || pattern[at] == '/' {
		return "", pattern, false
	}
	return pattern[:at], strings.TrimLeft(pattern[at:], " \t"), true
}

// HasParameter reports whether a pattern names a path parameter: as {name} or
// {name...}, as chi's {name:expression}, of which a segment may have several, or as
// :name and *name of Gin and Echo. A pattern with a method is ServeMux's, where a colon
// and an asterisk stand for themselves.
func HasParameter(pattern, name string) bool {
	_, pattern, serveMux := cutMethod(pattern)
	depth, plain := 0, true // braces that are open; nothing special in the segment so far
	for i := range len(pattern) {
		rest := pattern[i+1:]
		switch c := pattern[i]; {
		case c == '{':
			after, ok := strings.CutPrefix(rest, name)
			if depth == 0 && ok && after != "" && strings.ContainsRune("}.:", rune(after[0])) {
				return true
			}
			depth, plain = depth+1, false
		case c == '}':
			depth = max(0, depth-1)
		case depth > 0: // an expression
		case c == '/':
			plain = true
		case plain && !serveMux && (c == ':' || c == '*'):
			if segment, _, _ := strings.Cut(rest, "/"); segment == name {
				return true
			}
			plain = false
		}
	}
	return false
}

// Route is one method of a route, as an integration finds it.
type Route struct {
	Method, Pattern string
	// Any says that the route takes any method.
	Any bool
	// Handlers are what stands in front of the last handler, and that one. A
	// handler that is no Middleware is nil.
	Handlers []*Middleware
}

// Operation is the route as rules name it.
func (r Route) Operation() string { return Operation(r.Method, r.Pattern) }

// Survey compares routes with the rules that the guard has or is to have. It returns
// the operations that go through a lock of the guard's rules, and everything that is
// wrong: a template that names what a route doesn't have, a route with a rule that no
// middleware stands in front of, a middleware in the handler's place, a route for
// any method of which only some have a rule, and a misspelled name in [WithVar] or
// [WithIdentity]. provided are names that other middlewares set for every route,
// besides the names that [WithProvided] has for some.
func (m *Middleware) Survey(rules *rule.Set, routes []Route, provided ...string) (served []string, err error) {
	s := survey{Middleware: m, rules: rules, everywhere: provided, vars: make(map[*Middleware][]string)}
	for _, r := range routes {
		s.route(r)
	}
	s.open(routes)
	s.names()
	return s.served, errors.Join(s.wrong...)
}

// Unlocked reports every route with a rule that no middleware of the guard's rules
// stands in front of. This can't be mended later, because routers fix a route's
// handlers when it is registered.
func (m *Middleware) Unlocked(routes []Route) error {
	s := survey{Middleware: m}
	locked := func(other *Middleware) bool { return other != nil && other.takesRulesOf(m.guard) }
	for _, c := range m.guard.Rules() {
		for _, r := range routes {
			if r.Operation() == c.Operation && !slices.ContainsFunc(r.Handlers, locked) {
				s.fault(r, notAmong)
			}
		}
	}
	return errors.Join(s.wrong...)
}

type survey struct {
	*Middleware
	rules      *rule.Set
	everywhere []string // names that other middlewares set for every route
	served     []string
	wrong      []error
	vars       map[*Middleware][]string // of the rules that a middleware takes
}

const notAmong = "has a rule, but Rules is not among its handlers: call Use before the route is registered"

func (s *survey) fault(r Route, format string, args ...any) {
	s.wrong = append(s.wrong, fmt.Errorf("%s: %w", s.by, rule.Fault{Operation: r.Operation(), Reason: fmt.Sprintf(format, args...)}))
}

func (s *survey) route(r Route) {
	found := s.rules.Lookup(r.Operation())
	guarded, taken, own := false, 0, false
	for i, m := range r.Handlers {
		switch {
		case m == nil:
		case i == len(r.Handlers)-1:
			s.fault(r, "a lock stands behind the handler, put it in front")
			guarded = true
			s.served = append(s.served, r.Operation()) // what is wrong has been said
		case m.compiled != nil:
			taken, own = taken+1, true
			s.templates(r, m.compiled, m)
		case m.takesRulesOf(s.guard):
			guarded = true
			if len(found) > 0 {
				taken++
			}
			s.serve(r, found, m)
		}
	}
	if taken > 1 {
		s.fault(r, "%s", behindAnother(s.by, own))
	}
	if len(found) > 0 && !guarded {
		s.fault(r, notAmong)
		s.served = append(s.served, r.Operation()) // what is wrong has been said
	}
}

// serve records that the route goes through the guard's rules. A method that the
// route doesn't name is served only if it has a rule.
func (s *survey) serve(r Route, found []*rule.Compiled, m *Middleware) {
	if len(found) > 0 || !r.Any {
		s.served = append(s.served, r.Operation())
	}
	s.templates(r, found, m)
	for _, c := range found {
		s.vars[m] = append(s.vars[m], variablesOf(c)...)
	}
}

// variablesOf returns the variables of a rule's template.
func variablesOf(c *rule.Compiled) []string {
	var names []string
	for _, v := range c.Template.Vars() {
		names = append(names, v.String())
	}
	return names
}

// takesRulesOf reports whether the middleware takes the rules of g, or of a guard
// that shares them.
func (m *Middleware) takesRulesOf(g *guard.Guard) bool {
	return m.compiled == nil && m.guard.SharesRules(g)
}

func (s *survey) templates(r Route, rules []*rule.Compiled, m *Middleware) {
	for _, c := range rules {
		s.template(r, c, m)
	}
}

// template reports variables that the route has no value for.
func (s *survey) template(r Route, c *rule.Compiled, m *Middleware) {
	if m.keyFunc != nil {
		return
	}
	if reason, column := rule.Unbracketed(c.Template, func(name string) bool { return s.has(r, name, m) }); reason != "" {
		s.fault(r, "template %q, column %d: %s", c.Key, column, reason)
	}
	for _, v := range c.Template.Vars() {
		if reason := s.unresolved(r, v, m); reason != "" {
			s.fault(r, "template %q, column %d: <%s> %s", c.Key, v.Column, v, reason)
		}
	}
}

func (s *survey) unresolved(r Route, v key.Var, m *Middleware) string {
	if reason := impossible(v, r.Method); reason != "" {
		return reason
	}
	switch {
	case s.params != nil && !s.parameter(r, v.Name) && HasParameter(r.Pattern, v.Name):
		return "is a parameter in the way of another framework: name the route as it is registered, and in the rule as well"
	case v.Source == "path" && !s.parameter(r, v.Name):
		return "is not a parameter of the route"
	case v.Source != "" || v.Reserved() || s.has(r, v.Name, m):
		return ""
	}
	return "is not a parameter of the route, not bound by WithVar, and not named by WithProvided"
}

// parameter reports whether the route has that path parameter.
func (s *survey) parameter(r Route, name string) bool {
	if s.params != nil {
		return slices.Contains(s.params(r.Pattern), name)
	}
	return HasParameter(r.Pattern, name)
}

// has reports whether requests of the route have a value for a bare name. What one lock
// of the route is provided with is there for its others as well.
func (s *survey) has(r Route, name string, m *Middleware) bool {
	provided := func(lock *Middleware) bool { return lock != nil && slices.Contains(lock.provided, name) }
	return s.parameter(r, name) || m.vars[name] != nil ||
		slices.Contains(s.everywhere, name) || slices.ContainsFunc(r.Handlers, provided)
}

// open reports routes that take any method of which only some have a rule: the
// client would choose one that has none. A router that registers each method for
// itself has all of them then.
func (s *survey) open(routes []Route) {
	byPattern := make(map[string]map[string]Route)
	var patterns []string
	for _, r := range routes {
		if byPattern[r.Pattern] == nil {
			byPattern[r.Pattern] = make(map[string]Route)
			patterns = append(patterns, r.Pattern)
		}
		byPattern[r.Pattern][r.Method] = r
	}
	for _, pattern := range patterns {
		var locked, free []Route
		all := true
		for _, method := range methods {
			r, ok := byPattern[pattern][method]
			all = all && ok
			if !ok {
				continue
			}
			if len(s.rules.Lookup(r.Operation())) > 0 {
				locked = append(locked, r)
			} else {
				free = append(free, r)
			}
		}
		if len(locked) > 0 && len(free) > 0 && (all || free[0].Any) {
			s.fault(locked[0], "the route takes any method, and %s has no rule: register the route for one method, or give each a rule", free[0].Method)
		}
	}
}

// names reports names of options that are misspelled. A name that no template has
// isn't wrong by itself: its rule may be in another version of a file.
func (s *survey) names() {
	var known []string // of all rules: several routes may share options
	for _, c := range s.rules.All() {
		known = append(known, variablesOf(c)...)
	}
	var faults []string
	for m, vars := range s.vars {
		check := func(option, name string) {
			if nearest := rule.DidYouMean(name, vars); nearest != "" && !slices.Contains(known, name) {
				faults = append(faults, fmt.Sprintf("%s: %s(%q): no template has <%s>%s", s.by, option, name, name, nearest))
			}
		}
		for name := range m.vars {
			check("WithVar", name)
		}
		for _, name := range m.identity {
			check("WithIdentity", name)
		}
	}
	slices.Sort(faults)
	for _, fault := range slices.Compact(faults) {
		s.wrong = append(s.wrong, errors.New(fault))
	}
}
