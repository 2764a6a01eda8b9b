package fxmodule_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/dig"
	"go.uber.org/fx"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/guard/guardtest"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/rule"
	"github.com/redlatch/redlatch/fxmodule"
)

// mistakes are what people do wrong in an application that has its locks in
// memory, and serves POST /orders.
func mistakes(t *testing.T) map[string]fx.Option {
	t.Helper()
	config := func(document string) fx.Option {
		return fx.Provide(func() (c fxmodule.Config, err error) { return c, json.Unmarshal([]byte(document), &c) })
	}
	memory := fx.Options(fxmodule.InMemory(), served())
	return map[string]fx.Option{
		"no store":                  fx.Options(),
		"two clients":               fx.Supply(single(t), cluster(t)),
		"a client that is away":     fx.Options(fx.Supply(away(t)), served()),
		"a misspelled setting":      fx.Options(memory, config(`{"watchDog": "30s"}`)),
		"a number as a duration":    fx.Options(memory, config(`{"poll": 200}`)),
		"a duration without unit":   fx.Options(memory, config(`{"maxWait": "200"}`)),
		"a call outlasts a lease":   fx.Options(memory, fxmodule.WithConfig(fxmodule.Config{Watchdog: time.Second, CallTimeout: 2 * time.Second})),
		"too short":                 fx.Options(memory, fxmodule.WithConfig(fxmodule.Config{MaxHold: time.Millisecond})),
		"less than nothing":         fx.Options(memory, fxmodule.WithConfig(fxmodule.Config{MaxWaiters: -1})),
		"more for one than for all": fx.Options(memory, fxmodule.WithConfig(fxmodule.Config{MaxWaiters: 50, MaxTotalWaiters: 10})),
		"settings of another store": fx.Options(memory, fxmodule.WithConfig(fxmodule.Config{Redis: fxmodule.Redis{SETNX: true}})),
		"a mode that is not there": fx.Options(fx.Supply(away(t)), served(), fxmodule.WithConfig(fxmodule.Config{Redis: fxmodule.Redis{SETNX: true}}),
			fxmodule.AsRule(rule.Rule{Operation: "POST /orders", Key: "lock:order:<userId>", Mode: lock.Fair})),
		"a wait beyond the client's": fx.Options(fx.Supply(away(t)), fxmodule.WithConfig(fxmodule.Config{
			CallTimeout: 7 * time.Second, Redis: fxmodule.Redis{Replicas: 1, ReplicasTimeout: 6 * time.Second},
		})),
		"a wait beyond a call": fx.Options(fx.Supply(away(t)), fxmodule.WithConfig(fxmodule.Config{
			Redis: fxmodule.Redis{Replicas: 1, ReplicasTimeout: 3 * time.Second},
		})),
		"follow nothing":       fx.Options(memory, fxmodule.WithConfig(fxmodule.Config{FollowRules: true})),
		"a rule nobody serves": fx.Options(memory, fxmodule.AsRule(rule.Rule{Operation: "POST /odrers", Key: "lock:order:<userId>"})),
		"a rule beyond a setting": fx.Options(memory, fxmodule.WithConfig(fxmodule.Config{MaxHold: 30 * time.Second}),
			fxmodule.AsRule(rule.Rule{Operation: "POST /orders", Key: "lock:order:<userId>", MinHold: 50 * time.Second})),
		"a rule twice":             fx.Options(memory, fxmodule.AsRule(orders), fxmodule.AsRules(orders)),
		"a file that is not there": fx.Options(memory, fxmodule.WithRulesFile("rules.yaml")),
		"a file with a typo":       fx.Options(memory, fxmodule.WithRulesFile("typo.yaml")),
	}
}

func TestTheManualQuotesTheErrorsOfFx(t *testing.T) {
	manual, err := filepath.Abs("../docs/errors.md")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	replaceFile(t, "typo.yaml", "rules:\n- operation: POST /orders\n  kye: lock:order:<userId>\n")
	var messages []string
	for name, mistake := range mistakes(t) {
		app := fx.New(fxmodule.Module, quiet(), fx.NopLogger, mistake, fx.Invoke(func(*guard.Guard, *lock.Locker) {}))
		err := app.Err()
		if err == nil {
			err = app.Start(t.Context())
			_ = app.Stop(context.WithoutCancel(t.Context()))
		}
		if err == nil {
			t.Fatalf("%s: nothing is wrong", name)
		}
		messages = append(messages, dig.RootCause(err).Error())
	}
	messages = append(messages, unlocking(t))
	guardtest.Quoted(t, manual, "fx", messages)
}

// unlocking is what is logged of a followed file whose new version would take the
// lock away from a route.
func unlocking(t *testing.T) string {
	t.Helper()
	replaceFile(t, "rules.yaml", "rules:\n- operation: GET /one\n  key: lock:one\n")
	var log syncBuffer
	app := fx.New(fxmodule.Module, fxmodule.InMemory(), served(), fx.NopLogger, fxmodule.FollowRulesFile("rules.yaml"),
		fx.Supply(slog.New(slog.NewJSONHandler(&log, nil))), fx.Invoke(func(*guard.Guard) {}))
	if err := app.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer app.Stop(context.WithoutCancel(t.Context())) //nolint:errcheck // nothing is held
	replaceFile(t, "rules.yaml", "rules:\n- operation: GET /two\n  key: lock:one\n")
	eventually(t, "the refusal is logged", func() bool { return strings.Contains(log.String(), `"level":"ERROR"`) })
	for line := range strings.Lines(log.String()) {
		var record struct{ Level, Error string }
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			t.Fatal(err)
		}
		if record.Level == slog.LevelError.String() {
			return record.Error
		}
	}
	t.Fatal("nothing is logged")
	return ""
}

// away is a client of a server that doesn't run.
func away(t *testing.T) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", DialerRetries: 1, MaxRetries: -1})
	closeLater(t, client)
	return client
}
