package grpclock

import (
	"context"
	"slices"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/grpclock/rpcguard"
)

const (
	// Domain is that of the ErrorInfo in every error.
	Domain = rpcguard.Domain

	// CodeTrailer is the trailer of an answer that is empty because another
	// owner holds the lock and the rule says skip. Its value is "LOCK_SKIPPED".
	CodeTrailer = rpcguard.CodeTrailer
)

// refusal is the error of a call: a status for clients, and the cause for the
// process itself.
type refusal struct {
	status *status.Status
	cause  error
}

func (r *refusal) Error() string              { return r.status.Err().Error() }
func (r *refusal) GRPCStatus() *status.Status { return r.status }
func (r *refusal) Unwrap() error              { return r.cause }

// Status returns the status of an error for a handler to return. For an error that is or
// wraps a [guard.Error], as those of [guard.Guard.Enter] and of methods with directives, it
// is the one that an interceptor answers, with ErrorInfo and RetryInfo. Return it only if
// nothing that the handler did before would hurt when the client repeats the call. Other
// errors are converted by [status.Convert].
//
//	if err := s.orders.Place(ctx, order); err != nil {
//		return nil, grpclock.Status(err).Err()
//	}
//
// A handler that returns a guard.Error as it is has run: its client gets the code, and no
// ErrorInfo and RetryInfo, and doesn't repeat the call.
func Status(err error) *status.Status {
	if _, has := err.(interface{ GRPCStatus() *status.Status }); !has { // what is wrapped says less than what wraps it
		if st, ok := rpcguard.StatusOf(context.Background(), err); ok {
			return statusOf(st)
		}
	}
	return status.Convert(err)
}

// statusOf makes a status of one that is data.
func statusOf(st rpcguard.Status) *status.Status {
	plain := status.New(codes.Code(st.Code), st.Message)
	details := make([]protoadapt.MessageV1, len(st.Details))
	for i, d := range st.Details {
		details[i] = protoadapt.MessageV1Of(d)
	}
	if detailed, err := plain.WithDetails(details...); err == nil {
		return detailed
	}
	return plain
}

// answer turns an error of the guard into that of the call, and adds its trailer.
func (i *Locks) answer(ctx context.Context, c *rpcguard.Call, e *guard.Error, trail func(metadata.MD)) error {
	r := c.Refusal(ctx, e)
	if trail != nil && len(r.Trailer) > 0 {
		trail(metadata.New(r.Trailer))
	}
	st := statusOf(r.Status)
	if i.mapper != nil {
		if mapped := i.mapper(ctx, e, st); mapped != nil {
			return mapped
		}
	}
	return &refusal{st, e}
}

// passOn returns the error of a handler that ran under the lock of its method. If it is
// what another locked method answered the handler, it says that that call can be repeated,
// and clients must not take it for a word about theirs.
func (i *Locks) passOn(ctx context.Context, err error, trail func(metadata.MD)) error {
	err = bare(ctx, err, trail)
	st := status.Convert(err)
	if _, ours := reasonOf(st); !ours {
		return err
	}
	return ran(st, err, trail)
}

// bare returns the error of a handler, with a status if it is an error of a guard that
// has none: it would be Unknown otherwise, with a message that is for the operator.
func bare(ctx context.Context, err error, trail func(metadata.MD)) error {
	if err == nil {
		return nil
	}
	if _, known := status.FromError(err); known {
		return err
	}
	st, ours := rpcguard.StatusOf(ctx, err)
	if !ours {
		return err
	}
	return ran(statusOf(st), err, trail)
}

// ran is the error of a handler that ran, without what says that it can be repeated.
func ran(st *status.Status, cause error, trail func(metadata.MD)) error {
	trail(metadata.Pairs(rpcguard.PushbackTrailer, "-1"))
	other := st.Proto()
	other.Details = slices.DeleteFunc(other.Details, func(d *anypb.Any) bool {
		return d.MessageIs((*errdetails.ErrorInfo)(nil)) || d.MessageIs((*errdetails.RetryInfo)(nil))
	})
	return &refusal{status.FromProto(other), cause}
}
