package rule

import (
	"fmt"
	"slices"
	"strings"

	"github.com/redlatch/redlatch/core/lock"
)

// Set is a set of checked rules. An operation has one, or several that it takes
// together ([Rule.Also]). A set is immutable and safe for concurrent use.
type Set struct {
	rules       []*Compiled
	entries     []Entry // that the rules were made of
	byOperation map[string][]*Compiled
	places      map[string]Fault // of those from a file: its source, line and column
	unlocked    []string
}

// NewSet checks rules as a whole. The error is [Faults]: everything that is wrong
// with any of them, two rules for one operation included, and rules that share keys on
// purpose, by one template or by [Rule.Overlaps], and don't agree how many permits a key
// has. Templates that overlap are no fault here, only in a file: see [Set.Overlaps].
func NewSet(rules ...Rule) (*Set, error) {
	entries := make([]Entry, len(rules))
	for i, r := range rules {
		entries[i] = Entry{Rule: r, Source: fmt.Sprintf("rules[%d]", i)}
	}
	return NewSetOf(entries...)
}

// NewSetOf is [NewSet] for rules whose places are known, such as those of several files
// ([Set.Entries]): the faults name them.
func NewSetOf(entries ...Entry) (*Set, error) {
	set, faults := build(entries)
	if err := faults.err(); err != nil {
		return nil, err
	}
	return set, nil
}

// Unlocked returns the operations that a file lists under unlocked: they lose their
// rule on purpose. A guard refuses a set that takes the rule of any other served
// operation away.
func (s *Set) Unlocked() []string { return slices.Clone(s.unlocked) }

// Lookup returns the rules whose Operation equals operation, which takes the locks of
// all of them. It has none if the slice is empty. The slice must not be changed.
func (s *Set) Lookup(operation string) []*Compiled { return s.byOperation[operation] }

// Empty reports whether the set has no rules.
func (s *Set) Empty() bool { return len(s.rules) == 0 }

// All returns the rules in the order in which they were given, as a new slice.
func (s *Set) All() []*Compiled { return slices.Clone(s.rules) }

// Rules returns the rules as plain data, in the order in which they were given.
func (s *Set) Rules() []Rule {
	rules := make([]Rule, len(s.rules))
	for i, c := range s.rules {
		rules[i] = c.Rule
	}
	return rules
}

// Entries returns the rules with their places, in the order in which they were given.
func (s *Set) Entries() []Entry { return slices.Clone(s.entries) }

// Locate adds the places in the set's file to the faults in err, which is an error
// of [guard.Guard.Replace], or wraps one. A fault of an operation whose rule is only in
// before gets its place there. before may be nil. The error that is returned wraps err
// and has its message, in which the faults have their places. [errors.As] finds them with
// their places, as Faults and as Fault.
//
// [guard.Guard.Replace]: https://pkg.go.dev/github.com/redlatch/redlatch/core/guard#Guard.Replace
func (s *Set) Locate(before *Set, err error) error {
	faults := faultsIn(err)
	var texts []string // what to replace, and by what
	for i, f := range faults {
		if faults[i] = s.locate(before, f); faults[i] != f {
			texts = append(texts, f.Error(), faults[i].Error())
		}
	}
	if len(texts) == 0 {
		return err
	}
	return &located{err, strings.NewReplacer(texts...).Replace(err.Error()), faults}
}

// located is an error whose faults have got their places since.
type located struct {
	cause  error
	text   string
	faults Faults
}

func (e *located) Error() string   { return e.text }
func (e *located) Unwrap() []error { return []error{e.faults, e.cause} }

// faultsIn returns the faults that err is or wraps, as a new slice.
func faultsIn(err error) (faults Faults) {
	switch e := err.(type) { //nolint:errorlint // it walks the tree itself
	case Fault:
		return Faults{e}
	case *located:
		return slices.Clone(e.faults)
	case interface{ Unwrap() error }:
		return faultsIn(e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, part := range e.Unwrap() {
			faults = append(faults, faultsIn(part)...)
		}
	}
	return faults
}

func (s *Set) locate(before *Set, f Fault) Fault {
	if f.Line > 0 {
		return f
	}
	if at, ok := s.places[f.Operation]; ok {
		f.Source, f.Line, f.Column = at.Source, at.Line, at.Column
	} else if before != nil && before.places[f.Operation].Line > 0 {
		at := before.places[f.Operation]
		f.Source = at.Source
		f.Reason += fmt.Sprintf(" (it was in line %d of the version before)", at.Line)
	}
	return f
}

// Entry is a rule of a file, and where it stands.
type Entry struct {
	Rule Rule
	// Source is the file, or what else the rule comes from.
	Source string
	// Line and Column are where the rule begins, from 1; 0 outside of a file.
	Line, Column int
	// Fields are the places of the values of its fields.
	Fields map[string]Place
	// Broken are the fields whose value couldn't be read. What follows from that
	// isn't reported again.
	Broken map[string]bool
}

// Place is where the value of a field stands.
type Place struct {
	Line, Column int
	// ValueColumn is the column of the value's first byte, 0 if its bytes aren't in the
	// file one by one.
	ValueColumn int
}

// where names the rule for the fault of another.
func (e *Entry) where(other *Entry) string {
	switch {
	case e.Line == 0:
		return e.Source
	case e.Source == other.Source:
		return fmt.Sprintf("the rule in line %d", e.Line)
	}
	return fmt.Sprintf("the rule in %s:%d", e.Source, e.Line)
}

func (e *Entry) fault(p problem) Fault {
	at, ok := e.Fields[p.field]
	if !ok {
		at = Place{Line: e.Line, Column: e.Column}
	}
	if at.ValueColumn > 0 && p.column > 0 {
		at.Column = at.ValueColumn + p.column - 1
	}
	return Fault{
		Source: e.Source, Line: at.Line, Column: at.Column,
		Operation: e.Rule.Operation, Field: p.field, Reason: p.reason,
	}
}

// sharesKeys reports whether rules whose keys have one shape are meant to have the same keys.
func (e *Entry) sharesKeys(other *Entry) bool {
	return e.Rule.Key == other.Rule.Key || e.Rule.Overlaps || other.Rule.Overlaps
}

// disagrees reports whether a rule takes the key of an earlier one as something else: as a
// lock instead of permits, or as a semaphore of another size. A store would refuse one of
// the two while the other holds the key, or count by two sizes.
func (e *Entry) disagrees(earlier *Entry) (problem, bool) {
	r, other := &e.Rule, &earlier.Rule
	switch {
	case (r.Mode == lock.Semaphore) != (other.Mode == lock.Semaphore):
		return problem{field: fieldMode, reason: fmt.Sprintf("%s, and %s has the same key in mode %s: a semaphore needs a separate key",
			r.Mode, earlier.where(e), other.Mode)}, true
	case r.Size != other.Size:
		return problem{field: fieldPermits, reason: fmt.Sprintf("%d in all, and %s says %d for the same key: write the same number",
			r.Size, earlier.where(e), other.Size)}, true
	}
	return problem{}, false
}

// Alone returns a fault for each operation of which only one rule is there, and says
// Also: half of its locks are missing. A file may have one rule of an operation and another
// file the other, so this is for the set of all of them.
func (s *Set) Alone() Faults {
	var faults Faults
	for _, r := range s.rules {
		if c, alone := lonely([]Rule{r.Rule}); alone && len(s.Lookup(r.Operation)) == 1 {
			faults = append(faults, Fault{Operation: r.Operation, Field: c.Field, Reason: c.Reason})
		}
	}
	return faults
}

// Build makes a set of the rules of a file, for packages that read files. It
// reports all that [NewSet] does, and also templates that overlap although neither
// rule says so. Use the set only if there is no fault.
func Build(entries []Entry, unlocked ...string) (*Set, Faults) {
	set, faults := build(entries)
	set.unlocked = slices.Clone(unlocked)
	for _, operation := range unlocked {
		if _, err := ShapeOf(operation); err != nil {
			faults = append(faults, Fault{Operation: operation, Field: "unlocked", Reason: err.Error()})
		} else if len(set.byOperation[operation]) > 0 {
			faults = append(faults, Fault{Operation: operation, Field: "unlocked", Reason: "has a rule as well, keep one of the two"})
		}
	}
	return set, append(faults, unmeant(entries, set.rules)...)
}

func build(entries []Entry) (*Set, Faults) {
	set := &Set{entries: slices.Clone(entries), byOperation: make(map[string][]*Compiled, len(entries)), places: make(map[string]Fault)}
	b := builder{entries: set.entries, groups: make(map[string][]int, len(entries)), ofShape: make(map[string][]*Entry, len(entries))}
	for i := range entries {
		b.group(i)
	}
	for i := range entries {
		compiled := b.compile(i)
		operation := entries[i].Rule.Operation
		set.rules = append(set.rules, compiled)
		set.byOperation[operation] = append(set.byOperation[operation], compiled)
		if _, known := set.places[operation]; !known && entries[i].Line > 0 {
			set.places[operation] = entries[i].fault(problem{field: fieldOperation})
		}
	}
	return set, b.faults
}

// builder checks entries as a whole.
type builder struct {
	entries []Entry
	groups  map[string][]int    // entries by their operation
	ofShape map[string][]*Entry // those without a fault by the shape of their keys
	faults  Faults
}

// group adds an entry to those of its operation, unless none of them says that the
// operation has several.
func (b *builder) group(i int) {
	e := &b.entries[i]
	before := b.groups[e.Rule.Operation]
	meant := e.Rule.Also || slices.ContainsFunc(before, func(i int) bool { return b.entries[i].Rule.Also })
	if len(before) == 0 || meant {
		b.groups[e.Rule.Operation] = append(before, i)
	}
}

// compile returns the rule of an entry, joined with the others of its operation.
func (b *builder) compile(i int) *Compiled {
	e := &b.entries[i]
	group := b.groups[e.Rule.Operation]
	at := slices.Index(group, i)
	r, clashes := b.join(group, at)
	if at < 0 {
		r = e.Rule
	}
	compiled, problems := r.compile()
	switch _, err := ShapeOf(r.Operation); {
	case err != nil:
		problems = append(slices.DeleteFunc(problems, func(p problem) bool { return p.field == fieldOperation }),
			problem{field: fieldOperation, reason: err.Error()})
	case at < 0:
		problems = append(problems, problem{field: fieldOperation, reason: "has a rule already, " + b.entries[group[0]].where(e) +
			", keep one of them, or say also: true if it takes both locks"})
	}
	for _, c := range clashes {
		problems = append(problems, problem{field: c.Field, reason: c.Reason})
	}
	if len(problems)+len(e.Broken) == 0 {
		problems = b.compare(e, compiled.Template.Shape())
	}
	for _, p := range problems {
		if !e.Broken[p.field] {
			b.faults = append(b.faults, e.fault(p))
		}
	}
	return compiled
}

// join returns the rule at that place of a group with what belongs to the operation as a
// whole, and its clashes with the others.
func (b *builder) join(group []int, at int) (joined Rule, clashes []Clash) {
	if at < 0 {
		return joined, nil
	}
	if len(group) == 1 { // the other rule may be in another file
		return b.entries[group[0]].Rule, nil
	}
	rules := make([]Rule, len(group))
	for i, entry := range group {
		rules[i] = b.entries[entry].Rule
	}
	all, clashes := Join(rules, func(i int, field string) bool {
		_, written := b.entries[group[i]].Fields[field]
		return written || rules[i].Get(field) != ""
	})
	return all[at], slices.DeleteFunc(clashes, func(c Clash) bool { return c.Index != at })
}

// compare returns how an entry disagrees with an earlier one about their keys.
func (b *builder) compare(e *Entry, shape string) []problem {
	for _, earlier := range b.ofShape[shape] {
		if !e.sharesKeys(earlier) {
			continue
		}
		if p, wrong := e.disagrees(earlier); wrong {
			return []problem{p}
		}
	}
	b.ofShape[shape] = append(b.ofShape[shape], e)
	return nil
}
