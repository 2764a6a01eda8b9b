package httpguard

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/key"
	"github.com/redlatch/redlatch/core/rule"
)

// keyFuncTemplate stands where a rule needs a template although a func makes
// the key. It is never rendered.
const keyFuncTemplate = "key-func"

// Compile makes the rule of a middleware that brings its own, of a template
// and the options. What is wrong with it is in Err, and the rule nil then.
func (c *Config[C]) Compile(template string) *rule.Compiled {
	r := c.rule
	r.Key = template
	if c.KeyFunc != nil {
		if r.Key != "" {
			c.Fault("WithKeyFunc: the template %q would not be used, leave it empty", r.Key)
		}
		if r.Name == "" {
			c.Fault("WithKeyFunc: WithName is missing")
		}
		r.Key = keyFuncTemplate
	}
	compiled, err := r.Compile()
	if err != nil {
		c.Fault("%w", err)
		return nil
	}
	for _, reason := range c.impossible(compiled) {
		c.Fault("template %q: %s", compiled.Key, reason)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Vars)) {
		if !names(compiled.Template, name) {
			c.Fault("WithVar(%q): template %q has no <%s>", name, compiled.Key, name)
		}
	}
	return compiled
}

// CheckRules looks through the rules that a middleware may be asked to take.
func (c *Config[C]) CheckRules(g *guard.Guard) {
	for _, option := range c.ruled {
		c.Fault("%s: is part of a rule, and Rules takes the guard's", option)
	}
	if g == nil {
		return
	}
	for _, r := range g.Rules() {
		if _, _, ok := SplitOperation(r.Operation); !ok {
			continue
		}
		for _, reason := range c.impossible(r) {
			c.Fault("rule %q: template %q: %s", r.Operation, r.Key, reason)
		}
	}
}

// impossible lists the variables that no HTTP request has.
func (c *Config[C]) impossible(r *rule.Compiled) []string {
	var reasons []string
	for _, v := range r.Template.Vars() {
		if v.Source == "md" || v.Source == "req" || v.Source == "" && v.Name == "service" {
			reasons = append(reasons, fmt.Sprintf("column %d: <%s> does not exist in %s", v.Column, v, c.framework))
		}
	}
	return reasons
}

// names reports whether the template has the bare variable.
func names(t *key.Template, name string) bool {
	for _, v := range t.Vars() {
		if v.Source == "" && v.Name == name {
			return true
		}
	}
	return false
}

// Operation names a route as rules do. It is empty in its second half where no
// route matched.
func Operation(method, path string) string { return method + " " + path }

// SplitOperation takes the operation of an HTTP rule apart: its method, and its
// path, which may have a host before it. ok is false for those of other doors.
func SplitOperation(operation string) (method, path string, ok bool) {
	method, path, ok = strings.Cut(operation, " ")
	ok = ok && method != "" && strings.Trim(method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == "" && strings.Contains(path, "/")
	return method, path, ok
}
