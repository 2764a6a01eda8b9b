// Package rpc is the service over gRPC: the same sale and the same locks as
// over HTTP.
package rpc

import (
	"context"
	"log/slog"
	"time"

	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/rule"
	"github.com/redlatch/redlatch/examples/seckill/internal/seckillpb"
	"github.com/redlatch/redlatch/examples/seckill/internal/voucher"
	"github.com/redlatch/redlatch/grpclock"
)

// What a client may take, as over HTTP.
const (
	maxMessage  = 64 << 10        // bytes of a request
	maxMetadata = 16 << 10        // bytes of its metadata
	maxStreams  = 250             // calls at once over one connection
	greeting    = 5 * time.Second // until a connection is one of HTTP/2
	idle        = 2 * time.Minute // without a call, until a connection is closed
)

// OrderRule is the lock in front of an order, the same as over HTTP.
func OrderRule(wait time.Duration) rule.Rule {
	return rule.Rule{
		Operation: seckillpb.SeckillService_PlaceOrder_FullMethodName,
		Key:       "lock:order:<userId>", // the field user_id, by its name in JSON
		Wait:      wait,
	}
}

// Server is the service over gRPC, with reflection and health.
type Server struct{ *grpc.Server }

// NewServer returns a server of the sale, whose health is that of ready. The locks of
// its methods are those of their options in the .proto, unless g has a rule for them.
// ordered is called with what became of each request to order, "placed" or the code of
// its refusal, and how long it took. Validate g before the first call: it reports a rule
// that does not fit a method.
func NewServer(sale voucher.Sale, g *guard.Guard, ready Readiness, log *slog.Logger, ordered func(outcome string, took time.Duration)) (*Server, error) {
	locks, err := grpclock.New(g)
	if err != nil {
		return nil, err
	}
	w := watch{log, ordered}
	s := &Server{grpc.NewServer(
		grpc.MaxRecvMsgSize(maxMessage), grpc.MaxHeaderListSize(maxMetadata),
		grpc.MaxConcurrentStreams(maxStreams), grpc.ConnectionTimeout(greeting),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: idle}),
		grpc.ChainUnaryInterceptor(w.observe, authenticate, locks.UnaryServerInterceptor(), w.recover, answer),
		grpc.ChainStreamInterceptor(locks.StreamServerInterceptor()), // a stream of the .proto must not be open
	)}
	seckillpb.RegisterSeckillServiceServer(s, &service{sale: sale})
	healthpb.RegisterHealthServer(s, &health{readiness: ready, log: log, watches: make(chan struct{}, maxWatches)})
	reflection.Register(s)
	locks.Attach(s)
	return s, nil
}

// Shutdown stops accepting and waits for the calls under way. When ctx ends
// they lose their connections, their contexts end, and their locks are
// released.
func (s *Server) Shutdown(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.GracefulStop()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		s.Stop()
		<-done
		return context.Cause(ctx)
	}
}
