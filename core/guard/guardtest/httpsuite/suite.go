// Package httpsuite is what every HTTP integration must pass, whichever framework
// it serves: Gin, net/http, chi and Echo run it.
//
//	func TestSuite(t *testing.T) { httpsuite.Run(t, framework) }
package httpsuite

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/guard/guardtest"
	"github.com/redlatch/redlatch/core/guard/httpguard"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
	"github.com/redlatch/redlatch/core/rule"
)

// Layer is a middleware, of the type that the framework has for it.
type Layer any

// Router is a router of the framework.
type Router interface {
	http.Handler
	// Handle registers a route. Its pattern has parameters as ServeMux writes them,
	// its method may be empty for a route that takes any. The first layer is the
	// outermost.
	Handle(method, pattern string, h http.Handler, layers ...Layer)
}

// Framework is an integration and what it serves.
type Framework struct {
	// By is the package that messages name.
	By string
	// NewRouter returns an empty router.
	NewRouter func() Router
	// New is Build of the integration.
	New func(g *guard.Guard, text string, opts ...httpguard.Option) (Layer, error)
	// Rules is BuildRules or BuildRoute of the integration, for a route that is to be
	// registered. Its method may be empty.
	Rules func(r Router, method, pattern string, g *guard.Guard, opts ...httpguard.Option) (Layer, error)
	// Wrap makes a layer of a middleware of net/http.
	Wrap func(func(http.Handler) http.Handler) Layer
	// Pattern writes a pattern as the framework does: "/orders/:id".
	Pattern func(pattern string) string
	// Own registers a route whose handler is called with the framework's own context, where
	// that is a [context.Context] of its own type and not the request's.
	Own func(r Router, method, pattern string, h func(context.Context), layers ...Layer)
	// EscapedPath says that path parameters are as the client has escaped them.
	EscapedPath bool
	// TrustsProxy says that the framework believes X-Forwarded-For.
	TrustsProxy bool
	// Lacks says in which ways the framework differs from net/http. Tests that need one of
	// them are skipped.
	Lacks []Capability
}

// Capability is something that a framework on net/http can, and another may not.
type Capability string

// Capabilities.
const (
	// Requests: a middleware of net/http may hand on another request, and not only another
	// context of it.
	Requests Capability = "its middlewares share no *http.Request"
	// Writers: a middleware of net/http may set headers of an answer that is given later.
	Writers Capability = "its middlewares share no http.ResponseWriter"
	// Departures: the context of a request ends when its client leaves.
	Departures Capability = "it doesn't notice that a client leaves"
	// Streams: a handler may read a body while the client sends it.
	Streams Capability = "it reads bodies before it calls handlers"
	// TwoTypes: a repeated Content-Type or Content-Encoding is seen twice.
	TwoTypes Capability = "it keeps one Content-Type of a request"
)

// needs skips the test if the framework lacks the capability.
func (f *Framework) needs(t testing.TB, c Capability) {
	t.Helper()
	if slices.Contains(f.Lacks, c) {
		t.Skip(f.By + ": " + string(c))
	}
}

// Run runs the suite. Every test of it is a subtest.
func Run(t *testing.T, f Framework) {
	t.Helper()
	for _, group := range []any{&serving{f}, &sources{f}, &bodies{f}, &promises{f}} {
		methods := reflect.ValueOf(group)
		for i := range methods.NumMethod() {
			if test, ok := methods.Method(i).Interface().(func(*testing.T)); ok {
				t.Run(methods.Type().Method(i).Name, test)
			}
		}
	}
}

// Timeout is how long a test waits for what must happen.
const Timeout = guardtest.Timeout

// layer is the lock that text describes.
func (f *Framework) layer(t testing.TB, g *guard.Guard, text string, opts ...httpguard.Option) Layer {
	t.Helper()
	l, err := f.New(g, text, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// rules registers a route behind the locks of the guard's rules.
func (f *Framework) rules(t testing.TB, r Router, method, pattern string, h http.HandlerFunc, g *guard.Guard, opts ...httpguard.Option) {
	t.Helper()
	l, err := f.Rules(r, method, f.Pattern(pattern), g, opts...)
	if err != nil {
		t.Fatal(err)
	}
	r.Handle(method, pattern, h, l)
}

// on is a router with one route.
func (f *Framework) on(method, pattern string, h http.HandlerFunc, layers ...Layer) Router {
	r := f.NewRouter()
	r.Handle(method, pattern, h, layers...)
	return r
}

// operation names a route as a rule does.
func (f *Framework) operation(method, pattern string) string {
	return method + " " + f.Pattern(pattern)
}

// tellKey is a handler that answers with the key that it runs under.
func tellKey(w http.ResponseWriter, r *http.Request) {
	lease, ok := lock.FromContext(r.Context())
	if !ok {
		_, _ = io.WriteString(w, "no lock")
		return
	}
	w.WriteHeader(http.StatusCreated)
	_, _ = io.WriteString(w, lease.Key())
}

// refused is a handler for requests that must not get to it.
func refused(t testing.TB) http.HandlerFunc {
	t.Helper()
	return func(http.ResponseWriter, *http.Request) { t.Error("the handler ran without its lock") }
}

// before is a layer that changes the request first.
func (f *Framework) before(change func(*http.Request) *http.Request) Layer {
	return f.Wrap(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { next.ServeHTTP(w, change(r)) })
	})
}

// set is a layer that provides a value in the request's context.
func (f *Framework) set(key, value any) Layer {
	return f.before(func(r *http.Request) *http.Request {
		return r.WithContext(context.WithValue(r.Context(), key, value))
	})
}

// after is a layer that sees the end of a request.
func (f *Framework) after(see func()) Layer {
	return f.Wrap(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer see()
			next.ServeHTTP(w, r)
		})
	})
}

// on a store whose leases notice soon that it has dropped them.
func losable(t testing.TB) (*guard.Guard, lock.Store) {
	t.Helper()
	store := memstore.New()
	return guard.Must(guard.New(guardtest.Locker(t, store, lock.WithWatchdog(900*time.Millisecond)))), store
}

// lose takes a key away, as another process would, and waits until the handler can
// know.
func lose(t testing.TB, store lock.Store, key string, r *http.Request) {
	t.Helper()
	freed, err := guardtest.Locker(t, store).ForceRelease(context.WithoutCancel(r.Context()), key)
	if err != nil || !freed {
		t.Errorf("force release: %v, %v", freed, err)
	}
	select {
	case <-r.Context().Done():
	case <-time.After(Timeout):
		t.Error("the handler's context did not end")
	}
	if cause := context.Cause(r.Context()); !errors.Is(cause, lock.ErrLost) {
		t.Errorf("cause is %v, want ErrLost", cause)
	}
}

// broken is a guard whose store refuses every acquisition.
func broken(t testing.TB) *guard.Guard {
	t.Helper()
	return guard.Must(guard.New(guardtest.Locker(t, guardtest.Broken{Store: memstore.New()})))
}

// guardOf is a guard whose rules nobody serves yet.
func guardOf(t testing.TB, rules ...rule.Rule) *guard.Guard {
	t.Helper()
	g, err := guard.New(guardtest.Locker(t, memstore.New()), rules...)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// expect compares an answer. code is that of a problem document, or the body.
func expect(t testing.TB, w *httptest.ResponseRecorder, status int, want string) {
	t.Helper()
	got := w.Body.String()
	if strings.HasPrefix(want, "LOCK_") {
		got = guardtest.Code(t, w)
	}
	if w.Code != status || got != want {
		t.Errorf("got %d %s, want %d %s", w.Code, w.Body, status, want)
	}
}
