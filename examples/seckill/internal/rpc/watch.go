package rpc

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/redlatch/redlatch/examples/seckill/internal/seckillpb"
	"github.com/redlatch/redlatch/examples/seckill/internal/voucher"
)

// watch shows operators what clients don't see.
type watch struct {
	log     *slog.Logger
	ordered func(outcome string, took time.Duration)
}

// observe logs failures, counts what becomes of orders and times them.
func (w watch) observe(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	start := time.Now()
	response, err := handler(ctx, request)
	s := status.Convert(err)
	switch s.Code() {
	case codes.Internal, codes.Unavailable, codes.Unknown:
		cause := err
		if unwrapped := errors.Unwrap(err); unwrapped != nil {
			cause = unwrapped
		}
		w.log.WarnContext(ctx, "call failed", "method", info.FullMethod, "code", s.Code().String(), "err", cause)
	}
	if info.FullMethod == seckillpb.SeckillService_PlaceOrder_FullMethodName {
		w.ordered(outcome(s), time.Since(start))
	}
	return response, err
}

// outcome is bounded: codes of this service and of gRPC, nothing of a request.
func outcome(s *status.Status) string {
	if s.Code() == codes.OK {
		return "placed"
	}
	for _, detail := range s.Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok {
			return info.GetReason()
		}
	}
	return "CANCELED" // the client has gone
}

// recover makes an answer of a panic.
func (w watch) recover(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (response any, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			w.log.ErrorContext(ctx, "handler panicked", "method", info.FullMethod, "cause", cause, "stack", string(debug.Stack()))
			err = internal.with(nil)
		}
	}()
	return handler(ctx, request)
}

// authenticate lets calls pass that say who the user is, if they speak for
// one.
func authenticate(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	if r, ok := request.(interface{ GetUserId() string }); ok && !voucher.IsUser(r.GetUserId()) {
		return nil, unauthenticated.with(nil)
	}
	return handler(ctx, request)
}
