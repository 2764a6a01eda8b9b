package httplock_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
	"github.com/redlatch/redlatch/core/rule"
	"github.com/redlatch/redlatch/httplock"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// patience is how long a test waits for what must happen.
const patience = 20 * time.Second

// newLocker returns a locker that is closed with the test.
func newLocker(t testing.TB, store lock.Store, opts ...lock.Option) *lock.Locker {
	t.Helper()
	locker := lock.New(store, opts...)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := locker.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return locker
}

// newGuard returns a guard on a store of its own.
func newGuard(t testing.TB, rules ...rule.Rule) *guard.Guard {
	t.Helper()
	g, err := guard.New(newLocker(t, memstore.New()), rules...)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// hold takes a key in the name of another owner.
func hold(t testing.TB, g *guard.Guard, key string) *lock.Lease {
	t.Helper()
	lease, err := g.Locker().TryAcquire(context.Background(), key)
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

// isHeld reports whether anybody has the key.
func isHeld(t testing.TB, g *guard.Guard, key string) bool {
	t.Helper()
	state, err := g.Locker().Inspect(context.Background(), key)
	if err != nil {
		t.Fatal(err)
	}
	return state.Held
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

// set is a middleware that provides a value in the request's context.
func set(key, value any) middleware {
	return before(func(r *http.Request) *http.Request {
		return r.WithContext(context.WithValue(r.Context(), key, value))
	})
}

// send serves one request.
func send(h http.Handler, method, target, body string, headers ...string) *httptest.ResponseRecorder {
	request := httptest.NewRequest(method, target, strings.NewReader(body))
	for i := 0; i+1 < len(headers); i += 2 {
		request.Header.Add(headers[i], headers[i+1])
	}
	recorder := httptest.NewRecorder()
	h.ServeHTTP(recorder, request)
	return recorder
}

// codeOf is the code of a problem document.
func codeOf(t testing.TB, r *httptest.ResponseRecorder) string {
	t.Helper()
	var problem struct{ Code string }
	if err := json.Unmarshal(r.Body.Bytes(), &problem); err != nil {
		t.Errorf("%d %q is no problem document: %v", r.Code, r.Body, err)
	}
	return problem.Code
}

// receive waits for what must come.
func receive[T any](t testing.TB, ch <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(patience):
		t.Fatalf("%s did not happen", what)
		panic("unreachable")
	}
}

var errDown = errors.New("dial tcp 10.1.2.3:6379: NOAUTH for lock:order:42")

// brokenStore refuses every acquisition.
type brokenStore struct{ lock.Store }

func (brokenStore) Acquire(context.Context, lock.Claim) (uint64, error) {
	return 0, &lock.StoreError{Outcome: lock.OutcomeRefused, Err: errDown}
}

// exclusiveOnly knows no other mode.
type exclusiveOnly struct{ lock.Store }

func (s exclusiveOnly) Acquire(ctx context.Context, c lock.Claim) (uint64, error) {
	if c.Mode != lock.Exclusive {
		return 0, lock.ErrUnsupported
	}
	return s.Store.Acquire(ctx, c)
}

// watchedBody tells of the first read.
type watchedBody struct {
	io.Reader
	onRead func()
}

func (b *watchedBody) Read(p []byte) (int, error) {
	b.onRead()
	return b.Reader.Read(p)
}

func (*watchedBody) Close() error { return nil }

func newLog(w io.Writer) *log.Logger { return log.New(w, "", 0) }
