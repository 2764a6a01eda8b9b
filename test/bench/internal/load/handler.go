package load

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"

	"github.com/gin-gonic/gin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
	"github.com/redlatch/redlatch/core/rule"
	"github.com/redlatch/redlatch/ginlock"
	"github.com/redlatch/redlatch/grpclock"
	"github.com/redlatch/redlatch/test/bench/internal/meter"
)

// What Handler measures, instead of a peer.
const (
	BareGin  = "bare Gin"
	GinLock  = "ginlock"
	BareGRPC = "bare gRPC"
	GRPCLock = "grpclock"
)

// handler calls a request handler on one goroutine, one request after the
// other, with locks in memory.
type handler struct {
	request   func(context.Context) error
	measuring atomic.Bool
	count     int64
	started   meter.Usage
	cancel    context.CancelFunc
	done      chan struct{}
	faults
}

func newHandler(config Config) (*handler, error) {
	h := &handler{done: make(chan struct{})}
	var err error
	switch config.Peer {
	case BareGin, GinLock:
		h.request, err = ginRequest(config.Peer == GinLock)
	case BareGRPC, GRPCLock:
		h.request, err = grpcRequest(config.Peer == GRPCLock)
	default:
		err = fmt.Errorf("load: no handler %q", config.Peer)
	}
	return h, err
}

func ginRequest(locked bool) (func(context.Context) error, error) {
	gin.SetMode(gin.ReleaseMode)
	engine := gin.New()
	var middleware []gin.HandlerFunc
	if locked {
		g, err := guard.New(lock.New(memstore.New()))
		if err != nil {
			return nil, err
		}
		middleware = append(middleware, ginlock.New(g, "lock:order:<id>"))
	}
	engine.POST("/orders/:id", append(middleware, func(c *gin.Context) { c.Status(http.StatusCreated) })...)
	var request *http.Request // one for all calls, under the context of the first
	w := &writer{header: http.Header{}}
	return func(ctx context.Context) (err error) {
		if request == nil {
			if request, err = http.NewRequestWithContext(ctx, http.MethodPost, "/orders/42", nil); err != nil {
				return err
			}
		}
		w.code = http.StatusOK
		engine.ServeHTTP(w, request)
		if w.code != http.StatusOK && w.code != http.StatusCreated {
			return fmt.Errorf("load: status %d", w.code)
		}
		return nil
	}, nil
}

// writer keeps the status and nothing else.
type writer struct {
	header http.Header
	code   int
}

func (w *writer) Header() http.Header         { return w.header }
func (w *writer) Write(p []byte) (int, error) { return len(p), nil }
func (w *writer) WriteHeader(code int)        { w.code = code }

// health is a service whose code is generated already, and whose requests have
// a field for a key.
type health struct {
	grpc_health_v1.UnimplementedHealthServer
}

func (health) Check(context.Context, *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	return &grpc_health_v1.HealthCheckResponse{}, nil
}

func grpcRequest(locked bool) (func(context.Context) error, error) {
	request := &grpc_health_v1.HealthCheckRequest{Service: "42"}
	handle := func(ctx context.Context, request any) (any, error) {
		return health{}.Check(ctx, request.(*grpc_health_v1.HealthCheckRequest))
	}
	if !locked {
		return func(ctx context.Context) error {
			_, err := handle(ctx, request)
			return err
		}, nil
	}
	const method = grpc_health_v1.Health_Check_FullMethodName
	g, err := guard.New(lock.New(memstore.New()), rule.Rule{Operation: method, Key: "lock:order:<req.service>"})
	if err != nil {
		return nil, err
	}
	locks, err := grpclock.New(g)
	if err != nil {
		return nil, err
	}
	intercept := locks.UnaryServerInterceptor()
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(intercept), grpc.ChainStreamInterceptor(locks.StreamServerInterceptor()))
	grpc_health_v1.RegisterHealthServer(server, health{})
	locks.Attach(server)
	if err := g.Validate(); err != nil {
		return nil, err
	}
	info := &grpc.UnaryServerInfo{FullMethod: method}
	return func(ctx context.Context) error {
		_, err := intercept(ctx, request, info, handle)
		return err
	}, nil
}

func (h *handler) warm(ctx context.Context) error {
	ctx, h.cancel = context.WithCancel(ctx)
	go func() {
		defer close(h.done)
		for ctx.Err() == nil {
			if err := h.request(ctx); err != nil && ctx.Err() == nil {
				h.fail(err)
			}
			if h.measuring.Load() {
				h.count++
			}
		}
	}()
	return nil
}

func (h *handler) measure(context.Context) error {
	h.started = meter.ReadUsage()
	h.measuring.Store(true)
	return nil
}

func (h *handler) stop(context.Context) (*Result, error) {
	h.measuring.Store(false)
	used := meter.ReadUsage()
	h.cancel()
	<-h.done
	result := &Result{Ops: h.count, CPU: used.CPU - h.started.CPU, Allocs: used.Allocs - h.started.Allocs}
	h.addTo(result)
	return result, nil
}
