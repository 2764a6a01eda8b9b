package ginlock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/key"
)

// statusClientClosed is what proxies log for a client that did not wait for
// its answer.
const statusClientClosed = 499

const problemTypes = "https://github.com/redlatch/redlatch/blob/main/ginlock/problems.md#"

// answers is the key of gin.Context for the settings of the middleware that
// answers.
type answers struct{}

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

// Problem is the default error handler. It answers with a problem document
// (RFC 9457, application/problem+json), which beside the standard members has
// code, the kind's [guard.Kind.Code], and retryable:
//
//	Contended    409, or as WithContentionStatus says; Retry-After
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
	switch {
	case e.Kind == guard.Skipped:
		c.Status(http.StatusNoContent)
		return
	case e.Kind == guard.Canceled && !errors.Is(c.Request.Context().Err(), context.DeadlineExceeded):
		// No body, and no header before the chain is left. Should somebody
		// listen all the same, this is not a success.
		c.Status(statusClientClosed)
		return
	}
	settings := settingsOf(c)
	p := settings.describe(e)
	p.Instance = c.Request.URL.EscapedPath()
	if p.Retryable {
		c.Header("Retry-After", seconds(settings.retryAfter))
	}
	text, _ := json.Marshal(p)                           // texts, a number and a boolean: cannot fail
	c.Header("Content-Type", "application/problem+json") // also over one that the handler had prepared
	c.Data(p.Status, "application/problem+json", text)
}

func settingsOf(c *gin.Context) *config {
	if set, ok := c.Get(answers{}); ok {
		return set.(*config)
	}
	defaults := newConfig(nil)
	return &defaults
}

func (c *config) describe(e *guard.Error) problem {
	p := problem{Code: e.Kind.Code(), Retryable: e.Kind.Retryable()}
	switch e.Kind {
	case guard.Contended:
		p.Status, p.Title = c.contention, "Locked by another request"
		p.Detail = "Another request holds the lock that this one needs. This request was not carried out; it can be sent again."
	case guard.BadKey:
		p.Status, p.Title, p.Detail = badKey(e)
	case guard.Unavailable:
		p.Status, p.Title = http.StatusServiceUnavailable, "Locking is unavailable"
		p.Detail = "The lock that this request needs cannot be taken at the moment. This request was not carried out; it can be sent again."
	case guard.Canceled:
		p.Status, p.Title = http.StatusServiceUnavailable, "Out of time"
		p.Detail = "The request ran out of time before it got its lock. It was not carried out; it can be sent again."
	case guard.Lost:
		p.Status, p.Title = http.StatusInternalServerError, "Lock lost"
		p.Detail = "The lock was lost while the request was carried out. It may or may not have taken effect; do not repeat it without looking."
	default:
		p.Code = guard.Invalid.Code()
		p.Status, p.Title = http.StatusInternalServerError, "Lock rule cannot be applied"
		p.Detail = "The lock of this operation is set up wrongly. This request was not carried out."
	}
	p.Type = problemTypes + strings.ToLower(p.Code)
	return p
}

func badKey(e *guard.Error) (status int, title, detail string) {
	var large *http.MaxBytesError
	if errors.As(e.Err, &large) {
		return http.StatusRequestEntityTooLarge, "Request body too large",
			fmt.Sprintf("The body may have at most %d bytes.", large.Limit)
	}
	subject := "A value that the lock is made of"
	var value *key.ValueError
	if errors.As(e.Err, &value) && value.Var != "" {
		subject = "The value " + strconv.Quote(value.Var)
	}
	return http.StatusBadRequest, "Lock key cannot be made", subject + " " + complaint(e.Err) + "."
}

// complaint says what is wrong with a value, without the value.
func complaint(err error) string {
	switch {
	case errors.Is(err, errBodyType):
		return "is looked for in a body of another type"
	case errors.Is(err, errBodyRead):
		return "cannot be found because the body ended early"
	case errors.Is(err, key.ErrMissing):
		return "is missing or empty"
	case errors.Is(err, key.ErrAmbiguous):
		return "is given more than once"
	case errors.Is(err, key.ErrTooLong):
		return "is too long"
	}
	return "is not written as it must be"
}

// seconds writes a Retry-After: whole seconds, never too early.
func seconds(d time.Duration) string {
	return strconv.FormatInt(max(1, int64((d+time.Second-1)/time.Second)), 10)
}
