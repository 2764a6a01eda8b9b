package ginlock

import (
	"github.com/gin-gonic/gin"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/guard/httpguard"
)

// answers is the key of gin.Context for the settings of the middleware that
// answers.
type answers struct{}

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
// The document never holds the key, an owner, or what the store said. What
// operators need to see (Unavailable, Lost, Invalid) the middleware has added
// to c.Errors.
func Problem(c *gin.Context, e *guard.Error) {
	c.Abort()
	settings := httpguard.DefaultAnswers()
	if set, ok := c.Get(answers{}); ok {
		settings = set.(httpguard.Answers)
	}
	settings.Write(c.Writer, c.Request, e)
}
