package httplock

import (
	"net/http"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/guard/httpguard"
)

// Problem is the default error handler. It answers with a problem document
// (RFC 9457, application/problem+json), which beside the standard members has
// code, the kind's [guard.Kind.Code], and retryable:
//
//	Contended    409, or as WithContentionStatus says; Retry-After
//	Overloaded   429; Retry-After
//	BadKey       400, or 413 for a body that is too large
//	Unavailable  503; Retry-After
//	Canceled     503 and Retry-After when the request ran out of time;
//	             nothing when its client has gone: the status 499 is for logs
//	Lost         500; the handler has run
//	Skipped      204 without a body
//	Invalid      500
//
// The document never holds the key, an owner, or what the store said. For what
// operators need to see there are the hooks of the guard and of its locker, or
// an error handler that logs e.Err.
func Problem(w http.ResponseWriter, r *http.Request, e *guard.Error) {
	settings, ok := r.Context().Value(answers{}).(httpguard.Answers)
	if !ok {
		settings = httpguard.DefaultAnswers()
	}
	settings.Write(w, r, e)
}
