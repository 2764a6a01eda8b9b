package rule

import (
	"fmt"
	"slices"
)

// Set is a number of checked rules, at most one for each operation. It never
// changes and may be used by many goroutines at once.
type Set struct {
	rules       []*Compiled
	byOperation map[string]*Compiled
}

// NewSet checks rules as a whole. The error is [Faults]: everything that is wrong
// with any of them, two rules for one operation included. Templates that overlap
// are no fault here, only in a file: see [Set.Overlaps].
func NewSet(rules ...Rule) (*Set, error) {
	entries := make([]entry, len(rules))
	for i, r := range rules {
		entries[i] = entry{rule: r, source: fmt.Sprintf("rules[%d]", i)}
	}
	set, faults := build(entries)
	if err := faults.err(); err != nil {
		return nil, err
	}
	return set, nil
}

// Lookup returns the rule for an operation. The operation must be spelt as in the rule.
func (s *Set) Lookup(operation string) (*Compiled, bool) {
	c, ok := s.byOperation[operation]
	return c, ok
}

// All returns the rules in the order they were given, as a new slice.
func (s *Set) All() []*Compiled { return slices.Clone(s.rules) }

// Rules returns the rules in the order they were given as plain data, to join sets
// or to hand them on.
func (s *Set) Rules() []Rule {
	rules := make([]Rule, len(s.rules))
	for i, c := range s.rules {
		rules[i] = c.Rule
	}
	return rules
}

// entry is a rule on its way into a set, and where it came from.
type entry struct {
	rule   Rule
	source string
	start  position
	fields map[string]position
	broken map[string]bool // fields whose value could not be read; that is reported already
}

// position is a place in the YAML; the zero value is none.
type position struct {
	line, column int
	text         int // column of the first byte of the field's text, 0 if its bytes are not in the file one by one
}

// where names the rule for the fault of another.
func (e entry) where() string {
	if e.start.line == 0 {
		return e.source
	}
	return fmt.Sprintf("the rule in line %d", e.start.line)
}

func (e entry) fault(p problem) Fault {
	at, ok := e.fields[p.field]
	if !ok {
		at = e.start
	}
	if at.text > 0 && p.column > 0 {
		at.column = at.text + p.column - 1
	}
	return Fault{
		Source: e.source, Line: at.line, Column: at.column,
		Operation: e.rule.Operation, Field: p.field, Reason: p.reason,
	}
}

// build makes a set of the entries, which is good only if there is no fault.
func build(entries []entry) (*Set, Faults) {
	set := &Set{byOperation: make(map[string]*Compiled, len(entries))}
	first := make(map[string]entry, len(entries))
	var faults Faults
	for _, e := range entries {
		compiled, problems := e.rule.compile()
		operation := e.rule.Operation
		if earlier, taken := first[operation]; operation == "" {
			problems = append(problems, problem{field: fieldOperation, reason: "is missing, name the route or method that takes the lock"})
		} else if taken {
			problems = append(problems, problem{field: fieldOperation, reason: "has a rule already, " + earlier.where() + ", keep one of them"})
		} else {
			first[operation] = e
		}
		for _, p := range problems {
			if !e.broken[p.field] {
				faults = append(faults, e.fault(p))
			}
		}
		set.rules = append(set.rules, compiled)
		set.byOperation[operation] = compiled
	}
	return set, faults
}
