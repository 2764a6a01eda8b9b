package ginlock

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/redlatch/redlatch/core/key"
	"github.com/redlatch/redlatch/core/rule"
)

// keyFuncTemplate stands where a rule needs a template although a func makes
// the key. It is never rendered.
const keyFuncTemplate = "key-func"

// compile makes the rule of a middleware that brings its own.
func (m *middleware) compile() {
	r := m.config.rule
	if m.keyFunc != nil {
		if r.Key != "" {
			m.fault("WithKeyFunc: the template %q would not be used, leave it empty", r.Key)
		}
		if r.Name == "" {
			m.fault("WithKeyFunc: WithName is missing")
		}
		r.Key = keyFuncTemplate
	}
	compiled, err := r.Compile()
	if err != nil {
		m.fault("%w", err)
		return
	}
	m.compiled = compiled
	for _, reason := range impossible(compiled) {
		m.fault("template %q: %s", compiled.Key, reason)
	}
	for _, name := range slices.Sorted(maps.Keys(m.vars)) {
		if !names(compiled.Template, name) {
			m.fault("WithVar(%q): template %q has no <%s>", name, compiled.Key, name)
		}
	}
}

// checkRules looks through the rules that routes may have.
func (m *middleware) checkRules() {
	for _, option := range m.ruled {
		m.fault("%s: is part of a rule, and Rules takes the guard's", option)
	}
	if m.guard == nil {
		return
	}
	for _, r := range m.guard.Rules() {
		if !isRoute(r.Operation) {
			continue
		}
		for _, reason := range impossible(r) {
			m.fault("rule %q: template %q: %s", r.Operation, r.Key, reason)
		}
	}
}

// impossible lists the variables that no request of this door has.
func impossible(r *rule.Compiled) []string {
	var reasons []string
	for _, v := range r.Template.Vars() {
		if !isKnown(v) {
			reasons = append(reasons, fmt.Sprintf("column %d: <%s> does not exist in Gin", v.Column, v))
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

// isRoute tells the operations of this door from those of others.
func isRoute(operation string) bool {
	method, path, ok := strings.Cut(operation, " ")
	return ok && method != "" && strings.Trim(method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == "" && strings.HasPrefix(path, "/")
}
