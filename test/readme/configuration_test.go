package readme_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/redis/go-redis/v9"
	"go.uber.org/fx"
	"go.yaml.in/yaml/v4"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/guard/guardtest"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
	"github.com/redlatch/redlatch/core/rule"
	"github.com/redlatch/redlatch/core/rule/rulefile"
	"github.com/redlatch/redlatch/core/rule/rulefile/rulewatch"
	"github.com/redlatch/redlatch/fxmodule"
	"github.com/redlatch/redlatch/test/internal/redistest"
)

const configuration = "docs/configuration.md"

// blocksOf are the blocks of a document in a language that begin so, comments
// aside.
func blocksOf(t *testing.T, document, language, start string) []string {
	t.Helper()
	var found []string
	_, blocks := split(read(t, document))
	for _, b := range blocks {
		text := b.text
		for strings.HasPrefix(text, "#") {
			_, text, _ = strings.Cut(text, "\n")
		}
		if b.language == language && strings.HasPrefix(text, start) {
			found = append(found, b.text)
		}
	}
	if len(found) == 0 {
		t.Fatalf("%s has no block of %s that begins with %q: the reader does not work", document, language, start)
	}
	return found
}

// inFolder makes a file in a new folder the one by that name.
func inFolder(t *testing.T, name, text string) {
	t.Helper()
	t.Chdir(t.TempDir())
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func rulesOfFile(locker *lock.Locker) (*guard.Guard, error) {
	set, err := rulefile.Load("locks.yaml")
	if err != nil {
		return nil, err // all that is wrong, a line each
	}
	return guard.New(locker, set.Rules()...)
}

func following(g *guard.Guard, meanwhile func()) {
	w := rulewatch.Start("locks.yaml", func(set *rule.Set) error { return g.Replace(set.Rules(), set.Unlocked()...) })
	defer w.Close()
	meanwhile()
}

func TestFilesOfTheManualAreReadAsItSays(t *testing.T) {
	files := append(blocksOf(t, configuration, "yaml", "rules:"), blocksOf(t, configuration, "json", "{")...)
	faulty := 0
	for _, text := range files {
		inFolder(t, "locks.yaml", text)
		locker := lock.New(memstore.New())
		g, err := rulesOfFile(locker)
		if errors.Is(err, rule.ErrInvalid) {
			faulty++
		} else if err != nil || len(g.Rules()) == 0 {
			t.Errorf("%s\n%v", text, err)
		} else {
			h := guard.Must(guard.New(locker))
			following(h, func() {
				if len(h.Rules()) != len(g.Rules()) {
					t.Errorf("%d of %d rules are followed", len(h.Rules()), len(g.Rules()))
				}
			})
		}
		if err := locker.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if faulty != 1 {
		t.Errorf("%d of %d files are refused, want the one that is to be", faulty, len(files))
	}
}

func TestUnlockedOfTheManualTakesARuleAway(t *testing.T) {
	for _, text := range blocksOf(t, configuration, "yaml", "unlocked:") {
		inFolder(t, "locks.yaml", text)
		g := guardtest.Guard(t, rule.Rule{Operation: "POST /reports/{day}", Key: "lock:report:<path.day>"})
		if err := g.Validate(); err != nil {
			t.Fatal(err)
		}
		following(g, func() {
			if len(g.Rules()) != 0 {
				t.Errorf("%s\nunlocks nothing: the rules are %v", text, g.Rules())
			}
		})
	}
}

func TestFaultsOfTheManualAreThoseOfTheFile(t *testing.T) {
	shown := blocksOf(t, configuration, "text", "locks.yaml:")[0]
	for _, text := range blocksOf(t, configuration, "yaml", "rules:") {
		inFolder(t, "locks.yaml", text)
		if _, err := rulefile.Load("locks.yaml"); err != nil && err.Error()+"\n" != shown {
			t.Errorf("got\n%v\nthe manual shows\n%s", err, shown)
		}
	}
}

type settings struct {
	Locks fxmodule.Config `yaml:"locks"`
}

func ready(health *fxmodule.Health) gin.HandlerFunc {
	return func(c *gin.Context) {
		if err := health.Check(c.Request.Context()); err != nil {
			slog.Warn("not ready", "error", err) // for operators: the text names addresses
			c.Status(http.StatusServiceUnavailable)
			return
		}
		c.Status(http.StatusOK)
	}
}

func TestSettingsOfTheManualConfigureAnApplication(t *testing.T) {
	server := redistest.Standalone(t)
	newRedis := func() *redis.Client { return server.Client(t) }
	var s settings
	if err := yaml.Load([]byte(blocksOf(t, configuration, "yaml", "locks:")[0]), &s, yaml.WithKnownFields()); err != nil {
		t.Fatal(err)
	}
	inFolder(t, "locks.yaml", read(t, "test/readme/testdata/locks.yaml"))
	want := fxmodule.DefaultConfig()
	want.Service, want.RulesFile, want.FollowRules = "checkout", "locks.yaml", true
	want.MaxWait, want.MaxHold, want.MaxWaiters, want.MaxTotalWaiters = 10*time.Second, 10*time.Minute, 100, 5000
	if !reflect.DeepEqual(s.Locks, want) {
		t.Errorf("the settings are %+v, want the defaults and all that has none: %+v", s.Locks, want)
	}
	var router *gin.Engine
	var g *guard.Guard
	serve := func(r *gin.Engine, health *fxmodule.Health, rules *guard.Guard) {
		r.GET("/readyz", ready(health))
		router, g = r, guardtest.Served(rules)
	}
	app := fx.New(
		fxmodule.Module,
		fx.Supply(s), // the settings, read by whatever the application reads its configuration with
		fx.Provide(newRedis, newRouter, func(s settings) fxmodule.Config { return s.Locks }),
		fx.Invoke(serve), // has r.GET("/readyz", ready(health))
	)
	if err := app.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	readiness := func() int {
		w := httptest.NewRecorder()
		router.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/readyz", nil))
		return w.Code
	}
	if code := readiness(); code != http.StatusOK || len(g.Rules()) != 3 {
		t.Errorf("ready: %d, with %d rules", code, len(g.Rules()))
	}
	if err := app.Stop(context.Background()); err != nil {
		t.Error(err)
	}
	if code := readiness(); code != http.StatusServiceUnavailable {
		t.Errorf("after the stop: %d", code)
	}
}

func TestTheManualHasEverySettingOfRedis(t *testing.T) {
	text := blocksOf(t, configuration, "yaml", "redis:")[0]
	var c fxmodule.Config
	if err := yaml.Unmarshal([]byte(text), &c); err != nil {
		t.Fatal(err)
	}
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
	for field := range reflect.TypeFor[fxmodule.Redis]().Fields() {
		if name := field.Tag.Get("yaml"); !strings.Contains(text, "\n  "+name+": ") {
			t.Errorf("%s is not in the manual", name)
		}
	}
}

func TestSettingsOfTheManualCanComeFromTheEnvironment(t *testing.T) {
	t.Setenv("LOCK_RULES", "locks.yaml")
	t.Setenv("LOCK_WATCHDOG", "10s")
	inFolder(t, "locks.yaml", read(t, "test/readme/testdata/locks.yaml"))
	var g *guard.Guard
	app := fx.New(fxmodule.Module, fxmodule.InMemory(), fx.Provide(lockConfig), fx.Populate(&g), fx.NopLogger,
		fx.Invoke(func(g *guard.Guard) { guardtest.Served(g) }))
	if err := app.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	lease, err := g.Locker().Acquire(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	if left := time.Until(lease.Deadline()); left > 10*time.Second || len(g.Rules()) != 3 {
		t.Errorf("a lease is trusted for %v, and there are %d rules", left, len(g.Rules()))
	}
	if err := errors.Join(lease.Release(t.Context()), app.Stop(context.Background())); err != nil {
		t.Error(err)
	}
}

func lockConfig() (c fxmodule.Config, err error) {
	c.RulesFile = os.Getenv("LOCK_RULES")
	if text := os.Getenv("LOCK_WATCHDOG"); text != "" {
		c.Watchdog, err = time.ParseDuration(text)
	}
	return c, err
}
