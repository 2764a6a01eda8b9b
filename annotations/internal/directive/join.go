package directive

import (
	"slices"
	"strings"

	"github.com/redlatch/redlatch/core/rule"
)

// Join makes the rules of one method out of its directives, in their order, as
// [rule.Join] does.
func Join(ds []*Directive) ([]rule.Rule, []Fault) {
	rules := make([]rule.Rule, len(ds))
	for i, d := range ds {
		rules[i] = d.Rule
	}
	joined, clashes := rule.Join(rules, func(i int, field string) bool { return ds[i].Given[field] != 0 })
	faults := make([]Fault, len(clashes))
	for i, c := range clashes {
		faults[i] = Fault{Index: c.Index, Column: ds[c.Index].column(c.Field), Reason: reason(rule.Fault{Field: c.Field, Reason: written(ds, c.Reason)})}
	}
	slices.SortStableFunc(faults, func(a, b Fault) int { return a.Index - b.Index })
	return joined, faults
}

// column is where a field is set, or where the template begins.
func (d *Directive) column(field string) int {
	if at := d.Given[field]; at != 0 {
		return at
	}
	return d.TemplateColumn
}

// written has the templates in a message as people wrote them.
func written(ds []*Directive, reason string) string {
	for _, d := range ds {
		reason = strings.ReplaceAll(reason, d.Rule.Key, d.Written)
	}
	return reason
}
