package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/redlatch/redlatch/examples/seckill/internal/app"
	"github.com/redlatch/redlatch/examples/seckill/internal/fleet"
)

// instances is the command that runs three instances.
type instances struct {
	HTTP     string        `name:"http" env:"SECKILL_HTTP" default:"127.0.0.1:8080" placeholder:"ADDR" help:"Private address to listen on. Default ${default}."`
	Redis    string        `name:"redis" env:"SECKILL_REDIS" required:"" placeholder:"URL" help:"Redis for the locks, as of serve."`
	DB       string        `name:"db" env:"SECKILL_DB" placeholder:"URL" help:"Database for the orders, as of serve. Default: a temporary SQLite file that the instances share."`
	Watchdog time.Duration `env:"SECKILL_WATCHDOG" default:"10s" placeholder:"TIME" help:"How long a lock outlives a process that died. Default ${default}."`
}

// Validate is called when the flags are read.
func (i *instances) Validate() error {
	if err := app.PrivateAddress(i.HTTP); err != nil {
		return fmt.Errorf("--http: its page kills processes: %w", err)
	}
	return sensible(option{"watchdog", i.Watchdog})
}

// Run runs the instances until ctx ends.
func (i *instances) Run(ctx context.Context, t terminal) (err error) {
	log := t.logger(slog.LevelInfo)
	if i.DB == "" {
		folder, err := os.MkdirTemp("", "seckill-fleet-")
		if err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(folder) }()
		i.DB = "sqlite:" + filepath.Join(folder, "sale.db") + "?synchronous=normal"
	}
	path, err := os.Executable()
	if err != nil {
		return err
	}
	f, err := fleet.Start(ctx, path, []string{"SECKILL_REDIS=" + i.Redis, "SECKILL_DB=" + i.DB, "SECKILL_WATCHDOG=" + i.Watchdog.String()}, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", i.HTTP)
	if err != nil {
		return fmt.Errorf("--http: %w", err)
	}
	server := &http.Server{Handler: f.Handler(), ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	log.InfoContext(ctx, "serving", "url", "http://"+listener.Addr().String(), "instances", "http://"+listener.Addr().String()+"/fleet/")
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
		err := server.Close() // streams of pages have no end
		if ended := <-failed; !errors.Is(ended, http.ErrServerClosed) {
			err = errors.Join(err, ended)
		}
		return err
	}
}

// withInput ends the context with the input, if the environment says so: the parent process
// has ended then.
func withInput(ctx context.Context, input io.Reader) context.Context {
	if os.Getenv(fleet.InputEnv) == "" {
		return ctx
	}
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, input)
		cancel()
	}()
	return ctx
}
