package annotations

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/redlatch/redlatch/annotations/internal/directive"
	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/rule"
)

// Method is a method together with its locks. It is immutable and safe for
// concurrent use. [Compile] makes one, [Do] and [Call] run it.
type Method struct {
	guard     *guard.Guard
	operation string
	rules     []*rule.Compiled
	spelled   []string // the variables of the directives, as they have them
	declared  bool     // by the type of its requests
}

// Compile checks the directives of a method, each the string that would stand
// behind //redlatch:lock, such as
//
//	lock:order:<userId> wait=200ms lease=10s mode=fair onBusy=skip name=order
//
// It is the string form of a [rule.Rule], see [rule.ParseRule]. wait and onBusy
// belong to the call as a whole: one of several directives sets them for all.
//
// Compile declares to g that operation is served. If g has rules for operation, they
// replace all directives, at any time: configuration overrides the code. Nothing
// checks its variables before the calls, which fail where they have no value for one;
// [CompileFor] does.
//
// The error, which wraps [rule.ErrInvalid], lists everything that is wrong with
// any of the directives, and whether the settings of the locker rule one out.
func Compile(g *guard.Guard, operation string, directives ...string) (*Method, error) {
	m, err := compile(g, operation, directives)
	if err != nil {
		return nil, err
	}
	g.Serve("annotations", operation)
	return m, nil
}

// compile is [Compile] without a word to the guard.
func compile(g *guard.Guard, operation string, directives []string) (*Method, error) {
	c := compiler{operation: operation}
	switch {
	case g == nil:
		return nil, c.fail("the guard is nil")
	case len(directives) == 0:
		return nil, c.fail("it has no directive")
	}
	m := &Method{guard: g, operation: operation, rules: c.rules(g, directives)}
	m.spelled = c.spelled
	if err := errors.Join(c.wrong...); err != nil {
		return nil, err
	}
	return m, nil
}

// CompileFor is [Compile] for a request type that declares its locks itself, in
// the tags of blank fields, next to the tags that name its values:
//
//	type PlaceRequest struct {
//		_      struct{} `lock:"lock:order:<userId> wait=200ms"`
//		UserID int64    `lock:"userId"`
//	}
//
//	place, err := annotations.CompileFor[PlaceRequest](g, "place")
//
// It checks the type as [Method.Check] does. The guard isn't valid with a rule for the
// operation that names a variable which no field has the tag of. Run the method with
// [VarsOf] a request.
func CompileFor[T any](g *guard.Guard, operation string) (*Method, error) {
	c := compiler{operation: operation}
	t, err := tagsOf(reflect.ValueOf(new(T)))
	if err != nil {
		return nil, c.fail("%w", err)
	}
	if len(t.locks) == 0 {
		return nil, c.fail("%v declares no lock: add a field _ struct{} with a tag such as %s:%q", t.of, tagName, "lock:order:<userId>")
	}
	m, err := compile(g, operation, t.locks)
	if err != nil {
		return nil, err
	}
	m.declared = true
	if err := m.Check(*new(T)); err != nil {
		return nil, err
	}
	m.serve(requested{operation, t.of}, func(r *rule.Compiled) []error { return m.unnamed(t, "the guard's rule", r) })
	return m, nil
}

// requested identifies a method with the type of its requests.
type requested struct {
	operation string
	of        reflect.Type
}

// compiler turns the directives of one method into rules, and notes what is wrong.
type compiler struct {
	operation string
	spelled   []string
	wrong     []error
}

func (c *compiler) fail(format string, args ...any) error {
	return fmt.Errorf("annotations: %s: %w: "+format, append([]any{c.operation, rule.ErrInvalid}, args...)...)
}

func (c *compiler) rules(g *guard.Guard, directives []string) []*rule.Compiled {
	parsed := make([]*directive.Directive, len(directives))
	for i, source := range directives {
		d, faults := directive.Parse(source)
		c.report(directives, i, faults)
		parsed[i] = d
		if len(faults) > 0 {
			continue
		}
		for _, v := range d.Vars {
			c.spelled = append(c.spelled, v.Path)
		}
	}
	if len(c.wrong) > 0 {
		return nil
	}
	rules, faults := directive.Join(parsed)
	c.report(directives, 0, faults)
	compiled := make([]*rule.Compiled, len(rules))
	for i, r := range rules {
		var err error
		if compiled[i], err = r.Compile(); err == nil {
			err = g.Fits(compiled[i])
		}
		if err != nil {
			c.wrong = append(c.wrong, c.fail("%q: %w", directives[i], err))
			continue
		}
		compiled[i].Operation = c.operation
	}
	return compiled
}

// report notes faults, whose indexes count from that of the first directive.
func (c *compiler) report(directives []string, index int, faults []directive.Fault) {
	for _, f := range faults {
		c.wrong = append(c.wrong, c.fail("%q, column %d: %s", directives[index+f.Index], f.Column, f.Reason))
	}
}

// Must is for directives that are part of the program: it panics when err is
// not nil.
//
//	var place = annotations.Must(annotations.Compile(g, "place", "lock:order:<userId>"))
func Must(m *Method, err error) *Method {
	if err != nil {
		panic(err) //nolint:forbidigo // it is a Must function
	}
	return m
}

// Operation returns the name of the method in errors and in the guard's rules.
func (m *Method) Operation() string { return m.operation }

// Rules returns the rules of the directives, in their order.
func (m *Method) Rules() []rule.Rule {
	rules := make([]rule.Rule, len(m.rules))
	for i, r := range m.rules {
		rules[i] = r.Rule
	}
	return rules
}

// variables are those of the directives' templates, each once.
func (m *Method) variables() map[string]bool {
	names := make(map[string]bool)
	for _, r := range m.rules {
		for _, v := range r.Template.Vars() {
			names[v.String()] = true
		}
	}
	return names
}

// Compiler compiles the methods of a generated decorator.
type Compiler struct {
	guard *guard.Guard
	wrong []error
}

// NewCompiler returns a compiler for methods that take their locks from g.
func NewCompiler(g *guard.Guard) *Compiler { return &Compiler{guard: g} }

// Method is [Compile], whose error [Compiler.Err] returns. The guard isn't valid
// with a rule for the operation that names a variable which no directive of the
// method does: the decorator has no value for it.
func (c *Compiler) Method(operation string, directives ...string) *Method {
	m, err := compile(c.guard, operation, directives)
	if err != nil {
		c.wrong = append(c.wrong, err)
		return nil
	}
	m.serve(decorated{operation, strings.Join(directives, "\n")}, m.unknown)
	return m
}

// decorated identifies what a decorator locks: a program that makes one for each
// request has one survey of it all the same.
type decorated struct{ operation, directives string }

// serve declares to the guard that the method is served, and lets faults check the
// guard's rule for it. A later call for the same identity replaces this one.
func (m *Method) serve(identity any, faults func(*rule.Compiled) []error) {
	m.guard.Attach("annotations", identity, func(rules *rule.Set) ([]string, error) {
		served := []string{m.operation}
		var wrong []error
		for _, r := range rules.Lookup(m.operation) {
			wrong = append(wrong, faults(r)...)
		}
		return served, errors.Join(wrong...)
	})
}

// unknown returns a fault for each variable of r that no directive names. It can be located
// in the file of the rule.
func (m *Method) unknown(r *rule.Compiled) []error {
	known, paths := m.variables(), rule.ReadPaths(r.Key)
	var wrong []error
	for _, v := range r.Template.Vars() {
		if known[v.String()] {
			continue
		}
		named := strings.Trim(paths.Plain("<"+v.String()+">"), "<>")
		cure := "none has a variable"
		if len(m.spelled) > 0 {
			cure = "they name <" + strings.Join(m.spelled, ">, <") + ">"
		}
		wrong = append(wrong, fmt.Errorf("annotations: %w", rule.Fault{Operation: m.operation, Field: "key", Reason: fmt.Sprintf(
			"%q, column %d: no directive of the method names <%s>%s; %s", r.Key, paths.Original(v.Column), named, rule.DidYouMean(named, m.spelled), cure)}))
	}
	return wrong
}

// Err returns everything that was wrong so far, or nil.
func (c *Compiler) Err() error { return errors.Join(c.wrong...) }
