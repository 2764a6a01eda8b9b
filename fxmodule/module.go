package fxmodule

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/fx"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/telemetry"
)

// Module provides *[lock.Locker], *guard.Guard, *[Health] and
// *[telemetry.Telemetry]. None is made before something asks for it.
var Module = fx.Module("lock", fx.Provide(New, NewGuard, NewTelemetry))

// Params are what a locker is made of.
type Params struct {
	fx.In

	Lifecycle fx.Lifecycle
	Config    Config       `optional:"true"` // a field that is zero has its default
	Logger    *slog.Logger `optional:"true"` // default slog.Default

	// Telemetry observes the locker; nil does not.
	Telemetry *telemetry.Telemetry `optional:"true"`

	// Store keeps the locks, if the application provides one. Otherwise a
	// Redis client does: at most one of the three. Otherwise memory does.
	Store     lock.Store            `optional:"true"`
	Universal redis.UniversalClient `optional:"true"`
	Single    *redis.Client         `optional:"true"`
	Cluster   *redis.ClusterClient  `optional:"true"`

	// Options are settings of the locker. Their order is random; they come
	// after those of Config.
	Options []lock.Option `group:"lock_options"`
}

// Result is what [New] makes.
type Result struct {
	fx.Out

	Locker *lock.Locker
	Health *Health
}

// New makes a locker. It does no input or output itself: the hooks it appends
// to the lifecycle ask the store whether it is there (if it has a method
// Check, as the one on Redis has), and end the locker's work.
//
// The stop first waits for those who hold locks, and lets nobody else begin
// ([lock.Locker.Drain]), for as long as its context allows without the
// [Config]'s ReleaseTimeout; a context without a deadline waits for all of them.
// Then it closes the locker: what is still held is released, and the contexts of
// these leases end with [lock.ErrClosed], which is logged as a warning.
//
// It returns an error for an invalid Config and for more than one Redis
// client, and panics on a wrong option, as [lock.New] does.
func New(p Params) (Result, error) {
	if err := p.Config.Validate(); err != nil {
		return Result{}, err
	}
	if p.Logger == nil {
		p.Logger = slog.Default()
	}
	store, err := p.store()
	if err != nil {
		return Result{}, err
	}
	config := p.Config.withDefaults()
	options := config.options()
	if p.Telemetry != nil {
		options = append(options, lock.WithHooks(p.Telemetry.Hooks()))
	}
	locker := lock.New(store, append(options, p.Options...)...)
	health := &Health{locker: locker, timeout: config.CheckTimeout}
	p.Lifecycle.Append(fx.Hook{
		OnStart: func(ctx context.Context) error { return check(ctx, store, config.CheckTimeout) },
		OnStop: func(ctx context.Context) error {
			health.stopping.Store(true)
			return stop(ctx, locker, config.ReleaseTimeout, p.Logger)
		},
	})
	return Result{Locker: locker, Health: health}, nil
}

// checker is a store that can tell whether it is there.
type checker interface {
	Check(ctx context.Context, modes ...lock.Mode) error
}

func check(ctx context.Context, store lock.Store, timeout time.Duration) error {
	c, ok := store.(checker)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := c.Check(ctx); err != nil {
		return fmt.Errorf("fxmodule: the lock store is not ready: %w", err)
	}
	return nil
}
