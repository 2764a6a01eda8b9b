package web

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/examples/seckill/internal/voucher"
	"github.com/redlatch/redlatch/ginlock"
)

const problemTypes = "https://github.com/redlatch/redlatch/blob/main/examples/seckill/README.md#"

// problem is the body of a refusal, as RFC 9457 has it.
type problem struct {
	Type      string  `json:"type"`
	Title     string  `json:"title"`
	Status    int     `json:"status"`
	Detail    string  `json:"detail"`
	Instance  string  `json:"instance"`
	Code      string  `json:"code"`
	Retryable bool    `json:"retryable"`
	Errors    []fault `json:"errors,omitempty"`
}

// fault is one wrong field of a request.
type fault struct {
	Field  string `json:"field"`
	Detail string `json:"detail"`
}

// statusClientClosed is what proxies log for a client that didn't wait for
// its answer.
const statusClientClosed = 499

// The answers that several handlers give.
var (
	badRequest      = problem{Status: http.StatusBadRequest, Code: "BAD_REQUEST", Title: "Bad request"}
	unauthenticated = problem{
		Status: http.StatusUnauthorized, Code: "UNAUTHENTICATED", Title: "Unauthenticated",
		Detail: "The gateway in front has to say who orders: exactly one " + userHeader + " header of 1 to 64 visible ASCII characters.",
	}
	crossOrigin = problem{
		Status: http.StatusForbidden, Code: "CROSS_ORIGIN", Title: "Sent by another site",
		Detail: "A browser sent this for a page of another site.",
	}
	bodyTooLarge = problem{
		Status: http.StatusRequestEntityTooLarge, Code: "BODY_TOO_LARGE", Title: "Request body too large",
		Detail: fmt.Sprintf("The body may have at most %d bytes.", maxBody),
	}
	bodyTooSlow = problem{
		Status: http.StatusRequestTimeout, Code: "REQUEST_TIMEOUT", Title: "The request did not arrive in time",
		Detail: "The body announced did not arrive in time. Nothing was done.", Retryable: true,
	}
	internal = problem{
		Status: http.StatusInternalServerError, Code: "INTERNAL", Title: "Internal error",
		Detail: "The service failed. The request may or may not have taken effect.",
	}
)

// refusals are the answers to the errors of [voucher].
var refusals = []struct {
	err error
	problem
}{
	{voucher.ErrVoucherNotFound, problem{
		Status: http.StatusNotFound, Code: "VOUCHER_NOT_FOUND", Title: "No such voucher",
		Detail: "There is no voucher with this id.",
	}},
	{voucher.ErrOrderNotFound, problem{
		Status: http.StatusNotFound, Code: "ORDER_NOT_FOUND", Title: "No such order",
		Detail: "There is no order with this id.",
	}},
	{voucher.ErrNotStarted, problem{
		Status: http.StatusForbidden, Code: "NOT_STARTED", Title: "Not started",
		Detail: "The sale of this voucher has not started yet.",
	}},
	{voucher.ErrEnded, problem{
		Status: http.StatusForbidden, Code: "ENDED", Title: "Ended",
		Detail: "The sale of this voucher has ended.",
	}},
	{voucher.ErrAlreadyOrdered, problem{
		Status: http.StatusConflict, Code: "ALREADY_ORDERED", Title: "Already ordered",
		Detail: "The user has ordered this voucher already; there is one for each.",
	}},
	{voucher.ErrSoldOut, problem{
		Status: http.StatusConflict, Code: "SOLD_OUT", Title: "Sold out",
		Detail: "None of this voucher is left.",
	}},
	// The current holder of the lock has ordered since. To the client that is
	// contention: another request was first, this one did nothing.
	{voucher.ErrStaleFence, problem{
		Status: http.StatusConflict, Code: guard.Contended.Code(), Title: "Locked by another request", Retryable: true,
		Detail: "A newer request of this user has taken the lock over. This request was not carried out; it can be sent again.",
	}},
	{voucher.ErrCounting, problem{
		Status: http.StatusTooManyRequests, Code: "COUNTING", Title: "Orders are being counted", Retryable: true,
		Detail: "This instance counts the orders of one sale at a time, and then rests. The counters of the report are there at any time.",
	}},
	// The rules may be replaced by some without that of orders.
	{voucher.ErrNoLock, problem{
		Status: http.StatusInternalServerError, Code: guard.Invalid.Code(), Title: "No lock",
		Detail: "The service has no lock for this request, and nothing is done without one. This request was not carried out.",
	}},
	// Before the one that it wraps: it isn't safe to send again.
	{voucher.ErrUnconfirmed, internal},
	{voucher.ErrStoreUnavailable, problem{
		Status: http.StatusServiceUnavailable, Code: "STORE_UNAVAILABLE", Title: "The database is unavailable", Retryable: true,
		Detail: "The database did not confirm in time. The request can be sent again: a user gets at most one order.",
	}},
}

// refuse ends the request with a problem document.
func refuse(c *gin.Context, p problem) {
	c.Abort()
	c.Set(codeKey, p.Code)
	p.Type = problemTypes + strings.ToLower(p.Code)
	p.Instance = c.Request.URL.EscapedPath()
	text, err := json.Marshal(p)
	if err != nil { // cannot be: the fields are strings, numbers and booleans
		_ = c.Error(err)
		c.Status(p.Status)
		return
	}
	if p.Retryable {
		c.Header("Retry-After", "1")
	}
	c.Header("Cache-Control", "no-store")
	c.Data(p.Status, "application/problem+json", text)
}

// fail answers an error of the service.
func fail(c *gin.Context, err error) {
	var invalid *voucher.InvalidError
	if errors.As(err, &invalid) {
		faults := make([]fault, len(invalid.Faults))
		for i, f := range invalid.Faults {
			faults[i] = fault{f.Field, f.Reason}
		}
		refuseFaults(c, faults...)
		return
	}
	var locked *guard.Error
	if errors.As(err, &locked) {
		c.Set(codeKey, locked.Kind.Code())
		ginlock.Problem(c, locked)
		return
	}
	if c.Request.Context().Err() != nil {
		c.Abort()
		// Nothing is written. If the lease was lost, the middleware that holds
		// it answers; otherwise the client has gone, and the status is for logs.
		c.Status(statusClientClosed)
		return
	}
	for _, r := range refusals {
		if errors.Is(err, r.err) {
			if r.Retryable || r.Status == http.StatusInternalServerError {
				_ = c.Error(err) // for the operator
			}
			refuse(c, r.problem)
			return
		}
	}
	_ = c.Error(err)
	refuse(c, internal)
}

// refuseFaults answers 400 and names the fields.
func refuseFaults(c *gin.Context, faults ...fault) {
	p := badRequest
	p.Errors = faults
	texts := make([]string, len(faults))
	for i, f := range faults {
		texts[i] = f.Field + " " + f.Detail
	}
	p.Detail = strings.Join(texts, "; ") + "."
	refuse(c, p)
}
