package fxmodule_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/fx"
	"go.uber.org/fx/fxtest"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
	"github.com/redlatch/redlatch/core/rule"
	"github.com/redlatch/redlatch/fxmodule"
)

// replaceFile puts a complete file into the place of the one before.
func replaceFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(30 * time.Second)
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("does not happen: %s", what)
		}
	}
}

func has(g *guard.Guard, operation string) bool {
	return slices.ContainsFunc(g.Rules(), func(r *rule.Compiled) bool { return r.Operation == operation })
}

const oneRule = "rules:\n- operation: GET /one\n  key: lock:one\n"

// another is a version of the file in which another operation has the rule.
func another(operation, unlocked string) string {
	return "unlocked: [" + unlocked + "]\n" + strings.ReplaceAll(oneRule, "one", operation)
}

func TestFilesAreFollowedFromStartToStop(t *testing.T) {
	for name, option := range map[string]func(string) fx.Option{
		"by option": fxmodule.FollowRulesFile,
		"by config": func(path string) fx.Option {
			return fxmodule.WithConfig(fxmodule.Config{RulesFile: path, FollowRules: true})
		},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			path, fixed := filepath.Join(folder, "locks.yaml"), filepath.Join(folder, "fixed.yaml")
			replaceFile(t, path, oneRule)
			replaceFile(t, fixed, "rules:\n- operation: GET /fixed\n  key: lock:fixed\n")
			var g *guard.Guard
			app := fxtest.New(t, inMemory(), option(path), fxmodule.AsRule(orders), fxmodule.WithRulesFile(fixed), fx.Populate(&g))
			if !has(g, "GET /one") {
				t.Error("the file is not read before the start")
			}
			replaceFile(t, path, another("two", "GET /one")) // between the two
			app.RequireStart()
			eventually(t, "the rule that came before the start", func() bool { return has(g, "GET /two") })
			replaceFile(t, path, another("three", "GET /two"))
			eventually(t, "the rule that came after the start", func() bool { return has(g, "GET /three") })
			if has(g, "GET /one") || has(g, "GET /two") || !has(g, orders.Operation) || !has(g, "GET /fixed") {
				t.Errorf("rules are %v", g.Rules())
			}
			app.RequireStop()
		})
	}
}

// twoFiles makes a file with a rule, and one without.
func twoFiles(t *testing.T) (path, other string) {
	t.Helper()
	folder := t.TempDir()
	path, other = filepath.Join(folder, "locks.yaml"), filepath.Join(folder, "other.yaml")
	replaceFile(t, path, oneRule)
	replaceFile(t, other, "rules: []\n")
	return path, other
}

func TestAFileThatContradictsTheProgramChangesNothing(t *testing.T) {
	path, other := twoFiles(t)
	var log syncBuffer
	var g *guard.Guard
	app := fxtest.New(t, fxmodule.Module, fxmodule.InMemory(), served(), fx.Supply(log.logger()), fxmodule.FollowRulesFile(path), fxmodule.FollowRulesFile(other),
		fxmodule.AsRule(orders), fx.Populate(&g))
	app.RequireStart()
	defer app.RequireStop()
	replaceFile(t, path, "rules:\n- operation: "+orders.Operation+"\n  key: lock:other\n")
	eventually(t, "the error is logged", func() bool { return strings.Contains(log.String(), "has a rule already") })
	if r := g.Rules()[0]; r.Operation != orders.Operation || r.Key != orders.Key || !has(g, "GET /one") {
		t.Errorf("rules are %v", g.Rules())
	}
	replaceFile(t, path, strings.ReplaceAll(oneRule, "one", "two"))
	eventually(t, "an unlocked route is logged", func() bool {
		return strings.Contains(log.String(), "GET /one") && strings.Contains(log.String(), "unlocked")
	})
	if !has(g, "GET /one") {
		t.Errorf("a new version unlocked GET /one: rules are %v", g.Rules())
	}
	replaceFile(t, other, strings.ReplaceAll(oneRule, "one", "other"))
	eventually(t, "another good file", func() bool { return has(g, "GET /other") && has(g, "GET /one") })
	replaceFile(t, path, another("two", "GET /one"))
	eventually(t, "a good file", func() bool { return has(g, "GET /two") })
}

// A rule that moves from one file to another is in both or in neither for a moment,
// whichever is written first.
func TestARuleMovesFromFileToFile(t *testing.T) {
	for name, order := range map[string][]int{"to the new file first": {1, 0}, "out of the old file first": {0, 1}} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			paths := []string{filepath.Join(folder, "old.yaml"), filepath.Join(folder, "new.yaml")}
			replaceFile(t, paths[0], oneRule)
			replaceFile(t, paths[1], "rules: []\n")
			var log syncBuffer
			var g *guard.Guard
			app := fxtest.New(t, fxmodule.Module, fxmodule.InMemory(), served(), fx.Supply(log.logger()),
				fxmodule.FollowRulesFile(paths[0]), fxmodule.FollowRulesFile(paths[1]), fx.Populate(&g))
			app.RequireStart()
			defer app.RequireStop()
			moved := []string{"rules: []\n", strings.ReplaceAll(oneRule, "lock:one", "lock:moved")}
			replaceFile(t, paths[order[0]], moved[order[0]])
			eventually(t, "the error is logged", func() bool { return strings.Contains(log.String(), "lock rules stay as they were") })
			if r := g.Rules(); len(r) != 1 || r[0].Key != "lock:one" {
				t.Fatalf("rules are %v", r)
			}
			replaceFile(t, paths[order[1]], moved[order[1]])
			eventually(t, "the moved rule", func() bool { r := g.Rules(); return len(r) == 1 && r[0].Key == "lock:moved" })
			eventually(t, "a line about each file", func() bool {
				return strings.Count(log.String(), `msg="lock rules are in force" file=`+paths[0]) == 2 &&
					strings.Count(log.String(), `msg="lock rules are in force" file=`+paths[1]) == 2
			})
		})
	}
}

// No two of the new versions are right without the third.
func TestRulesMoveThroughThreeFiles(t *testing.T) {
	folder := t.TempDir()
	two := strings.ReplaceAll(oneRule, "one", "two")
	before := []string{oneRule, two, "rules: []\n"}
	after := []string{"rules: []\n", oneRule, two}
	paths := make([]string, len(before))
	options := make([]fx.Option, len(before))
	for i := range paths {
		paths[i] = filepath.Join(folder, fmt.Sprintf("%d.yaml", i))
		replaceFile(t, paths[i], before[i])
		options[i] = fxmodule.FollowRulesFile(paths[i])
	}
	var log syncBuffer
	var g *guard.Guard
	app := fxtest.New(t, fxmodule.Module, fxmodule.InMemory(), served(), fx.Supply(log.logger()), fx.Options(options...), fx.Populate(&g))
	app.RequireStart()
	defer app.RequireStop()
	for refused, i := range []int{0, 2, 1} {
		eventually(t, "the version before is refused", func() bool { return strings.Count(log.String(), "lock rules stay as they were") == refused })
		replaceFile(t, paths[i], after[i])
	}
	eventually(t, "a line about each file", func() bool {
		return !slices.ContainsFunc(paths, func(path string) bool {
			return strings.Count(log.String(), `msg="lock rules are in force" file=`+path) != 2
		})
	})
	if !has(g, "GET /one") || !has(g, "GET /two") {
		t.Errorf("rules are %v", g.Rules())
	}
}

// A rule moves while a third file waits for its own cure.
func TestAWrongFileHoldsUpNoRuleThatMoves(t *testing.T) {
	path, other := twoFiles(t)
	wrong := filepath.Join(t.TempDir(), "wrong.yaml")
	replaceFile(t, wrong, "rules: []\n")
	var log syncBuffer
	var g *guard.Guard
	app := fxtest.New(t, fxmodule.Module, fxmodule.InMemory(), served(), fx.Supply(log.logger()),
		fxmodule.FollowRulesFile(wrong), fxmodule.FollowRulesFile(path), fxmodule.FollowRulesFile(other), fx.Populate(&g))
	app.RequireStart()
	defer app.RequireStop()
	replaceFile(t, wrong, strings.ReplaceAll(oneRule, "one", "nobody"))
	eventually(t, "the wrong file is refused", func() bool { return strings.Contains(log.String(), "nothing serves it") })
	replaceFile(t, path, "rules: []\n")
	eventually(t, "the rule would be gone", func() bool { return strings.Contains(log.String(), "would have no rule any longer") })
	replaceFile(t, other, strings.ReplaceAll(oneRule, "lock:one", "lock:moved"))
	eventually(t, "the moved rule", func() bool { r := g.Rules(); return len(r) == 1 && r[0].Key == "lock:moved" })
	replaceFile(t, wrong, strings.ReplaceAll(oneRule, "one", "two"))
	eventually(t, "the file that is good again", func() bool { return has(g, "GET /two") && has(g, "GET /one") })
}

// A version that was refused and is no longer there does not come back with another
// file.
func TestARefusedVersionThatIsGoneStaysOut(t *testing.T) {
	path, other := twoFiles(t)
	var log syncBuffer
	var g *guard.Guard
	app := fxtest.New(t, fxmodule.Module, fxmodule.InMemory(), served(), fx.Supply(log.logger()),
		fxmodule.FollowRulesFile(path), fxmodule.FollowRulesFile(other), fx.Populate(&g))
	app.RequireStart()
	defer app.RequireStop()
	replaceFile(t, other, strings.ReplaceAll(oneRule, "lock:one", "lock:moved"))
	eventually(t, "the rule is there twice", func() bool { return strings.Contains(log.String(), "has a rule already") })
	replaceFile(t, other, "rules: [\n")
	eventually(t, "the file is broken", func() bool { return strings.Contains(log.String(), "is not YAML") })
	replaceFile(t, path, "rules: []\n")
	eventually(t, "the rule would be gone", func() bool { return strings.Contains(log.String(), "would have no rule any longer") })
	if r := g.Rules(); len(r) != 1 || r[0].Key != "lock:one" {
		t.Errorf("rules are %v", r)
	}
}

// following is a guard without an application, which follows a file with one rule.
func following(t *testing.T, p fxmodule.GuardParams) (g *guard.Guard, path string, log *syncBuffer) {
	t.Helper()
	path, log = filepath.Join(t.TempDir(), "locks.yaml"), new(syncBuffer)
	replaceFile(t, path, oneRule)
	lifecycle := fxtest.NewLifecycle(t)
	p.Locker, p.Lifecycle, p.Logger = lock.New(memstore.New()), lifecycle, log.logger()
	p.Config.RulesFile, p.Config.FollowRules = path, true
	t.Cleanup(func() { _ = p.Locker.Close(context.Background()) })
	g, err := fxmodule.NewGuard(p)
	if err != nil {
		t.Fatal(err)
	}
	g.Serve("a test", "GET /one")
	lifecycle.RequireStart()
	t.Cleanup(func() { lifecycle.RequireStop() })
	return g, path, log
}

func TestANewVersionWithAModeThatTheSettingsRuleOutChangesNothing(t *testing.T) {
	g, path, log := following(t, fxmodule.GuardParams{Config: fxmodule.Config{Redis: fxmodule.Redis{SETNX: true}}})
	replaceFile(t, path, strings.TrimSpace(oneRule)+"\n  mode: write\n")
	eventually(t, "the error is logged", func() bool {
		return strings.Contains(log.String(), "mode: write: redis.setnx has exclusive locks only") && strings.Contains(log.String(), "locks.yaml:2:")
	})
	if m := g.Rules()[0].Mode; m != lock.Exclusive {
		t.Errorf("the mode is %s", m)
	}
}

// choosy is a store that has some modes only, or can't say now which it has.
type choosy struct {
	lock.Store

	refuses map[lock.Mode]error
}

func (s choosy) Check(_ context.Context, modes ...lock.Mode) error {
	for _, m := range modes {
		if err := s.refuses[m]; err != nil {
			return err
		}
	}
	return nil
}

// The start checks the store with the modes that the rules have then.
func TestANewVersionWithAModeThatTheStoreDoesNotHaveChangesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "locks.yaml")
	replaceFile(t, path, oneRule)
	var log syncBuffer
	var g *guard.Guard
	store := choosy{memstore.New(), map[lock.Mode]error{
		lock.Fair:  fmt.Errorf("%w: no fair locks here", lock.ErrUnsupported),
		lock.Write: fmt.Errorf("%w: dial", lock.ErrUnavailable),
	}}
	app := fxtest.New(t, fxmodule.Module, served(), fx.Supply(log.logger()), fx.Provide(func() lock.Store { return store }),
		fxmodule.FollowRulesFile(path), fx.Populate(&g))
	app.RequireStart()
	defer app.RequireStop()
	replaceFile(t, path, strings.TrimSpace(oneRule)+"\n  mode: fair\n")
	eventually(t, "the error is logged", func() bool {
		return strings.Contains(log.String(), "mode: fair: ") && strings.Contains(log.String(), "no fair locks here") && strings.Contains(log.String(), "locks.yaml:2:")
	})
	if m := g.Rules()[0].Mode; m != lock.Exclusive {
		t.Errorf("the mode is %s", m)
	}
	replaceFile(t, path, strings.TrimSpace(oneRule)+"\n  mode: write\n")
	eventually(t, "a store that is away refuses no rule", func() bool { return g.Rules()[0].Mode == lock.Write })
	if !strings.Contains(log.String(), "could not be checked with a new mode") {
		t.Errorf("logged %s", log.String())
	}
}

// One file is for several programs, whose stores and settings differ.
func TestAnOptionalRuleOfAnotherProgramMayHaveAnyMode(t *testing.T) {
	elsewhere := rule.Rule{Operation: "GET /elsewhere", Key: "lock:elsewhere", Mode: lock.Fair, Optional: true}
	here := rule.Rule{Operation: "GET /a", Key: "lock:a", Mode: lock.Fair, Optional: true}
	store := choosy{memstore.New(), map[lock.Mode]error{lock.Fair: fmt.Errorf("%w: no fair locks here", lock.ErrUnsupported)}}
	path := filepath.Join(t.TempDir(), "locks.yaml")
	for name, setting := range map[string]struct {
		store lock.Store
		redis fxmodule.Redis
	}{
		"by the store":    {store: store},
		"by the settings": {memstore.New(), fxmodule.Redis{SETNX: true}},
	} {
		t.Run(name, func(t *testing.T) {
			start := func(r rule.Rule, log *slog.Logger) (*guard.Guard, *fxtest.Lifecycle, error) {
				lifecycle := fxtest.NewLifecycle(t)
				made, err := fxmodule.New(fxmodule.Params{Lifecycle: lifecycle, Store: setting.store, Logger: log})
				if err != nil {
					t.Fatal(err)
				}
				replaceFile(t, path, oneRule)
				g, err := fxmodule.NewGuard(fxmodule.GuardParams{
					Locker: made.Locker, Health: made.Health, Lifecycle: lifecycle, Logger: log,
					Rules: []rule.Rule{r}, Config: fxmodule.Config{RulesFile: path, FollowRules: true, Redis: setting.redis},
				})
				if err != nil {
					t.Fatal(err)
				}
				g.Attach("a test", nil, func(*rule.Set) ([]string, error) { return []string{"GET /a", "GET /one"}, nil })
				return g, lifecycle, lifecycle.Start(t.Context())
			}
			_, lifecycle, err := start(here, slog.New(slog.DiscardHandler))
			if err == nil || !strings.Contains(err.Error(), "fair") {
				t.Errorf("a rule of this program: %v, want an error about fair locks", err)
			}
			_ = lifecycle.Stop(t.Context())

			var log syncBuffer
			g, lifecycle, err := start(elsewhere, log.logger())
			defer lifecycle.RequireStop()
			if err != nil {
				t.Fatalf("a rule of another program: %v", err)
			}
			more := oneRule + "- operation: GET /nowhere\n  key: lock:nowhere\n  mode: fair\n  optional: true\n"
			replaceFile(t, path, more)
			eventually(t, "a new version with such a rule", func() bool { return has(g, "GET /nowhere") })
			replaceFile(t, path, more+"- operation: GET /a\n  key: lock:a\n  mode: fair\n  optional: true\n")
			eventually(t, "a new version with one of this program", func() bool { return strings.Contains(log.String(), `\"GET /a\": mode: fair: `) })
			if has(g, "GET /a") {
				t.Errorf("rules are %v", g.Rules())
			}
		})
	}
}

// A guard that was made without the Health of New doesn't know the store.
func TestAGuardThatDoesNotKnowTheStoreTakesEveryMode(t *testing.T) {
	g, path, _ := following(t, fxmodule.GuardParams{})
	replaceFile(t, path, strings.TrimSpace(oneRule)+"\n  mode: write\n")
	eventually(t, "the new mode", func() bool { return g.Rules()[0].Mode == lock.Write })
}

// stuck is a store whose second check answers only when its context ends.
type stuck struct {
	lock.Store

	checks  atomic.Int32
	waiting chan []lock.Mode
}

func (s *stuck) Check(ctx context.Context, modes ...lock.Mode) error {
	if s.checks.Add(1) == 1 {
		return nil
	}
	s.waiting <- modes
	<-ctx.Done()
	return ctx.Err()
}

func TestTheStopDoesNotWaitForTheCheckOfANewVersion(t *testing.T) {
	path := filepath.Join(t.TempDir(), "locks.yaml")
	replaceFile(t, path, oneRule)
	store := &stuck{Store: memstore.New(), waiting: make(chan []lock.Mode, 1)}
	app := fxtest.New(t, fxmodule.Module, quiet(), served(), fx.Provide(func() lock.Store { return store }),
		fxmodule.WithConfig(fxmodule.Config{CheckTimeout: time.Hour}), fxmodule.FollowRulesFile(path), fx.StopTimeout(30*time.Second))
	app.RequireStart()
	replaceFile(t, path, strings.TrimSpace(oneRule)+"\n- operation: GET /two\n  key: lock:two\n  mode: fair\n")
	select {
	case modes := <-store.waiting:
		if !slices.Equal(modes, []lock.Mode{lock.Fair}) {
			t.Errorf("the store was checked with %v, want the new mode", modes)
		}
	case <-time.After(30 * time.Second):
		t.Error("the store was not checked with the new mode")
	}
	app.RequireStop()
}

func TestFollowingNeedsALifecycle(t *testing.T) {
	path := filepath.Join(t.TempDir(), "locks.yaml")
	replaceFile(t, path, oneRule)
	locker := lock.New(memstore.New())
	defer locker.Close(context.Background())
	_, err := fxmodule.NewGuard(fxmodule.GuardParams{Locker: locker, Files: []fxmodule.RulesFile{{Path: path, Follow: true}}})
	if err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v, want an error that names the file", err)
	}
}

func TestGuardCanBeDecorated(t *testing.T) {
	path := filepath.Join(t.TempDir(), "locks.yaml")
	replaceFile(t, path, oneRule)
	refused := 0
	var g *guard.Guard
	app := fxtest.New(t, inMemory(), fxmodule.FollowRulesFile(path), fxmodule.AsRule(orders), fx.Populate(&g),
		fx.Decorate(func(g *guard.Guard) *guard.Guard {
			return g.WithHooks(guard.Hooks{Refused: func(context.Context, *guard.Error) { refused++ }})
		}))
	app.RequireStart()
	defer app.RequireStop()
	if _, _, err := g.Enter(t.Context(), guard.Call{Operation: orders.Operation}); err == nil || refused != 1 {
		t.Errorf("the decorated guard saw %d refusals, %v", refused, err)
	}
	replaceFile(t, path, another("two", "GET /one"))
	eventually(t, "the decorated guard has the new rule", func() bool { return has(g, "GET /two") })
}

func TestLockerCanBeDecorated(t *testing.T) {
	var seen *lock.Locker
	var g *guard.Guard
	app := fxtest.New(t, inMemory(), fx.Populate(&g),
		fx.Decorate(func(l *lock.Locker) *lock.Locker {
			seen = l
			return l
		}))
	app.RequireStart().RequireStop()
	if seen == nil || g.Locker() != seen {
		t.Error("the guard does not have the locker that passed through the decorator")
	}
}

func TestRulesOfTheProgramCanBeDecorated(t *testing.T) {
	patient := func(rules []rule.Rule) []rule.Rule {
		all := make([]rule.Rule, len(rules))
		for i, r := range rules {
			r.Wait = time.Minute
			all[i] = r
		}
		return all
	}
	var g *guard.Guard
	app := fxtest.New(t, inMemory(), fxmodule.AsRule(orders), fx.Populate(&g),
		fx.Decorate(fx.Annotate(patient, fx.ParamTags(`group:"lock_rules"`), fx.ResultTags(`group:"lock_rules"`))))
	app.RequireStart().RequireStop()
	if r := g.Rules()[0]; r.Operation != orders.Operation || r.Wait != time.Minute {
		t.Errorf("the rule is %v", r)
	}
}

// syncBuffer is a log that is read while it is written.
type syncBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *syncBuffer) logger() *slog.Logger { return slog.New(slog.NewTextHandler(b, nil)) }

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
