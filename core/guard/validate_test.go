package guard_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/guard/guardtest"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
	"github.com/redlatch/redlatch/core/rule"
)

// unvalidated is a guard that knows nothing of who serves its rules.
func unvalidated(t *testing.T, rules ...rule.Rule) *guard.Guard {
	t.Helper()
	return guard.Must(guard.New(guardtest.Locker(t, memstore.New()), rules...))
}

func TestARuleThatNobodyServesIsAFaultWithItsCure(t *testing.T) {
	for operation, cure := range map[string]string{
		"POST /orders":          "Rules of ginlock",
		"/shop.v1.Orders/Place": "package grpclock",
		"OrderService.Plcae":    `did you mean "OrderService.Place"?`,
		"nightly":               "Declare",
	} {
		g := unvalidated(t, rule.Rule{Operation: operation, Key: "lock:x"})
		g.Serve("annotations", "OrderService.Place")
		err := g.Validate()
		if !errors.Is(err, rule.ErrInvalid) || !strings.Contains(err.Error(), cure) || !strings.Contains(err.Error(), operation) {
			t.Errorf("%s: got %v, want ErrInvalid with %q", operation, err, cure)
		}
	}
}

func TestAnOperationWithSeveralRulesIsReportedOnce(t *testing.T) {
	g := unvalidated(t, orders(), rule.Rule{Operation: operation, Key: "lock:account:<to>", Also: true})
	if err := g.Validate(); err == nil || strings.Count(err.Error(), "nothing serves it") != 1 {
		t.Errorf("got %v, want one fault", err)
	}
}

// One of the two accounts of a transfer would be open.
func TestARuleThatIsOneOfSeveralNeedsAnother(t *testing.T) {
	second := rule.Rule{Operation: operation, Key: "lock:account:<to>", Also: true}
	for name, test := range map[string]struct {
		rules []rule.Rule
		want  string // empty: the guard is valid
	}{
		"with the first":        {[]rule.Rule{orders(), second}, ""},
		"alone":                 {[]rule.Rule{second}, "says that the operation has another rule as well"},
		"for another program":   {[]rule.Rule{orders(), {Operation: "POST /ordres", Key: second.Key, Also: true, Optional: true}}, `did you mean "POST /orders"?`},
		"both of them say so":   {[]rule.Rule{orders(func(r *rule.Rule) { r.Also = true }), second}, ""},
		"with one of elsewhere": {[]rule.Rule{second, {Operation: "POST /refunds", Key: "lock:refund", Optional: true}}, "another rule as well"},
	} {
		g := unvalidated(t, test.rules...)
		g.Serve("a router", operation)
		err := g.Validate()
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", name, err, test.want)
		}
	}
}

// A new version of a file must not open half of an operation, also if a rule may be for
// another program.
func TestAReplacementKeepsAllRulesOfAnOperation(t *testing.T) {
	second := rule.Rule{Operation: operation, Key: "lock:account:<to>", Also: true}
	g := unvalidated(t, orders(), second)
	g.Serve("a router", operation)
	if err := g.Validate(); err != nil {
		t.Fatal(err)
	}
	for _, misspelled := range [][]rule.Rule{
		{orders(), {Operation: "POST /ordres", Key: second.Key, Also: true, Optional: true}},
		{orders(func(r *rule.Rule) { r.Operation, r.Optional = "POST /ordres", true }), second},
	} {
		if err := g.Replace(misspelled); !errors.Is(err, rule.ErrInvalid) || len(g.Rules()) != 2 {
			t.Errorf("%v: got %v, and %d rules", misspelled, err, len(g.Rules()))
		}
	}
	if err := g.Replace([]rule.Rule{orders()}); err != nil {
		t.Errorf("one that is taken out on purpose: %v", err)
	}
}

func TestAGuardIsClosedUntilAllItsRulesAreServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := unvalidated(t, orders(), rule.Rule{Operation: "POST /refunds", Key: "lock:refund"})
		g.Serve("a router", operation)
		for name, call := range map[string]guard.Call{"the guard's rule": user("42"), "its own rule": account(t, "a")} {
			if _, _, err := g.Enter(t.Context(), call); guard.KindOf(err) != guard.Invalid {
				t.Fatalf("%s: got %v although a rule of the guard is not served, want Invalid", name, err)
			}
		}
		if r, err := g.RulesOf("GET /other"); guard.KindOf(err) != guard.Invalid {
			t.Errorf("an operation without a rule may pass (%v, %v), and could be a rule's that is misspelled", r, err)
		}
		g.Serve("a router", "POST /refunds")
		_, leave, err := g.Enter(t.Context(), user("42"))
		if err != nil {
			t.Fatalf("all rules are served: %v", err)
		}
		_ = leave()
		if r, err := g.RulesOf("GET /other"); r != nil || err != nil {
			t.Errorf("an operation without a rule: %v, %v", r, err)
		}
	})
}

func TestAnOptionalRuleNeedsNobodyToServeIt(t *testing.T) {
	g := unvalidated(t, orders(func(r *rule.Rule) { r.Optional = true }))
	if err := g.Validate(); err != nil {
		t.Error(err)
	}
}

// unfit are settings of a locker, and a rule that each rules out.
func unfit() map[string]struct {
	setting lock.Option
	change  func(*rule.Rule)
	want    string
} {
	return map[string]struct {
		setting lock.Option
		change  func(*rule.Rule)
		want    string
	}{
		"minHold beyond maxHold":     {lock.WithMaxHold(30 * time.Second), func(r *rule.Rule) { r.MinHold = 50 * time.Second }, "WithMinHold(50s): WithMaxHold(30s) ends earlier"},
		"lease of twice the margin":  {lock.WithMargin(500 * time.Millisecond), func(r *rule.Rule) { r.Lease = time.Second }, "WithMargin(500ms)"},
		"maxHold below the margin":   {lock.WithMargin(500 * time.Millisecond), func(r *rule.Rule) { r.MaxHold = time.Second }, "WithMargin(500ms)"},
		"lease below a minimum hold": {lock.WithMinHold(time.Minute), func(r *rule.Rule) { r.Lease = time.Second }, "WithLease(1s) ends earlier"},
	}
}

// Each call would be refused, and nobody would know before the first.
func TestARuleThatTheLockerRulesOutIsAFault(t *testing.T) {
	for name, test := range unfit() {
		t.Run(name, func(t *testing.T) {
			locker := guardtest.Locker(t, memstore.New(), test.setting)
			g := served(guard.New(locker, orders(test.change)))
			err := g.Validate()
			if !errors.Is(err, rule.ErrInvalid) || !strings.Contains(err.Error(), `"POST /orders": doesn't fit the settings of the locker: `) ||
				!strings.Contains(err.Error(), test.want) {
				t.Errorf("Validate: got %v, want %s", err, test.want)
			}
			if _, _, err := g.Enter(t.Context(), user("42")); guard.KindOf(err) != guard.Invalid || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Enter: got %v, want %s", err, test.want)
			}
			if err := g.Fits(g.Rules()[0]); !errors.Is(err, rule.ErrInvalid) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Fits: got %v, want %s", err, test.want)
			}
			g = served(guard.New(locker, orders()))
			if err := errors.Join(g.Validate(), g.Fits(g.Rules()[0])); err != nil {
				t.Fatal(err)
			}
			if err := g.Replace([]rule.Rule{orders(test.change)}); !errors.Is(err, rule.ErrInvalid) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Replace: got %v, want %s", err, test.want)
			}
		})
	}
}

// A file that several services read may have what fits the locker of another only.
func TestAnOptionalRuleOfAnotherProgramNeedNotFitTheLocker(t *testing.T) {
	for name, test := range unfit() {
		elsewhere := orders(test.change, func(r *rule.Rule) { r.Optional = true })
		g := guard.Must(guard.New(guardtest.Locker(t, memstore.New(), test.setting), elsewhere))
		if err := g.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		g.Serve("a test", operation)
		if err := g.Validate(); !errors.Is(err, rule.ErrInvalid) {
			t.Errorf("%s: it is served here: got %v", name, err)
		}
	}
}

func TestRelevantRulesAreThoseOfThisProgram(t *testing.T) {
	optional := func(operation string) rule.Rule {
		return rule.Rule{Operation: operation, Key: "lock:" + operation, Optional: true}
	}
	g := unvalidated(t)
	g.Serve("a test", "served")
	g.Attach("a router", nil, func(rules *rule.Set) ([]string, error) {
		if rules.Lookup("routed") == nil {
			return nil, nil
		}
		return []string{"routed"}, errors.New("something is wrong with another one")
	})
	all := []rule.Rule{orders(), optional("served"), optional("routed"), optional("elsewhere")}
	if got := g.Relevant(all); !slices.Equal(got, all[:3]) {
		t.Errorf("relevant are %v", got)
	}
	twice := []rule.Rule{optional("elsewhere"), optional("elsewhere")}
	if got := g.Relevant(twice); !slices.Equal(got, twice) {
		t.Errorf("of rules that are no set %v are relevant", got)
	}
}

func TestADeclaredNameNeedsARule(t *testing.T) {
	g := unvalidated(t, rule.Rule{Operation: "nightly", Key: "lock:nightly"})
	g.Declare("nightly", "nightly-reports")
	err := g.Validate()
	if err == nil || strings.Count(err.Error(), "\n") != 0 || !strings.Contains(err.Error(), `"nightly-reports": is declared and has no rule`) {
		t.Errorf("got %v, want the one fault of the misspelled name", err)
	}
}

func TestAnAttachedIntegrationIsAskedAtEachValidation(t *testing.T) {
	g := unvalidated(t, orders())
	var served []string
	wrong := errors.New("the middleware is behind its handler")
	g.Attach("a router", nil, func(rules *rule.Set) ([]string, error) {
		if rules.Lookup(operation) == nil {
			t.Error("it does not see the rules")
		}
		return served, wrong
	})
	if err := g.Validate(); !errors.Is(err, wrong) || !strings.Contains(err.Error(), "nothing serves it") {
		t.Errorf("got %v, want both faults", err)
	}
	served, wrong = []string{operation}, nil
	if err := g.Validate(); err != nil {
		t.Errorf("the route is registered now: %v", err)
	}
	if _, _, err := g.Enter(t.Context(), user("42")); err != nil {
		t.Error(err)
	}
}

// A panic, which a server may recover from, doesn't keep the next validation waiting.
func TestAnIntegrationThatPanicsLeavesTheGuardUsable(t *testing.T) {
	g := unvalidated(t, orders())
	broken := true
	g.Attach("a router", nil, func(*rule.Set) ([]string, error) {
		if broken {
			panic("boom")
		}
		return []string{operation}, nil
	})
	results := make(chan any, 1)
	recovered := func(call func() error) {
		defer func() {
			if cause := recover(); cause != nil {
				results <- cause
			}
		}()
		results <- call()
	}
	for name, call := range map[string]func() error{
		"Validate": g.Validate, "Enter": func() error { _, _, err := g.Enter(t.Context(), user("42")); return err },
	} {
		go recovered(call)
		if got := guardtest.Receive(t, results, name); got != "boom" {
			t.Errorf("%s: got %v, want the panic", name, got)
		}
	}
	broken = false
	go recovered(g.Validate)
	if err := guardtest.Receive(t, results, "the next validation"); err != nil {
		t.Error(err)
	}
}

// An integration may be made when another one has used the guard already.
func TestAnIntegrationThatIsAttachedLateIsAskedToo(t *testing.T) {
	wrong := errors.New("the middleware is behind its handler")
	for name, rules := range map[string][]rule.Rule{"with rules": {orders()}, "without": nil} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := served(guard.New(guardtest.Locker(t, memstore.New()), rules...))
				if _, err := g.RulesOf("GET /other"); err != nil {
					t.Fatal(err)
				}
				found := wrong
				g.Attach("a router", nil, func(*rule.Set) ([]string, error) { return nil, found })
				if _, err := g.RulesOf("GET /other"); !errors.Is(err, wrong) {
					t.Errorf("got %v, want the fault of the integration", err)
				}
				if err := g.Replace([]rule.Rule{orders()}); !errors.Is(err, wrong) {
					t.Errorf("replaced: %v, want the fault of the integration", err)
				}
				found = nil
				if err := g.Replace(nil); len(rules) > 0 && !errors.Is(err, rule.ErrInvalid) {
					t.Errorf("got %v, and the guard doesn't start any longer: the operation has lost its rule", err)
				}
				time.Sleep(time.Second)
				if _, err := g.RulesOf("GET /other"); err != nil {
					t.Errorf("nothing is wrong now: %v", err)
				}
			})
		})
	}
}

// A program may attach the same for each request: that costs no validation.
func TestAnIntegrationThatIsAttachedAgainIsAskedAtTheNextValidation(t *testing.T) {
	g, router := served(guard.New(guardtest.Locker(t, memstore.New()), orders())), new(int)
	g.Attach("a router", router, func(*rule.Set) ([]string, error) { return nil, nil })
	if err := g.Validate(); err != nil {
		t.Fatal(err)
	}
	wrong := errors.New("the middleware is behind its handler")
	g.Attach("a router", router, func(*rule.Set) ([]string, error) { return nil, wrong })
	if _, err := g.RulesOf(operation); err != nil {
		t.Errorf("before the next validation: %v", err)
	}
	if err := g.Validate(); !errors.Is(err, wrong) {
		t.Errorf("got %v, want the fault of the integration", err)
	}
}

// What was wrong with a router may be put right while the program starts.
func TestEachRouterIsAskedByWhatItAttachedLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const other = "POST /refunds"
		wrong := errors.New("the middleware is behind its handler")
		g := unvalidated(t, orders(), rule.Rule{Operation: other, Key: "lock:refund"})
		finds := func(err error, operations ...string) func(*rule.Set) ([]string, error) {
			return func(*rule.Set) ([]string, error) { return operations, err }
		}
		first, second := new(int), new(int)
		g.Attach("a router", first, finds(nil, operation))
		g.Attach("another one", second, finds(wrong, other))
		if _, err := g.RulesOf(operation); !errors.Is(err, wrong) || strings.Contains(err.Error(), "nothing serves it") {
			t.Errorf("got %v, want the fault of the second router alone", err)
		}
		g.Attach("another one", second, finds(nil, other))
		if _, err := g.RulesOf(operation); err != nil {
			t.Errorf("nothing is wrong now: %v", err)
		}
	})
}

// Calls that come to a guard that isn't valid are refused quickly, and it finds out soon
// that it is.
func TestAGuardThatIsNotValidIsNotSurveyedByEachCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		surveys := 0
		g := unvalidated(t, orders())
		var served []string
		g.Attach("a router", nil, func(*rule.Set) ([]string, error) { surveys++; return served, nil })
		for range 1000 {
			if _, err := g.RulesOf(operation); guard.KindOf(err) != guard.Invalid {
				t.Fatalf("got %v, want Invalid", err)
			}
		}
		if surveys != 1 {
			t.Errorf("1000 calls at one moment looked %d times", surveys)
		}
		served = []string{operation}
		time.Sleep(time.Second)
		if _, err := g.RulesOf(operation); err != nil {
			t.Errorf("a second later: %v", err)
		}
	})
}

func TestAnIntegrationThatIsAttachedDuringAValidationIsAskedToo(t *testing.T) {
	wrong := errors.New("the middleware is behind its handler")
	for name, look := range map[string]func(*guard.Guard) error{
		"by Validate": (*guard.Guard).Validate,
		"by Replace":  func(g *guard.Guard) error { return g.Replace([]rule.Rule{orders()}) },
	} {
		t.Run(name, func(t *testing.T) {
			g := guardtest.Guard(t, orders())
			if err := g.Validate(); err != nil {
				t.Fatal(err)
			}
			during := func() {}
			g.Attach("a router", nil, func(*rule.Set) ([]string, error) { during(); return nil, nil })
			during = sync.OnceFunc(func() {
				g.Attach("another one", nil, func(*rule.Set) ([]string, error) { return nil, wrong })
			})
			if err := look(g); err != nil {
				t.Fatal(err)
			}
			if _, err := g.RulesOf(operation); !errors.Is(err, wrong) {
				t.Errorf("got %v, want the fault of the other integration", err)
			}
		})
	}
}

func TestReplaceMayNotUnlockAServedOperation(t *testing.T) {
	g := guardtest.Guard(t, orders())
	if err := g.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, rules := range map[string][]rule.Rule{
		"misspelled": {{Operation: "POST /order", Key: "lock:order:<userId>"}},
		"gone":       nil,
	} {
		err := g.Replace(rules)
		if !errors.Is(err, rule.ErrInvalid) {
			t.Errorf("%s: got %v, want ErrInvalid", name, err)
		}
		if _, _, err := g.Enter(t.Context(), user(name)); err != nil {
			t.Errorf("%s: the rule before is not in force: %v", name, err)
		}
	}
	if err := g.Replace(nil, operation); err != nil {
		t.Fatalf("unlocked on purpose: %v", err)
	}
	if r, err := g.RulesOf(operation); r != nil || err != nil {
		t.Errorf("unlocked on purpose: %v, %v", r, err)
	}
}

// Several services may read one file. A rule is optional for the ones that don't serve
// its operation: the one that does must not lose it unnoticed.
func TestReplaceMayNotUnlockAServedOperationWhoseRuleIsOptional(t *testing.T) {
	optional := func(operation string) rule.Rule {
		return rule.Rule{Operation: operation, Key: "lock:x", Optional: true}
	}
	const elsewhere = "POST /refunds" // another service serves it
	declared := func(g *guard.Guard) { g.Serve("a router", operation) }
	// As a route for any method is: it is served where it has a rule.
	found := func(g *guard.Guard) {
		g.Attach("a router", nil, func(rules *rule.Set) ([]string, error) {
			if rules.Lookup(operation) != nil {
				return []string{operation}, nil
			}
			return nil, nil
		})
	}
	for name, serve := range map[string]func(*guard.Guard){"declared": declared, "found": found} {
		g := unvalidated(t, optional(operation), optional(elsewhere))
		serve(g)
		if err := g.Validate(); err != nil {
			t.Fatal(err)
		}
		for version, rules := range map[string][]rule.Rule{
			"misspelled": {optional("POST /odrers"), optional(elsewhere)},
			"gone":       {optional(elsewhere)},
		} {
			err := g.Replace(rules)
			if !errors.Is(err, rule.ErrInvalid) || !strings.Contains(err.Error(), operation) {
				t.Errorf("%s, %s: got %v, want ErrInvalid with %q", name, version, err, operation)
			}
			if r, err := g.RulesOf(operation); r == nil || err != nil {
				t.Errorf("%s, %s: the rule is %v (%v), want the one before", name, version, r, err)
			}
		}
		if err := g.Replace([]rule.Rule{optional(operation)}); err != nil {
			t.Errorf("%s: an optional rule that nobody serves may go: %v", name, err)
		}
		if err := g.Replace(nil, operation); err != nil {
			t.Errorf("%s: unlocked on purpose: %v", name, err)
		}
	}
}

// A guard that serves doesn't look at itself again because new rules were refused.
func TestARefusedReplaceChangesNothing(t *testing.T) {
	g := served(guard.New(guardtest.Locker(t, memstore.New()), orders(), rule.Rule{Operation: "other", Key: "lock:other"}))
	if err := g.Validate(); err != nil {
		t.Fatal(err)
	}
	g.Declare("late") // and no rule
	for _, rules := range [][]rule.Rule{{{Operation: "late", Key: "lock:late"}}, {orders()}, {}} {
		if err := g.Replace(rules); !errors.Is(err, rule.ErrInvalid) {
			t.Errorf("%v: got %v, want a refusal", rules, err)
		}
		_, leave, err := g.Enter(t.Context(), user("42"))
		if err != nil {
			t.Fatalf("after %v: %v", rules, err)
		}
		_ = leave()
	}
}

// Of two calls at a time the second is compared with the rules of the first, not with
// the ones in force when it began: it would take a rule away in silence.
func TestReplacesTakeTurns(t *testing.T) {
	rules := make([]rule.Rule, 1000) // to compare them takes a while
	for i := range rules {
		rules[i] = rule.Rule{Operation: fmt.Sprintf("job-%d", i), Key: fmt.Sprintf("lock:%d", i), Optional: true}
	}
	g := unvalidated(t, rules...)
	g.Serve("a test", "one", "two")
	var met atomic.Int32
	both := make(chan struct{})
	g.Attach("a test", nil, func(rules *rule.Set) ([]string, error) {
		if rules.Lookup("one") == nil && rules.Lookup("two") == nil {
			return nil, nil
		}
		if met.Add(1) == 2 {
			close(both)
		}
		select {
		case <-both:
		case <-time.After(10 * time.Millisecond): // the other one waits for its turn
		}
		return nil, nil
	})
	if err := g.Validate(); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		if err := g.Replace(rules, "one", "two"); err != nil {
			t.Fatal(err)
		}
		met.Store(0)
		both = make(chan struct{})
		results := make(chan error, 2)
		for _, operation := range []string{"one", "two"} {
			go func() {
				results <- g.Replace(append(slices.Clip(rules), rule.Rule{Operation: operation, Key: "lock:" + operation}))
			}()
		}
		first, second := guardtest.Receive(t, results, "one Replace"), guardtest.Receive(t, results, "the other Replace")
		if (first == nil) == (second == nil) {
			t.Fatalf("got %v and %v, want one of them to be refused, as it takes the other's rule away", first, second)
		}
	}
}

func TestRulesMayComeBeforeTheGuardIsValidated(t *testing.T) {
	g := unvalidated(t)
	if err := g.Replace([]rule.Rule{orders()}); err != nil {
		t.Fatalf("the program still starts: %v", err)
	}
	if err := g.Validate(); err == nil {
		t.Error("a rule that nobody serves is not reported")
	}
	g.Serve("a router", operation)
	if err := g.Validate(); err != nil {
		t.Error(err)
	}
}

// Nor does a call that came too early keep out the next one.
func TestRulesThatAreMendedBeforeTheGuardIsValidAreLookedAtAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := unvalidated(t, rule.Rule{Operation: "POST /odrers", Key: "lock:order"})
		g.Serve("a router", operation)
		if _, err := g.RulesOf(operation); guard.KindOf(err) != guard.Invalid {
			t.Fatalf("got %v, want Invalid", err)
		}
		if err := g.Replace([]rule.Rule{orders()}); err != nil {
			t.Fatal(err)
		}
		if r, err := g.RulesOf(operation); r == nil || err != nil {
			t.Errorf("got %v, %v although nothing is wrong now", r, err)
		}
	})
}

func TestAGuardWithoutRulesThatServesRefusesAMisspelledOne(t *testing.T) {
	g := unvalidated(t)
	if r, err := g.RulesOf(operation); r != nil || err != nil {
		t.Fatalf("got %v, %v without rules", r, err)
	}
	if err := g.Replace([]rule.Rule{orders()}); !errors.Is(err, rule.ErrInvalid) {
		t.Errorf("got %v for a rule that nobody serves, while calls run", err)
	}
}

func TestErrorsOfTheOperatorAreLoggedAtMostOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		g := served(guard.New(guardtest.Locker(t, guardtest.Broken{Store: memstore.New()}), orders())).
			WithLogger(slog.New(slog.NewTextHandler(&text, nil)))
		for range 5 {
			_, _, _ = g.Enter(t.Context(), user("42"))
		}
		if n := strings.Count(text.String(), "\n"); n != 1 || !strings.Contains(text.String(), "kind=unavailable") ||
			!strings.Contains(text.String(), `operation="POST /orders"`) {
			t.Fatalf("%d lines, want one: %s", n, &text)
		}
		time.Sleep(2 * time.Second)
		_, _, _ = g.Enter(t.Context(), user("42"))
		if !strings.Contains(text.String(), "suppressed=4") {
			t.Errorf("what was not logged is not counted: %s", &text)
		}
		if strings.Contains(text.String(), "lock:order:42") || strings.Contains(text.String(), guardtest.ErrDown.Error()) {
			t.Errorf("the log has the key or the store's words: %s", &text)
		}
	})
}

func TestLinesSayWhatTheOperatorHasToLookAt(t *testing.T) {
	var text bytes.Buffer
	g, store := guardtest.GuardWithOutage(t, orders())
	g = g.WithLogger(slog.New(slog.NewTextHandler(&text, nil)))
	store.Begin()
	_, _, _ = g.Enter(t.Context(), user("42"))
	if got := text.String(); !strings.Contains(got, `cause="connection refused"`) {
		t.Errorf("the class of the failure is not logged: %s", got)
	}
	text.Reset()
	g.Declare("late")
	_ = g.Validate()
	if got := text.String(); !strings.Contains(got, "level=ERROR") || !strings.Contains(got, "is declared and has no rule") {
		t.Errorf("the fault of the rules is not logged: %s", got)
	}
}

func TestWhatIsTheCallersFaultIsNotLogged(t *testing.T) {
	var text bytes.Buffer
	g := guardtest.Guard(t, orders()).WithLogger(slog.New(slog.NewTextHandler(&text, nil)))
	hold(t, g.Locker(), "lock:order:42")
	for _, call := range []guard.Call{user("42"), user("")} {
		if _, _, err := g.Enter(t.Context(), call); err == nil {
			t.Fatal("entered")
		}
	}
	if text.Len() > 0 {
		t.Errorf("logged %s", &text)
	}
}

func TestEveryKindHasItsRow(t *testing.T) {
	seen := make(map[string]guard.Kind)
	for _, info := range guard.Kinds() {
		if info.Code == "" || info.Status < 200 || strings.HasPrefix(info.GRPC.String(), "CODE(") || info.Name == "" || info.Kind.String() != info.Name {
			t.Errorf("%+v is not complete", info)
		}
		if other, twice := seen[info.Code]; twice {
			t.Errorf("%v and %v have the code %s", other, info.Kind, info.Code)
		}
		seen[info.Code] = info.Kind
	}
	if got := guard.Kind(len(seen) + 1); got.Info().Code != "" || got.Retryable() {
		t.Errorf("there is no %v", got)
	}
	if guard.KindOf(lock.ErrBusy) != guard.Contended {
		t.Error("busy is not contended")
	}
}

// A method whose lock its .proto declares has no rule of the guard.
func TestWhatIsRequiredMustBeServed(t *testing.T) {
	const method = "/shop.v1.Orders/Place"
	g := unvalidated(t)
	if err := g.Validate(); err != nil {
		t.Fatal(err)
	}
	g.Require(method)
	if err := g.Validate(); err == nil || !strings.Contains(err.Error(), `"/shop.v1.Orders/Place": must take its lock, and nothing serves it; register the service`) {
		t.Errorf("got %v", err)
	}
	if _, err := g.RulesOf("GET /other"); guard.KindOf(err) != guard.Invalid {
		t.Errorf("the guard lets calls in: %v", err)
	}
	g.Serve("a test", method)
	if err := g.Validate(); err != nil {
		t.Errorf("served: %v", err)
	}
}
