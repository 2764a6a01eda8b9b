package directive

import (
	"fmt"

	"github.com/redlatch/redlatch/core/rule"
)

// ofTheCall are the fields that belong to the call as a whole: how long it waits
// and what it does when it can't have its locks.
var ofTheCall = []string{"wait", "onBusy"}

// Join makes the rules of one method out of its directives, in their order. What
// belongs to the call as a whole may be said in one of the directives, or in
// several if they agree; it holds for all.
func Join(ds []*Directive) ([]rule.Rule, []Fault) {
	var faults []Fault
	rules := make([]rule.Rule, len(ds))
	for i, d := range ds {
		rules[i] = d.Rule
		faults = append(faults, d.compare(ds[:i], i)...)
	}
	for _, field := range ofTheCall {
		d := first(ds, field)
		if d == nil || d.Rule.Get(field) == "" {
			continue
		}
		for i := range rules {
			_ = rules[i].Set(field, d.Rule.Get(field)) // it was read before
		}
	}
	return rules, faults
}

// first is the first directive that sets the field.
func first(ds []*Directive, field string) *Directive {
	for _, d := range ds {
		if d.Given[field] != 0 {
			return d
		}
	}
	return nil
}

// compare checks a directive against those before it.
func (d *Directive) compare(before []*Directive, index int) []Fault {
	var faults []Fault
	report := func(column int, format string, args ...any) {
		faults = append(faults, Fault{Index: index, Column: column, Reason: fmt.Sprintf(format, args...)})
	}
	for _, b := range before {
		switch {
		case b.Rule.Key == d.Rule.Key:
			report(d.TemplateColumn, "the method takes %s already, remove one of the two", d.Written)
		case b.Template.Shape() == d.Template.Shape() && b.Rule.Mode != d.Rule.Mode:
			report(d.TemplateColumn, "%s and %s can be the same key, and one call cannot take it in mode %s and in mode %s",
				b.Written, d.Written, b.Rule.Mode, d.Rule.Mode)
		case b.Template.Shape() == d.Template.Shape() && b.Rule.Size != d.Rule.Size: // a store would count by two sizes
			report(d.Given["permits"], "permits: %s and %s can be the same key, with %d in all and with %d: write the same number",
				b.Written, d.Written, b.Rule.Size, d.Rule.Size)
		}
	}
	for _, field := range ofTheCall {
		b := first(before, field)
		if b == nil || d.Given[field] == 0 || b.Rule.Get(field) == d.Rule.Get(field) {
			continue
		}
		report(d.Given[field], "%s is for the call as a whole, and another directive has another value: write it once", field)
	}
	return faults
}
