package load_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/redlatch/redlatch/examples/seckill/internal/load"
	pb "github.com/redlatch/redlatch/examples/seckill/internal/seckillpb"
)

// remote is a service over gRPC that answers as the test says.
type remote struct {
	pb.UnimplementedSeckillServiceServer
	// answers are those to each user, one after the other. nil is an order.
	answers []error

	mu     sync.Mutex
	seen   map[string]int
	orders int64
}

func (r *remote) CreateVoucher(context.Context, *pb.CreateVoucherRequest) (*pb.CreateVoucherResponse, error) {
	return &pb.CreateVoucherResponse{Voucher: &pb.Voucher{Id: "v"}}, nil
}

func (r *remote) PlaceOrder(_ context.Context, q *pb.PlaceOrderRequest) (*pb.PlaceOrderResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	err := r.answers[r.seen[q.GetUserId()]]
	r.seen[q.GetUserId()]++
	if err != nil {
		return nil, err
	}
	r.orders++
	return &pb.PlaceOrderResponse{}, nil
}

func (r *remote) GetReport(context.Context, *pb.GetReportRequest) (*pb.GetReportResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return &pb.GetReportResponse{Stock: 3, Sold: r.orders, Orders: r.orders, DistinctUsers: r.orders}, nil
}

// target serves until the test ends.
func (r *remote) target(t *testing.T) string {
	t.Helper()
	r.seen = make(map[string]int)
	server := grpc.NewServer()
	pb.RegisterSeckillServiceServer(server, r)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return "grpc://" + listener.Addr().String()
}

// refusal is a status with a reason, unless that is empty.
func refusal(code codes.Code, reason string) error {
	s := status.New(code, "refused")
	if reason != "" {
		s, _ = s.WithDetails(&errdetails.ErrorInfo{Reason: reason})
	}
	return s.Err()
}

func TestAnswersOverGRPCAreThoseOfHTTP(t *testing.T) {
	for _, tt := range []struct {
		answers          []error
		retried, refused string
		failures         int64
	}{
		{
			answers: []error{
				refusal(codes.Aborted, "LOCK_CONTENDED"), refusal(codes.ResourceExhausted, "LOCK_OVERLOADED"),
				refusal(codes.Unavailable, "STORE_UNAVAILABLE"), refusal(codes.Internal, "LOCK_LOST"), nil,
			},
			retried: "map[LOCK_CONTENDED:3 LOCK_LOST:3 LOCK_OVERLOADED:3 STORE_UNAVAILABLE:3]", refused: "map[]",
		},
		// A client says so by itself if there is nobody, or no answer.
		{
			answers: []error{refusal(codes.Unavailable, ""), refusal(codes.DeadlineExceeded, ""), refusal(codes.Canceled, ""), nil},
			retried: "map[]", refused: "map[]", failures: 9,
		},
		{answers: []error{refusal(codes.FailedPrecondition, "SOLD_OUT")}, retried: "map[]", refused: "map[SOLD_OUT:3]"},
		{answers: []error{refusal(codes.Internal, "INTERNAL")}, retried: "map[]", refused: "map[INTERNAL:3]"},
		{answers: []error{refusal(codes.PermissionDenied, "")}, retried: "map[]", refused: "map[GRPC_PermissionDenied:3]"},
	} {
		s := &remote{answers: tt.answers}
		c := config(s.target(t))
		c.Users, c.Clicks, c.Stock, c.Concurrency = 3, 1, 3, 1
		r, err := load.Run(t.Context(), c, nil)
		if err != nil {
			t.Fatal(err)
		}
		sold := tt.answers[len(tt.answers)-1] == nil
		if fmt.Sprint(r.Retried) != tt.retried || fmt.Sprint(r.Refused) != tt.refused || r.Failures[c.Targets[0]] != tt.failures || r.Holds() != sold {
			t.Errorf("%v: retried %v, refused %v, failures %v, broken: %s", tt.answers, r.Retried, r.Refused, r.Failures, broken(r))
		}
	}
}
