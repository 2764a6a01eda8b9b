package fxmodule_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.uber.org/fx"
	"go.uber.org/fx/fxtest"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
	"github.com/redlatch/redlatch/core/rule"
	"github.com/redlatch/redlatch/fxmodule"
)

const archive = fxmodule.Named("archive")

// both are what the application has of its two lockers.
type both struct {
	fx.In

	Locker  *lock.Locker
	Guard   *guard.Guard
	Archive *lock.Locker     `name:"archive"`
	Second  *guard.Guard     `name:"archive"`
	Health  *fxmodule.Health `name:"archive"`
}

// two is an application with two lockers in memory.
func two(opts ...fx.Option) fx.Option {
	return fx.Options(append(opts, fxmodule.Module, fxmodule.InMemory(), archive.Module(), archive.InMemory(), fx.NopLogger)...)
}

func TestANamedLockerHasWhatTheFirstHas(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, []byte("rules:\n  - {operation: fromFile, key: lock:file}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var logged bytes.Buffer
	reader := sdkmetric.NewManualReader()
	waits := 0
	var app both
	a := fxtest.New(t, two(
		fx.Supply(slog.New(slog.NewTextHandler(&logged, nil))),
		fx.Provide(func() metric.MeterProvider { return sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)) }),
		archive.WithConfig(fxmodule.Config{Watchdog: 7 * time.Second, CallTimeout: time.Second}),
		archive.AsOption(lock.WithHooks(lock.Hooks{Acquired: func(context.Context, lock.AcquireEvent) { waits++ }})),
		archive.AsRule(rule.Rule{Operation: "one", Key: "lock:archive"}),
		archive.AsRules(rule.Rule{Operation: "two", Key: "lock:two"}, rule.Rule{Operation: "three", Key: "lock:three"}),
		archive.WithRulesFile(file),
		fx.Invoke(func(b both) {
			app = b
			b.Second.Declare("one", "two", "three", "fromFile")
		}),
	))
	a.RequireStart()
	if n, first := len(app.Second.Rules()), len(app.Guard.Rules()); n != 4 || first != 0 {
		t.Errorf("the guards have %d and %d rules, want 4 and 0", n, first)
	}
	if app.Second.Locker() != app.Archive || app.Guard.Locker() != app.Locker || app.Archive == app.Locker {
		t.Error("the lockers are mixed up")
	}
	for _, locker := range []*lock.Locker{app.Locker, app.Archive} { // two stores
		if lease, err := locker.TryAcquire(t.Context(), "k"); err != nil {
			t.Error(err)
		} else if err := lease.Release(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if waits != 1 {
		t.Errorf("the option of the second saw %d acquisitions, want its own", waits)
	}
	var metrics metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &metrics); err != nil || len(metrics.ScopeMetrics) == 0 {
		t.Errorf("no metrics: %v", err)
	}
	if err := app.Health.Check(t.Context()); err != nil {
		t.Error(err)
	}
	if line := logged.String(); strings.Count(line, "locks are ready") != 2 || !strings.Contains(line, "name=archive") || !strings.Contains(line, "locker.watchdog=7s") {
		t.Errorf("logged %s", line)
	}
	a.RequireStop()
	if _, err := app.Archive.TryAcquire(t.Context(), "k"); !errors.Is(err, lock.ErrClosed) {
		t.Errorf("after the stop the second locker returned %v", err)
	}
	if err := app.Health.Check(t.Context()); !errors.Is(err, lock.ErrClosed) {
		t.Errorf("its health is %v", err)
	}
}

// What a new user gets wrong with a second locker ends the start, and says which locker.
func TestMistakesWithANamedLockerNameIt(t *testing.T) {
	for name, test := range map[string]struct {
		opts []fx.Option
		want string
	}{
		"no store": {[]fx.Option{fxmodule.Module, fxmodule.InMemory(), archive.Module(), fx.Invoke(func(both) {})}, `fxmodule: Named("archive"): no lock store has this name`},
		"no module": {
			[]fx.Option{fxmodule.Module, fxmodule.InMemory(), archive.InMemory(), fx.Invoke(func(both) {})}, `missing types: *lock.Locker[name="archive"]`,
		},
		"a bad name":      {[]fx.Option{fxmodule.Module, fxmodule.InMemory(), fxmodule.Named(`a"b`).Module()}, "a name has letters, digits, - and _ only"},
		"a wrong config":  {[]fx.Option{two(archive.WithConfig(fxmodule.Config{Watchdog: -1})), fx.Invoke(func(both) {})}, `Named("archive"): config: watchdog: -1ns is too short`},
		"a wrong rule":    {[]fx.Option{two(archive.AsRule(rule.Rule{Operation: "one", Key: "lock:<"}))}, `Named("archive"): lock rules: `},
		"a missing file":  {[]fx.Option{two(archive.WithRulesFile("no.yaml"))}, `Named("archive"): lock rules: `},
		"a rule of none":  {[]fx.Option{two(archive.AsRule(rule.Rule{Operation: "one", Key: "lock:one"}))}, `Named("archive"): lock rules: "one": has a rule, and nothing serves it`},
		"another's rules": {[]fx.Option{two(fxmodule.AsRule(rule.Rule{Operation: "one", Key: "lock:one"}), fx.Invoke(func(b both) { b.Second.Declare("one") }))}, `"one": has a rule, and nothing serves it`},
		"a store that isn't ready": {[]fx.Option{
			fxmodule.Module, fxmodule.InMemory(), archive.Module(), fx.Invoke(func(both) {}),
			fx.Provide(fx.Annotate(func() lock.Store { return unready{memstore.New()} }, fx.ResultTags(`name:"archive"`))),
		}, `Named("archive"): the lock store is not ready: not yet`},
		"no module for a rule": {[]fx.Option{fxmodule.Module, fxmodule.InMemory(), archive.AsRule(rule.Rule{Operation: "one", Key: "lock:one"})}, `Named("archive"): has rules, and no guard`},
		"a wrong option":       {[]fx.Option{two(archive.AsOption(lock.WithWatchdog(-1))), fx.Invoke(func(both) {})}, `Named("archive"): an option of AsOption: invalid argument: WithWatchdog`},
	} {
		t.Run(name, func(t *testing.T) {
			app := fx.New(append(test.opts, quiet(), fx.NopLogger)...)
			err := app.Err()
			if err == nil {
				err = app.Start(t.Context())
			}
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v\nwant %q in it", err, test.want)
			}
		})
	}
}

type unready struct{ lock.Store }

var errNotYet = errors.New("not yet")

func (unready) Check(context.Context, ...lock.Mode) error { return errNotYet }

// fx stops what has started, and not the component whose start fails.
func TestAStartThatFailsClosesTheLocker(t *testing.T) {
	for name, opts := range map[string][]fx.Option{
		"the store": {fx.Provide(func() lock.Store { return unready{memstore.New()} })},
		"the rules": {fxmodule.InMemory(), fxmodule.AsRule(orders)},
		"no guard":  {fxmodule.InMemory(), fx.Provide(func() fxmodule.Config { return fxmodule.Config{Rules: []rule.Rule{orders}} })},
		"another":   {fxmodule.InMemory(), fx.Invoke(func(l fx.Lifecycle, _ *lock.Locker) { l.Append(fx.StartHook(func() error { return errNotYet })) })},
	} {
		t.Run(name, func(t *testing.T) {
			var locker *lock.Locker
			app := fx.New(append(opts, fxmodule.Module, quiet(), fx.NopLogger, fx.Populate(&locker))...)
			if err := app.Start(t.Context()); err == nil {
				t.Fatal("it starts")
			}
			if _, err := locker.TryAcquire(t.Context(), "k"); !errors.Is(err, lock.ErrClosed) {
				t.Errorf("the locker is open: %v", err)
			}
		})
	}
}
