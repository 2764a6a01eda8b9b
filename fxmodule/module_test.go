package fxmodule_test

import (
	"bytes"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/fx"
	"go.uber.org/fx/fxtest"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/guard/guardtest"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
	"github.com/redlatch/redlatch/core/redisstore"
	"github.com/redlatch/redlatch/core/rule"
	"github.com/redlatch/redlatch/core/sqlstore"
	"github.com/redlatch/redlatch/core/telemetry"
	"github.com/redlatch/redlatch/fxmodule"
)

var orders = rule.Rule{Operation: "POST /orders", Key: "lock:order:<userId>"}

// quiet keeps what is logged out of the output of the tests.
func quiet() fx.Option { return fx.Supply(slog.New(slog.DiscardHandler)) }

// inMemory is an application whose locks are in memory, and which serves all the
// operations of these tests.
func inMemory() fx.Option { return fx.Options(fxmodule.Module, fxmodule.InMemory(), quiet(), served()) }

// served has the rules of these tests served.
func served() fx.Option {
	return fx.Invoke(func(g *guard.Guard) {
		g.Serve("a test", orders.Operation, "GET /orders", "GET /a", "GET /b", "GET /file",
			"GET /one", "GET /two", "GET /three", "GET /fixed", "GET /other")
	})
}

// build makes an application and returns what is wrong with it.
func build(opts ...fx.Option) error {
	return fx.New(append(opts, fx.NopLogger, fx.Invoke(func(*guard.Guard, *lock.Locker) {}))...).Err()
}

// deadAddress is where nobody listens.
func deadAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

func closeLater(t *testing.T, client redis.UniversalClient) {
	t.Helper()
	t.Cleanup(func() { _ = client.Close() })
}

func single(t *testing.T) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: deadAddress(t), MaxRetries: -1})
	closeLater(t, client)
	return client
}

func cluster(t *testing.T) *redis.ClusterClient {
	t.Helper()
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{deadAddress(t)}, MaxRedirects: 1, MaxRetries: -1})
	closeLater(t, client)
	return client
}

func supplyUniversal(client redis.UniversalClient) fx.Option {
	return fx.Provide(func() redis.UniversalClient { return client })
}

func TestLocksWorkFromStartToStop(t *testing.T) {
	var locker *lock.Locker
	var g *guard.Guard
	app := fxtest.New(t, inMemory(), fxmodule.AsRule(orders), fx.Populate(&locker, &g))
	app.RequireStart()
	if g.Locker() != locker {
		t.Error("the guard has another locker")
	}
	if len(g.Rules()) != 1 || g.Rules()[0].Operation != orders.Operation {
		t.Error("the guard does not have the rule")
	}
	lease, err := locker.Acquire(t.Context(), "lock:order:42")
	if err != nil {
		t.Fatal(err)
	}
	if err := lease.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	app.RequireStop()
	if _, err := locker.Acquire(t.Context(), "lock:order:42"); !errors.Is(err, lock.ErrClosed) {
		t.Errorf("after the stop: %v, want ErrClosed", err)
	}
}

// A closed locker can't be opened again, so that a start which says that locks are ready would
// be wrong.
func TestASecondStartIsRefused(t *testing.T) {
	app := fxtest.New(t, fxmodule.Module, quiet(), fxmodule.InMemory(), fx.Invoke(func(*lock.Locker) {}))
	app.RequireStart().RequireStop()
	if err := app.Start(t.Context()); !errors.Is(err, lock.ErrClosed) {
		t.Errorf("got %v, want ErrClosed", err)
	}
}

func TestANilPointerIsNoStore(t *testing.T) {
	app := fx.New(fxmodule.Module, quiet(), fx.NopLogger, fx.Invoke(func(*lock.Locker) {}),
		fx.Provide(func() lock.Store { return (*redisstore.Store)(nil) }))
	if err := app.Err(); err == nil || !strings.Contains(err.Error(), "no lock store is configured") {
		t.Errorf("got %v", err)
	}
}

func TestGraphIsCompleteInEveryCombination(t *testing.T) {
	parts := []fx.Option{
		fxmodule.WithConfig(fxmodule.DefaultConfig()),
		fx.Options(fxmodule.AsRule(orders), fxmodule.AsRules(orders), fxmodule.AsOption(lock.WithPoll(time.Second))),
		fx.Supply(slog.Default()),
		fx.Options(fxmodule.WithRulesFile("rules.yaml"), fxmodule.FollowRulesFile("more.yaml")),
		fx.Provide(func() metric.MeterProvider { return nil }, func() trace.TracerProvider { return nil }),
		fx.Provide(func() *redis.Client { return nil }),
		fx.Provide(func() *redis.ClusterClient { return nil }),
		fx.Provide(func() redis.UniversalClient { return nil }),
		fx.Provide(func() lock.Store { return memstore.New() }),
	}
	for chosen := range 1 << len(parts) {
		opts := []fx.Option{
			fxmodule.Module, fx.NopLogger,
			fx.Invoke(func(*guard.Guard, *lock.Locker, *fxmodule.Health, *telemetry.Telemetry) {}),
		}
		for i, part := range parts {
			if chosen&(1<<i) != 0 {
				opts = append(opts, part)
			}
		}
		if err := fx.ValidateApp(opts...); err != nil {
			t.Errorf("combination %b: %v", chosen, err)
		}
	}
}

func TestNothingIsMadeThatNothingAsksFor(t *testing.T) {
	app := fxtest.New(t, fxmodule.Module, fxmodule.WithConfig(fxmodule.DefaultConfig()), fx.Provide(func() lock.Store {
		t.Error("the store was made")
		return memstore.New()
	}))
	app.RequireStart().RequireStop()
}

func TestUnreachableRedisStopsTheStart(t *testing.T) {
	one, many, other := single(t), cluster(t), single(t)
	for title, test := range map[string]struct {
		client  fx.Option
		address string
	}{
		"single client":    {fx.Supply(one), one.Options().Addr},
		"cluster client":   {fx.Supply(many), many.Options().Addrs[0]},
		"universal client": {supplyUniversal(other), other.Options().Addr},
		"one client that is there under two types": {
			fx.Options(fx.Supply(one), supplyUniversal(one)), one.Options().Addr,
		},
		"several clients, and a store made of one": {
			fx.Options(fx.Supply(one, many), fx.Provide(func(rdb *redis.Client) lock.Store { return redisstore.New(rdb) })),
			one.Options().Addr,
		},
	} {
		t.Run(title, func(t *testing.T) {
			app := fx.New(fxmodule.Module, quiet(), fx.NopLogger, test.client, fx.Invoke(func(*lock.Locker) {}))
			if err := app.Err(); err != nil {
				t.Fatal(err)
			}
			err := app.Start(t.Context())
			if !errors.Is(err, lock.ErrUnavailable) || !strings.Contains(err.Error(), test.address) {
				t.Errorf("got %v, want ErrUnavailable that names %s", err, test.address)
			}
		})
	}
}

// Memory is chosen, never fallen into.
func TestWithoutAStoreTheStartSaysWhatToChooseFrom(t *testing.T) {
	for name, opts := range map[string]fx.Option{
		"nothing":      fx.Options(),
		"a nil client": fx.Provide(func() *redis.Client { return nil }),
		"nil as any client": fx.Options(supplyUniversal((*redis.Client)(nil)),
			fxmodule.WithConfig(fxmodule.Config{Redis: fxmodule.Redis{Replicas: 1, ReplicasTimeout: time.Second}})),
		"a named client": fx.Supply(fx.Annotate(single(t), fx.ResultTags(`name:"locks"`))),
	} {
		err := fx.New(fxmodule.Module, quiet(), fx.NopLogger, opts, fx.Invoke(func(*lock.Locker) {})).Err()
		for _, want := range []string{"*redis.Client", "has a name", "redisstore.New", "fxmodule.InMemory()"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, want %q", name, err, want)
			}
		}
	}
}

func TestMemoryIsUsedWhereItIsChosenAlthoughThereIsAClient(t *testing.T) {
	app := fxtest.New(t, inMemory(), fx.Supply(single(t)), fx.Invoke(func(*lock.Locker) {}))
	app.RequireStart().RequireStop()
}

func TestTheStartIsOneLine(t *testing.T) {
	var log bytes.Buffer
	var locker *lock.Locker
	app := fxtest.New(t, fxmodule.Module, fxmodule.InMemory(), served(), fx.Supply(slog.New(slog.NewTextHandler(&log, nil))),
		fxmodule.WithConfig(fxmodule.Config{Watchdog: time.Minute, Rules: []rule.Rule{{Operation: "GET /a", Key: "lock:a"}}}),
		fxmodule.AsRule(orders), fx.Populate(&locker), fx.Invoke(func(*guard.Guard) {}))
	app.RequireStart().RequireStop()
	line := log.String()
	for _, want := range []string{"level=INFO", "store.kind=memory", "locker.id=" + locker.ID(), "locker.watchdog=1m0s", "rules=2"} {
		if strings.Count(line, "\n") != 1 || !strings.Contains(line, want) {
			t.Errorf("logged %q, want one line with %s", line, want)
		}
	}
}

// seen is a store that records the modes that it is queried for.
type seen struct {
	lock.Store

	modes *[]lock.Mode
}

func (s seen) Check(_ context.Context, modes ...lock.Mode) error {
	*s.modes = modes
	return nil
}

func TestTheStartChecksTheModesOfTheRules(t *testing.T) {
	var modes []lock.Mode
	fair, other := orders, rule.Rule{Operation: "GET /a", Key: "lock:a", Mode: lock.Fair}
	fair.Mode = lock.Fair
	app := fxtest.New(t, fxmodule.Module, quiet(), served(), fx.Provide(func() lock.Store { return seen{memstore.New(), &modes} }),
		fxmodule.AsRules(fair, other, rule.Rule{Operation: "GET /b", Key: "lock:b"}), fx.Invoke(func(*guard.Guard) {}))
	app.RequireStart().RequireStop()
	if want := []lock.Mode{lock.Exclusive, lock.Fair}; !slices.Equal(modes, want) {
		t.Errorf("checked %v, want %v", modes, want)
	}
}

func TestARuleThatNothingServesEndsTheStart(t *testing.T) {
	app := fx.New(inMemory(), fx.NopLogger, fxmodule.AsRules(orders, rule.Rule{Operation: "POST /odrers", Key: "lock:odrer"}),
		fx.Invoke(func(*guard.Guard) {}))
	if err := app.Err(); err != nil {
		t.Fatal(err)
	}
	err := app.Start(t.Context())
	if !errors.Is(err, rule.ErrInvalid) || !strings.Contains(err.Error(), "POST /odrers") || !strings.Contains(err.Error(), `did you mean "POST /orders"`) {
		t.Errorf("got %v, want the rule and the cure", err)
	}
	_ = app.Stop(t.Context())
}

// An application that has rules, and nothing else that takes a lock, would run without
// any.
func TestRulesThatNothingReadsEndTheStart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, []byte("rules:\n  - operation: POST /orders\n    key: lock:order\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for title, rules := range map[string]fx.Option{
		"a rule":              fxmodule.AsRule(orders),
		"rules":               fxmodule.AsRules(orders),
		"a file":              fxmodule.WithRulesFile(file),
		"a file that changes": fxmodule.FollowRulesFile(file),
		"rules of a config":   fxmodule.WithConfig(fxmodule.Config{Rules: []rule.Rule{orders}}),
		"file of a config":    fxmodule.WithConfig(fxmodule.Config{RulesFile: file}),
	} {
		app := fx.New(fxmodule.Module, fxmodule.InMemory(), quiet(), fx.NopLogger, rules)
		if err := app.Start(t.Context()); !errors.Is(err, rule.ErrInvalid) || !strings.Contains(err.Error(), "nothing serves it") {
			t.Errorf("%s: got %v, want the rule that nothing serves", title, err)
		} else if strings.Contains(title, "file") && !strings.Contains(err.Error(), file+":2:") {
			t.Errorf("%s: got %v, want the line of the file", title, err)
		}
		_ = app.Stop(t.Context())
	}
}

// A guard is made only if something uses it, unless options of the module have the rules.
func TestRulesOfAProvidedConfigNeedTheGuard(t *testing.T) {
	for title, config := range map[string]fxmodule.Config{
		"rules": {Rules: []rule.Rule{orders}}, "a file": {RulesFile: "/does/not/exist.yaml"},
	} {
		provided := fx.Options(fxmodule.Module, fxmodule.InMemory(), quiet(), fx.NopLogger, fx.Provide(func() fxmodule.Config { return config }))
		for use, option := range map[string]fx.Option{
			"the locker":                     fx.Invoke(func(*lock.Locker) {}),
			"neither the locker nor a guard": fx.Options(),
			"a guard in its place":           fx.Options(fx.Replace(guardtest.Guard(t)), fx.Invoke(func(*guard.Guard) {})),
		} {
			app := fx.New(provided, option)
			if err := app.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "nothing uses the guard") {
				t.Errorf("%s, and the application uses %s: got %v", title, use, err)
			}
			_ = app.Stop(t.Context())
		}
	}
}

func TestWrongSetUpIsAnErrorThatSaysWhat(t *testing.T) {
	broken := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(broken, []byte("rules:\n  - operation: x\n    kye: lock:x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for title, test := range map[string]struct {
		opts fx.Option
		want []string
	}{
		"two clients":         {fx.Supply(single(t), cluster(t)), []string{"2 Redis clients", "*redis.Client", "*redis.ClusterClient", "lock.Store"}},
		"two clients, others": {fx.Options(fx.Supply(single(t)), supplyUniversal(single(t))), []string{"2 Redis clients"}},
		"config":              {fxmodule.WithConfig(fxmodule.Config{Watchdog: -1}), []string{"watchdog", "-1ns"}},
		"rules":               {fxmodule.AsRules(rule.Rule{Operation: "a", Key: "<"}, rule.Rule{Operation: "b", Wait: -1, Key: "x"}), []string{`"a": key`, `"b": wait`}},
		"same rule twice":     {fx.Options(fxmodule.AsRule(orders), fxmodule.AsRules(orders)), []string{`"POST /orders": operation: has a rule already`}},
		"rules file":          {fxmodule.WithRulesFile(broken), []string{broken + ":3", "kye"}},
		"config's rules file": {fxmodule.WithConfig(fxmodule.Config{RulesFile: broken}), []string{broken + ":3", "kye"}},
		"files, all of them":  {fx.Options(fxmodule.WithRulesFile(broken), fxmodule.FollowRulesFile("nowhere.yaml")), []string{broken + ":3", "nowhere.yaml"}},
		"missing rules file":  {fxmodule.WithRulesFile("nowhere.yaml"), []string{"nowhere.yaml"}},
	} {
		t.Run(title, func(t *testing.T) {
			base := inMemory()
			if strings.HasPrefix(title, "two clients") {
				base = fx.Options(fxmodule.Module, quiet())
			}
			err := build(base, test.opts)
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want %q in it", err, want)
				}
			}
		})
	}
}

func TestTwoRulesForOneOperationAreNamedByTheirPlaces(t *testing.T) {
	folder := t.TempDir()
	one, two := filepath.Join(folder, "one.yaml"), filepath.Join(folder, "two.yaml")
	replaceFile(t, one, "rules:\n- operation: GET /a\n  key: lock:a\n"+strings.TrimPrefix(oneRule, "rules:\n"))
	replaceFile(t, two, strings.Replace(oneRule, "lock:one", "lock:two", 1))
	config := fxmodule.WithConfig(fxmodule.Config{Rules: []rule.Rule{orders, {Operation: "GET /one", Key: "lock:one"}}})
	for name, test := range map[string]struct {
		opts fx.Option
		want string
	}{
		"of two files":           {fx.Options(fxmodule.WithRulesFile(one), fxmodule.WithRulesFile(two)), ".yaml:"},
		"of a file and a config": {fx.Options(fxmodule.WithRulesFile(two), config), two + `:2:14: "GET /one": operation: has a rule already, rules[1] of the config, keep one of them, or say also: true if it takes both locks`},
		"of a file and an option": {
			fx.Options(fxmodule.WithRulesFile(two), fxmodule.AsRule(rule.Rule{Operation: "GET /one", Key: "lock:one"})),
			two + `:2:14: "GET /one": operation: has a rule already, a rule of AsRule or AsRules, keep one of them, or say also: true if it takes both locks`,
		},
	} {
		err := build(inMemory(), test.opts)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %s", name, err, test.want)
		}
		if name == "of two files" { // in any order
			first := one + `:4:14: "GET /one": operation: has a rule already, the rule in ` + two + ":2, keep"
			second := two + `:2:14: "GET /one": operation: has a rule already, the rule in ` + one + ":4, keep"
			if !strings.Contains(err.Error(), first) && !strings.Contains(err.Error(), second) {
				t.Errorf("%s: got %v, want %s", name, err, second)
			}
		}
	}
}

func TestRulesComeFromEverywhere(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, []byte("rules:\n  - operation: GET /file\n    key: lock:file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var g *guard.Guard
	app := fxtest.New(t, inMemory(), fx.Populate(&g),
		fxmodule.AsRule(orders),
		fxmodule.AsRules(rule.Rule{Operation: "GET /a", Key: "lock:a"}, rule.Rule{Operation: "GET /b", Key: "lock:b"}),
		fxmodule.WithRulesFile(file))
	app.RequireStart()
	defer app.RequireStop()
	for _, operation := range []string{"POST /orders", "GET /a", "GET /b", "GET /file"} {
		if !has(g, operation) {
			t.Errorf("no rule for %s", operation)
		}
	}
}

func TestOverlappingRulesAreWarnedOf(t *testing.T) {
	var log bytes.Buffer
	app := fxtest.New(t, fxmodule.Module, fxmodule.InMemory(), served(), fx.Supply(slog.New(slog.NewTextHandler(&log, nil))),
		fxmodule.AsRules(orders, rule.Rule{Operation: "GET /orders", Key: "lock:order:<orderId>"}),
		fx.Invoke(func(*guard.Guard) {}))
	app.RequireStart().RequireStop()
	if text := log.String(); !strings.Contains(text, "level=WARN") || !strings.Contains(text, "<orderId>") {
		t.Errorf("logged %s", text)
	}
}

func TestConfigReachesTheLocker(t *testing.T) {
	var locker *lock.Locker
	app := fxtest.New(t, inMemory(), fx.Populate(&locker), fxmodule.WithConfig(fxmodule.Config{Watchdog: time.Hour}))
	app.RequireStart()
	defer app.RequireStop()
	if left := trustOf(t, locker); left < 50*time.Minute || left > time.Hour {
		t.Errorf("a lease is trusted for %v, want about the watchdog's hour", left)
	}
}

func TestConfigCanBeDecorated(t *testing.T) {
	var locker *lock.Locker
	app := fxtest.New(t, inMemory(), fx.Populate(&locker), fxmodule.WithConfig(fxmodule.DefaultConfig()),
		fx.Decorate(func(c fxmodule.Config) fxmodule.Config {
			c.Watchdog = time.Hour
			return c
		}))
	app.RequireStart()
	defer app.RequireStop()
	if left := trustOf(t, locker); left < 50*time.Minute {
		t.Errorf("a lease is trusted for %v, want about an hour", left)
	}
}

func TestLockerCanBeReplaced(t *testing.T) {
	mine := lock.New(memstore.New())
	defer mine.Close(context.Background())
	var g *guard.Guard
	app := fxtest.New(t, inMemory(), fx.Populate(&g), fx.Replace(mine))
	app.RequireStart()
	defer app.RequireStop()
	if g.Locker() != mine {
		t.Error("the guard does not use the locker that took the place of the module's")
	}
}

func TestOptionsReachTheLockerBehindTheConfig(t *testing.T) {
	var locker *lock.Locker
	app := fxtest.New(t, inMemory(), fx.Populate(&locker), fxmodule.AsOption(lock.WithWatchdog(time.Hour)))
	app.RequireStart()
	defer app.RequireStop()
	if left := trustOf(t, locker); left < 50*time.Minute {
		t.Errorf("a lease is trusted for %v, want about an hour", left)
	}
}

// trustOf is how long a new lease of the locker is trusted.
func trustOf(t *testing.T, locker *lock.Locker) time.Duration {
	t.Helper()
	lease, err := locker.Acquire(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	left := time.Until(lease.Deadline())
	if err := lease.Release(t.Context()); err != nil {
		t.Error(err)
	}
	return left
}

// slowStore answers Check only when its context ends.
type slowStore struct{ lock.Store }

func (slowStore) Check(ctx context.Context, _ ...lock.Mode) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestCheckIsBoundedByTheConfig(t *testing.T) {
	app := fx.New(fxmodule.Module, quiet(), fx.NopLogger, fx.Invoke(func(*lock.Locker) {}),
		fx.Provide(func() lock.Store { return slowStore{memstore.New()} }),
		fxmodule.WithConfig(fxmodule.Config{CheckTimeout: 10 * time.Millisecond}), fx.StartTimeout(time.Hour))
	if err := app.Start(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want DeadlineExceeded", err)
	}
}

func TestWhatNewAndNewGuardNeedIsNamed(t *testing.T) {
	if _, err := fxmodule.New(fxmodule.Params{Store: memstore.New()}); err == nil || !strings.Contains(err.Error(), "Lifecycle is missing") {
		t.Errorf("without a lifecycle: %v", err)
	}
	if _, err := fxmodule.NewGuard(fxmodule.GuardParams{}); err == nil || !strings.Contains(err.Error(), "locker is nil") {
		t.Errorf("without a locker: %v", err)
	}
}

func TestTheGuardLogsWhereTheApplicationDoes(t *testing.T) {
	before := slog.Default()
	defer slog.SetDefault(before)
	locker := lock.New(memstore.New())
	defer locker.Close(context.Background())
	for name, give := range map[string]func(*fxmodule.GuardParams, *slog.Logger){
		"a logger":    func(p *fxmodule.GuardParams, log *slog.Logger) { p.Logger = log },
		"the default": func(_ *fxmodule.GuardParams, log *slog.Logger) { slog.SetDefault(log) },
	} {
		slog.SetDefault(before)
		var log bytes.Buffer
		params := fxmodule.GuardParams{Locker: locker, Rules: []rule.Rule{orders, {Operation: "GET /orders", Key: "lock:order:<orderId>"}}}
		give(&params, slog.New(slog.NewTextHandler(&log, nil)))
		g, err := fxmodule.NewGuard(params)
		if err != nil {
			t.Fatal(err)
		}
		if err := g.Validate(); err == nil {
			t.Error("a guard that nothing serves is valid")
		}
		for _, want := range []string{"lock rules overlap", "the guard is not valid"} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("%s: logged %s, want %q", name, log.String(), want)
			}
		}
	}
}

func TestNewWorksWithoutAnApplication(t *testing.T) {
	lifecycle := fxtest.NewLifecycle(t)
	made, err := fxmodule.New(fxmodule.Params{Lifecycle: lifecycle, Store: memstore.New()})
	if err != nil {
		t.Fatal(err)
	}
	g, err := fxmodule.NewGuard(fxmodule.GuardParams{Locker: made.Locker, Rules: []rule.Rule{orders}})
	if err != nil || g.Locker() != made.Locker {
		t.Fatalf("got %v, %v", g, err)
	}
	lifecycle.RequireStart().RequireStop()
}

// noServer refuses all connections.
type noServer struct{}

var errNoServer = errors.New("no server")

func (noServer) Connect(context.Context) (driver.Conn, error) { return nil, errNoServer }
func (noServer) Driver() driver.Driver                        { return nil }

func TestTheDatabaseIsCheckedAtStart(t *testing.T) {
	db := sql.OpenDB(noServer{})
	t.Cleanup(func() { _ = db.Close() })
	var tables *sqlstore.Store
	app := fx.New(fxmodule.Module, fx.Supply(db), fxmodule.InDatabase(sqlstore.PostgreSQL), quiet(), fx.NopLogger,
		fx.Populate(&tables), fx.Invoke(func(*lock.Locker) {}))
	if err := app.Err(); err != nil {
		t.Fatal(err)
	}
	err := app.Start(t.Context())
	defer func() { _ = app.Stop(t.Context()) }()
	if !errors.Is(err, errNoServer) || tables == nil {
		t.Errorf("got %v, want the error of the database", err)
	}
}
