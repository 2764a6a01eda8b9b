package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"time"

	"go.uber.org/fx"

	"github.com/redlatch/redlatch/core/console"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/fxmodule"
)

// consoleOf serves the operators' page of the locks on an address that the public can't
// reach, if there is one.
func consoleOf(c Config) fx.Option {
	if c.Console == "" {
		return fx.Options()
	}
	recorder := console.NewRecorder()
	return fx.Options(
		fxmodule.AsOption(lock.WithHooks(recorder.Hooks())),
		fx.Invoke(func(lc fx.Lifecycle, locker *lock.Locker) {
			s := &consoleServer{log: c.Log, address: c.Console, done: make(chan struct{})}
			s.page = console.New(locker, console.WithRecorder(recorder), console.WithAuthorizer(fromHere),
				console.WithRelease(func(ctx context.Context, r console.Release) error {
					c.Log.LogAttrs(ctx, slog.LevelWarn, "an operator takes a lock away",
						slog.String("key", r.Key), slog.String("operator", r.Operator), slog.String("reason", r.Reason), slog.Any("from", r.From))
					return nil
				}))
			s.http = &http.Server{Handler: s.page, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 15 * time.Second, IdleTimeout: time.Minute}
			lc.Append(fx.Hook{OnStart: s.start, OnStop: s.stop})
		}),
	)
}

// PrivateAddress returns an error for an address that others than the machine or its
// private network may reach. It has an IP address, or localhost.
func PrivateAddress(address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	if !private(host) {
		return fmt.Errorf("%q is not localhost, nor a loopback or private IP address", host)
	}
	return nil
}

func private(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && (ip.IsLoopback() || ip.IsPrivate())
}

// fromHere lets those in who come from the private network and ask for a private address:
// a page elsewhere whose name leads here doesn't.
func fromHere(r *http.Request) (operator string, ok bool) {
	from, _, err := net.SplitHostPort(r.RemoteAddr)
	to, _, failed := net.SplitHostPort(r.Host)
	return from, err == nil && failed == nil && private(from) && private(to)
}

type consoleServer struct {
	log     *slog.Logger
	address string
	page    *console.Console
	http    *http.Server
	done    chan struct{}
}

func (s *consoleServer) start(ctx context.Context) error {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", s.address)
	if err != nil {
		return fmt.Errorf("--console: %w", err)
	}
	go func() {
		defer close(s.done)
		if err := s.http.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			s.log.Error("the console stopped", "cause", err)
		}
	}()
	s.log.Info("operators see the locks", "url", "http://"+listener.Addr().String()+"/")
	return nil
}

func (s *consoleServer) stop(ctx context.Context) error {
	s.page.Close() // or its streams would be waited for
	err := s.http.Shutdown(ctx)
	<-s.done
	return err
}
