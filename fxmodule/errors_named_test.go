package fxmodule_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/dig"
	"go.uber.org/fx"

	"github.com/redlatch/redlatch/core/guard/guardtest"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/rule"
	"github.com/redlatch/redlatch/fxmodule"
)

// TestErrorsOfASecondLockerInTheManual: what docs/errors.md quotes is what a user gets who
// makes the mistake.
func TestErrorsOfASecondLockerInTheManual(t *testing.T) {
	manual, err := filepath.Abs("../docs/errors.md")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	r := rule.Rule{Operation: "archive", Key: "lock:archive:<id>"}
	declared := fx.Invoke(func(b both) { b.Second.Declare("archive") })
	used := fx.Invoke(func(both) {})
	tried := func(code string, opts ...fx.Option) guardtest.Mistake {
		app := fx.New(append(opts, quiet(), fx.NopLogger)...)
		err := app.Err()
		if err == nil {
			err = app.Start(t.Context())
			_ = app.Stop(context.WithoutCancel(t.Context()))
		}
		return guardtest.AtStart(code, dig.RootCause(err))
	}
	client := func(tag string) fx.Option {
		return fx.Supply(fx.Annotate(away(t), fx.ResultTags(`name:"`+tag+`"`)))
	}
	one := fx.Options(fxmodule.Module, fxmodule.InMemory())
	guardtest.Listed(t, manual, "A second locker of fx", []guardtest.Mistake{
		tried(`fx.Provide(newArchiveRedis) // without fx.ResultTags, and no client for the module`, fxmodule.Module, archive.Module(), fx.Supply(away(t)), used),
		tried(`fx.Annotate(newArchiveRedis, fx.ResultTags("name:\"archiv\""))`, one, archive.Module(), client("archiv"), used),
		tried(`fx.Annotate(newArchiveRedis, fx.ResultTags("name:\"archive\"")) // which is away`, one, archive.Module(), client("archive"), used),
		tried(`archive.AsRule(r) // without archive.Module()`, one, archive.InMemory(), archive.AsRule(r)),
		tried(`fxmodule.AsRule(r) // and not archive.AsRule(r)`, two(fxmodule.AsRule(r), declared)),
		tried(`archive.AsRule(r) // and nothing serves it`, two(archive.AsRule(r))),
		tried(`archive.AsRule(r), archive.AsRules(r)`, two(archive.AsRule(r), archive.AsRules(r), declared)),
		tried(`archive.WithRulesFile("no.yaml")`, two(archive.WithRulesFile("no.yaml"))),
		tried(`archive.WithConfig(fxmodule.Config{MaxHold: time.Millisecond})`, two(archive.WithConfig(fxmodule.Config{MaxHold: time.Millisecond}), used)),
		tried(`archive.AsOption(lock.WithWatchdog(-1))`, two(archive.AsOption(lock.WithWatchdog(-1)), used)),
		tried(`fxmodule.Named("my archive").Module()`, one, fxmodule.Named("my archive").Module()),
		tried(`run(locker, other *lock.Locker) // fx.ParamTags("", "name:\"archiv\"")`, two(fx.Invoke(fx.Annotate(func(_, _ *lock.Locker) {}, fx.ParamTags("", `name:"archiv"`))))),
	})
}
