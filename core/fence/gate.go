package fence

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/redlatch/redlatch/core/lock"
)

// Gate protects a resource that is reached by HTTP: it admits only the newest
// holder of the lock. It claims before the handler runs, for reads too, because an
// older holder must not change what a newer one has read.
//
// An admitted request can still be overtaken by a newer holder while its handler
// runs. Call [Recheck] right before the write or, better, claim again in the
// transaction of the write: with [Admitted], and [Table.Claim] or [Guards.Claim].
//
// The header proves nothing if anybody can send it. If clients other than the
// services that take the locks can reach the resource, set a [Signer], or have the
// proxy at the edge remove the header.
type Gate struct {
	// Store remembers the tokens. Required.
	Store Store
	// Key says which lock the request must have been made under, by the key that
	// its sender has taken; it is part of the signature. Take it from what the
	// request is about (the path), never from what it says of itself. An error that
	// wraps [ErrMalformed] says that the request is about no lock (400); with any
	// other, this service can't tell (503). Required.
	Key func(*http.Request) (string, error)
	// Signer checks the signature; nil expects none.
	Signer *Signer
	// Optional lets in requests without the header, unchecked.
	Optional bool
	// Refused sees the requests that are refused, and why, before they are
	// answered. It is the place for a log line: see [Refuse]. nil does nothing.
	Refused func(*http.Request, error)
}

// errMissing: the header is required, and not there.
var errMissing = fmt.Errorf("%w: the request has no fence token", lock.ErrNotHeld)

type admissionKey struct{}

// admission is the token that a request was admitted with, and what [Recheck]
// needs.
type admission struct {
	store Store
	key   string
	token Token
}

// Handler returns a middleware that calls next for requests that [Gate.Admit]
// admits, and answers the others with [Refuse]. It panics if the Gate has no Store
// or no Key.
func (g *Gate) Handler(next http.Handler) http.Handler {
	if g.Store == nil || g.Key == nil {
		panic("fence.Gate: Store and Key are required") //nolint:forbidigo // documented: a wrong set-up cannot be run
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		admitted, err := g.Admit(r)
		if err != nil {
			if g.Refused != nil {
				g.Refused(r, err)
			}
			Refuse(w, r, err)
			return
		}
		next.ServeHTTP(w, admitted)
	})
}

// Admit claims the token of a request, for frameworks with their own
// middleware. The request it returns carries the token for [Admitted] and [Recheck].
// Errors: [ErrStale], [ErrMalformed], [ErrForged], [lock.ErrNotHeld] without a token,
// one of Key or of the store; all are for [Refuse].
func (g *Gate) Admit(r *http.Request) (*http.Request, error) {
	values := r.Header.Values(Header)
	switch {
	case len(values) == 0 && g.Optional:
		return r, nil
	case len(values) == 0:
		return nil, errMissing
	case len(values) > 1:
		return nil, ErrMalformed
	}
	key, err := g.Key(r)
	if err != nil {
		return nil, err
	}
	token, err := g.Signer.Parse(key, values[0])
	if err != nil {
		return nil, err
	}
	if err := g.Store.Claim(r.Context(), key, token); err != nil {
		return nil, err
	}
	return r.WithContext(context.WithValue(r.Context(), admissionKey{}, &admission{g.Store, key, token})), nil
}

// Admitted returns the token that a [Gate] let the request in with.
func Admitted(ctx context.Context) (Token, bool) {
	a, ok := ctx.Value(admissionKey{}).(*admission)
	if !ok {
		return Token{}, false
	}
	return a.token, true
}

// Recheck returns nil if the token with which the request was admitted is still the
// newest, and [ErrStale] if it isn't. A request without such a token gets
// [lock.ErrNotHeld]. Any other error means that the store couldn't answer.
func Recheck(ctx context.Context) error {
	a, ok := ctx.Value(admissionKey{}).(*admission)
	if !ok {
		return &lock.Error{Op: "recheck fence", Err: errMissing}
	}
	return a.store.Claim(ctx, a.key, a.token)
}

// problem is the body of an answer, as RFC 9457 has it.
type problem struct {
	Type      string `json:"type"`
	Title     string `json:"title"`
	Status    int    `json:"status"`
	Detail    string `json:"detail"`
	Instance  string `json:"instance"`
	Code      string `json:"code"`
	Retryable bool   `json:"retryable"`
}

const problemTypes = "https://github.com/redlatch/redlatch/blob/main/core/fence/problems.md#"

var unreadable = problem{
	Status: http.StatusBadRequest, Code: "FENCE_INVALID", Title: "Fence is malformed",
	Detail: "The request's fence, or the lock that it belongs to, cannot be read. The request was not carried out.",
}

// refusals are the answers; the last is for every other error.
var refusals = []struct {
	err error
	problem
}{
	{errMissing, problem{
		Status: http.StatusPreconditionRequired, Code: "FENCE_REQUIRED", Title: "Fence required",
		Detail: "This resource is protected by a lock. The request must carry the fence of that lock.",
	}},
	{ErrStale, problem{
		Status: http.StatusPreconditionFailed, Code: "FENCE_STALE", Title: "Fence is stale",
		Detail: "The lock that this request was made under has a newer holder. The request was not carried out.",
	}},
	{ErrForged, problem{
		Status: http.StatusForbidden, Code: "FENCE_FORGED", Title: "Fence is not valid here",
		Detail: "The fence is not signed for the lock of this resource. The request was not carried out.",
	}},
	{ErrMalformed, unreadable},
	{errGuardKey, unreadable},
	{nil, problem{
		Status: http.StatusServiceUnavailable, Code: "FENCE_UNAVAILABLE", Title: "Fences cannot be checked",
		Detail: "Whether the request comes late is unknown at the moment. It was not carried out; it can be sent again.", Retryable: true,
	}},
}

// Refuse answers a request with a problem document (RFC 9457,
// application/problem+json) for an error of [Gate.Admit] or [Recheck]:
//
//	428  FENCE_REQUIRED     there is no header
//	400  FENCE_INVALID      it is not a token, or is there twice, or no lock is meant
//	403  FENCE_FORGED       it is not signed for this lock
//	412  FENCE_STALE        a newer holder was there
//	503  FENCE_UNAVAILABLE  the store or the Key cannot say; Retry-After
//
// The document holds nothing of the token, the key, or the error, which in the
// case of 503 operators should see.
func Refuse(w http.ResponseWriter, r *http.Request, err error) {
	var p problem
	for _, refusal := range refusals {
		if refusal.err == nil || errors.Is(err, refusal.err) {
			p = refusal.problem
			break
		}
	}
	p.Type, p.Instance = problemTypes+strings.ToLower(p.Code), r.URL.EscapedPath()
	if p.Retryable {
		w.Header().Set("Retry-After", "1")
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // nobody can act on a response that is gone
}
