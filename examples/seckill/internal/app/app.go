// Package app puts the service together, starts it and stops it.
package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/dig"
	"go.uber.org/fx"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/rule"
	"github.com/redlatch/redlatch/core/sqlstore"
	"github.com/redlatch/redlatch/examples/seckill/internal/redisurl"
	"github.com/redlatch/redlatch/examples/seckill/internal/store"
	"github.com/redlatch/redlatch/examples/seckill/internal/voucher"
	"github.com/redlatch/redlatch/examples/seckill/internal/web"
	"github.com/redlatch/redlatch/fxmodule"
)

const (
	startTimeout = 90 * time.Second // another instance may be migrating
	stopTimeout  = 30 * time.Second // to the drain and to requests that wait for their lock
	pingTimeout  = 5 * time.Second
	// workTimeout is how long a request may take after it waited for its lock.
	workTimeout = 10 * time.Second
	// DefaultWatchdog is how long a user of an instance that died is locked out: as long as
	// the work may take that the lock is for.
	DefaultWatchdog = workTimeout
)

// Config is what can be set.
type Config struct {
	// HTTP is the address to listen on; port 0 takes a free one.
	HTTP string
	// GRPC is the address to serve gRPC on; port 0 takes a free one. Empty:
	// HTTP only.
	GRPC string
	// Console is the private address of the operators' page. Empty: there is none.
	Console string
	// DB is an address of [store.ParseAddress]. Empty: a SQLite file in a
	// new folder, which is removed at the end.
	DB string
	// Redis is a URL of [redisurl.Parse]. Empty: locks are kept in memory.
	Redis string
	// LocksInDB keeps the locks in DB. Redis must be empty then.
	LocksInDB bool
	// Format is how locks are kept in Redis. Without Redis it must be zero.
	Format fxmodule.Redis
	// LockWait is how long a request waits for the lock of its user.
	LockWait time.Duration
	// Rules is a file with the rules of the locks, which is followed. Empty:
	// those of the program, with LockWait.
	Rules string
	// Watchdog is how long a lock outlives a process that died. Zero: [DefaultWatchdog].
	Watchdog time.Duration
	// DrainDelay is how long the service goes on after it said that it is no
	// longer ready, so that balancers notice.
	DrainDelay time.Duration
	Log        *slog.Logger
	// Stage puts the three lanes of package stage on the page, and a voucher on sale. It is
	// for services that keep everything themselves: with DB or Redis it is an error.
	Stage bool
	// wrap, if not nil, wraps the database.
	wrap func(*store.Store) voucher.Store
}

// App is a service that serves.
type App struct {
	fx *fx.App
	// stopTimeout is how long everything may take to stop.
	stopTimeout time.Duration

	server    *server
	rpc       *rpcServer
	resources []resource
}

// resource is something that is closed after everything that uses it.
type resource struct {
	name  string
	close func() error
}

// Start opens the database and Redis, starts to serve, and returns. An error
// says what couldn't be had, where and why, without passwords; nothing is
// left behind then.
func Start(ctx context.Context, c Config) (*App, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	c.Watchdog = cmp.Or(c.Watchdog, DefaultWatchdog)
	a := &App{stopTimeout: c.DrainDelay + c.LockWait + stopTimeout}
	if err := a.start(ctx, c); err != nil {
		return nil, errors.Join(err, a.closeResources())
	}
	return a, nil
}

func (a *App) start(ctx context.Context, c Config) error {
	// What the application owns is opened before it is wired together: the
	// errors are those of people who mistyped an address.
	db, err := a.openDB(ctx, c)
	if err != nil {
		return err
	}
	shown, err := a.openStage(ctx, c)
	if err != nil {
		return err
	}
	var sale voucher.Sale
	options := []fx.Option{
		fx.NopLogger,
		fx.Supply(c, c.Log, fx.Annotate(db, fx.As(new(voucher.Store)))),
		fxmodule.Module,
		// A watchdog of a second or two has no room for calls of two seconds.
		fxmodule.WithConfig(fxmodule.Config{Service: "seckill", Watchdog: c.Watchdog, CallTimeout: min(lock.DefaultCallTimeout, c.Watchdog/3), Redis: c.Format}),
		lockRules(c),
		consoleOf(c),
		fx.Provide(newSale, newOrderLock, newHealth(db), newStage(shown), web.NewMetrics, newMeters, newHandler, newServer, newRPCServer, newDrain),
		fx.Decorate(voucher.NewSaleLock),
		fx.Populate(&a.server, &a.rpc, &sale),
		fx.Invoke(func(drain) {}),
	}
	locks, err := a.openLocks(ctx, c, db)
	if err != nil {
		return err
	}
	a.fx = fx.New(append(options, locks)...)
	if err := a.fx.Err(); err != nil {
		return dig.RootCause(err)
	}
	if err := a.fx.Start(ctx); err != nil {
		return err
	}
	if shown != nil {
		return openSale(ctx, sale)
	}
	return nil
}

// database is the store, with what any database can do.
type database struct {
	voucher.Store
	ping  func(context.Context) error
	where store.Address
}

func (a *App) openDB(ctx context.Context, c Config) (*database, error) {
	text := c.DB
	if text == "" {
		folder, err := os.MkdirTemp("", "seckill-")
		if err != nil {
			return nil, fmt.Errorf("folder for the database: %w", err)
		}
		a.own("temporary folder", func() error { return os.RemoveAll(folder) })
		// What doesn't outlive the process need not outlive a power cut.
		text = "sqlite:" + filepath.Join(folder, "seckill.db") + "?synchronous=normal"
	}
	address, err := store.ParseAddress(text)
	if err != nil {
		return nil, fmt.Errorf("--db: %w", err)
	}
	s, err := store.Open(ctx, address)
	if err != nil {
		return nil, fmt.Errorf("--db: %w", err)
	}
	a.own("database", s.Close)
	c.Log.Info("database is open", "where", address.String())
	db := &database{Store: s, ping: s.Ping, where: address}
	if c.wrap != nil {
		db.Store = c.wrap(s)
	}
	return db, nil
}

// openLocks chooses where locks are kept.
func (a *App) openLocks(ctx context.Context, c Config, db *database) (fx.Option, error) {
	if c.LocksInDB {
		pool, dialect, err := store.OpenLocks(db.where)
		if err != nil {
			return nil, fmt.Errorf("--locks: %w", err)
		}
		a.own("pool for locks", pool.Close)
		tables, err := sqlstore.New(pool, dialect, sqlstore.WithLogger(c.Log))
		if err == nil {
			err = tables.Migrate(ctx)
		}
		if err != nil {
			return nil, fmt.Errorf("--locks: %s: %w", db.where, err)
		}
		c.Log.Info("locks are kept in the database", "where", db.where.String())
		return fx.Options(fx.Supply(pool), fxmodule.InDatabase(dialect, sqlstore.WithLogger(c.Log))), nil
	}
	rdb, err := a.openRedis(ctx, c)
	if err != nil {
		return nil, err
	}
	if rdb != nil {
		return fx.Supply(fx.Annotate(rdb, fx.As(new(redis.UniversalClient)))), nil
	}
	return fxmodule.InMemory(), nil
}

// openRedis returns nil if there shall be none.
func (a *App) openRedis(ctx context.Context, c Config) (redis.UniversalClient, error) {
	if c.Redis == "" {
		return nil, nil
	}
	target, err := redisurl.Parse(c.Redis)
	if err != nil {
		return nil, fmt.Errorf("--redis: %w", err)
	}
	rdb := target.Open()
	a.own("Redis client", rdb.Close)
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	if err := rdb.Ping(ctx).Err(); err != nil {
		return nil, fmt.Errorf("--redis: %s: %w", target, err)
	}
	c.Log.Info("locks are kept in Redis", "where", target.String())
	return rdb, nil
}

func newSale(s voucher.Store) voucher.Sale { return voucher.NewService(s, workTimeout) }

func newOrderLock(c Config, g *guard.Guard) (web.OrderLock, error) {
	if err := needOrderRule(c.Rules, g.Rules()); err != nil {
		return web.OrderLock{}, err
	}
	// Called at start, and for each new version of the file.
	g.Attach("the sale", nil, func(rules *rule.Set) ([]string, error) { return nil, checkRules(c.Rules, rules.All()) })
	return web.Locked(g), nil
}

func newHealth(db *database) func(*lock.Locker) *web.Health {
	return func(locker *lock.Locker) *web.Health {
		return web.NewHealth(
			web.Probe{Name: "database", Check: db.ping},
			web.Probe{Name: "lock store", Check: func(ctx context.Context) error {
				_, err := locker.Inspect(ctx, "lock:readyz")
				return err
			}},
		)
	}
}

// URL is where the service answers.
func (a *App) URL() string { return "http://" + a.server.listener.Addr().String() }

// GRPC is the address where the service answers over gRPC, empty if it does
// not.
func (a *App) GRPC() string { return a.rpc.address() }

// Failed is sent the error that ends the service early, if one does.
func (a *App) Failed() <-chan error { return a.server.failed }

// Stop says that the service isn't ready, stops accepting, waits for the
// requests under way, gives all locks back and closes everything. It takes its
// time also when ctx has ended: the drain delay, the wait for a lock and 30 s. Requests
// that take longer are cut off before, so that everything behind them still stops.
func (a *App) Stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.stopTimeout)
	defer cancel()
	return errors.Join(a.fx.Stop(ctx), a.closeResources())
}

func (a *App) own(name string, closer func() error) {
	a.resources = append(a.resources, resource{name, closer})
}

// closeResources closes in reverse order.
func (a *App) closeResources() error {
	var errs []error
	for i := len(a.resources) - 1; i >= 0; i-- {
		if err := a.resources[i].close(); err != nil {
			errs = append(errs, fmt.Errorf("close %s: %w", a.resources[i].name, err))
		}
	}
	a.resources = nil
	return errors.Join(errs...)
}
