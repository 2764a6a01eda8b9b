package httpguard_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"go.uber.org/goleak"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/guard/guardtest"
	"github.com/redlatch/redlatch/core/guard/httpguard"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// exchange is the least that an integration can be.
type exchange struct {
	r   *http.Request
	w   http.ResponseWriter
	ran func(*http.Request)
}

func (x exchange) HTTP() *http.Request             { return x.r }
func (x exchange) PathValue(string) (string, bool) { return "", false }
func (x exchange) Value(any) any                   { return nil }
func (x exchange) Pattern() string                 { return "/x" }
func (x exchange) ClientIP() string                { return "" }
func (x exchange) Writer() http.ResponseWriter     { return x.w }
func (x exchange) Refused(*guard.Error)            {}

func (x exchange) Next(r *http.Request) bool {
	x.ran(r)
	return true
}

func (x exchange) Answer(f func(http.ResponseWriter)) bool {
	f(x.w)
	return true
}

// serve sends a request through a middleware with a key that source makes, and
// returns what it made.
func serve(t testing.TB, source httpguard.Source, r *http.Request) (value string, err error) {
	t.Helper()
	see := func(q httpguard.Request) (string, error) {
		value, err = source(q)
		return "k", nil
	}
	m, fault := httpguard.New("httpguard", guardtest.Guard(t), "lock:x", httpguard.WithKeyFunc(see), httpguard.WithStreamedBody())
	if fault != nil {
		t.Fatal(fault)
	}
	ran := false
	m.Serve(exchange{r: r, w: httptest.NewRecorder(), ran: func(*http.Request) { ran = true }})
	if !ran {
		t.Error("the handler did not run")
	}
	return value, err
}

// refuse answers a request with an error.
func refuse(t testing.TB, e *guard.Error) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	w.Header().Set("Content-Length", "3") // of an answer that was not given
	httpguard.Problem(w, exchange{r: httptest.NewRequest("POST", "/orders/a%20b?secret=1", nil)}, e)
	return w
}
