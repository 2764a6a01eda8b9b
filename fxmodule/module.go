package fxmodule

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
	"go.uber.org/fx"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/telemetry"
)

// Module provides *[lock.Locker], *guard.Guard, *[Health] and
// *[telemetry.Telemetry]. Each is built only if something depends on it, as rules do
// on the guard. An application that replaces or decorates the guard (fx.Replace,
// fx.Decorate) gives it all rules, or the start fails: [guard.Guard.WithHooks] and
// [guard.Guard.WithLogger] keep them.
var Module = fx.Module("lock",
	fx.Provide(provideLocker, provideGuard, NewTelemetry),
	fx.Provide(fx.Private, func() *isMade { return new(isMade) }),
	fx.Invoke(fx.Annotate(needsLocker, fx.ParamTags(optional))))

// Params are the parameters of [New].
type Params struct {
	fx.In

	Lifecycle fx.Lifecycle
	Config    Config       `optional:"true"` // a field that is zero has its default
	Logger    *slog.Logger `optional:"true"` // default slog.Default

	// Telemetry observes the locker; nil doesn't.
	Telemetry *telemetry.Telemetry `optional:"true"`

	// Store keeps the locks, if the application provides one. Otherwise a Redis
	// client does: one of the three. A client with a name or in a group of fx
	// isn't seen. Neither is an error: see [InMemory].
	Store     lock.Store            `optional:"true"`
	Universal redis.UniversalClient `optional:"true"`
	Single    *redis.Client         `optional:"true"`
	Cluster   *redis.ClusterClient  `optional:"true"`

	// Options are settings of the locker. Their order is random; they come
	// after those of Config.
	Options []lock.Option `group:"lock_options"`
}

// Result is what [New] provides.
type Result struct {
	fx.Out

	Locker *lock.Locker
	Health *Health
}

// New makes a locker. It does no I/O itself: it appends hooks to the lifecycle.
//
// The start calls the store's method Check, if it has one, as the store on Redis
// does ([redisstore.Store.Check]), with the modes of the guard's rules. Then it
// logs one line at level INFO: the store and its address, the locker, and the
// number of rules. It fails if the Config has rules or a RulesFile and no guard was made
// with the [Health] that New returned. A start that fails closes the locker.
//
// The stop first refuses new locks and waits for the holders of locks
// ([lock.Locker.Drain]), until the [Config]'s ReleaseTimeout before its deadline;
// without a deadline it waits for all of them. Then it closes the locker: it
// releases what is still held, and the contexts of these leases end with
// [lock.ErrClosed], which is logged as a warning.
//
// It returns an error for an invalid Config, without a Lifecycle, without a store or a
// Redis client, for more than one client, and for a wrong option.
func New(p Params) (Result, error) {
	if p.Lifecycle == nil {
		return Result{}, errNoLifecycle
	}
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
	options = append(options, p.Options...)
	if err := lock.CheckOptions(options...); err != nil {
		return Result{}, fmt.Errorf("fxmodule: an option of AsOption: %w", err)
	}
	locker := lock.New(store, options...)
	health := &Health{locker: locker, store: store, timeout: config.CheckTimeout}
	p.Lifecycle.Append(fx.Hook{
		OnStart: func(ctx context.Context) error {
			if err := start(ctx, config, health); err != nil {
				_ = locker.Close(context.WithoutCancel(ctx)) // fx stops what has started only
				return err
			}
			p.Logger.LogAttrs(ctx, slog.LevelInfo, "locks are ready", describe("store", store), describe("locker", locker), slog.Int("rules", len(health.rules())))
			return nil
		},
		OnStop: func(ctx context.Context) error {
			return stop(ctx, locker, config.ReleaseTimeout, p.Logger)
		},
	})
	return Result{Locker: locker, Health: health}, nil
}

// isMade says that the module has made its locker, whose start sees to the rest.
type isMade struct{ atomic.Bool }

func provideLocker(p Params, made *isMade) (Result, error) {
	made.Store(true)
	return New(p)
}

// needsLocker ends the start of an application whose Config has rules if nothing uses its
// locker, and so nothing its guard.
func needsLocker(c Config, made *isMade, lifecycle fx.Lifecycle) {
	if !c.hasRules() {
		return
	}
	lifecycle.Append(fx.StartHook(func() error {
		if !made.Load() {
			return errNoGuard
		}
		return nil
	}))
}

// start checks what must be there before the first lock.
func start(ctx context.Context, config Config, health *Health) error {
	select {
	case <-health.locker.Draining():
		return errStarted
	default:
	}
	if config.hasRules() && health.guard.Load() == nil {
		return errNoGuard
	}
	if err := health.checkModes(ctx, health.modes()...); err != nil {
		return fmt.Errorf("fxmodule: the lock store is not ready: %w", err)
	}
	return nil
}

// errNoLifecycle is for a locker that nothing would close. fx always has a lifecycle.
var errNoLifecycle = errors.New("fxmodule: Lifecycle is missing, which closes the locker: without fx, use lock.New")

// errStarted is for an application that starts a second time.
var errStarted = fmt.Errorf("fxmodule: the application was stopped, and can't be started again: make a new fx.App (%w)", lock.ErrClosed)

// errNoGuard is for rules that nobody reads. Where the application has provided the Config
// itself, nothing makes a guard unless something uses it.
var errNoGuard = errors.New("fxmodule: config: nothing uses the guard, so the rules lock nothing: " +
	"put its locks in front of their operations, or leave them out; an application that replaces the guard supplies its Config by WithConfig; " +
	"a guard made by NewGuard needs the Health that New returned")

// describe is what v says of itself, or its type.
func describe(name string, v any) slog.Attr {
	if described, ok := v.(slog.LogValuer); ok {
		return slog.Any(name, described)
	}
	return slog.String(name, fmt.Sprintf("%T", v))
}
