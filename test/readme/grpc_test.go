package readme_test

import (
	"context"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
	"github.com/redlatch/redlatch/core/rule"
	"github.com/redlatch/redlatch/grpclock"
)

func authenticateCall(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	return handler(ctx, request)
}

func register(server *grpc.Server) { healthpb.RegisterHealthServer(server, health.NewServer()) }

func newServer(g *guard.Guard) (*grpc.Server, error) {
	locks, err := grpclock.New(g)
	if err != nil {
		return nil, err
	}
	server := grpc.NewServer(
		grpc.ChainUnaryInterceptor(authenticateCall, locks.UnaryServerInterceptor()),
		grpc.ChainStreamInterceptor(locks.StreamServerInterceptor()),
	)
	register(server)            // the services of your .proto files
	locks.Attach(server)        // whose methods are compared with the rules
	return server, g.Validate() // what would fail the first call, or not be locked
}

// newOrderServer is the server of the README.
func newOrderServer(g *guard.Guard) (*grpc.Server, error) {
	locks, err := grpclock.New(g)
	if err != nil {
		return nil, err
	}
	server := grpc.NewServer(
		grpc.UnaryInterceptor(locks.UnaryServerInterceptor()), // locks, err := grpclock.New(g)
		grpc.StreamInterceptor(locks.StreamServerInterceptor()))
	register(server)            // your services
	locks.Attach(server)        // compares their methods with the rules
	return server, g.Validate() // an error if a call would not be locked
}

// pause is how long a client waits before it sends a call again.
func pause(err error) time.Duration {
	if delay, retry := grpclock.RetryDelay(err); retry {
		return delay // the lock was contended, or could not be reached: the handler did not run
	}
	return 0
}

func TestTheGRPCServersOfTheManualLock(t *testing.T) {
	for name, server := range map[string]func(*guard.Guard) (*grpc.Server, error){"README": newOrderServer, "docs/grpc.md": newServer} {
		t.Run(name, func(t *testing.T) { locksItsMethod(t, server) })
	}
}

func locksItsMethod(t *testing.T, newServer func(*guard.Guard) (*grpc.Server, error)) {
	t.Helper()
	locker := lock.New(memstore.New())
	t.Cleanup(func() { _ = locker.Close(context.Background()) })
	g := guard.Must(guard.New(locker,
		rule.Rule{Operation: "/grpc.health.v1.Health/Check", Key: "lock:check:<req.service>"}))
	server, err := newServer(g)
	if err != nil {
		t.Fatal(err)
	}
	client := healthpb.NewHealthClient(serve(t, server))

	request := &healthpb.HealthCheckRequest{Service: "grpc.health.v1.Health"}
	holder, err := locker.TryAcquire(t.Context(), "lock:check:grpc.health.v1.Health")
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.Check(t.Context(), request)
	if !grpclock.IsContended(err) || pause(err) == 0 {
		t.Errorf("while another holds the lock: %v, to be sent again in %v", err, pause(err))
	}
	if err := holder.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	// The service isn't known, says the handler, which runs now.
	if _, err := client.Check(t.Context(), request); grpclock.IsContended(err) {
		t.Errorf("when it is released: %v", err)
	}
}

// The server refuses the first call of the client of the manual, because another owner holds
// its lock, and lets the second one in.
func TestTheClientOfTheManualCallsAgain(t *testing.T) {
	locker := lock.New(memstore.New())
	t.Cleanup(func() { _ = locker.Close(context.Background()) })
	locks, err := grpclock.New(guard.Must(guard.New(locker, rule.Rule{Operation: healthpb.Health_Check_FullMethodName, Key: "lock:check"})))
	if err != nil {
		t.Fatal(err)
	}
	holder, err := locker.TryAcquire(t.Context(), "lock:check")
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	server := grpc.NewServer(grpc.ChainStreamInterceptor(locks.StreamServerInterceptor()), grpc.ChainUnaryInterceptor(
		func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			answer, err := handler(ctx, request)
			if grpclock.IsContended(err) {
				refused++
				_ = holder.Release(ctx)
			}
			return answer, err
		}, locks.UnaryServerInterceptor()))
	checks := health.NewServer()
	checks.SetServingStatus("shop", healthpb.HealthCheckResponse_SERVING)
	healthpb.RegisterHealthServer(server, checks)
	locks.Attach(server)
	listener := listen(t)
	serveOn(t, server, listener)
	output, err := runAgainst(t, "test/readme/grpcclient/main.go", "localhost:50051", listener.Addr().String())
	if err != nil || !strings.Contains(output, "SERVING") || !strings.Contains(output, "error: <nil>") || refused != 1 {
		t.Errorf("%v, refused %d times: %s", err, refused, output)
	}
}

const retries = `{"methodConfig": [{"name": [{"service": "shop.v1.OrderService"}], "retryPolicy": {
	"maxAttempts": 4, "initialBackoff": "0.1s", "maxBackoff": "1s", "backoffMultiplier": 2,
	"retryableStatusCodes": ["ABORTED"]}}]}`

// A policy that gRPC can't read is an error of NewClient; one for another
// service does nothing.
func TestThePolicyOfTheManualRetries(t *testing.T) {
	policy := strings.Replace(retries, "shop.v1.OrderService", "grpc.health.v1.Health", 1)
	var calls atomic.Int32
	server := grpc.NewServer(grpc.UnaryInterceptor(func(context.Context, any, *grpc.UnaryServerInfo, grpc.UnaryHandler) (any, error) {
		if calls.Add(1) < 3 {
			return nil, status.Error(codes.Aborted, "contended")
		}
		return &healthpb.HealthCheckResponse{}, nil
	}))
	register(server)
	client := healthpb.NewHealthClient(serve(t, server, grpc.WithDefaultServiceConfig(policy)))
	if _, err := client.Check(t.Context(), &healthpb.HealthCheckRequest{}); err != nil || calls.Load() != 3 {
		t.Errorf("%v after %d calls", err, calls.Load())
	}
}

// A connection that is cut while the handler runs is UNAVAILABLE, too.
func TestThePolicyOfTheManualRunsNoHandlerTwice(t *testing.T) {
	policy := strings.Replace(retries, "shop.v1.OrderService", "grpc.health.v1.Health", 1)
	cut := &cutting{Listener: listen(t)}
	var runs atomic.Int32
	server := grpc.NewServer(grpc.UnaryInterceptor(func(context.Context, any, *grpc.UnaryServerInfo, grpc.UnaryHandler) (any, error) {
		if runs.Add(1) == 1 {
			cut.all()
		}
		return &healthpb.HealthCheckResponse{}, nil
	}))
	register(server)
	client := healthpb.NewHealthClient(serveOn(t, server, cut, grpc.WithDefaultServiceConfig(policy)))
	if _, err := client.Check(t.Context(), &healthpb.HealthCheckRequest{}); status.Code(err) != codes.Unavailable || runs.Load() != 1 {
		t.Errorf("the handler ran %d times, and the client got %v", runs.Load(), err)
	}
}

// cutting is a listener that cuts the connections that it has accepted.
type cutting struct {
	net.Listener

	mu    sync.Mutex
	conns []net.Conn
}

func (c *cutting) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.conns = append(c.conns, conn)
	}
	return conn, err
}

func (c *cutting) all() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.conns {
		_ = conn.Close()
	}
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return listener
}

// serve serves until the test ends, and connects to it.
func serve(t *testing.T, server *grpc.Server, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	return serveOn(t, server, listen(t), opts...)
}

func serveOn(t *testing.T, server *grpc.Server, listener net.Listener, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	cc, err := grpc.NewClient(listener.Addr().String(), append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cc.Close() })
	return cc
}
