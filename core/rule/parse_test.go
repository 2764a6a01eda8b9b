package rule_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/rule"
)

const everyField = `lock:{order:<userId>} mode=semaphore permits=1/3 wait=200ms timeout=1s maxWaiters=50 ` +
	`lease=1m30s minHold=1m0s maxHold=10m0s onBusy=skip name="one \"each\"" overlaps=true also=true optional=true`

func TestParseRuleReadsEveryField(t *testing.T) {
	got, err := rule.ParseRule(everyField)
	want := rule.Rule{
		Key: "lock:{order:<userId>}", Mode: lock.Semaphore, Permits: 1, Size: 3, Wait: 200 * time.Millisecond,
		Timeout: time.Second, MaxWaiters: 50, Lease: 90 * time.Second, MinHold: time.Minute, MaxHold: 10 * time.Minute, OnBusy: rule.Skip,
		Name: `one "each"`, Overlaps: true, Also: true, Optional: true,
	}
	if err != nil || got != want {
		t.Errorf("got %+v, %v\nwant %+v", got, err, want)
	}
	for _, field := range rule.Fields() {
		if field.Name != "operation" && got.Get(field.Name) == "" {
			t.Errorf("the test leaves out %s", field.Name)
		}
	}
	if got.String() != everyField {
		t.Errorf("written as %s", got)
	}
}

func TestParseRulePutsEachFaultInItsColumn(t *testing.T) {
	for text, want := range map[string][]string{
		"":                                 {`column 1: key: the template is missing, add one such as "lock:order:<userId>"`},
		"  \t":                             {`column 4: key: the template is missing`},
		"wait=200ms":                       {`column 1: key: the template comes first, and fields such as "wait=200ms" behind it`},
		"key=lock:a":                       {`column 1: key: the template stands without a name, leave out "key="`},
		"operation=a":                      {`column 1: key: the template comes first`, `column 1: unknown field "operation"`},
		"lock:<a":                          {`column 6: key: the variable is not closed, add ">"`},
		"lock:a  wait":                     {`column 9: "wait" is not a field, write name=value`},
		"lock:a wait=":                     {`column 13: wait: has no value`},
		"lock:a wait=5":                    {`column 13: wait: "5" is not a duration, write a number and its unit`},
		"lock:a wait=1s wait=2s":           {`column 16: wait: is there twice`},
		"lock:a wiat=1s":                   {`column 8: unknown field "wiat", did you mean "wait"?`},
		"lock:a onbusy=skip":               {`column 8: unknown field "onbusy", did you mean "onBusy"?`},
		"lock:a onBusy=run":                {`column 15: onBusy: unknown "run"; use reject or skip`},
		"lock:a mode=exclusiv":             {`column 13: mode: unknown "exclusiv", did you mean "exclusive"?`},
		"lock:a mode=semaphore":            {`column 13: permits: is missing, say how many permits of how many`},
		"lock:a permits=1/3":               {`column 16: permits: is for mode semaphore`},
		"lock:a mode=sema permits=1/3":     {`column 13: mode: unknown "sema"`},
		"lock:a mode=sema lease=1ms":       {`column 13: mode: unknown "sema"`, `column 24: lease: 1ms is too short`},
		"lock:a mode=semaphore permits=3":  {`column 31: permits: "3" does not say how many permits of how many, write it as 1/3`},
		"lock:a mode=semaphore permits=/3": {`column 31: permits: "/3" does not say`},
		"lock:a maxWaiters=0":              {`column 19: maxWaiters: 0 is too few, use at least 1`},
		"lock:a maxWaiters=+5":             {`column 19: maxWaiters: "+5" is not a whole number`},
		"lock:a optional=yes":              {`column 17: optional: "yes" is not true or false`},
		"lock:a lease=0.5ns wait=0.0s":     {`column 14: lease: "0.5ns" is less than 1ns, use 0 for`},
		"lock:a lease=1ms wait=-1s":        {`column 14: lease: 1ms is too short, use at least 10ms`, `column 23: wait: -1s is negative`},
		"lock:a wait=87600h":               {`column 13: wait: 87600h0m0s is too long`},
		`lock:a name="x`:                   {`column 13: name: "\"x" is not a string in quotes`},
		`lock:a name="x\`:                  {`column 13: name: "\"x\\" is not a string in quotes`},
		`lock:a name=""`:                   {`column 13: name: has no value`},
		"lock:a name=a\x01b":               {`column 13: name: "a\x01b" has a control byte`},
		"lock:a key=b":                     {`column 8: unknown field "key"`},
		"lock:a operation=b":               {`column 8: unknown field "operation"`},
		"lock:${id}":                       {`column 6: key: "${id}" is not a variable but a literal`},
	} {
		got, err := rule.ParseRule(text)
		if got != (rule.Rule{}) {
			t.Errorf("%q: got %+v with a fault", text, got)
		}
		faults := wantFaults(t, err, len(want))
		for i, f := range faults {
			if !strings.Contains(f.Error(), want[i]) {
				t.Errorf("%q: got %s\nwant it to contain %s", text, f, want[i])
			}
		}
	}
}

func TestSpacesAndQuotesPartTheFieldsOfARule(t *testing.T) {
	for text, want := range map[string]rule.Rule{
		"\t lock:a \r\n\twait=1s\noptional=true ": {Key: "lock:a", Wait: time.Second, Optional: true},
		`lock:a name="a \"b" wait=1s`:             {Key: "lock:a", Name: `a "b`, Wait: time.Second},
		`lock:a name="a \\" wait=1s`:              {Key: "lock:a", Name: `a \`, Wait: time.Second},
		`lock:a name=a\ wait=1s`:                  {Key: "lock:a", Name: `a\`, Wait: time.Second},
		`lock:a name=a"b"c wait="1s" mode="fair"`: {Key: "lock:a", Name: `a"b"c`, Wait: time.Second, Mode: lock.Fair},
		"wait":              {Key: "wait"}, // a template, as it says no value
		"size=<id> wait=1s": {Key: "size=<id>", Wait: time.Second},
	} {
		if got, err := rule.ParseRule(text); err != nil || got != want {
			t.Errorf("%q: got %+v, %v\nwant %+v", text, got, err, want)
		}
	}
}

// What a rule is called is free, but for what breaks a line.
func TestARuleIsReadAsItIsWritten(t *testing.T) {
	for _, name := range []string{"", "a b", `"`, `a"b`, `a" b`, `"a"`, `\`, `a\`, `\"`, `a=b`, "wait=5s", "é 漢", "<a>", "'a'", "#"} {
		want := rule.Rule{Operation: "POST /a", Key: "lock:<a>", Name: name, Overlaps: true}
		compiled, err := want.Compile()
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range []rule.Rule{want, compiled.Rule} {
			got, err := rule.ParseRule(r.String())
			if got.Operation = want.Operation; err != nil || got != want {
				t.Errorf("%+v is written as %s, which is %+v, %v", r, r, got, err)
			}
			data, err := r.MarshalJSON()
			if err != nil {
				t.Fatal(err)
			}
			var read rule.Rule
			if err := read.UnmarshalJSON(data); err != nil || read != want {
				t.Errorf("%+v is written as %s, which is %+v, %v", r, data, read, err)
			}
		}
	}
}

// An integration may have its own form of variables, such as {id}. A fault still has its
// column in what people wrote.
func TestAnIntegrationMayExtendTheGrammarOfTemplates(t *testing.T) {
	braces := func(template string) (string, func(int) int) {
		before, rest, _ := strings.Cut(template, "{")
		name, after, _ := strings.Cut(rest, "}")
		return before + "<path." + name + ">" + after, func(column int) int {
			if column > len(before)+1 {
				return max(len(before)+1, column-len("path."))
			}
			return column
		}
	}
	parsed, faults := rule.ParseWith(" lock:{id}:a  wait=1s lease=20s", braces)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	if want := (rule.Rule{Key: "lock:<path.id>:a", Wait: time.Second, Lease: 20 * time.Second}); parsed.Rule != want {
		t.Errorf("got %+v, want %+v", parsed.Rule, want)
	}
	if parsed.Template.String() != "lock:<path.id>:a" || parsed.TemplateColumn != 2 {
		t.Errorf("the template is %s in column %d", parsed.Template, parsed.TemplateColumn)
	}
	if want := map[string]int{"wait": 20, "lease": 29}; !reflect.DeepEqual(parsed.Given, want) {
		t.Errorf("the fields are in the columns %v, want %v", parsed.Given, want)
	}
	for text, want := range map[string]string{
		"lock:{id}%":         `"lock:{id}%", column 10: key: "%" is kept for escaped values`,
		" lock:{id}:$user":   `" lock:{id}:$user", column 12: key: "$user" is not a variable but a literal`,
		"lock:{id} lease=1s": "",
	} {
		parsed, faults := rule.ParseWith(text, braces)
		if got := faults.Error(); parsed == nil || !strings.HasPrefix(got, want) {
			t.Errorf("%q: got %s\nwant %s", text, got, want)
		}
	}
}

// What is wrong must not leave half of itself in a rule.
func TestSetChangesNothingIfTheValueIsWrong(t *testing.T) {
	full, err := rule.ParseRule(everyField)
	if err != nil {
		t.Fatal(err)
	}
	for field, value := range map[string]string{
		"mode": "x", "permits": "2/x", "wait": "x", "timeout": "1", "maxWaiters": "x", "lease": "-", "minHold": "1y",
		"maxHold": "", "onBusy": "run", "overlaps": "no", "optional": "", "size": "3", "": "x",
	} {
		r := full
		err := r.Set(field, value)
		if !errors.Is(err, rule.ErrInvalid) || r != full {
			t.Errorf("%s=%q: got %v and %+v", field, value, err, r)
		}
		if known := full.Get(field) != ""; known != strings.HasPrefix(err.Error(), field+": ") || !known && !strings.Contains(err.Error(), "unknown field") {
			t.Errorf("%s=%q: got %v", field, value, err)
		}
	}
	r := full
	for _, empty := range []string{"operation", "key", "name"} {
		if err := r.Set(empty, ""); err != nil || r.Get(empty) != "" {
			t.Errorf("%s is not removed: %v", empty, err)
		}
	}
}

func FuzzParseRule(f *testing.F) {
	for _, seed := range []string{everyField, "lock:a", "lock:<a|int> wait=1s", `lock:a name="\u00e9"`, "a=b c=d", "\"", "lock:a name=\\", "lock:a name=\"\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := rule.ParseRule(text)
		if err != nil {
			var faults rule.Faults
			if !errors.As(err, &faults) || !errors.Is(err, rule.ErrInvalid) {
				t.Fatalf("%q: the error is a %T", text, err)
			}
			for _, fault := range faults {
				if fault.Column < 1 || fault.Column > len(text)+1 || fault.Reason == "" {
					t.Fatalf("%q: fault %+v is nowhere", text, fault)
				}
				if !isPrintable(fault.Error()) {
					t.Fatalf("%q: %q is not one printable line", text, fault)
				}
			}
			return
		}
		again, err := rule.ParseRule(got.String())
		if err != nil || again != got {
			t.Fatalf("%q is written as %q, which is %+v, %v", text, got, again, err)
		}
		data, err := got.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		var read rule.Rule
		if err := read.UnmarshalJSON(data); err != nil || read != got {
			t.Fatalf("%q is written as %s, which is %+v, %v", text, data, read, err)
		}
	})
}

func TestRulesAreReadFromJSON(t *testing.T) {
	var r rule.Rule
	const text = `{"operation":"POST /a","key":"lock:a","mode":"semaphore","permits":"1/3","maxWaiters":5,"wait":"1s","lease":0,"optional":true}`
	if err := r.UnmarshalJSON([]byte(text)); err != nil {
		t.Fatal(err)
	}
	want := rule.Rule{Operation: "POST /a", Key: "lock:a", Mode: lock.Semaphore, Permits: 1, Size: 3, MaxWaiters: 5, Wait: time.Second, Optional: true}
	if r != want {
		t.Errorf("got %+v", r)
	}
	for text, want := range map[string]string{
		`[]`:                              "is not an object",
		`{"kee":"a"}`:                     `unknown field "kee", did you mean "key"?`,
		`{"key":"a","key":"b"}`:           "key: is there twice",
		`{"wait":5}`:                      `wait: "5" is not a duration`,
		`{"maxWaiters":1e1}`:              `maxWaiters: "1e1" is not a whole number in decimal digits`,
		`{"maxWaiters":5.0}`:              `maxWaiters: "5.0" is not a whole number`,
		`{"wait":1.5}`:                    "wait: is a number, not a string",
		`{"maxWaiters":"5"}`:              "maxWaiters: is a string, not a whole number",
		`{"optional":"true"}`:             "optional: is a string, not true or false",
		`{"operation":"POST /a","key":5}`: `"POST /a": key: `,
		`{"key":{}}`:                      "key: is a mapping, not a string",
		`{"key":null}`:                    "key: has no value",
	} {
		before := r
		if err := r.UnmarshalJSON([]byte(text)); !errors.Is(err, rule.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
		if r != before {
			t.Errorf("%s changed the rule", text)
		}
	}
}

// A rule in Go may leave Permits to its default.
func TestASemaphoreOfOnePermitIsWrittenAsItIsRead(t *testing.T) {
	r := rule.Rule{Operation: "POST /a", Key: "lock:a", Mode: lock.Semaphore, Size: 3}
	want := r
	want.Permits, want.Operation = 1, ""
	if got, err := rule.ParseRule(r.String()); err != nil || got != want {
		t.Errorf("%q is read as %+v, %v", r.String(), got, err)
	}
	data, err := r.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	var got rule.Rule
	want.Operation = r.Operation
	if err := got.UnmarshalJSON(data); err != nil || got != want {
		t.Errorf("%s is read as %+v, %v", data, got, err)
	}
}

func TestFieldsBelongToTheirCaller(t *testing.T) {
	rule.Fields()[0].Name = "changed"
	if rule.Fields()[0].Name != "operation" {
		t.Error("a caller can change the table")
	}
	known := make(map[string]bool)
	for _, f := range rule.Fields() {
		known[f.Name] = true
		if !strings.HasSuffix(f.Doc, ".") {
			t.Errorf("%s has no description", f.Name)
		}
	}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[rule.Rule]()) {
		name := strings.ToLower(field.Name[:1]) + field.Name[1:]
		if name != "size" && !known[name] { // permits has both
			t.Errorf("no row in the table for %s", field.Name)
		}
	}
}
