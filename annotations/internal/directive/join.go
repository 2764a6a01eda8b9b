package directive

import (
	"fmt"

	"github.com/redlatch/redlatch/core/rule"
)

// Join makes the rules of one method out of its directives, in their order.
// What belongs to the call as a whole, how long it waits and what it does
// when it cannot have its locks, may be said in one of the directives, or in
// several if they agree; it holds for all.
func Join(ds []*Directive) ([]rule.Rule, []Fault) {
	var faults []Fault
	rules := make([]rule.Rule, len(ds))
	for i, d := range ds {
		rules[i] = d.Rule
		faults = append(faults, d.beside(ds[:i], i)...)
	}
	if w := first(ds, "wait"); w != nil {
		for i := range rules {
			rules[i].Wait = w.Rule.Wait
		}
	}
	if b := first(ds, "onbusy"); b != nil {
		for i := range rules {
			rules[i].OnBusy = b.Rule.OnBusy
		}
	}
	return rules, faults
}

// first is the first directive that has the option.
func first(ds []*Directive, name string) *Directive {
	for _, d := range ds {
		if _, ok := d.options[name]; ok {
			return d
		}
	}
	return nil
}

// beside checks a directive against those before it.
func (d *Directive) beside(before []*Directive, index int) []Fault {
	var faults []Fault
	report := func(column int, format string, args ...any) {
		faults = append(faults, Fault{Index: index, Column: column, Reason: fmt.Sprintf(format, args...)})
	}
	for _, b := range before {
		switch {
		case b.Rule.Key == d.Rule.Key:
			report(d.template.column, "the method takes %s already, remove one of the two", d.template.text)
		case b.Template.Shape() == d.Template.Shape() && b.Rule.Mode != d.Rule.Mode:
			report(d.template.column, "%s and %s can be the same key, and one call cannot take it in mode %s and in mode %s",
				b.template.text, d.template.text, b.Rule.Mode, d.Rule.Mode)
		}
	}
	if b, o := first(before, "wait"), d.options["wait"]; b != nil && o.name != "" && b.Rule.Wait != d.Rule.Wait {
		report(o.word.column, "the call as a whole waits, and another directive says %v: say it once", b.Rule.Wait)
	}
	if b, o := first(before, "onbusy"), d.options["onbusy"]; b != nil && o.name != "" && b.Rule.OnBusy != d.Rule.OnBusy {
		report(o.word.column, "it is for the call as a whole, and another directive says %v: say it once", b.Rule.OnBusy)
	}
	return faults
}
