package rule_test

import (
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/rule"
)

// transfers are the rules of one operation, from which each test changes what it is about.
func transfers(change ...func(from, to *rule.Rule)) []rule.Rule {
	from := rule.Rule{Operation: "POST /transfers", Key: "lock:account:<from>", Wait: time.Second}
	to := rule.Rule{Operation: "POST /transfers", Key: "lock:account:<to>", Also: true}
	for _, c := range change {
		c(&from, &to)
	}
	return []rule.Rule{from, to}
}

func TestAnOperationHasSeveralRulesThatAreMeant(t *testing.T) {
	for name, rules := range map[string][]rule.Rule{
		"said by the second": transfers(),
		"said by the first":  transfers(func(from, to *rule.Rule) { from.Also, to.Also = true, false }),
		"said by both":       transfers(func(from, _ *rule.Rule) { from.Also = true }),
	} {
		set, err := rule.NewSet(rules...)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		found := set.Lookup("POST /transfers")
		if len(found) != 2 || found[0].Key != "lock:account:<from>" || found[1].Key != "lock:account:<to>" {
			t.Errorf("%s: got %v", name, found)
		}
		for _, r := range found {
			if r.Wait != time.Second {
				t.Errorf("%s: %s waits %v, and the operation a second", name, r.Key, r.Wait)
			}
		}
		if overlaps := set.Overlaps(); len(overlaps) > 0 {
			t.Errorf("%s: %v", name, overlaps)
		}
	}
	other := rule.Rule{Operation: "POST /accounts/:id/close", Key: "lock:account:<id>"}
	set, err := rule.NewSet(append(transfers(), other)...)
	if err != nil || len(set.Overlaps()) != 1 {
		t.Errorf("a rule of another operation overlaps: %v, %v", set, err)
	}
}

func TestRulesOfOneOperationThatCannotBeTakenTogetherAreFaults(t *testing.T) {
	for name, test := range map[string]struct {
		rules []rule.Rule
		want  string
	}{
		"a second one that isn't meant": {
			transfers(func(_, to *rule.Rule) { to.Also = false }),
			`rules[1]: "POST /transfers": operation: has a rule already, rules[0], keep one of them, or say also: true if it takes both locks`,
		},
		"the same key twice": {transfers(func(from, to *rule.Rule) { to.Key = from.Key }), "the operation takes lock:account:<from> already, remove one of the two"},
		"two waits":          {transfers(func(_, to *rule.Rule) { to.Wait = time.Minute }), "wait: is for the operation as a whole, and another of its rules has another value: write it once"},
		"two modes of what may be one key": {
			transfers(func(_, to *rule.Rule) { to.Mode = lock.Read }),
			"lock:account:<from> and lock:account:<to> can be the same key, and one call cannot take it in mode exclusive and in mode read",
		},
		"two sizes of what may be one key": {transfers(func(from, to *rule.Rule) {
			from.Mode, from.Permits, from.Size, to.Mode, to.Permits, to.Size = lock.Semaphore, 1, 2, lock.Semaphore, 1, 3
		}), "with 2 in all and with 3: write the same number"},
	} {
		if _, err := rule.NewSet(test.rules...); err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got %v, want %s", name, err, test.want)
		}
	}
	if _, err := rule.JoinAll(transfers()[1]); err == nil || !strings.Contains(err.Error(), "also: says that the operation has another rule as well, and there is none here") {
		t.Errorf("one that lacks the other: got %v", err)
	}
	if _, err := rule.JoinAll(rule.Rule{Key: "lock:a"}, rule.Rule{Key: "lock:<", Wait: -1}); err == nil ||
		!strings.Contains(err.Error(), `rules[1]: key: "lock:<", column 6`) || !strings.Contains(err.Error(), "rules[1]: wait: -1ns is negative") {
		t.Errorf("got %v", err)
	}
}
