package annotations_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch/annotations"
	"github.com/redlatch/redlatch/core/guard/guardtest"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/rule"
)

func TestCompileReadsEveryOption(t *testing.T) {
	m := compile(t, guardtest.Guard(t),
		"lock:a:<cmd.User.ID|int>  wait=200ms \t lease=10s mode=write onbusy=skip name=orders",
		"lock:b:<userId> mode=semaphore permits=2 size=3")
	want := []rule.Rule{
		{
			Operation: "place", Key: "lock:a:<req.cmd.User.ID|int>", Mode: lock.Write, OnBusy: rule.Skip, Name: "orders",
			Wait: 200 * time.Millisecond, Lease: 10 * time.Second,
		},
		{
			Operation: "place", Key: "lock:b:<userId>", Mode: lock.Semaphore, Permits: 2, Size: 3, Name: "lock:b:<userId>",
			Wait: 200 * time.Millisecond, OnBusy: rule.Skip, // of the call as a whole
		},
	}
	got := m.Rules()
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("rule %d is %+v, want %+v", i, got[i], want[i])
		}
	}
	if m.Operation() != "place" {
		t.Errorf("the operation is %q", m.Operation())
	}
}

func TestCompileListsEverythingThatIsWrong(t *testing.T) {
	_, err := annotations.Compile(guardtest.Guard(t), "place", "lock:<a><b> wiat=1s lease=1", "lock:x wait=-1s")
	if !errors.Is(err, rule.ErrInvalid) {
		t.Fatalf("got %v, want ErrInvalid", err)
	}
	for _, part := range []string{
		`place: invalid rule: "lock:<a><b> wiat=1s lease=1", column 9: nothing separates`, `column 13: unknown option "wiat"`,
		`column 27: "1" is not a duration`, `"lock:x wait=-1s", column 13: wait -1s is negative`,
	} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is missing in:\n%v", part, err)
		}
	}
}

func TestCompileRefusesWhatMakesNoMethod(t *testing.T) {
	if _, err := annotations.Compile(nil, "place", "lock:a"); !errors.Is(err, rule.ErrInvalid) {
		t.Errorf("without a guard: %v", err)
	}
	if _, err := annotations.Compile(guardtest.Guard(t), "place"); !errors.Is(err, rule.ErrInvalid) {
		t.Errorf("without a directive: %v", err)
	}
	if _, err := annotations.Compile(guardtest.Guard(t), "place", "lock:a", "lock:a"); !errors.Is(err, rule.ErrInvalid) {
		t.Errorf("twice the same lock: %v", err)
	}
	defer func() {
		if recover() == nil {
			t.Error("Must did not panic")
		}
	}()
	annotations.Must(annotations.Compile(guardtest.Guard(t), "place", ""))
}

func TestCompilerListsRulesThatADecoratorHasNoValuesFor(t *testing.T) {
	g := guardtest.Guard(t, rule.Rule{Operation: "a", Key: "lock:<id>"}, rule.Rule{Operation: "b", Key: "lock:b:<path.id>:<name>"})
	c := annotations.NewCompiler(g)
	c.Method("a", "lock:x:<id>")
	if err := c.Err(); err != nil {
		t.Errorf("a rule with a variable of the directive: %v", err)
	}
	c.Method("b", "lock:x:<id>")
	c.Method("c", "lock:<x")
	err := c.Err()
	if err == nil {
		t.Fatal("no error")
	}
	for _, part := range []string{`b: invalid rule: the guard's rule "lock:b:<path.id>:<name>" has <path.id>`, "has <name>", `c: invalid rule: "lock:<x"`} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is missing in:\n%v", part, err)
		}
	}
}
