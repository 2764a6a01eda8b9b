package fxmodule

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/redis/go-redis/v9"
	"go.uber.org/fx"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
	"github.com/redlatch/redlatch/core/rule"
	"github.com/redlatch/redlatch/core/telemetry"
)

// Named is another locker of an application, besides that of [Module], with all that the
// first has: a guard, health, checks at the start, the stop, the telemetry of Module. Its
// methods are what the funcs of this package are for the first.
//
//	const archive = fxmodule.Named("archive")
//
//	fx.New(
//		fxmodule.Module, archive.Module(),
//		fx.Provide(newRedis, fx.Annotate(newArchiveRedis, fx.ResultTags(`name:"archive"`))),
//		archive.AsRule(rule.Rule{Operation: "archive", Key: "lock:archive:<id>"}),
//		fx.Invoke(fx.Annotate(run, fx.ParamTags("", `name:"archive"`))), // run(*lock.Locker, *lock.Locker)
//	)
//
// What it provides and what it is made of has the name in fx: the *[lock.Locker], the
// *[guard.Guard] and the *[Health], the Redis client or the [lock.Store], and the [Config].
// The logger and the telemetry are those of the application.
type Named string

// first is the locker without a name.
const first = Named("")

// Module is [Module] for the locker of this name.
func (n Named) Module() fx.Option {
	if n == first {
		return Module
	}
	if n.bad() {
		return fx.Error(fmt.Errorf("fxmodule: Named(%q): a name has letters, digits, - and _ only", string(n)))
	}
	name, maybe := n.tag(), n.maybe()
	return fx.Module("lock "+string(n), fx.Provide(
		fx.Annotate(n.locker, fx.ParamTags("", maybe, optional, optional, maybe, maybe, maybe, maybe, n.group("lock_options"), name), fx.ResultTags(name, name)),
		fx.Annotate(n.guard, fx.ParamTags("", name, n.group("lock_rules"), n.group("lock_rules_files"), maybe, name, optional, optional), fx.ResultTags(name, name)),
	), fx.Provide(fx.Private, fx.Annotate(func() *isMade { return new(isMade) }, fx.ResultTags(name))),
		fx.Invoke(fx.Annotate(needsLocker, fx.ParamTags(maybe, name))))
}

// locker is New with parameters that Module gives their names.
func (n Named) locker(
	lifecycle fx.Lifecycle, config Config, log *slog.Logger, t *telemetry.Telemetry, store lock.Store,
	universal redis.UniversalClient, single *redis.Client, cluster *redis.ClusterClient, options []lock.Option, began *isMade,
) (*lock.Locker, *Health, error) {
	made, err := provideLocker(Params{
		Lifecycle: named{lifecycle, n}, Config: config, Logger: n.logger(log), Telemetry: t, Store: store,
		Universal: universal, Single: single, Cluster: cluster, Options: options,
	}, began)
	if errors.Is(err, errNoStore) {
		err = fmt.Errorf("no lock store has this name: give it to a Redis client or a lock.Store, by fx.Annotate(newClient, fx.ResultTags(`%s`)), "+
			"or use the method InMemory of the name", n.tag())
	}
	return made.Locker, made.Health, n.wrap(err)
}

// guard is NewGuard with parameters that Module gives their names.
func (n Named) guard(
	lifecycle fx.Lifecycle, locker *lock.Locker, rules []rule.Rule, files []RulesFile, config Config, health *Health,
	log *slog.Logger, t *telemetry.Telemetry,
) (*guard.Guard, *sources, error) {
	made, err := provideGuard(GuardParams{
		Lifecycle: named{lifecycle, n}, Locker: locker, Rules: rules, Files: files, Config: config, Health: health,
		Logger: n.logger(log), Telemetry: t,
	})
	return made.Guard, made.Sources, n.wrap(err)
}

// logger adds the name to each line.
func (n Named) logger(log *slog.Logger) *slog.Logger {
	if log == nil {
		log = slog.Default()
	}
	return log.With(slog.String("name", string(n)))
}

// wrap says which locker an error is of.
func (n Named) wrap(err error) error {
	if err == nil {
		return nil
	}
	return ofNamed{n, err}
}

// ofNamed is an error of a locker with a name.
type ofNamed struct {
	name Named
	error
}

func (e ofNamed) Error() string {
	return fmt.Sprintf("fxmodule: Named(%q): %s", string(e.name), strings.TrimPrefix(e.error.Error(), "fxmodule: "))
}

func (e ofNamed) Unwrap() error { return e.error }

// named is a lifecycle in which a start that fails says which locker it is of.
type named struct {
	fx.Lifecycle
	name Named
}

func (l named) Append(h fx.Hook) {
	if start := h.OnStart; start != nil {
		h.OnStart = func(ctx context.Context) error { return l.name.wrap(start(ctx)) }
	}
	l.Lifecycle.Append(h)
}

// AsOption is [AsOption] for the locker of this name.
func (n Named) AsOption(o lock.Option) fx.Option {
	return fx.Supply(fx.Annotate(o, fx.ResultTags(n.group("lock_options"))))
}

// AsRule is [AsRule] for the guard of this name.
func (n Named) AsRule(r rule.Rule) fx.Option {
	return fx.Options(fx.Supply(fx.Annotate(r, fx.ResultTags(n.group("lock_rules")))), n.needGuard())
}

// AsRules is [AsRules] for the guard of this name.
func (n Named) AsRules(rules ...rule.Rule) fx.Option {
	return fx.Options(fx.Supply(fx.Annotate(rules, fx.ResultTags(n.group("lock_rules,flatten")))), n.needGuard())
}

// WithRulesFile is [WithRulesFile] for the guard of this name.
func (n Named) WithRulesFile(path string) fx.Option { return n.file(RulesFile{Path: path}) }

// FollowRulesFile is [FollowRulesFile] for the guard of this name.
func (n Named) FollowRulesFile(path string) fx.Option {
	return n.file(RulesFile{Path: path, Follow: true})
}

func (n Named) file(f RulesFile) fx.Option {
	return fx.Options(fx.Supply(fx.Annotate(f, fx.ResultTags(n.group("lock_rules_files")))), n.needGuard())
}

// WithConfig is [WithConfig] for the locker of this name.
func (n Named) WithConfig(c Config) fx.Option {
	supplied := fx.Supply(fx.Annotate(c, fx.ResultTags(n.tag())))
	if !c.hasRules() {
		return supplied
	}
	return fx.Options(supplied, n.needGuard())
}

// InMemory is [InMemory] for the locker of this name.
func (n Named) InMemory() fx.Option {
	return fx.Provide(fx.Annotate(func() lock.Store { return memstore.New() }, fx.ResultTags(n.tag())))
}

// needGuard has the guard made, which ends the start if nothing serves its rules. An
// application that has rules and never uses the guard would run without any lock, and so
// would one that has replaced the guard by one without the rules.
func (n Named) needGuard() fx.Option {
	return fx.Invoke(fx.Annotate(func(g *guard.Guard, s *sources) error {
		if g == nil {
			return n.wrap(errors.New("has rules, and no guard: give fx the option Module of the name as well"))
		}
		if s == nil {
			return nil // of an application that provides NewGuard itself
		}
		return s.use(g)
	}, fx.ParamTags(n.maybe(), n.maybe())))
}

const optional = `optional:"true"`

// tag is that of a value of this name.
func (n Named) tag() string {
	if n == first {
		return ""
	}
	return fmt.Sprintf("name:%q", string(n))
}

// maybe is the tag of a value that need not be there.
func (n Named) maybe() string { return strings.TrimSpace(n.tag() + " " + optional) }

// group is the tag of the values that belong to this name.
func (n Named) group(of string) string {
	if n == first {
		return fmt.Sprintf("group:%q", of)
	}
	return fmt.Sprintf("group:%q", string(n)+"_"+of)
}

// bad reports whether no tag can have the name.
func (n Named) bad() bool {
	return strings.ContainsFunc(string(n), func(r rune) bool {
		return !strings.ContainsRune("-_", r) && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	})
}
