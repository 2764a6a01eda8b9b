package fxmodule_test

import (
	"context"
	"fmt"
	"log/slog"

	"go.uber.org/fx"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/rule"
	"github.com/redlatch/redlatch/fxmodule"
)

// Provide a *redis.Client as well, and locks are shared with every process
// that uses the same Redis.
func Example() {
	app := fx.New(
		fxmodule.Module,
		fxmodule.AsRule(rule.Rule{Operation: "POST /orders", Key: "lock:order:<userId>"}),
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
