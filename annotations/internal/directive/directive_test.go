package directive_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/redlatch/redlatch/annotations/internal/directive"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/rule"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestParseKnowsWhereVariablesStand(t *testing.T) {
	const text = " lock:<id|int>:<cmd.User.ID>:<req.ID>:<x.y|lower>\tname=n"
	d, faults := directive.Parse(text)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	if want := "lock:<id|int>:<req.cmd.User.ID>:<req.ID>:<req.x.y|lower>"; d.Rule.Key != want {
		t.Errorf("the template is %q, want %q", d.Rule.Key, want)
	}
	if want := "lock:<id|int>:<cmd.User.ID>:<req.ID>:<x.y|lower>"; d.Written != want || d.Source != strings.TrimSpace(text) {
		t.Errorf("written as %q in %q, want %q", d.Written, d.Source, want)
	}
	for i, want := range []struct{ path, name string }{
		{"id", "id"}, {"cmd.User.ID", "req.cmd.User.ID"}, {"req.ID", "req.ID"}, {"x.y", "req.x.y"},
	} {
		v := d.Vars[i]
		if v.Path != want.path || v.String() != want.name || !strings.HasPrefix(text[v.At-1:], want.path) {
			t.Errorf("variable %d is %q, %q at %d, want %q, %q", i, v.Path, v, v.At, want.path, want.name)
		}
	}
}

func TestParsePutsEachFaultInItsColumn(t *testing.T) {
	for text, want := range map[string][]string{
		"":                                  {"1 the template is missing"},
		"wait=1s":                           {"1 the template comes first"},
		"lock:<a":                           {"6 the variable is not closed"},
		"<a>":                               {"1 it has no literal part"},
		"lock:<a.b>-<c.d>":                  {`12 "-" does not separate <c.d> from <a.b>`},
		"lock:<aa.b>:<cc.d|no>:<x>":         {`19 unknown filter "no"`},
		"lock:<aa.b>:<cc.d.1>":              {"19 a name starts with a letter"},
		"lock:<a.b>:<.c>":                   {"13 a name is missing"},
		"lock:<1.b>":                        {"7 a name starts with a letter"},
		`lock:"a" wait=`:                    {`6 '"' is not allowed`, `8 '"' is not allowed`, "15 wait: has no value"},
		"lock:<a.b>:${c} onbusy=x":          {"12 ", `17 unknown field "onbusy", did you mean "onBusy"?`},
		"lock:a wait=1s wait=2s":            {"16 wait: is there twice"},
		"lock:<a.b> wait=-1s mode=x":        {"17 wait: -1s is negative", `26 mode: unknown "x"`},
		"lock:<a.b> mode=semaphore":         {"17 permits: is missing"},
		strings.Repeat("x", 250) + "<a.bc>": {"253 it is longer than 256 bytes"}, // the canonical form counts
		strings.Repeat("x", 250) + "<a.bcdefghi>": {"253 it is longer than 256 bytes"},
	} {
		_, faults := directive.Parse(text)
		if len(faults) != len(want) {
			t.Errorf("%q: got %v, want %v", text, faults, want)
			continue
		}
		for i, f := range faults {
			column, reason, _ := strings.Cut(want[i], " ")
			if column != strconv.Itoa(f.Column) || !strings.HasPrefix(f.Reason, reason) {
				t.Errorf("%q: got %d %s, want %s", text, f.Column, f.Reason, want[i])
			}
		}
	}
}

func parse(t *testing.T, texts ...string) []*directive.Directive {
	t.Helper()
	ds := make([]*directive.Directive, len(texts))
	for i, text := range texts {
		d, faults := directive.Parse(text)
		if len(faults) > 0 {
			t.Fatalf("%q: %v", text, faults)
		}
		ds[i] = d
	}
	return ds
}

func TestJoinSpreadsWhatBelongsToTheCall(t *testing.T) {
	rules, faults := directive.Join(parse(t, "lock:a", "lock:b wait=1s lease=2s onBusy=skip", "lock:c wait=1000ms mode=read"))
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	for i, r := range rules {
		if r.Wait != time.Second || r.OnBusy != rule.Skip {
			t.Errorf("rule %d: %+v, want the wait and the policy of the second", i, r)
		}
	}
	if rules[0].Lease != 0 || rules[0].Mode != lock.Exclusive || rules[2].Mode != lock.Read {
		t.Errorf("got %+v, want mode and lease where they were", rules)
	}
}

func TestJoinTakesPermitsOfOneSemaphore(t *testing.T) {
	ds := parse(t, "lock:<a> mode=semaphore permits=1/3", "lock:<b> mode=semaphore permits=2/3", "lock:x:<c> mode=semaphore permits=1/5")
	if rules, faults := directive.Join(ds); len(faults) > 0 || len(rules) != 3 {
		t.Errorf("got %v, %v, want three rules", rules, faults)
	}
}

func TestJoinRefusesWhatCannotBeOneCall(t *testing.T) {
	for name, test := range map[string]struct {
		texts []string
		want  directive.Fault
	}{
		"two waits":      {[]string{"lock:a wait=1s", "lock:b", "lock:c wait=2s"}, directive.Fault{Index: 2, Column: 13, Reason: "wait: is for the operation as a whole"}},
		"wait and none":  {[]string{"lock:a wait=1s", "lock:b wait=0"}, directive.Fault{Index: 1, Column: 13, Reason: "wait: is for the operation as a whole"}},
		"two policies":   {[]string{"lock:a onBusy=skip", "lock:b onBusy=reject"}, directive.Fault{Index: 1, Column: 15, Reason: "onBusy: is for the operation"}},
		"the same twice": {[]string{"lock:<a>", "lock:b", "lock:<a> mode=read"}, directive.Fault{Index: 2, Column: 1, Reason: "the operation takes lock:<a> already"}},
		"one key in two sizes": {
			[]string{"lock:<a> mode=semaphore permits=1/3", "lock:b", "lock:<c> mode=semaphore permits=2/5"},
			directive.Fault{Index: 2, Column: 33, Reason: "permits: lock:<a> and lock:<c> can be the same key, with 3 in all and with 5"},
		},
		"one key in two modes": {[]string{"lock:<a>", "lock:<b> mode=read"}, directive.Fault{Index: 1, Column: 1, Reason: "lock:<a> and lock:<b> can be the same key"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, faults := directive.Join(parse(t, test.texts...))
			if len(faults) != 1 || faults[0].Index != test.want.Index || faults[0].Column != test.want.Column ||
				!strings.HasPrefix(faults[0].Reason, test.want.Reason) {
				t.Errorf("got %+v, want %+v", faults, test.want)
			}
		})
	}
}
