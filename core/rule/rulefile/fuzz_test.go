package rulefile_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/redlatch/redlatch/core/rule"
	"github.com/redlatch/redlatch/core/rule/rulefile"
)

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		everyFieldYAML, "", "rules: []", "rules:\n- operation: a\n  key: lock:<a\n  wait: 5\n",
		`{"rules":[{"operation":"a","key":"l:\u003ca\u003e"}]}`, "rules: &a\n- *a\n", "rules:\n- <<: {key: a}\n",
		"? rules\n: - a", "rules: !!seq []", "--- \nrules: |\n  x\n---\n...", "rules:\n- {operation: 'a''b', key: >-\n x}", "%YAML 1.2\n---\nrules: []",
		"rules:\n- {\"a\\nb\": 1, \"a\\nb\": 2}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		set, err := rulefile.Parse(data)
		if err == nil {
			again, err := rule.NewSet(set.Rules()...)
			if err != nil || !reflect.DeepEqual(again.Rules(), set.Rules()) {
				t.Fatalf("%q gives %+v, which NewSet does not accept: %v", data, set.Rules(), err)
			}
			return
		}
		var faults rule.Faults
		if set != nil || !errors.As(err, &faults) || len(faults) == 0 || !errors.Is(err, rule.ErrInvalid) {
			t.Fatalf("%q: got %v and a %T", data, set, err)
		}
		lines := strings.Count(string(data), "\n") + strings.Count(string(data), "\r") + 1
		for _, fault := range faults {
			if fault.Line < 1 || fault.Line > lines || fault.Column < 1 || fault.Column > len(data)+1 || fault.Reason == "" {
				t.Fatalf("%q: fault %+v is nowhere", data, fault)
			}
			if strings.ContainsAny(fault.Error(), "\r\n\x00\x1b") {
				t.Fatalf("%q: text %q is not one printable line", data, fault)
			}
		}
	})
}
