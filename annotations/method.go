package annotations

import (
	"errors"
	"fmt"

	"github.com/redlatch/redlatch/annotations/internal/directive"
	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/rule"
)

// Method is a method together with its locks. It never changes and is safe for
// concurrent use. [Compile] makes one, [Do] and [Call] run it.
type Method struct {
	guard     *guard.Guard
	operation string
	rules     []*rule.Compiled
}

// Compile checks the directives of a method, each the text that would stand
// behind //redlatch:lock, such as
//
//	lock:order:<userId> wait=200ms lease=10s mode=exclusive onbusy=reject name=order
//
// The options are those of a [rule.Rule]. wait and onbusy belong to the call as
// a whole: one of several directives says them for all.
//
// A rule that g has for operation takes the place of all directives, at any
// time: what is written in the code can be changed by configuration. Its
// variables must be among those that the method has values for.
//
// The error, which wraps [rule.ErrInvalid], lists everything that is wrong with
// any of the directives.
func Compile(g *guard.Guard, operation string, directives ...string) (*Method, error) {
	fail := func(format string, args ...any) error {
		return fmt.Errorf("annotations: %s: %w: "+format, append([]any{operation, rule.ErrInvalid}, args...)...)
	}
	switch {
	case g == nil:
		return nil, fail("the guard is nil")
	case len(directives) == 0:
		return nil, fail("it has no directive")
	}
	var wrong []error
	parsed := make([]*directive.Directive, len(directives))
	for i, text := range directives {
		d, faults := directive.Parse(text)
		for _, f := range faults {
			wrong = append(wrong, fail("%q, column %d: %s", text, f.Column, f.Reason))
		}
		parsed[i] = d
	}
	if len(wrong) > 0 {
		return nil, errors.Join(wrong...)
	}
	rules, faults := directive.Join(parsed)
	for _, f := range faults {
		wrong = append(wrong, fail("%q, column %d: %s", directives[f.Index], f.Column, f.Reason))
	}
	m := &Method{guard: g, operation: operation, rules: make([]*rule.Compiled, len(rules))}
	for i, r := range rules {
		r.Operation = operation
		var err error
		if m.rules[i], err = r.Compile(); err != nil {
			wrong = append(wrong, fail("%q: %w", directives[i], err))
		}
	}
	if len(wrong) > 0 {
		return nil, errors.Join(wrong...)
	}
	g.Serve("annotations", operation)
	return m, nil
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

// Operation returns the name under which the guard may have another rule for
// the method, and which errors carry.
func (m *Method) Operation() string { return m.operation }

// Rules returns the locks that the directives name, in their order.
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

// Method is [Compile], whose error [Compiler.Err] returns. It also refuses a
// rule of the guard that names a variable which no directive of the method
// does: the decorator has no value for it.
func (c *Compiler) Method(operation string, directives ...string) *Method {
	m, err := Compile(c.guard, operation, directives...)
	if err != nil {
		c.wrong = append(c.wrong, err)
		return nil
	}
	r := ruleNamed(c.guard, operation)
	if r == nil {
		return m
	}
	known := m.variables()
	for _, v := range r.Template.Vars() {
		if !known[v.String()] {
			c.wrong = append(c.wrong, fmt.Errorf("annotations: %s: %w: the guard's rule %q has <%s>, which no directive of the method names",
				operation, rule.ErrInvalid, r.Key, v))
		}
	}
	return m
}

// ruleNamed returns the guard's rule for an operation, nil if it has none.
func ruleNamed(g *guard.Guard, operation string) *rule.Compiled {
	for _, r := range g.Rules() {
		if r.Operation == operation {
			return r
		}
	}
	return nil
}

// Err returns everything that was wrong so far, nil if nothing was.
func (c *Compiler) Err() error { return errors.Join(c.wrong...) }
