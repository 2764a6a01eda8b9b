package rpc_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/redlatch/redlatch/core/memstore"
	pb "github.com/redlatch/redlatch/examples/seckill/internal/seckillpb"
)

// timeout is how long a test waits for what must happen.
const timeout = 20 * time.Second

// A request that is larger than any of the service's is refused before anything of
// it is kept, and the connection goes on.
func TestRequestsHaveASize(t *testing.T) {
	s := openShop(t, memstore.New(), sqliteStore(t))
	id := s.onSale(t, 1, -1, 1)
	_, err := s.PlaceOrder(t.Context(), &pb.PlaceOrderRequest{VoucherId: id, UserId: strings.Repeat("u", 65<<10)})
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("65 KiB: got %v", err)
	}
	if _, err := s.order(t, id, "42"); err != nil {
		t.Errorf("the next request: %v", err)
	}
}

func TestMetadataHasASize(t *testing.T) {
	s := openShop(t, memstore.New(), sqliteStore(t))
	id := s.onSale(t, 2, -1, 1)
	ordered := func(size int) error {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "x-trace", strings.Repeat("m", size))
		_, err := s.PlaceOrder(ctx, &pb.PlaceOrderRequest{VoucherId: id, UserId: "42"})
		return err
	}
	if err := ordered(17 << 10); err == nil {
		t.Error("17 KiB of metadata are accepted")
	}
	if err := ordered(1 << 10); err != nil {
		t.Errorf("1 KiB of metadata: %v", err)
	}
}

// A client has so many calls at once over a connection, and no more: the next one
// waits until one ends.
func TestAConnectionHasSoManyStreams(t *testing.T) {
	const most = 250
	s := openShop(t, memstore.New(), sqliteStore(t))
	health := healthpb.NewHealthClient(s.connection)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	watch := func(ctx context.Context) (context.CancelFunc, error) {
		ctx, end := context.WithCancel(ctx)
		stream, err := health.Watch(ctx, &healthpb.HealthCheckRequest{})
		if err == nil {
			_, err = stream.Recv() // the server has it
		}
		return end, err
	}
	ends := make([]context.CancelFunc, 0, most)
	for range most {
		end, err := watch(ctx)
		if err != nil {
			t.Fatalf("call %d: %v", len(ends)+1, err)
		}
		ends = append(ends, end)
	}
	short, stop := context.WithTimeout(ctx, 200*time.Millisecond)
	defer stop()
	if _, err := watch(short); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("one call more: got %v, want it to wait", err)
	}
	ends[0]()
	long, stop := context.WithTimeout(ctx, timeout)
	defer stop()
	if _, err := watch(long); err != nil {
		t.Errorf("after one has ended: %v", err)
	}
}

// Streams that stay open have a number for all connections together: the next one is
// refused, and doesn't wait.
func TestTheHealthHasSoManyWatchers(t *testing.T) {
	s := openShop(t, memstore.New(), sqliteStore(t))
	refused := 0
	for range 2 { // more than a connection has streams
		connection, err := grpc.NewClient(s.connection.Target(), grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		defer connection.Close()
		for range 200 {
			stream, err := healthpb.NewHealthClient(connection).Watch(t.Context(), &healthpb.HealthCheckRequest{})
			if err == nil {
				_, err = stream.Recv()
			}
			switch {
			case status.Code(err) == codes.ResourceExhausted:
				refused++
			case err != nil:
				t.Fatal(err)
			}
		}
	}
	if refused != 400-256 {
		t.Errorf("%d of 400 were refused, want all but 256", refused)
	}
	if _, err := healthpb.NewHealthClient(s.connection).Check(t.Context(), &healthpb.HealthCheckRequest{}); err != nil {
		t.Errorf("a check: %v", err)
	}
}
