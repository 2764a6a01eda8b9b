package httpguard

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/key"
)

// problemTypes is where the types of problems are described.
const problemTypes = "https://github.com/redlatch/redlatch/blob/main/ginlock/problems.md#"

// answers are the settings of the answers to requests that didn't run.
type answers struct {
	contention int           // status of a request that did not get its lock
	retryAfter time.Duration // the Retry-After header
}

var defaultAnswers = answers{contention: http.StatusConflict, retryAfter: DefaultRetryAfter}

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

// Problem is the default error handler. It answers with a problem document (RFC
// 9457, application/problem+json), which besides the standard members has code,
// the kind's [guard.Kind.Code], and retryable:
//
//	Contended        409, or as WithContentionStatus says; Retry-After
//	Overloaded       429; Retry-After
//	BadKey           400, or 413 for a body that is too large
//	Unauthenticated  401, for the variables of WithIdentity
//	Unavailable      503; Retry-After
//	Canceled         503, or 408 for a body that came too slowly; Retry-After. Nobody
//	                 reads it if the client has gone
//	Lost             500; the handler has run
//	Skipped          204 without a body
//	Invalid          500
//
// The document never holds the key, an owner, or what the store said. Operators
// find that in the guard's log. No cache may store an answer.
func Problem(w http.ResponseWriter, q Request, e *guard.Error) {
	a := defaultAnswers
	if c, ok := q.(*call); ok {
		a = c.m.answers
	}
	h := w.Header()
	forget(h)
	h.Set("Cache-Control", "no-store")
	if e.Kind == guard.Skipped {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	p := a.describe(e)
	p.Instance = q.HTTP().URL.EscapedPath()
	text, _ := json.Marshal(p) // strings, a number and a boolean: cannot fail
	if p.Retryable {
		h.Set("Retry-After", seconds(a.retryAfter))
	}
	h.Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	_, _ = w.Write(text) // a client that is gone needs no answer
}

// forget removes headers that a handler, or a middleware in front, has prepared for another
// answer. Some caches heed CDN-Cache-Control (RFC 9213) or a header like it instead of
// Cache-Control. The length is the server's to set, as a writer in front may compress.
func forget(h http.Header) {
	for name := range h {
		switch {
		case strings.HasSuffix(name, "Cache-Control"), name == "Surrogate-Control",
			name == "Content-Length", name == "Content-Range", name == "Content-Disposition",
			name == "Etag", name == "Last-Modified", name == "Location", name == "Retry-After":
			delete(h, name)
		}
	}
}

// explanations are the title and the detail of a problem, except of a BadKey.
var explanations = map[guard.Kind][2]string{
	guard.Contended: {
		"Locked by another request",
		"Another request holds the lock that this one needs. This request was not carried out; it can be sent again.",
	},
	// Not 503: a key that is wanted too much says nothing against this instance.
	guard.Overloaded: {
		"Too many requests wait for the lock",
		"Another request holds the lock that this one needs, and too many wait for it. This request was not carried out; it can be sent again.",
	},
	guard.Unauthenticated: {
		"Not logged in",
		"The lock of this request needs to know who sends it. This request was not carried out.",
	},
	guard.Unavailable: {
		"Locking is unavailable",
		"The lock that this request needs cannot be taken at the moment. This request was not carried out; it can be sent again.",
	},
	guard.Canceled: {
		"Canceled",
		"The request was canceled or ran out of time before it got its lock. It was not carried out; it can be sent again.",
	},
	guard.Lost: {
		"Lock lost",
		"The lock was lost while the request was carried out. It may or may not have taken effect; do not repeat it without looking.",
	},
	guard.Invalid: {
		"Lock rule cannot be applied",
		"The lock of this operation is set up wrongly. This request was not carried out.",
	},
}

func (a answers) describe(e *guard.Error) problem {
	info := e.Kind.Info()
	if info.Code == "" {
		info = guard.Invalid.Info()
	}
	text := explanations[info.Kind]
	p := problem{
		Type: problemTypes + strings.ToLower(info.Code), Title: text[0], Status: info.Status,
		Detail: text[1], Code: info.Code, Retryable: info.Retryable,
	}
	switch e.Kind {
	case guard.Contended:
		p.Status = a.contention
	case guard.BadKey:
		p.Status, p.Title, p.Detail = badKey(e)
	case guard.Canceled:
		if errors.Is(e.Err, os.ErrDeadlineExceeded) {
			p.Status, p.Title = http.StatusRequestTimeout, "Request timed out"
			p.Detail = "The body did not come in time. This request was not carried out; it can be sent again."
		}
	}
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

// complaints say what is wrong with a value, without the value.
var complaints = [...]struct {
	err  error
	text string
}{
	{errBodyType, "is looked for in a body of another type"},
	{errFormMethod, "is looked for in a form, which a request of this method does not have"},
	{errInteger, "is an integer beyond 2^53, which parsers read in different ways; send it as a string"},
	{errBodyRead, "cannot be found because the body ended early"},
	{key.ErrMissing, "is missing or empty"},
	{key.ErrAmbiguous, "is given more than once"},
	{key.ErrTooLong, "is too long"},
}

func complaint(err error) string {
	for _, c := range complaints {
		if errors.Is(err, c.err) {
			return c.text
		}
	}
	return "is not written as it must be"
}

// seconds writes a Retry-After: whole seconds, never too early.
func seconds(d time.Duration) string {
	whole := int64(d / time.Second)
	if d%time.Second > 0 {
		whole++
	}
	return strconv.FormatInt(max(1, whole), 10)
}
