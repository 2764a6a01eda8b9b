package rpc

import (
	"context"
	"errors"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/examples/seckill/internal/voucher"
)

// domain is that of the ErrorInfo in every refusal of the sale.
const domain = "seckill.redlatch"

// refusal is a status and the reason in its ErrorInfo: the code that HTTP
// answers with.
type refusal struct {
	code   codes.Code
	reason string
	text   string
}

var (
	badRequest      = refusal{codes.InvalidArgument, "BAD_REQUEST", "the request has faults"}
	unauthenticated = refusal{
		codes.Unauthenticated, "UNAUTHENTICATED",
		"the gateway in front has to say who orders: a user_id of 1 to 64 visible ASCII characters",
	}
	internal = refusal{codes.Internal, "INTERNAL", "the service failed; the request may or may not have taken effect"}
)

// refusals are the answers to the errors of [voucher]. What a user may do
// about is FAILED_PRECONDITION; RESOURCE_EXHAUSTED, which clients repeat by
// themselves, wouldn't put more vouchers on sale.
var refusals = []struct {
	err error
	refusal
}{
	{voucher.ErrVoucherNotFound, refusal{codes.NotFound, "VOUCHER_NOT_FOUND", "there is no voucher with this id"}},
	{voucher.ErrOrderNotFound, refusal{codes.NotFound, "ORDER_NOT_FOUND", "there is no order with this id"}},
	{voucher.ErrNotStarted, refusal{codes.FailedPrecondition, "NOT_STARTED", "the sale of this voucher has not started yet"}},
	{voucher.ErrEnded, refusal{codes.FailedPrecondition, "ENDED", "the sale of this voucher has ended"}},
	{voucher.ErrAlreadyOrdered, refusal{codes.AlreadyExists, "ALREADY_ORDERED", "the user has ordered this voucher already; there is one for each"}},
	{voucher.ErrSoldOut, refusal{codes.FailedPrecondition, "SOLD_OUT", "none of this voucher is left"}},
	{voucher.ErrStaleFence, refusal{codes.Aborted, guard.Contended.Code(), "a newer request of this user has taken the lock over; this one was not carried out"}},
	{voucher.ErrCounting, refusal{codes.ResourceExhausted, "COUNTING", "orders are being counted; this request can be sent again later"}},
	// The rules may be replaced by some whose lock has no fence.
	{voucher.ErrNoLock, refusal{codes.Internal, guard.Invalid.Code(), "the service has no lock for this call, and nothing is done without one; it was not carried out"}},
	// Before the one that it wraps: it isn't safe to send again.
	{voucher.ErrUnconfirmed, internal},
	{voucher.ErrStoreUnavailable, refusal{codes.Unavailable, "STORE_UNAVAILABLE", "the database did not confirm in time; the request can be sent again"}},
}

// locked are the answers to the kinds of errors of a lock that the sale itself
// takes. Those of a method's lock are the interceptor's.
var locked = map[guard.Kind]refusal{
	guard.Contended:   {codes.Aborted, guard.Contended.Code(), "another request of this user is under way; send this one again"},
	guard.Overloaded:  {codes.ResourceExhausted, guard.Overloaded.Code(), "too many requests of this user are under way; send this one again later"},
	guard.BadKey:      {codes.InvalidArgument, guard.BadKey.Code(), "the request lacks what its lock is named by"},
	guard.Unavailable: {codes.Unavailable, guard.Unavailable.Code(), "the locks cannot be reached; send the request again"},
	guard.Lost:        {codes.Internal, guard.Lost.Code(), "the lock was lost meanwhile; the request may or may not have taken effect"},
}

// answer makes a status of what a handler returns. Those of the health are statuses
// already.
func answer(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	response, err := handler(ctx, request)
	if _, ok := status.FromError(err); ok { // nil is OK
		return response, err
	}
	return nil, statusOf(ctx, err)
}

// statusOf is the status of an error of the sale. An error that clients
// don't see keeps its cause for operators: see [watch].
func statusOf(ctx context.Context, err error) error {
	var invalid *voucher.InvalidError
	if errors.As(err, &invalid) {
		return badRequest.with(err, violations(invalid))
	}
	var guarded *guard.Error
	if errors.As(err, &guarded) {
		if r, ok := locked[guarded.Kind]; ok {
			return r.with(err)
		}
	}
	if ctx.Err() != nil {
		// If the lock was lost, the interceptor that holds it answers.
		return status.FromContextError(ctx.Err()).Err()
	}
	for _, r := range refusals {
		if errors.Is(err, r.err) {
			return r.with(err)
		}
	}
	return internal.with(err)
}

func violations(invalid *voucher.InvalidError) *errdetails.BadRequest {
	var list errdetails.BadRequest
	for _, f := range invalid.Faults {
		list.FieldViolations = append(list.FieldViolations, &errdetails.BadRequest_FieldViolation{
			Field: fieldOf(f.Field), Description: f.Reason,
		})
	}
	return &list
}

// fieldOf is the name in the .proto of a field that is called as in JSON.
func fieldOf(name string) string {
	var text strings.Builder
	for _, r := range name {
		if 'A' <= r && r <= 'Z' {
			text.WriteByte('_')
			r += 'a' - 'A'
		}
		text.WriteRune(r)
	}
	return text.String()
}

// failure is a status for the client with the cause for the operator.
type failure struct {
	*status.Status
	cause error
}

func (f *failure) Error() string              { return f.Err().Error() }
func (f *failure) Unwrap() error              { return f.cause }
func (f *failure) GRPCStatus() *status.Status { return f.Status }

func (r refusal) with(cause error, more ...protoadapt.MessageV1) error {
	s := status.New(r.code, r.text)
	details := append([]protoadapt.MessageV1{&errdetails.ErrorInfo{Reason: r.reason, Domain: domain}}, more...)
	if detailed, err := s.WithDetails(details...); err == nil {
		s = detailed
	}
	return &failure{s, cause}
}
