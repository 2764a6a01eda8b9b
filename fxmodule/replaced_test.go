package fxmodule_test

import (
	"strings"
	"testing"

	"go.uber.org/fx"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/guard/guardtest"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/rule"
	"github.com/redlatch/redlatch/fxmodule"
)

// A guard without the rules of AsRule would leave their routes open.
func TestAGuardThatTheApplicationPutsInPlaceHasTheRules(t *testing.T) {
	serves := fx.Invoke(func(g *guard.Guard) { g.Serve("a test", orders.Operation) })
	for name, test := range map[string]struct {
		opts fx.Option
		want string // in the error of the start; empty: it starts
	}{
		"decorated by one without rules": {
			fx.Options(serves, fx.Decorate(func(g *guard.Guard) (*guard.Guard, error) { return guard.New(g.Locker()) })),
			`"POST /orders": has a rule, and the guard that the application has put in its place`,
		},
		"replaced by one of another locker": {
			fx.Options(serves, fx.Decorate(func(l *lock.Locker) (*guard.Guard, error) { return guard.New(l) })),
			"make it with WithHooks or WithLogger of the guard that it decorates",
		},
		"decorated with another rule": {fx.Options(serves, fx.Decorate(func(g *guard.Guard) (*guard.Guard, error) {
			return guard.New(g.Locker(), rule.Rule{Operation: orders.Operation, Key: "lock:other"})
		})), `"POST /orders": has a rule`},
		"decorated in a module inside": {
			fx.Module("inside", fx.Decorate(func(g *guard.Guard) (*guard.Guard, error) { return guard.New(g.Locker()) }), serves),
			`"POST /orders": has a rule, and nothing serves it`,
		},
		"replaced by one without rules": {
			fx.Options(serves, fx.Replace(guardtest.Guard(t))),
			`"POST /orders": has a rule, and the guard that the application has put in its place`,
		},
		"replaced by one with all rules": {fx.Options(serves, fx.Replace(guardtest.Guard(t, orders))), ""},
		"with hooks":                     {fx.Options(serves, fx.Decorate(func(g *guard.Guard) *guard.Guard { return g.WithHooks(guard.Hooks{}) })), ""},
		"with all rules":                 {fx.Options(serves, fx.Decorate(func(g *guard.Guard) (*guard.Guard, error) { return guard.New(g.Locker(), orders) })), ""},
		"that nobody replaced":           {serves, ""},
	} {
		t.Run(name, func(t *testing.T) {
			app := fx.New(fxmodule.Module, fxmodule.InMemory(), quiet(), fx.NopLogger, fxmodule.AsRule(orders), test.opts)
			err := app.Err()
			if err == nil {
				err = app.Start(t.Context())
				defer func() { _ = app.Stop(t.Context()) }()
			}
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}
