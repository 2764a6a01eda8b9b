package app

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"go.uber.org/fx"

	"github.com/redlatch/redlatch/examples/seckill/internal/quiet"
	"github.com/redlatch/redlatch/examples/seckill/internal/voucher"
	"github.com/redlatch/redlatch/examples/seckill/internal/web"
)

// server listens between start and stop of the application.
type server struct {
	http     *http.Server
	listener net.Listener
	log      *slog.Logger
	failed   chan error // has room for each server's
	done     chan struct{}
}

// newHandler has requests log through a quiet handler: in an outage each says the same.
func newHandler(c Config, sale voucher.Sale, lock web.OrderLock, health *web.Health, m *web.Metrics, shown *web.Stage) http.Handler {
	return web.NewHandler(sale, lock, health, m, slog.New(quiet.NewHandler(c.Log.Handler())), shown)
}

func newServer(lc fx.Lifecycle, c Config, handler http.Handler) *server {
	s := &server{
		http: &http.Server{
			Addr: c.HTTP, Handler: handler,
			ReadHeaderTimeout: 5 * time.Second,
			ReadTimeout:       5 * time.Second, // headers and body; a drain waits for them
			// Longer than a call may take. It doesn't count while a request waits for a lock.
			WriteTimeout:   time.Minute,
			IdleTimeout:    2 * time.Minute,
			MaxHeaderBytes: 16 << 10,
			ErrorLog:       slog.NewLogLogger(c.Log.Handler(), slog.LevelDebug),
		},
		log:    c.Log,
		failed: make(chan error, 2),
		done:   make(chan struct{}),
	}
	lc.Append(fx.Hook{OnStart: s.start, OnStop: s.stop})
	return s
}

func (s *server) start(ctx context.Context) error {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", s.http.Addr)
	if err != nil {
		return err // says what and where: "listen tcp 127.0.0.1:8080: …"
	}
	s.listener = listener
	go func() {
		defer close(s.done)
		if err := s.http.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			s.failed <- err
		}
	}()
	s.log.Info("serving", "url", "http://"+listener.Addr().String())
	return nil
}

// What stops last has the rest of the time: fx skips the hooks that have none left.
const (
	restForLocks = 5 * time.Second
	restForHTTP  = restForLocks + 5*time.Second
)

// before returns a context that ends that long before ctx, but at least half of the
// remaining time from now.
func before(ctx context.Context, rest time.Duration) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, deadline.Add(-min(rest, time.Until(deadline)/2)))
}

func (s *server) stop(ctx context.Context) error {
	ctx, cancel := before(ctx, restForLocks)
	defer cancel()
	err := s.http.Shutdown(ctx)
	if err != nil {
		// Requests that are still under way lose their connection: their
		// contexts end, and their locks are released.
		err = errors.Join(err, s.http.Close())
	}
	<-s.done
	return err
}
