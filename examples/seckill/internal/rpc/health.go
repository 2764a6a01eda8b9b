package rpc

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/redlatch/redlatch/examples/seckill/internal/seckillpb"
)

// Readiness says whether the service should get calls.
type Readiness interface {
	// Ready returns nil if it should, and otherwise why not. It is called often, and must
	// not cost more for that.
	Ready(ctx context.Context) error
	// Drained is closed when it never will again.
	Drained() <-chan struct{}
}

// lookEvery is how long a change may go unseen by an open Watch.
const lookEvery = 2 * time.Second

// services have a health: the server as a whole, and what it serves.
var services = []string{"", seckillpb.SeckillService_ServiceDesc.ServiceName}

// health answers grpc.health.v1 as /readyz is answered.
type health struct {
	healthpb.UnimplementedHealthServer
	readiness Readiness
	log       *slog.Logger
	watches   chan struct{} // one for each Watch
}

// maxWatches is how many streams watch the health of an instance at once, of all clients.
const maxWatches = 256

// Check implements [healthpb.HealthServer].
func (h *health) Check(ctx context.Context, r *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	if !slices.Contains(services, r.GetService()) {
		return nil, status.Error(codes.NotFound, "unknown service")
	}
	return &healthpb.HealthCheckResponse{Status: h.look(ctx)}, nil
}

// List implements [healthpb.HealthServer].
func (h *health) List(ctx context.Context, _ *healthpb.HealthListRequest) (*healthpb.HealthListResponse, error) {
	now := h.look(ctx)
	statuses := make(map[string]*healthpb.HealthCheckResponse, len(services))
	for _, service := range services {
		statuses[service] = &healthpb.HealthCheckResponse{Status: now}
	}
	return &healthpb.HealthListResponse{Statuses: statuses}, nil
}

// Watch implements [healthpb.HealthServer]. It ends with the drain: a server waits
// for its streams when it stops, and clients keep this one open for good.
func (h *health) Watch(r *healthpb.HealthCheckRequest, stream healthpb.Health_WatchServer) error {
	select {
	case h.watches <- struct{}{}:
		defer func() { <-h.watches }()
	default:
		return status.Error(codes.ResourceExhausted, "too many watch the health; use Check")
	}
	known := slices.Contains(services, r.GetService())
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for last := healthpb.HealthCheckResponse_UNKNOWN; ; {
		drained := h.drained() // before the look, which then finds it not ready
		now := healthpb.HealthCheckResponse_SERVICE_UNKNOWN
		if known {
			now = h.look(stream.Context())
		}
		if now != last {
			if err := stream.Send(&healthpb.HealthCheckResponse{Status: now}); err != nil {
				return err
			}
			last = now
		}
		if drained {
			return status.Error(codes.Unavailable, "the server is shutting down")
		}
		select {
		case <-ticker.C:
		case <-h.readiness.Drained(): // looks once more, to send it
		case <-stream.Context().Done():
			return status.FromContextError(stream.Context().Err()).Err()
		}
	}
}

func (h *health) drained() bool {
	select {
	case <-h.readiness.Drained():
		return true
	default:
		return false
	}
}

// look returns the status of all services, which are up and down together.
func (h *health) look(ctx context.Context) healthpb.HealthCheckResponse_ServingStatus {
	if err := h.readiness.Ready(ctx); err != nil {
		h.log.WarnContext(ctx, "not ready", "err", err)
		return healthpb.HealthCheckResponse_NOT_SERVING
	}
	return healthpb.HealthCheckResponse_SERVING
}
