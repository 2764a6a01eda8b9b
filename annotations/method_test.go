package annotations_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch/annotations"
	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/guard/guardtest"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
	"github.com/redlatch/redlatch/core/rule"
)

func TestCompileReadsEveryOption(t *testing.T) {
	m := compile(t, guardtest.Guard(t),
		"lock:a:<cmd.User.ID|int>  wait=200ms \t lease=10s mode=write onBusy=skip name=orders timeout=1s",
		"lock:b:<userId> mode=semaphore permits=2/3 maxWaiters=50 minHold=10s maxHold=1m overlaps=true optional=true")
	want := []rule.Rule{
		{
			Operation: "place", Key: "lock:a:<req.cmd.User.ID|int>", Mode: lock.Write, OnBusy: rule.Skip, Name: "orders",
			Wait: 200 * time.Millisecond, Lease: 10 * time.Second, Timeout: time.Second,
		},
		{
			Operation: "place", Key: "lock:b:<userId>", Mode: lock.Semaphore, Permits: 2, Size: 3, Name: "lock:b:<userId>",
			Wait: 200 * time.Millisecond, OnBusy: rule.Skip, // of the call as a whole
			MaxWaiters: 50, MinHold: 10 * time.Second, MaxHold: time.Minute, Overlaps: true, Optional: true,
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
		`place: invalid rule: "lock:<a><b> wiat=1s lease=1", column 9: nothing separates`, `column 13: unknown field "wiat", did you mean "wait"?`,
		`column 27: lease: "1" is not a duration`, `"lock:x wait=-1s", column 13: wait: -1s is negative`,
	} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is missing in:\n%v", part, err)
		}
	}
}

// Each call would be refused, and nobody would know before the first.
func TestADirectiveThatTheLockerRulesOutIsAFault(t *testing.T) {
	g := guard.Must(guard.New(guardtest.Locker(t, memstore.New(), lock.WithMaxHold(30*time.Second))))
	_, err := annotations.Compile(g, "place", "lock:a", "lock:order minHold=50s")
	const want = `annotations: place: invalid rule: "lock:order minHold=50s": doesn't fit the settings of the locker: ` +
		"invalid argument: WithMinHold(50s): WithMaxHold(30s) ends earlier"
	if !errors.Is(err, rule.ErrInvalid) || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
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

type transfer struct {
	_    struct{} `lock:"lock:account:<from> wait=1s"`
	_    struct{} `lock:"lock:account:<to> mode=exclusive"`
	From string   `lock:"from"`
	To   string   `lock:"to"`
}

func TestARequestDeclaresItsLocks(t *testing.T) {
	g := guardtest.Guard(t)
	m, err := annotations.CompileFor[transfer](g, "transfer")
	if err != nil {
		t.Fatal(err)
	}
	err = annotations.Do(t.Context(), m, annotations.VarsOf(&transfer{From: "a", To: "b"}), func(ctx context.Context) error {
		return errors.Join(lock.AssertHeld(ctx, "lock:account:a"), lock.AssertHeld(ctx, "lock:account:b"))
	})
	if err != nil {
		t.Error(err)
	}
	if rules := m.Rules(); len(rules) != 2 || rules[1].Wait != time.Second {
		t.Errorf("the rules are %v", rules)
	}
	if _, err := annotations.CompileFor[*transfer](g, "transfer by pointer"); err != nil {
		t.Error(err)
	}
}

func TestARequestThatDeclaresItsLocksWronglyIsRefused(t *testing.T) {
	type typo struct {
		_      struct{} `lock:"lock:order:<userld> wiat=1s"`
		UserID int      `lock:"userId"`
	}
	type unknown struct {
		_      struct{} `lock:"lock:order:<userld>"`
		UserID int      `lock:"userId"`
	}
	type twice struct {
		_ struct{} `lock:"lock:a"`
		_ struct{} `lock:"lock:a wait=1s"`
	}
	type nested struct{ Inner transfer }
	g := guardtest.Guard(t)
	for name, test := range map[string]struct {
		compile func() (*annotations.Method, error)
		want    string
	}{
		"wrong field":    {func() (*annotations.Method, error) { return annotations.CompileFor[typo](g, "m") }, `unknown field "wiat"`},
		"no such value":  {func() (*annotations.Method, error) { return annotations.CompileFor[unknown](g, "m") }, `has the tag lock:"userld"`},
		"the same twice": {func() (*annotations.Method, error) { return annotations.CompileFor[twice](g, "m") }, "takes lock:a already"},
		"no lock":        {func() (*annotations.Method, error) { return annotations.CompileFor[request](g, "m") }, "declares no lock"},
		"no struct":      {func() (*annotations.Method, error) { return annotations.CompileFor[int](g, "m") }, "int is no struct"},
		"no type":        {func() (*annotations.Method, error) { return annotations.CompileFor[any](g, "m") }, "is no struct"},
		"another lock than its own": {func() (*annotations.Method, error) {
			m := compile(t, g, "lock:account:<to>")
			return m, m.Check(transfer{})
		}, "declares a lock itself, which the method does not take: use CompileFor"},
		"another lock than that of a field": {func() (*annotations.Method, error) {
			m := compile(t, g, "lock:account:<to>")
			return m, m.Check(nested{})
		}, "use CompileFor"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := test.compile()
			if !errors.Is(err, rule.ErrInvalid) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// A program may make a decorator for each request or tenant.
func TestDecoratorsOfOneInterfaceAreSurveyedOnce(t *testing.T) {
	g := guard.Must(guard.New(guardtest.Locker(t, memstore.New()), rule.Rule{Operation: "a", Key: "lock:<name>"}))
	for range 100 {
		if c := annotations.NewCompiler(g); c.Method("a", "lock:x:<id>") == nil {
			t.Fatal(c.Err())
		}
	}
	if err := g.Validate(); err == nil || strings.Count(err.Error(), "names <name>") != 1 {
		t.Errorf("got %d bytes, want the fault once: %.300v", len(err.Error()), err)
	}
}

func TestARuleThatADecoratorHasNoValuesForIsInvalid(t *testing.T) {
	g := guard.Must(guard.New(guardtest.Locker(t, memstore.New()),
		rule.Rule{Operation: "a", Key: "lock:<id>"}, rule.Rule{Operation: "b", Key: "lock:b:<path.id>:<name>"}))
	c := annotations.NewCompiler(g)
	c.Method("a", "lock:x:<id>")
	c.Method("b", "lock:x:<id>")
	if err := c.Err(); err != nil {
		t.Errorf("the directives: %v", err)
	}
	err := g.Validate()
	for _, part := range []string{`annotations: "b": key: "lock:b:<path.id>:<name>", column 8: no directive of the method names <path.id>; they name <id>`, "column 18: no directive of the method names <name>"} {
		if err == nil || !strings.Contains(err.Error(), part) || strings.Contains(err.Error(), `"a": `) {
			t.Errorf("%q is missing in:\n%v", part, err)
		}
	}
	c.Method("c", "lock:<x")
	if err := c.Err(); err == nil || !strings.Contains(err.Error(), `c: invalid rule: "lock:<x"`) {
		t.Errorf("a directive: %v", err)
	}
}

func TestARuleThatARequestHasNoValuesForIsInvalid(t *testing.T) {
	g := guard.Must(guard.New(guardtest.Locker(t, memstore.New()),
		rule.Rule{Operation: "right", Key: "lock:<to>"}, rule.Rule{Operation: "wrong", Key: "lock:<query.from>:<too>"},
		rule.Rule{Operation: "literal", Key: "lock:account:from"}))
	for _, operation := range []string{"right", "wrong", "literal", "without a rule"} {
		if _, err := annotations.CompileFor[transfer](g, operation); err != nil {
			t.Fatal(err)
		}
	}
	err := g.Validate()
	for _, part := range []string{
		`wrong: invalid rule: the guard's rule "lock:<query.from>:<too>", column 6: no field of annotations_test.transfer has the tag lock:"query.from"`,
		`column 19: no field of annotations_test.transfer has the tag lock:"too"`, `literal: invalid rule: the guard's rule "lock:account:from", column 14: "from" is not a variable`,
	} {
		if err == nil || !strings.Contains(err.Error(), part) || strings.Contains(err.Error(), "right") {
			t.Errorf("%q is missing in:\n%v", part, err)
		}
	}
	right := []rule.Rule{{Operation: "right", Key: "lock:<to>"}, {Operation: "wrong", Key: "lock:<from>"}, {Operation: "literal", Key: "lock:account"}}
	if err := errors.Join(g.Replace(right), g.Validate()); err != nil {
		t.Errorf("the right rules: %v", err)
	}
	right[0].Key = "lock:<too>"
	if err := g.Replace(right); !errors.Is(err, rule.ErrInvalid) {
		t.Errorf("a later rule: %v", err)
	}
}

func TestAMethodThatWasRefusedIsNotServed(t *testing.T) {
	type unknown struct {
		_    struct{} `lock:"lock:account:<from>"`
		From string   `lock:"form"`
	}
	g := guard.Must(guard.New(guardtest.Locker(t, memstore.New()),
		rule.Rule{Operation: "Moves.A", Key: "lock:a"}, rule.Rule{Operation: "Moves.B", Key: "lock:b"}, rule.Rule{Operation: "Moves.C", Key: "lock:c"}))
	if m, err := annotations.CompileFor[unknown](g, "Moves.A"); m != nil || err == nil {
		t.Errorf("got %v, %v, want an error and no method", m, err)
	}
	if m, err := annotations.Compile(g, "Moves.B", "lock:<x"); m != nil || err == nil {
		t.Errorf("got %v, %v, want an error and no method", m, err)
	}
	if c := annotations.NewCompiler(g); c.Method("Moves.C", "lock:<x") != nil || c.Err() == nil {
		t.Errorf("got %v, want an error and no method", c.Err())
	}
	if err := g.Validate(); err == nil || strings.Count(err.Error(), "nothing serves it") != 3 {
		t.Errorf("got %v, want three rules that nothing serves", err)
	}
}

// A rule that replaces a directive spells its variables as the directive does.
func TestARuleSpellsVariablesAsItsDirectiveDoes(t *testing.T) {
	const operation = "Bank.Transfer"
	for key, want := range map[string]string{
		"lock:other:<o.From.Owner.ID>":     "",
		"lock:other:<req.o.From.Owner.ID>": "",
		"lock:<o.From.Ownr.ID>":            `"Bank.Transfer": key: "lock:<o.From.Ownr.ID>", column 6: no directive of the method names <o.From.Ownr.ID>, did you mean "o.From.Owner.ID"?; they name <o.From.Owner.ID>`,
	} {
		t.Run(key, func(t *testing.T) {
			g, err := guard.New(guardtest.Locker(t, memstore.New()), rule.Rule{Operation: operation, Key: key})
			if err != nil {
				t.Fatal(err)
			}
			g = g.WithLogger(slog.New(slog.DiscardHandler))
			c := annotations.NewCompiler(g)
			m := c.Method(operation, "lock:account:<o.From.Owner.ID>")
			if err := errors.Join(c.Err(), g.Validate()); want != "" {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want %s", err, want)
				}
				return
			} else if err != nil {
				t.Fatal(err)
			}
			vars := func(v annotations.Var) (string, error) {
				if v.String() == "req.o.From.Owner.ID" { // as generated code has it
					return "7", nil
				}
				return "", guard.ErrUnresolvable
			}
			if err := annotations.Do(t.Context(), m, vars, func(ctx context.Context) error { return lock.AssertHeld(ctx, "lock:other:7") }); err != nil {
				t.Error(err)
			}
		})
	}
	_, err := rule.Rule{Operation: operation, Key: "lock:<o.From.>:<a b>:<o.x|int|>"}.Compile()
	for _, want := range []string{"column 14: a name is missing", "column 18: ' ' is not allowed in a variable", "column 31: a filter is missing"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s in it", err, want)
		}
	}
}
