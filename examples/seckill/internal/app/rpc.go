package app

import (
	"context"
	"log/slog"
	"net"

	"go.uber.org/fx"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/examples/seckill/internal/quiet"
	"github.com/redlatch/redlatch/examples/seckill/internal/rpc"
	"github.com/redlatch/redlatch/examples/seckill/internal/voucher"
	"github.com/redlatch/redlatch/examples/seckill/internal/web"
)

// rpcServer listens for gRPC between start and stop of the application; nil
// doesn't.
type rpcServer struct {
	*rpc.Server
	addr     string
	listener net.Listener
	log      *slog.Logger
	failed   chan<- error
	done     chan struct{}
}

// newRPCServer reports its failure where the HTTP server does.
func newRPCServer(lc fx.Lifecycle, c Config, sale voucher.Sale, g *guard.Guard, health *web.Health, m *web.Metrics, http *server) (*rpcServer, error) {
	if c.GRPC == "" {
		return nil, nil
	}
	inner, err := rpc.NewServer(sale, g, health, slog.New(quiet.NewHandler(c.Log.Handler())), m.Ordered)
	if err != nil {
		return nil, err
	}
	s := &rpcServer{Server: inner, addr: c.GRPC, log: c.Log, failed: http.failed, done: make(chan struct{})}
	lc.Append(fx.Hook{OnStart: s.start, OnStop: s.stop})
	return s, nil
}

func (s *rpcServer) start(ctx context.Context) error {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", s.addr)
	if err != nil {
		return err // says what and where
	}
	s.listener = listener
	go func() {
		defer close(s.done)
		if err := s.Serve(listener); err != nil { // nil once it was stopped
			s.failed <- err
		}
	}()
	s.log.Info("serving gRPC", "address", listener.Addr().String())
	return nil
}

func (s *rpcServer) stop(ctx context.Context) error {
	ctx, cancel := before(ctx, restForHTTP)
	defer cancel()
	err := s.Shutdown(ctx)
	<-s.done
	return err
}

func (s *rpcServer) address() string {
	if s == nil {
		return ""
	}
	return s.listener.Addr().String()
}
