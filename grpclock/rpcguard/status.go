package rpcguard

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/key"
	"github.com/redlatch/redlatch/core/rule"
)

const (
	// Domain is that of the ErrorInfo in every status.
	Domain = "github.com/redlatch/redlatch"

	// CodeTrailer is the trailer of an answer that is empty because another
	// owner holds the lock and the rule says skip. Its value is "LOCK_SKIPPED".
	CodeTrailer = "redlatch-code"

	// PushbackTrailer has the time after which gRPC clients retry: milliseconds, or
	// -1 for never.
	PushbackTrailer = "grpc-retry-pushback-ms"

	codeDeadlineExceeded guard.RPCCode = 4
	codeAlreadyExists    guard.RPCCode = 6
)

// Status is the answer to a call as data, whatever a transport calls its parts.
type Status struct {
	Code    guard.RPCCode
	Message string          // for people; it holds no value of the request
	Details []proto.Message // of package google.rpc: ErrorInfo, and others that the kind has
	// Trailer has what a transport adds to the answer besides, such as [PushbackTrailer].
	Trailer map[string]string
}

// Refusal is why a call didn't run, or that its lock was lost. As an error it has the
// message of its status. errors.As finds the [*guard.Error], which is for the operator.
type Refusal struct {
	Status

	Cause *guard.Error
}

// Error is the message of the status.
func (r *Refusal) Error() string { return r.Status.Message }

// Unwrap returns the cause.
func (r *Refusal) Unwrap() error { return r.Cause }

// Refusal returns the answer to a call that failed with e.
func (c *Call) Refusal(ctx context.Context, e *guard.Error) *Refusal {
	delay := c.locks.delay()
	d := describer{contention: c.locks.config.Contention, delay: delay, rule: c.ruleOf(e), plan: c.plan}
	return &Refusal{d.describe(ctx, e), e}
}

// ruleOf returns the rule that an error names, or the first.
func (c *Call) ruleOf(e *guard.Error) *rule.Compiled {
	if len(c.rules) == 0 {
		return nil
	}
	return c.rules[max(0, slices.IndexFunc(c.rules, func(r *rule.Compiled) bool { return r.Name == e.Name }))]
}

// StatusOf returns the status of an error that is or wraps a [*guard.Error], for code that
// enters a guard itself, behind no integration: a handler, or a method with directives that
// it calls. Such an error says less than a [Refusal]: it has no template. ok is false for
// other errors.
func StatusOf(ctx context.Context, err error) (st Status, ok bool) {
	var e *guard.Error
	if !errors.As(err, &e) {
		return st, false
	}
	d := describer{contention: guard.Contended.Info().GRPC, delay: DefaultRetryDelay}
	return d.describe(ctx, e), true
}

// describer turns errors of a guard into statuses.
type describer struct {
	contention guard.RPCCode
	delay      time.Duration
	rule       *rule.Compiled // nil if it isn't known
	plan       *plan          // nil if there is none yet
}

func (d describer) describe(ctx context.Context, e *guard.Error) Status {
	info := &errdetails.ErrorInfo{Reason: e.Kind.Code(), Domain: Domain}
	st := Status{Code: e.Kind.Info().GRPC, Details: []proto.Message{info}}
	if d.rule != nil {
		info.Metadata = map[string]string{"template": d.rule.Key}
	}
	switch e.Kind {
	case guard.Contended:
		st.Code = d.contention
		st.Message = "another call holds the lock that this one needs; this call was not carried out and can be sent again"
		d.retry(&st)
	case guard.Overloaded:
		st.Message = "another call holds the lock that this one needs, and too many wait for it; this call was not carried out and can be sent again"
		d.retry(&st)
	case guard.BadKey:
		field, complaint := d.complaint(e)
		st.Message = "a value that the lock is made of " + complaint
		st.Details = append(st.Details, &errdetails.BadRequest{
			FieldViolations: []*errdetails.BadRequest_FieldViolation{{Field: field, Description: complaint}},
		})
	case guard.Unauthenticated:
		st.Message = "the lock of this method needs to know who calls it; this call was not carried out"
	case guard.Unavailable:
		st.Message = "the lock that this call needs cannot be taken at the moment; this call was not carried out and can be sent again"
		st.Details = append(st.Details, &errdetails.RetryInfo{RetryDelay: durationpb.New(d.delay)})
	case guard.Canceled:
		st.Message = "the call was cancelled before it got its lock; it was not carried out"
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			st.Code, st.Message = codeDeadlineExceeded, "the call ran out of time before it got its lock; it was not carried out"
		}
	case guard.Lost:
		st.Message = "the lock was lost while the call was carried out; it may or may not have taken effect, do not repeat it without looking"
		st.Trailer = map[string]string{PushbackTrailer: "-1"}
	case guard.Skipped:
		st.Code, st.Message = codeAlreadyExists, "another call does the work of this one; this call was not carried out"
	default:
		info.Reason = guard.Invalid.Code()
		st.Code, st.Message = guard.Invalid.Info().GRPC, "the lock of this method is set up wrongly; the call was not carried out"
	}
	return st
}

// retry says that the call may be sent again, and when.
func (d describer) retry(st *Status) {
	st.Details = append(st.Details, &errdetails.RetryInfo{RetryDelay: durationpb.New(d.delay)})
	if d.rule != nil {
		st.Details = append(st.Details, &errdetails.ResourceInfo{ResourceType: "lock", ResourceName: d.rule.Key})
	}
	st.Trailer = map[string]string{PushbackTrailer: strconv.FormatInt(d.delay.Milliseconds(), 10)}
}

// complaint describes which value is wrong and how, without the value itself.
func (d describer) complaint(e *guard.Error) (field, complaint string) {
	var value *key.ValueError
	if errors.As(e.Err, &value) {
		field = value.Var
		if d.plan != nil {
			field = d.plan.field(field)
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
