package grpclock

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/key"
)

const (
	// Domain is that of the ErrorInfo in every error.
	Domain = "github.com/redlatch/redlatch"

	// CodeTrailer is the trailer of an answer that is empty because another
	// owner holds the lock and the rule says skip. Its value is "LOCK_SKIPPED".
	CodeTrailer = "redlatch-code"

	// pushbackTrailer has the time after which gRPC clients retry: milliseconds, or
	// -1 for never.
	pushbackTrailer = "grpc-retry-pushback-ms"
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

// answer turns an error of the guard into that of the call, and its pushback
// into a trailer.
func (c *call) answer(ctx context.Context, e *guard.Error, trail func(metadata.MD)) error {
	delay := c.locks.delay()
	switch {
	case trail == nil:
	case e.Kind == guard.Lost:
		trail(metadata.Pairs(pushbackTrailer, "-1"))
	case e.Kind == guard.Contended, e.Kind == guard.Overloaded:
		trail(metadata.Pairs(pushbackTrailer, strconv.FormatInt(delay.Milliseconds(), 10)))
	}
	st := c.describe(ctx, e, delay)
	if c.locks.mapper != nil {
		if mapped := c.locks.mapper(ctx, e, st); mapped != nil {
			return mapped
		}
	}
	return &refusal{st, e}
}

// passOn returns the error of a handler that ran. If it is what another locked
// method answered the handler, it says that that call can be repeated, and clients
// must not take it for a word about theirs.
func passOn(err error, trail func(metadata.MD)) error {
	st := status.Convert(err)
	if _, ours := reasonOf(st); !ours {
		return err
	}
	trail(metadata.Pairs(pushbackTrailer, "-1"))
	other := st.Proto()
	other.Details = slices.DeleteFunc(other.Details, func(d *anypb.Any) bool {
		return d.MessageIs((*errdetails.ErrorInfo)(nil)) || d.MessageIs((*errdetails.RetryInfo)(nil))
	})
	return &refusal{status.FromProto(other), err}
}

// delay is the retry delay and up to half of it by chance, in whole
// milliseconds.
func (i *Interceptors) delay() time.Duration {
	return (i.retryDelay + rand.N(i.retryDelay/2+1)).Truncate(time.Millisecond)
}

func (c *call) describe(ctx context.Context, e *guard.Error, delay time.Duration) *status.Status {
	info := &errdetails.ErrorInfo{Reason: e.Kind.Code(), Domain: Domain}
	if c.rule != nil {
		info.Metadata = map[string]string{"template": c.rule.Key}
	}
	retry := &errdetails.RetryInfo{RetryDelay: durationpb.New(delay)}
	switch e.Kind {
	case guard.Contended:
		return build(c.locks.contention,
			"another call holds the lock that this one needs; this call was not carried out and can be sent again",
			info, retry, &errdetails.ResourceInfo{ResourceType: "lock", ResourceName: c.rule.Key})
	case guard.Overloaded:
		return build(codes.ResourceExhausted,
			"another call holds the lock that this one needs, and too many wait for it; this call was not carried out and can be sent again",
			info, retry, &errdetails.ResourceInfo{ResourceType: "lock", ResourceName: c.rule.Key})
	case guard.BadKey:
		field, complaint := c.complaint(e)
		return build(codes.InvalidArgument, "a value that the lock is made of "+complaint, info,
			&errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{{Field: field, Description: complaint}}})
	case guard.Unauthenticated:
		return build(codes.Unauthenticated, "the lock of this method needs to know who calls it; this call was not carried out", info)
	case guard.Unavailable:
		return build(codes.Unavailable,
			"the lock that this call needs cannot be taken at the moment; this call was not carried out and can be sent again",
			info, retry)
	case guard.Canceled:
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return build(codes.DeadlineExceeded, "the call ran out of time before it got its lock; it was not carried out", info)
		}
		return build(codes.Canceled, "the call was cancelled before it got its lock; it was not carried out", info)
	case guard.Lost:
		return build(codes.Internal,
			"the lock was lost while the call was carried out; it may or may not have taken effect, do not repeat it without looking", info)
	case guard.Skipped:
		return build(codes.AlreadyExists, "another call does the work of this one; this call was not carried out", info)
	default:
		info.Reason = guard.Invalid.Code()
		return build(codes.Internal, "the lock of this method is set up wrongly; the call was not carried out", info)
	}
}

func build(code codes.Code, message string, details ...protoadapt.MessageV1) *status.Status {
	st := status.New(code, message)
	if detailed, err := st.WithDetails(details...); err == nil {
		return detailed
	}
	return st
}

// complaint describes which value is wrong and how, without the value itself.
func (c *call) complaint(e *guard.Error) (field, complaint string) {
	var value *key.ValueError
	if errors.As(e.Err, &value) {
		field = value.Var
		if c.plan != nil {
			field = c.plan.field(field)
		}
	}
	switch {
	case errors.Is(e.Err, key.ErrMissing):
		return field, "is missing or empty"
	case errors.Is(e.Err, key.ErrAmbiguous):
		return field, "is given more than once"
	case errors.Is(e.Err, key.ErrTooLong):
		return field, "is too long"
	}
	return field, "is not written as it must be"
}
