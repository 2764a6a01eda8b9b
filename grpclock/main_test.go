package grpclock_test

import (
	"context"
	"errors"
	"net"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/guard/guardtest"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/grpclock"
	"github.com/redlatch/redlatch/grpclock/internal/testpb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	place  = "/redlatch.test.v1.OrderService/Place"
	plain  = "/redlatch.test.v1.OrderService/Plain"
	refill = "/redlatch.test.v1.OrderService/Refill"
	watch  = "/redlatch.test.v1.OrderService/Watch"
	upload = "/redlatch.test.v1.OrderService/Upload"
	chat   = "/redlatch.test.v1.OrderService/Chat"

	transfer = "/redlatch.test.v1.OrderService/Transfer"
)

// awaitFree waits until nobody holds the key.
func awaitFree(t testing.TB, g *guard.Guard, key string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), guardtest.Timeout)
	defer cancel()
	lease, err := g.Locker().Acquire(ctx, key, lock.WithWait(guardtest.Timeout))
	if err != nil {
		t.Errorf("%s is not freed: %v", key, err)
		return
	}
	_ = lease.Release(ctx)
}

// force takes a key away, as another process would.
func force(t testing.TB, store lock.Store, key string) {
	t.Helper()
	freed, err := guardtest.Locker(t, store).ForceRelease(context.Background(), key)
	if err != nil || !freed {
		t.Errorf("force release: %v, %v", freed, err)
	}
}

// keyOf is the key that a handler runs under, empty without a lock.
func keyOf(ctx context.Context) string {
	lease, ok := lock.FromContext(ctx)
	if !ok {
		return ""
	}
	return lease.Key()
}

// orders answers with the key that a call runs under, or as its funcs say.
type orders struct {
	testpb.UnimplementedOrderServiceServer
	testpb.UnimplementedFaultyServiceServer
	place  func(context.Context, *testpb.PlaceRequest) (*testpb.PlaceResponse, error)
	plain  func(context.Context) error
	refill func(context.Context, *testpb.RefillRequest) (*testpb.RefillResponse, error)

	transfer func(context.Context, *testpb.TransferRequest) (*testpb.TransferResponse, error)

	watch  func(*testpb.WatchRequest, grpc.ServerStreamingServer[testpb.WatchResponse]) error
	upload func(grpc.ClientStreamingServer[testpb.UploadRequest, testpb.UploadResponse]) error
	chat   func(grpc.BidiStreamingServer[testpb.ChatRequest, testpb.ChatResponse]) error
}

func (o *orders) Place(ctx context.Context, req *testpb.PlaceRequest) (*testpb.PlaceResponse, error) {
	if o.place != nil {
		return o.place(ctx, req)
	}
	return &testpb.PlaceResponse{Key: keyOf(ctx)}, nil
}

func (o *orders) Transfer(ctx context.Context, req *testpb.TransferRequest) (*testpb.TransferResponse, error) {
	if o.transfer != nil {
		return o.transfer(ctx, req)
	}
	return &testpb.TransferResponse{}, nil
}

func (o *orders) Plain(ctx context.Context, _ *testpb.PlainRequest) (*testpb.PlainResponse, error) {
	if o.plain != nil {
		if err := o.plain(ctx); err != nil {
			return nil, err
		}
	}
	return &testpb.PlainResponse{Key: keyOf(ctx)}, nil
}

func (o *orders) Refill(ctx context.Context, req *testpb.RefillRequest) (*testpb.RefillResponse, error) {
	if o.refill != nil {
		return o.refill(ctx, req)
	}
	return &testpb.RefillResponse{Key: keyOf(ctx)}, nil
}

func (o *orders) Watch(req *testpb.WatchRequest, s grpc.ServerStreamingServer[testpb.WatchResponse]) error {
	if o.watch != nil {
		return o.watch(req, s)
	}
	return s.Send(&testpb.WatchResponse{Key: keyOf(s.Context())})
}

func (o *orders) Upload(s grpc.ClientStreamingServer[testpb.UploadRequest, testpb.UploadResponse]) error {
	if o.upload != nil {
		return o.upload(s)
	}
	for {
		if _, err := s.Recv(); err != nil {
			return s.SendAndClose(&testpb.UploadResponse{Key: keyOf(s.Context())})
		}
	}
}

func (o *orders) Chat(s grpc.BidiStreamingServer[testpb.ChatRequest, testpb.ChatResponse]) error {
	if o.chat != nil {
		return o.chat(s)
	}
	for {
		if _, err := s.Recv(); err != nil {
			return nil
		}
		if err := s.Send(&testpb.ChatResponse{Key: keyOf(s.Context())}); err != nil {
			return err
		}
	}
}

// registered returns a server that was never started.
func registered(services ...func(*grpc.Server)) *grpc.Server {
	s := grpc.NewServer()
	for _, register := range services {
		register(s)
	}
	return s
}

func ordersService(s *grpc.Server) { testpb.RegisterOrderServiceServer(s, &orders{}) }
func faultyService(s *grpc.Server) { testpb.RegisterFaultyServiceServer(s, &orders{}) }

// locksOf returns the interceptors of a server.
func locksOf(t testing.TB, g *guard.Guard, server grpclock.Registry, opts ...grpclock.Option) (grpc.UnaryServerInterceptor, grpc.StreamServerInterceptor) {
	t.Helper()
	locks, err := grpclock.New(g, opts...)
	if err != nil {
		t.Fatal(err)
	}
	locks.Attach(grpclock.Unseen(server)) // which has none, as the tests call them
	return locks.UnaryServerInterceptor(), locks.StreamServerInterceptor()
}

// guarded are the options of a server of the orders with interceptors.
func guarded(t testing.TB, g *guard.Guard, opts ...grpclock.Option) []grpc.ServerOption {
	t.Helper()
	unary, stream := locksOf(t, g, registered(ordersService), opts...)
	return []grpc.ServerOption{grpc.ChainUnaryInterceptor(unary), grpc.ChainStreamInterceptor(stream)}
}

// validate is what a guard says of a server and its interceptors.
func validate(t testing.TB, g *guard.Guard, server grpclock.Registry, opts ...grpclock.Option) error {
	t.Helper()
	locksOf(t, g, server, opts...)
	return g.Validate()
}

// connect serves o until the test ends, and returns a connection.
func connect(t testing.TB, o *orders, server []grpc.ServerOption, client ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	s := grpc.NewServer(server...)
	testpb.RegisterOrderServiceServer(s, o)
	return serve(t, s, client...)
}

// serve serves until the test ends, and returns a connection.
func serve(t testing.TB, s *grpc.Server, client ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	listener := bufconn.Listen(1 << 20)
	served := make(chan error, 1)
	go func() { served <- s.Serve(listener) }()
	cc, err := grpc.NewClient("passthrough:///bufconn", append(client,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }),
	)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cc.Close()
		s.Stop()
		// A test that makes no call may stop the server before it has begun to serve.
		if err := guardtest.Receive(t, served, "the end of Serve"); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			t.Errorf("serve: %v", err)
		}
	})
	return cc
}

// dial is connect for a client of the orders.
func dial(t testing.TB, o *orders, g *guard.Guard, opts ...grpclock.Option) testpb.OrderServiceClient {
	t.Helper()
	return testpb.NewOrderServiceClient(connect(t, o, guarded(t, g, opts...)))
}

// reasonOf is the reason of an error's ErrorInfo.
func reasonOf(err error) string {
	for _, d := range status.Convert(err).Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			return info.GetReason()
		}
	}
	return ""
}
