package httplock_test

import (
	"io"
	"log"
	"net/http"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"github.com/redlatch/redlatch/httplock"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// tellKey is a handler that answers with the key it runs under.
func tellKey(w http.ResponseWriter, r *http.Request) {
	lease, ok := httplock.From(r)
	if !ok {
		_, _ = io.WriteString(w, "no lock")
		return
	}
	w.WriteHeader(http.StatusCreated)
	_, _ = io.WriteString(w, lease.Key())
}

type middleware = func(http.Handler) http.Handler

// on is a mux with one route, whose handler is behind the middlewares, the
// first outermost.
func on(pattern string, handler http.HandlerFunc, chain ...middleware) *http.ServeMux {
	mux := http.NewServeMux()
	route(mux, pattern, handler, chain...)
	return mux
}

// route adds a route.
func route(mux *http.ServeMux, pattern string, handler http.HandlerFunc, chain ...middleware) {
	var h http.Handler = handler
	for _, wrap := range slices.Backward(chain) {
		h = wrap(h)
	}
	mux.Handle(pattern, h)
}

// before is a middleware that does something with the request first.
func before(do func(r *http.Request) *http.Request) middleware {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { next.ServeHTTP(w, do(r)) })
	}
}

func newLog(w io.Writer) *log.Logger { return log.New(w, "", 0) }
