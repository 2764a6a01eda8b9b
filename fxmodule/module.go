package fxmodule

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/fx"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/rule"
)

// Module provides *[lock.Locker] and *[guard.Guard]. Neither is made before
// something asks for it.
var Module = fx.Module("lock", fx.Provide(New, NewGuard))

// Params are what a locker is made of.
type Params struct {
	fx.In

	Lifecycle fx.Lifecycle
	Config    Config       `optional:"true"` // a field that is zero has its default
	Logger    *slog.Logger `optional:"true"` // default slog.Default

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
}

// New makes a locker. It does no input or output itself: the hooks it appends
// to the lifecycle ask the store whether it is there (if it has a method
// Check, as the one on Redis has) and close the locker.
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
	locker := lock.New(store, append(config.options(), p.Options...)...)
	p.Lifecycle.Append(fx.Hook{
		OnStart: func(ctx context.Context) error { return check(ctx, store, config.CheckTimeout) },
		OnStop:  locker.Close,
	})
	return Result{Locker: locker}, nil
}

// checker is a store that can tell whether it is there.
type checker interface {
	Check(ctx context.Context) error
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

// GuardParams are what a guard is made of.
type GuardParams struct {
	fx.In

	Locker *lock.Locker
	Rules  []rule.Rule  `group:"lock_rules"`
	Logger *slog.Logger `optional:"true"` // default slog.Default
}

// NewGuard makes a guard. Its error lists everything that is wrong with the
// rules. It warns of rules that may render to the same key although their
// templates differ.
func NewGuard(p GuardParams) (*guard.Guard, error) {
	g, err := guard.New(p.Locker, p.Rules...)
	if err != nil {
		return nil, fmt.Errorf("fxmodule: lock rules: %w", err)
	}
	if p.Logger == nil {
		p.Logger = slog.Default()
	}
	for _, overlap := range g.Overlaps() {
		p.Logger.Warn("lock rules overlap", "overlap", overlap.String())
	}
	return g, nil
}
