package grpclock_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
	"github.com/redlatch/redlatch/core/rule"
	"github.com/redlatch/redlatch/grpclock"
	"github.com/redlatch/redlatch/grpclock/internal/testpb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what must happen.
const patience = 20 * time.Second

const (
	place  = "/redlatch.test.v1.OrderService/Place"
	plain  = "/redlatch.test.v1.OrderService/Plain"
	refill = "/redlatch.test.v1.OrderService/Refill"
	watch  = "/redlatch.test.v1.OrderService/Watch"
	upload = "/redlatch.test.v1.OrderService/Upload"
	chat   = "/redlatch.test.v1.OrderService/Chat"
)

// newLocker returns a locker that is closed with the test.
func newLocker(t testing.TB, store lock.Store, opts ...lock.Option) *lock.Locker {
	t.Helper()
	locker := lock.New(store, opts...)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := locker.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return locker
}

// newGuard returns a guard on a store of its own.
func newGuard(t testing.TB, rules ...rule.Rule) *guard.Guard {
	t.Helper()
	g, err := guard.New(newLocker(t, memstore.New()), rules...)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// hold takes a key in the name of another owner.
func hold(t testing.TB, g *guard.Guard, key string) *lock.Lease {
	t.Helper()
	lease, err := g.Locker().TryAcquire(context.Background(), key)
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

// isHeld reports whether anybody has the key.
func isHeld(t testing.TB, g *guard.Guard, key string) bool {
	t.Helper()
	state, err := g.Locker().Inspect(context.Background(), key)
	if err != nil {
		t.Fatal(err)
	}
	return state.Held
}

// awaitFree waits until nobody has the key any more.
func awaitFree(t testing.TB, g *guard.Guard, key string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	lease, err := g.Locker().Acquire(ctx, key, lock.WithWait(patience))
	if err != nil {
		t.Errorf("%s is not freed: %v", key, err)
		return
	}
	_ = lease.Release(ctx)
}

// force takes a key away, as another process would.
func force(t testing.TB, store lock.Store, key string) {
	t.Helper()
	freed, err := newLocker(t, store).ForceRelease(context.Background(), key)
	if err != nil || !freed {
		t.Errorf("force release: %v, %v", freed, err)
	}
}

// receive waits for what must come.
func receive[T any](t testing.TB, ch <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(patience):
		t.Fatalf("%s did not happen", what)
		panic("unreachable")
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
	refill func(context.Context, *testpb.RefillRequest) (*testpb.RefillResponse, error)
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

func (o *orders) Plain(ctx context.Context, _ *testpb.PlainRequest) (*testpb.PlainResponse, error) {
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

// guarded are the options of a server with the interceptors of a door.
func guarded(t testing.TB, g *guard.Guard, opts ...grpclock.Option) []grpc.ServerOption {
	t.Helper()
	d, err := grpclock.Build(g, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return []grpc.ServerOption{grpc.ChainUnaryInterceptor(d.UnaryServer), grpc.ChainStreamInterceptor(d.StreamServer)}
}

// connect serves o until the test ends, and returns a connection.
func connect(t testing.TB, o *orders, server []grpc.ServerOption, client ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	listener := bufconn.Listen(1 << 20)
	s := grpc.NewServer(server...)
	testpb.RegisterOrderServiceServer(s, o)
	testpb.RegisterFaultyServiceServer(s, o)
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
		if err := receive(t, served, "the end of Serve"); err != nil {
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

var errDown = errors.New("dial tcp 10.1.2.3:6379: NOAUTH for lock:order:42")

// brokenStore refuses every acquisition.
type brokenStore struct{ lock.Store }

func (brokenStore) Acquire(context.Context, lock.Claim) (uint64, error) {
	return 0, &lock.StoreError{Outcome: lock.OutcomeRefused, Err: errDown}
}
