package rule

import (
	"fmt"
	"slices"
	"strings"
)

// Overlap is a group of rules whose templates differ but have the same shape, so
// that they can render to the same key: "lock:order:<userId>" and
// "lock:order:<orderId>" both lock "lock:order:7". That is right when the two names
// mean the same thing, and a needless (or deadlocking) shared lock otherwise.
//
// In a file, that is a fault, unless one of the two rules says overlaps: true
// ([Rule.Overlaps]).
type Overlap struct {
	Shape string      // see [key.Template.Shape]
	Rules []*Compiled // in the order of the set, at least two
}

// String describes the overlap in one line.
func (o Overlap) String() string {
	parts := make([]string, len(o.Rules))
	for i, c := range o.Rules {
		parts[i] = fmt.Sprintf("%s of %q", c.Key, c.Operation)
	}
	return "these templates can render to the same key: " + strings.Join(parts, ", ")
}

// Overlaps returns the groups of rules that share the shape of their keys without
// sharing the template, in the order of their first rules. Rules that are meant to
// overlap are left out: the ones that say so, and the rules of one operation. Worth a warning at start-up, no more.
func (s *Set) Overlaps() []Overlap {
	var overlaps []Overlap
	for _, group := range s.byShape() {
		first := group.Rules[0]
		if slices.ContainsFunc(group.Rules, func(c *Compiled) bool { return c.Key != first.Key && c.Operation != first.Operation }) {
			overlaps = append(overlaps, group)
		}
	}
	return overlaps
}

func (s *Set) byShape() []Overlap {
	var groups []Overlap
	index := make(map[string]int, len(s.rules))
	for _, c := range s.rules {
		if c.Rule.Overlaps {
			continue
		}
		shape := c.Template.Shape()
		i, ok := index[shape]
		if !ok {
			i = len(groups)
			index[shape] = i
			groups = append(groups, Overlap{Shape: shape})
		}
		groups[i].Rules = append(groups[i].Rules, c)
	}
	return groups
}

// unmeant returns a fault for each entry that overlaps with an earlier one although
// neither says so. compiled are the rules of the entries; nil for one without a
// valid template.
func unmeant(entries []Entry, compiled []*Compiled) Faults {
	var faults Faults
	first := make(map[string]int) // by shape
	for i, c := range compiled {
		if c.Template == nil || c.Rule.Overlaps {
			continue
		}
		shape := c.Template.Shape()
		earlier, taken := first[shape]
		switch {
		case !taken:
			first[shape] = i
		case c.Key != compiled[earlier].Key && c.Operation != compiled[earlier].Operation:
			faults = append(faults, entries[i].fault(problem{field: fieldKey, reason: fmt.Sprintf(
				"%q can make the same key as %q of %s, use another prefix, the same variables, or say overlaps: true",
				c.Key, compiled[earlier].Key, entries[earlier].where(&entries[i]))}))
		}
	}
	return faults
}
