package fxmodule_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"go.uber.org/fx"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/key"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/rule"
	"github.com/redlatch/redlatch/fxmodule"
)

// Provide a *redis.Client instead of InMemory, and locks are shared with every
// process that uses the same Redis.
func Example() {
	app := fx.New(
		fxmodule.Module,
		fxmodule.InMemory(),
		fx.Supply(slog.New(slog.DiscardHandler)),
		fx.NopLogger,
		fx.Invoke(func(lifecycle fx.Lifecycle, locker *lock.Locker) {
			lifecycle.Append(fx.StartHook(func(ctx context.Context) error {
				return locker.Do(ctx, "lock:setup", func(context.Context) error {
					fmt.Println("set up by one process at a time")
					return nil
				})
			}))
		}),
	)
	ctx := context.Background()
	fmt.Println(app.Start(ctx))
	fmt.Println(app.Stop(ctx))
	// Output:
	// set up by one process at a time
	// <nil>
	// <nil>
}

// The settings are part of whatever configuration the application has; a field
// that isn't there has its default.
func ExampleWithConfig() {
	var settings struct {
		Locks fxmodule.Config `json:"locks"`
	}
	if err := json.Unmarshal([]byte(`{"locks": {"watchdog": "10s", "callTimeout": "500ms"}}`), &settings); err != nil {
		fmt.Println(err)
		return
	}
	var locker *lock.Locker
	app := fx.New(fxmodule.Module, fxmodule.InMemory(), fxmodule.WithConfig(settings.Locks), fx.Supply(slog.New(slog.DiscardHandler)), fx.NopLogger,
		fx.Populate(&locker))
	ctx := context.Background()
	if err := app.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}
	lease, _ := locker.Acquire(ctx, "lock:order:42")
	fmt.Println(time.Until(lease.Deadline()) < 10*time.Second)
	_ = lease.Release(ctx)
	fmt.Println(app.Stop(ctx))

	// What is wrong ends the start of the application with the same words.
	fmt.Println(fxmodule.Config{Watchdog: -time.Second}.Validate())
	// Output:
	// true
	// <nil>
	// fxmodule: config: watchdog: -1s is too short, use at least 10ms, or 0 for the default
}

// Services need not know of locks: a decorator takes them, and leaves the
// service's own type to everything that depends on it. Package annotations has a
// generator for such decorators.
func Example_decorator() {
	app := fx.New(
		fxmodule.Module,
		fxmodule.InMemory(),
		fxmodule.AsRule(rule.Rule{Operation: "orders.place", Key: "lock:order:<userId>"}),
		fx.Provide(func() place { return func(context.Context, string) error { return nil } }),
		fx.Decorate(locked),
		fx.Supply(slog.New(slog.DiscardHandler)),
		fx.NopLogger,
		fx.Invoke(func(l fx.Lifecycle, p place) {
			l.Append(fx.StartHook(func(ctx context.Context) error { return p(ctx, "42") }))
		}),
	)
	ctx := context.Background()
	fmt.Println(errors.Join(app.Start(ctx), app.Stop(ctx)))
	// Output:
	// runs under lock:order:42
	// <nil>
}

type place func(ctx context.Context, userID string) error

func locked(p place, g *guard.Guard) place {
	g.Declare("orders.place")
	return func(ctx context.Context, userID string) error {
		ctx, leave, err := g.Enter(ctx, guard.Call{
			Operation: "orders.place",
			Vars:      func(key.Var) (string, error) { return userID, nil },
		})
		if err != nil {
			return err
		}
		lease, _ := lock.FromContext(ctx)
		fmt.Println("runs under", lease.Key())
		return errors.Join(p(ctx, userID), leave())
	}
}

// A readiness probe checks whether locks can be acquired. It fails while the
// application stops, so that no more requests are sent.
func ExampleHealth_Check() {
	var health *fxmodule.Health
	app := fx.New(fxmodule.Module, fxmodule.InMemory(), fx.Supply(slog.New(slog.DiscardHandler)), fx.NopLogger, fx.Populate(&health))
	ctx := context.Background()
	_ = app.Start(ctx)
	fmt.Println(health.Check(ctx))
	_ = app.Stop(ctx)
	fmt.Println(health.Check(ctx))
	// Output:
	// <nil>
	// fxmodule: the application stops: locker is closed
}
