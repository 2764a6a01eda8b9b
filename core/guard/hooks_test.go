package guard_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/guard/guardtest"
	"github.com/redlatch/redlatch/core/key"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/rule"
)

// watched returns g with a hook that notes every refusal.
func watched(g *guard.Guard) (*guard.Guard, *[]*guard.Error) {
	var seen []*guard.Error
	return g.WithHooks(guard.Hooks{Refused: func(_ context.Context, e *guard.Error) { seen = append(seen, e) }}), &seen
}

func TestRefusedTellsOfEveryEntryThatFails(t *testing.T) {
	g, seen := watched(guardtest.Guard(t, orders()))
	hold(t, g.Locker(), "lock:order:42")
	for want, call := range map[guard.Kind]guard.Call{
		guard.Contended: user("42"),
		guard.BadKey:    user(""),
		guard.Invalid:   {Operation: operation},
	} {
		*seen = nil
		_, _, err := g.Enter(t.Context(), call)
		if len(*seen) != 1 || error((*seen)[0]) != err || (*seen)[0].Kind != want { //nolint:errorlint // the very error
			t.Errorf("%v: the hook saw %v, want only %v", want, *seen, err)
		}
	}
}

func TestRefusedIsSilentAboutEntriesThatSucceed(t *testing.T) {
	g, seen := watched(guardtest.Guard(t, orders()))
	for _, call := range []guard.Call{user("42"), user("43")} {
		_, leave, err := g.Enter(t.Context(), call)
		if err != nil {
			t.Fatal(err)
		}
		_ = leave()
	}
	if len(*seen) != 0 {
		t.Errorf("the hook saw %v", *seen)
	}
}

func TestRefusedHasTheCallersContext(t *testing.T) {
	type mark struct{}
	ctx := context.WithValue(t.Context(), mark{}, "mine")
	var got any
	g := guardtest.Guard(t, orders()).WithHooks(guard.Hooks{Refused: func(ctx context.Context, _ *guard.Error) { got = ctx.Value(mark{}) }})
	_, _, err := g.Enter(ctx, user(""))
	if err == nil || got != "mine" {
		t.Errorf("got %v in the hook's context, and %v", got, err)
	}
}

func TestGuardsOfWithHooksShareLockerAndRules(t *testing.T) {
	g := guardtest.Guard(t, orders())
	observed, seen := watched(g)
	if err := g.Replace([]rule.Rule{orders(ints)}); err != nil {
		t.Fatal(err)
	}
	if r, err := observed.RulesOf(operation); err != nil || r[0].Key != "lock:order:<userId|int>" {
		t.Errorf("the other guard has %v, %v", r, err)
	}
	if observed.Locker() != g.Locker() {
		t.Error("another locker")
	}
	if _, _, err := g.Enter(t.Context(), user("")); err == nil || len(*seen) != 0 {
		t.Errorf("a call of the guard without hooks was reported: %v", *seen)
	}
}

func TestKeyReasonIsOneOfAFewWords(t *testing.T) {
	g := guardtest.Guard(t, orders(ints))
	vars := func(err error) guard.Call {
		return guard.Call{Operation: operation, Vars: func(key.Var) (string, error) { return "", err }}
	}
	for name, test := range map[string]struct {
		call guard.Call
		want string
	}{
		"missing":       {vars(key.ErrMissing), "missing"},
		"empty":         {vars(nil), "missing"},
		"ambiguous":     {vars(key.ErrAmbiguous), "ambiguous"},
		"too long":      {user(strings.Repeat("7", 257)), "too_long"},
		"not canonical": {user("07"), "invalid"},
		"another error": {vars(errLookup), "invalid"},
		"no source":     {vars(guard.ErrUnresolvable), "unresolvable"},
		"not logged in": {vars(guard.ErrUnauthenticated), "missing"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := g.Enter(t.Context(), test.call)
			if got := guard.KeyReason(err); got != test.want {
				t.Errorf("%v: got %q, want %q", err, got, test.want)
			}
		})
	}
	hold(t, g.Locker(), "lock:order:42")
	_, _, contended := g.Enter(t.Context(), user("42"))
	for _, err := range []error{nil, errLookup, lock.ErrBusy, contended} {
		if got := guard.KeyReason(err); got != "" {
			t.Errorf("%v: got %q, want nothing", err, got)
		}
	}
}

func TestReplaceChangesTheRulesOfLaterCalls(t *testing.T) {
	g := guardtest.Guard(t, orders())
	before, leave, err := g.Enter(t.Context(), user("42"))
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Replace([]rule.Rule{orders(func(r *rule.Rule) { r.Key = "lock:purchase:<userId>" })}); err != nil {
		t.Fatal(err)
	}
	after, leaveAfter, err := g.Enter(t.Context(), user("42"))
	if err != nil {
		t.Fatalf("under the new rule: %v", err)
	}
	for held, ctx := range map[string]context.Context{"lock:order:42": before, "lock:purchase:42": after} {
		if err := lock.AssertHeld(ctx, held); err != nil {
			t.Errorf("%s: %v", held, err)
		}
	}
	if err := errors.Join(leave(), leaveAfter()); err != nil {
		t.Error(err)
	}
	for _, freed := range []string{"lock:order:42", "lock:purchase:42"} {
		if state, err := g.Locker().Inspect(t.Context(), freed); err != nil || state.Held {
			t.Errorf("%s: held %v, %v: want free", freed, state.Held, err)
		}
	}
}

func TestReplaceKeepsTheRulesWhenTheNewOnesAreWrong(t *testing.T) {
	g := guardtest.Guard(t, orders())
	err := g.Replace([]rule.Rule{{Operation: "a", Key: "lock:<"}, {Operation: "b"}})
	if guard.KindOf(err) != guard.Invalid || strings.Count(err.Error(), "\n") != 1 {
		t.Errorf("got %v, want both faults", err)
	}
	if r, err := g.RulesOf(operation); err != nil || r[0].Name != "orders" || len(g.Rules()) != 1 {
		t.Errorf("the rules are %v", g.Rules())
	}
}

func TestRulesAreSharedWithTheGuardsMadeFromOne(t *testing.T) {
	g, other := guardtest.Guard(t), guardtest.Guard(t)
	hooked, logged := g.WithHooks(guard.Hooks{}), g.WithLogger(nil)
	if !g.SharesRules(g) || !g.SharesRules(hooked) || !hooked.SharesRules(g) || !hooked.SharesRules(logged) {
		t.Error("a guard made from another doesn't share its rules")
	}
	if g.SharesRules(other) || hooked.SharesRules(other) {
		t.Error("two guards without rules share them")
	}
}
