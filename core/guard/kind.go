package guard

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/redlatch/redlatch/core/key"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/rule"
)

// Kind says what the caller of an operation can do about an error.
type Kind uint8

const (
	// None is no error, or one that isn't about locks.
	None Kind = iota
	// Contended: another owner holds the lock, and still did when the rule's
	// wait had passed. The work didn't run; trying again later is safe.
	Contended
	// BadKey: a variable of the key is missing, ambiguous, too long or not
	// canonical. The work didn't run; the caller has to change the request.
	BadKey
	// Unavailable: the store couldn't be reached or couldn't answer. The
	// work didn't run; trying again later is safe.
	Unavailable
	// Canceled: the caller's context ended before the lock was obtained. The
	// work didn't run.
	Canceled
	// Lost: the lease ended before the work did. The work may have overlapped
	// with another owner's, and must not be repeated blindly.
	Lost
	// Skipped: as Contended or Overloaded, for a rule that says [rule.Skip]. The work did
	// not run, and need not.
	Skipped
	// Invalid: the rule can't be applied: a variable without a source, a mode that the
	// store doesn't know, a caller that would wait for its own hold
	// ([lock.ErrOwnHold]). The work didn't run, and won't before the program or its
	// configuration is put right.
	Invalid
	// Overloaded: another owner holds the lock, and the limit of waiters is reached
	// ([lock.WithMaxWaiters]). The work didn't run; trying again later is safe.
	Overloaded
	// Unauthenticated: the value that says who the caller is is missing
	// ([ErrUnauthenticated]). The work didn't run; the caller has to log in.
	Unauthenticated
)

// KindInfo is a row of the table of kinds, from which integrations answer and
// documents are checked.
type KindInfo struct {
	Kind   Kind
	Name   string // in words, for people and metrics
	Code   string // the stable code that clients see; empty for [None]
	Status int    // of HTTP
	GRPC   RPCCode
	// Retryable says that the same request may succeed when it is sent again,
	// without any risk that the work runs twice.
	Retryable bool
	// Operator says that the error is the operator's business, and logged.
	Operator bool
}

// RPCCode is a status code of gRPC. Other RPC frameworks, such as Connect, use the same
// numbers: codes.Code(c) and connect.Code(c) convert it.
type RPCCode uint32

const (
	codeOK                RPCCode = 0
	codeCanceled          RPCCode = 1
	codeInvalidArgument   RPCCode = 3
	codeResourceExhausted RPCCode = 8
	codeAborted           RPCCode = 10
	codeInternal          RPCCode = 13
	codeUnavailable       RPCCode = 14
	codeUnauthenticated   RPCCode = 16
)

var rpcCodes = map[RPCCode]string{
	codeOK: "OK", codeCanceled: "CANCELLED", codeInvalidArgument: "INVALID_ARGUMENT", codeResourceExhausted: "RESOURCE_EXHAUSTED",
	codeAborted: "ABORTED", codeInternal: "INTERNAL", codeUnavailable: "UNAVAILABLE", codeUnauthenticated: "UNAUTHENTICATED",
}

// String returns the name as the specification of gRPC spells it: "ABORTED". Only codes
// of the table of kinds have one.
func (c RPCCode) String() string {
	if name, ok := rpcCodes[c]; ok {
		return name
	}
	return fmt.Sprintf("CODE(%d)", uint32(c))
}

var kinds = [...]KindInfo{
	None:        {Name: "none"},
	Contended:   {Name: "contended", Code: "LOCK_CONTENDED", Status: 409, GRPC: codeAborted, Retryable: true},
	BadKey:      {Name: "bad key", Code: "LOCK_KEY_INVALID", Status: 400, GRPC: codeInvalidArgument},
	Unavailable: {Name: "unavailable", Code: "LOCK_UNAVAILABLE", Status: 503, GRPC: codeUnavailable, Retryable: true, Operator: true},
	Canceled:    {Name: "canceled", Code: "LOCK_CANCELED", Status: 503, GRPC: codeCanceled, Retryable: true},
	Lost:        {Name: "lost", Code: "LOCK_LOST", Status: 500, GRPC: codeInternal, Operator: true},
	Skipped:     {Name: "skipped", Code: "LOCK_SKIPPED", Status: 204, GRPC: codeOK},
	Invalid:     {Name: "invalid rule", Code: "LOCK_RULE_INVALID", Status: 500, GRPC: codeInternal, Operator: true},
	Overloaded:  {Name: "overloaded", Code: "LOCK_OVERLOADED", Status: 429, GRPC: codeResourceExhausted, Retryable: true},

	Unauthenticated: {Name: "unauthenticated", Code: "LOCK_UNAUTHENTICATED", Status: 401, GRPC: codeUnauthenticated},
}

// Kinds returns the table of kinds, without [None].
func Kinds() []KindInfo {
	table := make([]KindInfo, 0, len(kinds)-1)
	for k := Contended; int(k) < len(kinds); k++ {
		table = append(table, k.Info())
	}
	return table
}

// Info returns the row of the kind in the table, or an empty one for an unknown
// kind.
func (k Kind) Info() KindInfo {
	if int(k) >= len(kinds) {
		return KindInfo{Kind: k}
	}
	info := kinds[k]
	info.Kind = k
	return info
}

// String returns the kind in words, for people and metrics.
func (k Kind) String() string {
	if name := k.Info().Name; name != "" {
		return name
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// Code returns the stable code that clients see: "LOCK_CONTENDED" and so on.
// It is empty for [None].
func (k Kind) Code() string { return k.Info().Code }

// Retryable reports whether the same request may succeed when it is sent
// again, without any risk that the work runs twice.
func (k Kind) Retryable() bool { return k.Info().Retryable }

// ErrUnresolvable is for a [Call]'s Vars to return when the fault is the
// rule's and not the request's: the variable has no source here.
var ErrUnresolvable = errors.New("variable has no source")

// ErrUnauthenticated is for a [Call]'s Vars to return when a value is missing that
// says who the caller is.
var ErrUnauthenticated = errors.New("the caller is not known")

// Identify returns [ErrUnauthenticated] if the value of v is missing or empty and v
// is among names: the variables that identify the caller, written as in a template.
// Otherwise it returns value and err, which are what a lookup of v returned.
func Identify(names []string, v key.Var, value string, err error) (string, error) {
	missing := err == nil && value == "" || errors.Is(err, key.ErrMissing)
	if missing && slices.Contains(names, v.String()) {
		return "", ErrUnauthenticated
	}
	return value, err
}

// decisions are the errors that have a kind by themselves. The first match
// counts: an [lock.ErrUnavailable] or [lock.ErrBusy] may wrap the
// [context.DeadlineExceeded] that led to it.
var decisions = [...]struct {
	err  error
	kind Kind
}{
	{ErrUnresolvable, Invalid},
	{key.ErrSyntax, Invalid},
	{key.ErrUnknown, Invalid},
	{rule.ErrInvalid, Invalid},
	{ErrUnauthenticated, Unauthenticated},
	{key.ErrMissing, BadKey},
	{key.ErrInvalid, BadKey},
	{key.ErrTooLong, BadKey},
	{key.ErrAmbiguous, BadKey},
	{lock.ErrExpired, Lost},
	{lock.ErrHeldTooLong, Lost},
	{lock.ErrNotRenewed, Lost},
	{lock.ErrTaken, Lost},
	{lock.ErrForced, Lost},
	{lock.ErrLost, Lost},
	{lock.ErrNotHeld, Lost},
	{lock.ErrTooManyWaiters, Overloaded}, // comes with ErrBusy
	{lock.ErrOwnHold, Invalid},           // comes with ErrBusy
	{lock.ErrBusy, Contended},
	{lock.ErrUnavailable, Unavailable},
	{lock.ErrClosed, Unavailable},
	{lock.ErrUnsupported, Invalid},
	{lock.ErrInvalid, Invalid},
	{context.Canceled, Canceled},
	{context.DeadlineExceeded, Canceled},
}

// KindOf returns the kind of an error: that of an [*Error], [None] for one of [Ran], and
// otherwise the one that belongs to the sentinel of package key, rule, lock or context
// that err wraps.
func KindOf(err error) Kind {
	if err == nil {
		return None
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	if errors.As(err, new(ran)) {
		return None
	}
	for _, d := range decisions {
		if errors.Is(err, d.err) {
			return d.kind
		}
	}
	return None
}
