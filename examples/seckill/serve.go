package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/redlatch/redlatch/examples/seckill/internal/app"
	"github.com/redlatch/redlatch/fxmodule"
)

type serve struct {
	HTTP       string        `name:"http" env:"SECKILL_HTTP" default:"127.0.0.1:8080" placeholder:"ADDR" help:"Address to listen on. Default ${default}."`
	GRPC       string        `name:"grpc" env:"SECKILL_GRPC" placeholder:"ADDR" help:"Address to listen on for gRPC as well. Default: HTTP only."`
	Console    string        `name:"console" env:"SECKILL_CONSOLE" placeholder:"ADDR" help:"Private address of the operators' page of the locks, such as 127.0.0.1:8421. Default: there is none."`
	Redis      string        `name:"redis" env:"SECKILL_REDIS" placeholder:"URL" help:"Redis for the locks: redis://host:6379/0, redis+sentinel://host:26379,…/master/0, redis+cluster://host:6379,…; rediss for TLS. Default: the memory of this process."`
	Locks      string        `env:"SECKILL_LOCKS" enum:"memory,redis,database" default:"memory" placeholder:"PLACE" help:"Where locks are kept: in the memory of this process, in the Redis of --redis, which needs no other flag, or in the database of --db. Default ${default}."`
	DB         string        `name:"db" env:"SECKILL_DB" placeholder:"URL" help:"Database for the orders: sqlite:PATH, mysql://user:password@host:3306/database or postgres://user:password@host:5432/database. Default: a temporary SQLite file."`
	LockWait   time.Duration `env:"SECKILL_LOCK_WAIT" default:"0s" placeholder:"TIME" help:"How long a request waits for the lock of its user. Default ${default}: it tries once."`
	Rules      string        `env:"SECKILL_RULES" placeholder:"FILE" help:"File with the rules of the locks, see rules.yaml; followed while the service runs. Default: a lock for each user, with --lock-wait."`
	Watchdog   time.Duration `env:"SECKILL_WATCHDOG" default:"10s" placeholder:"TIME" help:"How long a lock outlives a process that died. Default ${default}."`
	SETNX      bool          `name:"setnx" env:"SECKILL_SETNX" help:"Keep locks in Redis in the format of redsync and bsm/redislock, exclusive locks only."`
	NoPublish  bool          `name:"without-script-publish" env:"SECKILL_WITHOUT_SCRIPT_PUBLISH" help:"For a Redis that refuses PUBLISH in scripts."`
	NoTime     bool          `name:"without-script-time" env:"SECKILL_WITHOUT_SCRIPT_TIME" help:"For a Redis that refuses TIME in scripts."`
	DrainDelay time.Duration `env:"SECKILL_DRAIN_DELAY" default:"500ms" placeholder:"TIME" help:"How long to go on serving after /readyz says no. Default ${default}."`
}

// Validate is called when the flags are read.
func (s *serve) Validate() error {
	if s.Rules != "" && s.LockWait != 0 {
		return errors.New("--lock-wait: the rules of --rules say how long to wait")
	}
	for _, flag := range []struct {
		name string
		set  bool
	}{{"setnx", s.SETNX}, {"without-script-publish", s.NoPublish}, {"without-script-time", s.NoTime}} {
		if flag.set && s.Redis == "" {
			return fmt.Errorf("--%s: needs --redis", flag.name)
		}
	}
	switch {
	case s.Locks == "redis" && s.Redis == "":
		return errors.New("--locks: redis needs --redis")
	case s.Locks == "database" && s.Redis != "":
		return errors.New("--redis: --locks=database keeps the locks in the database")
	case s.Locks == "database" && s.DB == "":
		return errors.New("--locks: database needs --db, which other instances know, too")
	}
	if s.HTTP == "" {
		return errors.New("--http: must not be empty, which would be every address of the machine; the default is 127.0.0.1:8080")
	}
	if s.Console != "" {
		if err := app.PrivateAddress(s.Console); err != nil {
			return fmt.Errorf("--console: %w", err)
		}
	}
	return sensible(
		option{"lock-wait", s.LockWait}, option{"watchdog", s.Watchdog}, option{"drain-delay", s.DrainDelay},
	)
}

// Run serves until ctx ends.
func (s *serve) Run(ctx context.Context, t terminal) error {
	a, err := app.Start(ctx, app.Config{
		HTTP: s.HTTP, GRPC: s.GRPC, Console: s.Console, DB: s.DB, Redis: s.Redis, LocksInDB: s.Locks == "database",
		LockWait: s.LockWait, Rules: s.Rules, Watchdog: s.Watchdog, DrainDelay: s.DrainDelay,
		Format: fxmodule.Redis{SETNX: s.SETNX, WithoutScriptPublish: s.NoPublish, WithoutScriptTime: s.NoTime},
		Log:    t.logger(slog.LevelInfo),
		Stage:  s.DB == "" && s.Redis == "",
	})
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return a.Stop(ctx)
	case err := <-a.Failed():
		_ = a.Stop(ctx) // the first error is the one to tell
		return err
	}
}
