package rule

import (
	"fmt"
	"slices"
)

// ofTheCall are the fields that belong to the operation as a whole: how long it waits,
// and what it does when it can't have its locks.
var ofTheCall = []string{fieldWait, fieldOnBusy}

// Clash is one thing that is wrong with one of the rules that an operation takes together.
type Clash struct {
	Index  int    // of the rule
	Field  string // "key", "wait", ...
	Reason string
}

// Join makes one acquisition of the rules of one operation, such as the two accounts of
// a transfer. wait and onBusy belong to the operation as a whole: one rule says them for
// all, or several say the same. Two rules may render to the same key at times, which is
// then taken once; two with the same template are a clash, and so are two that can't take
// a key at once because they disagree about its mode or its number of permits.
//
// given reports whether rule i sets a field, also to its default. If it is nil, a rule
// sets what isn't as it is by default.
//
// Use the rules that Join returns only if there is no clash.
func Join(rules []Rule, given func(i int, field string) bool) ([]Rule, []Clash) {
	if given == nil {
		given = func(i int, field string) bool { return rules[i].Get(field) != "" }
	}
	joined := slices.Clone(rules)
	var clashes []Clash
	if c, alone := lonely(rules); alone {
		clashes = append(clashes, c)
	}
	for i := range rules {
		for _, before := range rules[:i] {
			if c, clash := rules[i].clash(&before); clash {
				c.Index = i
				clashes = append(clashes, c)
			}
		}
	}
	for _, field := range ofTheCall {
		first := -1
		for i := range rules {
			switch {
			case !given(i, field):
			case first < 0:
				first = i
			case rules[i].Get(field) != rules[first].Get(field):
				clashes = append(clashes, Clash{
					Index: i, Field: field,
					Reason: "is for the operation as a whole, and another of its rules has another value: write it once",
				})
			}
		}
		if first < 0 || rules[first].Get(field) == "" {
			continue
		}
		for i := range joined {
			_ = joined[i].Set(field, rules[first].Get(field)) // it was read before
		}
	}
	return joined, clashes
}

// lonely returns what is wrong if the rules of one operation are a single one that says Also.
func lonely(rules []Rule) (Clash, bool) {
	if len(rules) != 1 || !rules[0].Also {
		return Clash{}, false
	}
	return Clash{Field: fieldAlso, Reason: "says that the operation has another rule as well, and there is none here: add it, or take this word out"}, true
}

// clash returns why one call can't take the locks of both rules.
func (r *Rule) clash(before *Rule) (Clash, bool) {
	switch {
	case r.Key == before.Key:
		return Clash{Field: fieldKey, Reason: fmt.Sprintf("the operation takes %s already, remove one of the two", r.Key)}, true
	case !sameShape(r, before):
		return Clash{}, false
	case r.Mode != before.Mode:
		return Clash{Field: fieldKey, Reason: fmt.Sprintf("%s and %s can be the same key, and one call cannot take it in mode %s and in mode %s",
			before.Key, r.Key, before.Mode, r.Mode)}, true
	case r.Size != before.Size: // a store would count by two sizes
		return Clash{Field: fieldPermits, Reason: fmt.Sprintf("%s and %s can be the same key, with %d in all and with %d: write the same number",
			before.Key, r.Key, before.Size, r.Size)}, true
	}
	return Clash{}, false
}

func sameShape(a, b *Rule) bool {
	first, wrong := a.template()
	second, also := b.template()
	return wrong == nil && also == nil && first.Shape() == second.Shape()
}

// JoinAll compiles the rules of one operation, which takes their locks together. The
// error is [Faults] with everything that is wrong with any of them. A place counts from
// the first rule: "rules[1]", unless there is one only.
func JoinAll(rules ...Rule) ([]*Compiled, error) {
	joined, clashes := Join(rules, nil)
	source := func(i int) string {
		if len(rules) == 1 {
			return ""
		}
		return fmt.Sprintf("rules[%d]", i)
	}
	var faults Faults
	for _, c := range clashes {
		faults = append(faults, Fault{Source: source(c.Index), Operation: rules[c.Index].Operation, Field: c.Field, Reason: c.Reason})
	}
	all := make([]*Compiled, len(joined))
	for i, r := range joined {
		compiled, problems := r.compile()
		for _, p := range problems {
			faults = append(faults, Fault{Source: source(i), Operation: r.Operation, Field: p.field, Reason: p.reason})
		}
		all[i] = compiled
	}
	if err := faults.err(); err != nil {
		return nil, err
	}
	return all, nil
}
