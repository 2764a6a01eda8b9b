package httpguard_test

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/guard/guardtest"
	"github.com/redlatch/redlatch/core/guard/httpguard"
	"github.com/redlatch/redlatch/core/key"
)

const problems = "https://github.com/redlatch/redlatch/blob/main/ginlock/problems.md#"

func TestProblemDocuments(t *testing.T) {
	value := func(err error) error {
		return &key.ValueError{Template: "lock:<query.user>", Var: "query.user", Err: err}
	}
	store := guardtest.ErrDown
	for title, test := range map[string]struct {
		err        error
		kind       guard.Kind
		status     int
		retryAfter string
		body       string // between the type and the instance
	}{
		"contended": {store, guard.Contended, 409, "1", `lock_contended","title":"Locked by another request","status":409,` +
			`"detail":"Another request holds the lock that this one needs. This request was not carried out; it can be sent again."`},
		"overloaded": {store, guard.Overloaded, 429, "1", `lock_overloaded","title":"Too many requests wait for the lock","status":429,` +
			`"detail":"Another request holds the lock that this one needs, and too many wait for it. This request was not carried out; it can be sent again."`},
		"value missing": {value(key.ErrMissing), guard.BadKey, 400, "", `lock_key_invalid","title":"Lock key cannot be made","status":400,` +
			`"detail":"The value \"query.user\" is missing or empty."`},
		"value twice": {value(key.ErrAmbiguous), guard.BadKey, 400, "", `lock_key_invalid","title":"Lock key cannot be made","status":400,` +
			`"detail":"The value \"query.user\" is given more than once."`},
		"value too long": {value(key.ErrTooLong), guard.BadKey, 400, "", `lock_key_invalid","title":"Lock key cannot be made","status":400,` +
			`"detail":"The value \"query.user\" is too long."`},
		"key too long": {&key.ValueError{Template: "lock:<query.user>", Err: key.ErrTooLong}, guard.BadKey, 400, "", `lock_key_invalid","title":"Lock key cannot be made","status":400,` +
			`"detail":"A value that the lock is made of is too long."`},
		"value of a func": {store, guard.BadKey, 400, "", `lock_key_invalid","title":"Lock key cannot be made","status":400,` +
			`"detail":"A value that the lock is made of is not written as it must be."`},
		"body too large": {value(&http.MaxBytesError{Limit: 100}), guard.BadKey, 413, "", `lock_key_invalid","title":"Request body too large","status":413,` +
			`"detail":"The body may have at most 100 bytes."`},
		"unavailable": {store, guard.Unavailable, 503, "1", `lock_unavailable","title":"Locking is unavailable","status":503,` +
			`"detail":"The lock that this request needs cannot be taken at the moment. This request was not carried out; it can be sent again."`},
		"canceled": {context.Canceled, guard.Canceled, 503, "1", `lock_canceled","title":"Canceled","status":503,` +
			`"detail":"The request was canceled or ran out of time before it got its lock. It was not carried out; it can be sent again."`},
		"too slow": {fmt.Errorf("body: %w", os.ErrDeadlineExceeded), guard.Canceled, 408, "1", `lock_canceled","title":"Request timed out","status":408,` +
			`"detail":"The body did not come in time. This request was not carried out; it can be sent again."`},
		"lost": {store, guard.Lost, 500, "", `lock_lost","title":"Lock lost","status":500,` +
			`"detail":"The lock was lost while the request was carried out. It may or may not have taken effect; do not repeat it without looking."`},
		"invalid": {store, guard.Invalid, 500, "", `lock_rule_invalid","title":"Lock rule cannot be applied","status":500,` +
			`"detail":"The lock of this operation is set up wrongly. This request was not carried out."`},
		"skipped": {store, guard.Skipped, 204, "", ""},
	} {
		t.Run(title, func(t *testing.T) {
			w := refuse(t, &guard.Error{Kind: test.kind, Err: test.err})
			want := ""
			if test.body != "" {
				want = fmt.Sprintf(`{"type":"%s%s,"instance":"/orders/a%%20b","code":"%s","retryable":%v}`, problems, test.body, test.kind.Code(), test.kind.Retryable())
			}
			if w.Code != test.status || w.Body.String() != want {
				t.Errorf("got  %d %s\nwant %d %s", w.Code, w.Body, test.status, want)
			}
			if got := w.Header().Get("Retry-After"); got != test.retryAfter {
				t.Errorf("Retry-After is %q, want %q", got, test.retryAfter)
			}
			if want != "" && (w.Header().Get("Content-Type") != "application/problem+json" || w.Header().Get("Content-Length") != "") {
				t.Errorf("headers are %v", w.Header())
			}
		})
	}
}

// A handler that enters a guard itself may make the error itself.
func TestAProblemOfNoKindIsTheProgramsFault(t *testing.T) {
	for _, kind := range []guard.Kind{guard.None, guard.Kind(len(guard.Kinds()) + 1)} {
		if w := refuse(t, &guard.Error{Kind: kind}); w.Code != http.StatusInternalServerError || guardtest.Code(t, w) != "LOCK_RULE_INVALID" {
			t.Errorf("%v: got %d %s", kind, w.Code, w.Body)
		}
	}
}

// A middleware in front may send other bytes than it is given.
func TestAProblemCanBeCompressed(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		compress := gzip.NewWriter(w)
		defer compress.Close()
		httpguard.Problem(compressed{w, compress}, exchange{r: r}, &guard.Error{Kind: guard.Contended})
	}))
	defer server.Close()
	response, err := server.Client().Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if text, err := io.ReadAll(response.Body); err != nil || !strings.HasSuffix(string(text), `"retryable":true}`) {
		t.Errorf("got %s, %v", text, err)
	}
}

type compressed struct {
	http.ResponseWriter
	io.Writer
}

func (w compressed) Write(p []byte) (int, error) { return w.Writer.Write(p) }

// The status of a kind is the one of guard's table, in answers and documents.
func TestAnswersAreThoseOfTheTableOfKinds(t *testing.T) {
	page, err := os.ReadFile("../../../ginlock/problems.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("problem.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range guard.Kinds() {
		w := refuse(t, &guard.Error{Kind: kind.Kind})
		if w.Code != kind.Status {
			t.Errorf("%v is answered with %d, want %d", kind.Kind, w.Code, kind.Status)
		}
		if w.Body.Len() == 0 {
			continue
		}
		if code := guardtest.Code(t, w); code != kind.Code {
			t.Errorf("%v has the code %s, want %s", kind.Kind, code, kind.Code)
		}
		_, section, ok := strings.Cut(string(page), "\n## "+kind.Code+"\n")
		section, _, _ = strings.Cut(section, "\n## ")
		if !ok || !strings.Contains(section, fmt.Sprintf("Status %d", kind.Status)) {
			t.Errorf("problems.md has no section for %s with its status %d", kind.Code, kind.Status)
		}
	}
	for _, kind := range guard.Kinds() {
		row := fmt.Sprintf("//\t%-16s %d", strings.ReplaceAll(strings.Title(kind.Name), " ", ""), kind.Status) //nolint:staticcheck // plain words
		if kind.Kind == guard.Invalid {
			row = "//\tInvalid          500"
		}
		if !strings.Contains(string(source), row) {
			t.Errorf("the table of Problem has no row %q", row)
		}
	}
}

func retryAfter(t testing.TB, d time.Duration) string {
	t.Helper()
	g := guardtest.Guard(t)
	guardtest.Hold(t, g, "lock:x")
	m, err := httpguard.New("httpguard", g, "lock:x", httpguard.WithRetryAfter(d))
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	m.Serve(exchange{r: httptest.NewRequest("POST", "/", nil), w: w})
	return w.Header().Get("Retry-After")
}

func TestRetryAfterIsWholeSecondsAndNeverTooEarly(t *testing.T) {
	for d, want := range map[time.Duration]string{
		1: "1", time.Second: "1", time.Second + 1: "2", 90 * time.Second: "90", 1<<63 - 1: "9223372037",
	} {
		if got := retryAfter(t, d); got != want {
			t.Errorf("%v: got %s, want %s", d, got, want)
		}
	}
}

func TestAProblemHasNothingOfAnotherAnswer(t *testing.T) {
	w := httptest.NewRecorder()
	for _, name := range []string{
		"CDN-Cache-Control", "Cloudflare-CDN-Cache-Control", "Surrogate-Control", "Cache-Control", "Content-Length", "Content-Range",
		"Content-Disposition", "ETag", "Last-Modified", "Location", "Retry-After", "X-Request-Id",
	} {
		w.Header().Set(name, "7")
	}
	e := &guard.Error{Kind: guard.Lost, Err: guardtest.ErrDown}
	httpguard.Problem(w, exchange{r: httptest.NewRequest(http.MethodPost, "/", nil)}, e)
	got := w.Result().Header
	want := http.Header{"Cache-Control": {"no-store"}, "Content-Type": {"application/problem+json"}, "X-Request-Id": {"7"}}
	if !maps.EqualFunc(got, want, slices.Equal[[]string]) {
		t.Errorf("got %v", got)
	}
}
