package integration_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	health "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/prototext"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/rule"
	"github.com/redlatch/redlatch/grpclock"
	"github.com/redlatch/redlatch/test/internal/redistest"
)

// healthServer is a service that everybody has, with a unary method and one
// that streams. The "service" of a request is what is locked.
type healthServer struct {
	health.UnimplementedHealthServer
	check func(ctx context.Context, service string) error
}

func (h *healthServer) Check(ctx context.Context, req *health.HealthCheckRequest) (*health.HealthCheckResponse, error) {
	return &health.HealthCheckResponse{Status: health.HealthCheckResponse_SERVING}, h.check(ctx, req.GetService())
}

func (h *healthServer) Watch(req *health.HealthCheckRequest, s grpc.ServerStreamingServer[health.HealthCheckResponse]) error {
	return h.check(s.Context(), req.GetService())
}

func healthRules(wait time.Duration) []rule.Rule {
	return []rule.Rule{
		{Operation: health.Health_Check_FullMethodName, Key: "lock:health:<req.service>", Wait: wait},
		{Operation: health.Health_Watch_FullMethodName, Key: "lock:health:<req.service>", Wait: wait},
	}
}

// grpcServer serves h on a loopback port, behind the interceptors, until the test
// ends. It returns the address.
func grpcServer(t *testing.T, h *healthServer, g *guard.Guard, opts ...grpclock.Option) string {
	t.Helper()
	locks, err := grpclock.New(g, opts...)
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer(
		grpc.ChainUnaryInterceptor(locks.UnaryServerInterceptor()),
		grpc.ChainStreamInterceptor(locks.StreamServerInterceptor()))
	health.RegisterHealthServer(s, h)
	locks.Attach(s)
	if err := g.Validate(); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(listener) }()
	t.Cleanup(func() {
		s.Stop()
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return listener.Addr().String()
}

func grpcClient(t *testing.T, addr string, opts ...grpc.DialOption) health.HealthClient {
	t.Helper()
	cc, err := grpc.NewClient(addr, append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cc.Close() })
	return health.NewHealthClient(cc)
}

func grpcGuard(t *testing.T, rdb redis.UniversalClient, wait time.Duration, opts ...lock.Option) *guard.Guard {
	t.Helper()
	return guard.Must(guard.New(newLocker(t, rdb, opts...), healthRules(wait)...))
}

func TestGRPCServersShareTheirLocks(t *testing.T) {
	const servers, calls = 3, 90
	server := redistest.Standalone(t)
	rdb := server.Admin(t)
	var running, done atomic.Int32
	h := &healthServer{check: func(ctx context.Context, service string) error {
		if running.Add(1) != 1 {
			t.Error("two at once")
		}
		defer running.Add(-1)
		done.Add(1)
		return lock.AssertHeld(ctx, "lock:health:"+service)
	}}
	var clients [servers]health.HealthClient
	for i := range clients {
		clients[i] = grpcClient(t, grpcServer(t, h, grpcGuard(t, server.Client(t), patience)))
	}
	var all sync.WaitGroup
	for i := range calls {
		all.Go(func() {
			if _, err := clients[i%servers].Check(t.Context(), &health.HealthCheckRequest{Service: "a"}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if done.Load() != calls {
		t.Errorf("%d of %d calls ran", done.Load(), calls)
	}
	if left := hash(t, rdb, "lock:health:a"); len(left) != 0 {
		t.Errorf("left in Redis: %v", left)
	}
}

func TestGRPCClientRetriesContentionAndNeverALoss(t *testing.T) {
	// INTERNAL is in the policy, so that only the server's word stops it.
	const policy = `{"methodConfig": [{"name": [{}], "retryPolicy": {
		"maxAttempts": 1000, "initialBackoff": "0.01s", "maxBackoff": "0.1s", "backoffMultiplier": 2,
		"retryableStatusCodes": ["ABORTED", "INTERNAL"]}}]}`
	server := redistest.Standalone(t)
	rdb := server.Admin(t)
	var mu sync.Mutex
	runs := make(map[string]int)
	count := func(service string) int {
		mu.Lock()
		defer mu.Unlock()
		return runs[service]
	}
	h := &healthServer{check: func(ctx context.Context, service string) error {
		mu.Lock()
		runs[service]++
		first := runs[service] == 1
		mu.Unlock()
		if service == "unlucky" && first {
			if err := rdb.Del(context.WithoutCancel(ctx), "lock:health:unlucky").Err(); err != nil {
				t.Error(err)
			}
			<-ctx.Done()
		}
		return ctx.Err()
	}}
	refused := make(chan struct{}, 1000)
	g := grpcGuard(t, server.Client(t), 0, lock.WithWatchdog(3*time.Second)).WithHooks(guard.Hooks{
		Refused: func(context.Context, *guard.Error) { refused <- struct{}{} },
	})
	client := grpcClient(t, grpcServer(t, h, g, grpclock.WithRetryDelay(20*time.Millisecond)),
		grpc.WithDefaultServiceConfig(policy), grpc.WithMaxCallAttempts(1000))

	lease := acquire(t, newLocker(t, server.Client(t)), "lock:health:patient") // another process
	answer := make(chan error, 1)
	go func() {
		_, err := client.Check(t.Context(), &health.HealthCheckRequest{Service: "patient"})
		answer <- err
	}()
	for range 3 {
		select {
		case <-refused:
		case <-time.After(patience):
			t.Fatal("the client does not come back")
		}
	}
	release(t, lease)
	if err := <-answer; err != nil || count("patient") != 1 {
		t.Errorf("contended: %v after %d runs", err, count("patient"))
	}

	var trailer metadata.MD
	_, err := client.Check(t.Context(), &health.HealthCheckRequest{Service: "unlucky"}, grpc.Trailer(&trailer))
	if !grpclock.IsLost(err) || status.Code(err) != codes.Internal || count("unlucky") != 1 {
		t.Errorf("lost: %v after %d runs", err, count("unlucky"))
	}
	if got := trailer.Get("grpc-retry-pushback-ms"); len(got) != 1 || got[0] != "-1" {
		t.Errorf("pushback is %q", got)
	}
}

func TestGRPCAnswersTellNothingOfRedis(t *testing.T) {
	server := redistest.Standalone(t)
	h := &healthServer{check: func(context.Context, string) error {
		t.Error("the handler ran")
		return nil
	}}
	seen := make(chan error, 1)
	g := grpcGuard(t, server.Client(t), 0, lock.WithCallTimeout(patience/2)).WithHooks(guard.Hooks{
		Refused: func(_ context.Context, e *guard.Error) { seen <- e.Err },
	})
	client := grpcClient(t, grpcServer(t, h, g))
	server.Kill()
	_, err := client.Check(t.Context(), &health.HealthCheckRequest{Service: "alice"})
	if _, ok := grpclock.RetryDelay(err); status.Code(err) != codes.Unavailable || !ok {
		t.Errorf("got %v", err)
	}
	text := prototext.Format(status.Convert(err).Proto())
	for _, secret := range []string{server.Addr(), "alice", "lock:health:alice", "dial", "refused"} {
		if strings.Contains(text, secret) {
			t.Errorf("%q is in %s", secret, text)
		}
	}
	if cause := <-seen; !errors.Is(cause, lock.ErrUnavailable) || !strings.Contains(cause.Error(), "refused") {
		t.Errorf("the operator sees %v", cause)
	}
}

func TestGRPCStreamHoldsItsLockInRedis(t *testing.T) {
	server := redistest.Standalone(t)
	rdb := server.Admin(t)
	inside, leave := make(chan struct{}), make(chan struct{})
	h := &healthServer{check: func(ctx context.Context, _ string) error {
		inside <- struct{}{}
		select {
		case <-leave:
		case <-ctx.Done():
		}
		return nil
	}}
	client := grpcClient(t, grpcServer(t, h, grpcGuard(t, server.Client(t), 0)))
	free := func() error {
		if left := hash(t, rdb, "lock:health:s"); len(left) != 0 {
			return fmt.Errorf("Redis has %v", left)
		}
		return nil
	}
	for name, end := range map[string]func(context.CancelFunc){
		"until the handler returns":    func(context.CancelFunc) { leave <- struct{}{} },
		"until the client has left it": func(cancel context.CancelFunc) { cancel() },
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			stream, err := client.Watch(ctx, &health.HealthCheckRequest{Service: "s"})
			if err != nil {
				t.Fatal(err)
			}
			<-inside
			if free() == nil {
				t.Error("not held")
			}
			other, err := client.Watch(t.Context(), &health.HealthCheckRequest{Service: "s"})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := other.Recv(); !grpclock.IsContended(err) {
				t.Errorf("a second stream: %v", err)
			}
			end(cancel)
			_, _ = stream.Recv()
			eventually(t, free)
		})
	}
}
