package ginlock_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/guard/guardtest"
	"github.com/redlatch/redlatch/core/key"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
	"github.com/redlatch/redlatch/ginlock"
)

const problemTypes = "https://github.com/redlatch/redlatch/blob/main/ginlock/problems.md#"

func TestProblemDocuments(t *testing.T) {
	// What must never get out.
	store := &lock.Error{Op: "acquire", Key: "lock:order:42", Err: guardtest.ErrDown}
	value := func(err error) error {
		return &key.ValueError{Template: "lock:order:<query.user>", Var: "query.user", Err: err}
	}
	for title, test := range map[string]struct {
		err        *guard.Error
		status     int
		retryAfter string
		body       string
	}{
		"contended": {
			&guard.Error{Kind: guard.Contended, Err: store}, 409, "1",
			`{"type":"` + problemTypes + `lock_contended","title":"Locked by another request","status":409,` +
				`"detail":"Another request holds the lock that this one needs. This request was not carried out; it can be sent again.",` +
				`"instance":"/orders/a%20b","code":"LOCK_CONTENDED","retryable":true}`,
		},
		"overloaded": {
			&guard.Error{Kind: guard.Overloaded, Err: store}, 429, "1",
			`{"type":"` + problemTypes + `lock_overloaded","title":"Too many requests wait for the lock","status":429,` +
				`"detail":"Another request holds the lock that this one needs, and too many wait for it. This request was not carried out; it can be sent again.",` +
				`"instance":"/orders/a%20b","code":"LOCK_OVERLOADED","retryable":true}`,
		},
		"value missing": {
			&guard.Error{Kind: guard.BadKey, Err: value(key.ErrMissing)}, 400, "",
			`{"type":"` + problemTypes + `lock_key_invalid","title":"Lock key cannot be made","status":400,` +
				`"detail":"The value \"query.user\" is missing or empty.",` +
				`"instance":"/orders/a%20b","code":"LOCK_KEY_INVALID","retryable":false}`,
		},
		"value ambiguous": {
			&guard.Error{Kind: guard.BadKey, Err: value(key.ErrAmbiguous)}, 400, "",
			`{"type":"` + problemTypes + `lock_key_invalid","title":"Lock key cannot be made","status":400,` +
				`"detail":"The value \"query.user\" is given more than once.",` +
				`"instance":"/orders/a%20b","code":"LOCK_KEY_INVALID","retryable":false}`,
		},
		"value too long": {
			&guard.Error{Kind: guard.BadKey, Err: value(key.ErrTooLong)}, 400, "",
			`{"type":"` + problemTypes + `lock_key_invalid","title":"Lock key cannot be made","status":400,` +
				`"detail":"The value \"query.user\" is too long.",` +
				`"instance":"/orders/a%20b","code":"LOCK_KEY_INVALID","retryable":false}`,
		},
		"value of a source of its own": {
			&guard.Error{Kind: guard.BadKey, Err: guardtest.ErrDown}, 400, "",
			`{"type":"` + problemTypes + `lock_key_invalid","title":"Lock key cannot be made","status":400,` +
				`"detail":"A value that the lock is made of is not written as it must be.",` +
				`"instance":"/orders/a%20b","code":"LOCK_KEY_INVALID","retryable":false}`,
		},
		"body too large": {
			&guard.Error{Kind: guard.BadKey, Err: value(&http.MaxBytesError{Limit: 100})}, 413, "",
			`{"type":"` + problemTypes + `lock_key_invalid","title":"Request body too large","status":413,` +
				`"detail":"The body may have at most 100 bytes.",` +
				`"instance":"/orders/a%20b","code":"LOCK_KEY_INVALID","retryable":false}`,
		},
		"unavailable": {
			&guard.Error{Kind: guard.Unavailable, Err: store}, 503, "1",
			`{"type":"` + problemTypes + `lock_unavailable","title":"Locking is unavailable","status":503,` +
				`"detail":"The lock that this request needs cannot be taken at the moment. This request was not carried out; it can be sent again.",` +
				`"instance":"/orders/a%20b","code":"LOCK_UNAVAILABLE","retryable":true}`,
		},
		"lost": {
			&guard.Error{Kind: guard.Lost, Err: store}, 500, "",
			`{"type":"` + problemTypes + `lock_lost","title":"Lock lost","status":500,` +
				`"detail":"The lock was lost while the request was carried out. It may or may not have taken effect; do not repeat it without looking.",` +
				`"instance":"/orders/a%20b","code":"LOCK_LOST","retryable":false}`,
		},
		"invalid": {
			&guard.Error{Kind: guard.Invalid, Err: store}, 500, "",
			`{"type":"` + problemTypes + `lock_rule_invalid","title":"Lock rule cannot be applied","status":500,` +
				`"detail":"The lock of this operation is set up wrongly. This request was not carried out.",` +
				`"instance":"/orders/a%20b","code":"LOCK_RULE_INVALID","retryable":false}`,
		},
		"skipped":  {&guard.Error{Kind: guard.Skipped, Err: store}, 204, "", ""},
		"canceled": {&guard.Error{Kind: guard.Canceled, Err: store}, 499, "", ""},
	} {
		t.Run(title, func(t *testing.T) {
			r := gin.New()
			r.POST("/*rest", func(c *gin.Context) { ginlock.Problem(c, test.err) }, func(*gin.Context) { t.Error("not aborted") })
			w := guardtest.Send(r, "POST", "/orders/a%20b?secret=1", "")
			if w.Code != test.status || w.Body.String() != test.body {
				t.Errorf("got  %d %s\nwant %d %s", w.Code, w.Body, test.status, test.body)
			}
			if got := w.Header().Get("Retry-After"); got != test.retryAfter {
				t.Errorf("Retry-After is %q, want %q", got, test.retryAfter)
			}
			if got := w.Header().Get("Content-Type"); test.body != "" && got != "application/problem+json" {
				t.Errorf("Content-Type is %q", got)
			}
		})
	}
}

func TestProblemOfARequestThatRanOutOfTime(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	w := httptest.NewRecorder()
	c, _ := gin.CreateTestContext(w)
	c.Request = httptest.NewRequestWithContext(ctx, "POST", "/", nil)
	ginlock.Problem(c, &guard.Error{Kind: guard.Canceled, Err: context.DeadlineExceeded})
	const want = `{"type":"` + problemTypes + `lock_canceled","title":"Out of time","status":503,` +
		`"detail":"The request ran out of time before it got its lock. It was not carried out; it can be sent again.",` +
		`"instance":"/","code":"LOCK_CANCELED","retryable":true}`
	if w.Code != http.StatusServiceUnavailable || w.Body.String() != want || w.Header().Get("Retry-After") != "1" {
		t.Errorf("got %d %v %s", w.Code, w.Header(), w.Body)
	}
}

func TestContentionStatusAndRetryAfterAreOptions(t *testing.T) {
	for title, test := range map[string]struct {
		opts       []ginlock.Option
		status     int
		retryAfter string
	}{
		"defaults":         {nil, 409, "1"},
		"409":              {[]ginlock.Option{ginlock.WithContentionStatus(409)}, 409, "1"},
		"423":              {[]ginlock.Option{ginlock.WithContentionStatus(423)}, 423, "1"},
		"429":              {[]ginlock.Option{ginlock.WithContentionStatus(429)}, 429, "1"},
		"a moment":         {[]ginlock.Option{ginlock.WithRetryAfter(1)}, 409, "1"},
		"rounded up":       {[]ginlock.Option{ginlock.WithRetryAfter(1001 * time.Millisecond)}, 409, "2"},
		"whole":            {[]ginlock.Option{ginlock.WithRetryAfter(3 * time.Second)}, 409, "3"},
		"in a wrapped one": {[]ginlock.Option{ginlock.WithErrorHandler(wrapped), ginlock.WithContentionStatus(429)}, 429, "1"},
	} {
		t.Run(title, func(t *testing.T) {
			g := guardtest.Guard(t)
			guardtest.Hold(t, g, "lock:x")
			r := gin.New()
			r.POST("/", ginlock.New(g, "lock:x", test.opts...))
			w := guardtest.Send(r, "POST", "/", "")
			if w.Code != test.status || w.Header().Get("Retry-After") != test.retryAfter {
				t.Errorf("got %d, Retry-After %q", w.Code, w.Header().Get("Retry-After"))
			}
			if !strings.Contains(w.Body.String(), `"status":`+strconv.Itoa(test.status)) {
				t.Errorf("the document says %s", w.Body)
			}
		})
	}
}

func wrapped(c *gin.Context, e *guard.Error) {
	c.Header("X-Wrapped", "1")
	ginlock.Problem(c, e)
}

func TestRetryAfterAlsoGoesWithUnavailable(t *testing.T) {
	g := guard.Must(guard.New(guardtest.Locker(t, guardtest.Broken{Store: memstore.New()})))
	r := gin.New()
	r.POST("/", ginlock.New(g, "lock:order:42", ginlock.WithRetryAfter(7*time.Second), ginlock.WithContentionStatus(429)))
	w := guardtest.Send(r, "POST", "/", "")
	if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "7" {
		t.Errorf("got %d %v", w.Code, w.Header())
	}
}

func TestAnswersHoldNothingOfTheLock(t *testing.T) {
	working := guardtest.Guard(t)
	lease := guardtest.Hold(t, working, "lock:alice")
	broken := guard.Must(guard.New(guardtest.Locker(t, guardtest.Broken{Store: memstore.New()})))
	for title, g := range map[string]*guard.Guard{"contended": working, "unavailable": broken} {
		t.Run(title, func(t *testing.T) {
			r := gin.New()
			r.POST("/", ginlock.New(g, "lock:<query.u>"))
			w := guardtest.Send(r, "POST", "/?u=alice", "")
			for _, secret := range []string{"alice", "lock:", lease.Owner(), "NOAUTH", "10.1.2.3"} {
				if strings.Contains(w.Body.String(), secret) {
					t.Errorf("%q is in %s", secret, w.Body)
				}
			}
		})
	}
}

func TestEveryProblemTypeIsDescribed(t *testing.T) {
	text := readFile(t, "problems.md")
	for _, kind := range []guard.Kind{
		guard.Contended, guard.Overloaded, guard.BadKey, guard.Unavailable, guard.Canceled, guard.Lost, guard.Invalid,
	} {
		if !strings.Contains(text, "\n## "+kind.Code()+"\n") {
			t.Errorf("problems.md has no section for %s", kind.Code())
		}
	}
}
