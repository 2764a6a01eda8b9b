package rule_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode"

	"github.com/redlatch/redlatch/core/rule"
)

func TestAFaultIsWrittenWithWhatIsKnownOfItsPlace(t *testing.T) {
	for want, fault := range map[string]rule.Fault{
		"is wrong":                              {Reason: "is wrong"},
		`"POST /a": wait: is wrong`:             {Operation: "POST /a", Field: "wait", Reason: "is wrong"},
		`rules[2]: "POST /a": is wrong`:         {Source: "rules[2]", Operation: "POST /a", Reason: "is wrong"},
		`"lock:a x", column 8: is wrong`:        {Source: `"lock:a x"`, Column: 8, Reason: "is wrong"},
		"3:7: key: is wrong":                    {Line: 3, Column: 7, Field: "key", Reason: "is wrong"},
		`locks.yaml:3:7: "POST /a": is wrong`:   {Source: "locks.yaml", Line: 3, Column: 7, Operation: "POST /a", Reason: "is wrong"},
		`locks.yaml: "POST /a": mode: is wrong`: {Source: "locks.yaml", Operation: "POST /a", Field: "mode", Reason: "is wrong"},
	} {
		if got := fault.Error(); got != want {
			t.Errorf("%#v\nis written as %s\nwant          %s", fault, got, want)
		}
	}
}

// A fault stands in a log, whatever the rule is made of that was read.
func TestAFaultIsOneShortPrintableLine(t *testing.T) {
	const junk = "a\x1b[31m\r\n\u2028"
	long := strings.Repeat(junk, 1000)
	unmarshal := func(text any) error {
		data, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		again := strings.TrimSuffix(string(data), "}") + "," + strings.TrimPrefix(string(data), "{")
		return new(rule.Rule).UnmarshalJSON([]byte(again)) // each field twice
	}
	parse := func(text string) error { _, err := rule.ParseRule(text); return err }
	compile := func(r rule.Rule) error { _, err := r.Compile(); return err }
	set := func(field, value string) error { return new(rule.Rule).Set(field, value) }
	_, twice := rule.NewSet(rule.Rule{Operation: long, Key: "lock:a"}, rule.Rule{Operation: long, Key: "lock:a"})
	for name, err := range map[string]error{
		"operation":              compile(rule.Rule{Operation: long, Key: "lock:a", Wait: -1, Name: long}),
		"operation twice":        twice,
		"key":                    compile(rule.Rule{Key: long}),
		"value":                  errors.Join(set("wait", long), set("permits", long), set("mode", long), set("optional", long), set("maxWaiters", long)),
		"field":                  set(long, "x"),
		"field in JSON, twice":   unmarshal(map[string]any{long: 1}),
		"values in JSON, twice":  unmarshal(map[string]any{"wait": long, "maxWaiters": 0}),
		"template of a string":   parse(junk + long),
		"field of a string":      parse("lock:a " + junk + "=x"),
		"word of a string":       parse("lock:a " + junk),
		"value of a string":      parse("lock:a wait=" + junk),
		"quotes without an end":  parse(`lock:a name="` + junk),
		"quotes with more after": parse(`lock:a name="x"` + junk),
		"quoted value":           parse(`lock:a wait="` + `\x1b\n` + `"`),
	} {
		t.Run(name, func(t *testing.T) {
			if !errors.Is(err, rule.ErrInvalid) {
				t.Fatalf("got %.1000q, want ErrInvalid", err)
			}
			for _, fault := range faultsOf(err) {
				line := fault.Error()
				if !isPrintable(line) || len(line) > 5000 {
					t.Errorf("a fault of %d bytes, want a short printable line: %.1000q", len(line), line)
				}
			}
		})
	}
}

func isPrintable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}

// faultsOf returns the faults in err, one by one.
func faultsOf(err error) (faults []rule.Fault) {
	switch e := err.(type) { //nolint:errorlint // it walks the tree itself
	case rule.Fault:
		return []rule.Fault{e}
	case interface{ Unwrap() []error }:
		for _, part := range e.Unwrap() {
			faults = append(faults, faultsOf(part)...)
		}
	}
	return faults
}
