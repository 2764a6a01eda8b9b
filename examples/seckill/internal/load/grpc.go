package load

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/redlatch/redlatch/examples/seckill/internal/seckillpb"
)

// grpcClient is an instance over gRPC: one connection, as gRPC has it, for all
// clicks.
type grpcClient struct {
	connection *grpc.ClientConn
	client     seckillpb.SeckillServiceClient
}

func newGRPCClient(address string) (*grpcClient, error) {
	connection, err := grpc.NewClient("passthrough:///"+address,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		// The crowd repeats its clicks itself, and counts them.
		grpc.WithDisableRetry())
	if err != nil {
		return nil, fmt.Errorf("%s%s: %w", grpcScheme, address, err)
	}
	return &grpcClient{connection, seckillpb.NewSeckillServiceClient(connection)}, nil
}

func (c *grpcClient) close() error { return c.connection.Close() }

func (c *grpcClient) createVoucher(ctx context.Context, o offer) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	created, err := c.client.CreateVoucher(ctx, &seckillpb.CreateVoucherRequest{
		Title: o.title, Stock: o.stock, BeginAt: timestamppb.New(o.beginAt), EndAt: timestamppb.New(o.endAt),
	})
	if err != nil {
		return "", err
	}
	if created.GetVoucher().GetId() == "" {
		return "", errors.New("answer: no id")
	}
	return created.GetVoucher().GetId(), nil
}

func (c *grpcClient) order(ctx context.Context, voucherID, user string) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	_, err := c.client.PlaceOrder(ctx, &seckillpb.PlaceOrderRequest{VoucherId: voucherID, UserId: user})
	if err == nil {
		return answer{placed: true, final: true}, nil
	}
	said, ok := status.FromError(err)
	reason := reasonOf(said)
	if !ok || reason == "" && nobodySpoke(said.Code()) {
		return answer{}, err
	}
	if reason == "" {
		reason = "GRPC_" + said.Code().String()
	}
	return answer{final: finalGRPC(said.Code(), reason), reason: reason}, nil
}

func (c *grpcClient) report(ctx context.Context, voucherID string) (Report, error) {
	return c.ask(ctx, &seckillpb.GetReportRequest{VoucherId: voucherID})
}

func (c *grpcClient) count(ctx context.Context, voucherID string) (Report, error) {
	r, err := c.ask(ctx, &seckillpb.GetReportRequest{VoucherId: voucherID, Counted: true})
	if status.Code(err) == codes.ResourceExhausted {
		return Report{}, errCounting
	}
	return r, err
}

func (c *grpcClient) ask(ctx context.Context, q *seckillpb.GetReportRequest) (Report, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	r, err := c.client.GetReport(ctx, q)
	if err != nil {
		return Report{}, err
	}
	return Report{
		Stock: r.GetStock(), Sold: r.GetSold(), Orders: r.GetOrders(), DistinctUsers: r.GetDistinctUsers(),
		Oversold: r.GetOversold(), DuplicateOrders: r.GetDuplicateOrders(),
	}, nil
}

// reasonOf is the code of a refusal: the one that HTTP answers with.
func reasonOf(s *status.Status) string {
	for _, detail := range s.Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok {
			return info.GetReason()
		}
	}
	return ""
}

// nobodySpoke reports whether a status without a reason is the client's own:
// the service wasn't reached, or didn't answer.
func nobodySpoke(code codes.Code) bool {
	return code == codes.Unavailable || code == codes.DeadlineExceeded || code == codes.Canceled
}

func finalGRPC(code codes.Code, reason string) bool {
	switch code {
	case codes.Aborted, codes.Unavailable, codes.ResourceExhausted, codes.DeadlineExceeded, codes.Canceled:
		return false
	}
	return reason != "LOCK_LOST"
}
