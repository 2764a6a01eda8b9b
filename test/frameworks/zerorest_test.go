package frameworks_test

import (
	"net/http"
	"slices"
	"testing"

	"github.com/zeromicro/go-zero/rest"
	"github.com/zeromicro/go-zero/rest/httpx"
	"github.com/zeromicro/go-zero/rest/pathvar"
	"github.com/zeromicro/go-zero/rest/router"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/guard/guardtest"
	"github.com/redlatch/redlatch/core/guard/guardtest/httpsuite"
	"github.com/redlatch/redlatch/core/rule"
	"github.com/redlatch/redlatch/httplock"
)

// zeroRouted adds to a request what go-zero knows of its route. docs/other-frameworks.md
// shows it.
func zeroRouted(pattern string) rest.Middleware {
	return func(next http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			r.Pattern = pattern
			for name, value := range pathvar.Vars(r) {
				r.SetPathValue(name, value)
			}
			next(w, r)
		}
	}
}

// zeroRoute is a route behind the lock of the guard's rule.
func zeroRoute(g *guard.Guard, method, path string, h http.HandlerFunc) rest.Route {
	locked := rest.ToMiddleware(httplock.Route(g, method+" "+path))
	return rest.Route{Method: method, Path: path, Handler: zeroRouted(path)(locked(h))}
}

func TestGoZeroRest(t *testing.T) {
	f := framework(func() httpsuite.Router { return zeroRouter{router.NewRouter()} }, colons,
		func(m middleware) httpsuite.Layer { return rest.ToMiddleware(m) })
	f.EscapedPath = false
	httpsuite.Run(t, f)
}

type zeroRouter struct{ httpx.Router }

func (r zeroRouter) Handle(method, pattern string, h http.Handler, layers ...httpsuite.Layer) {
	handler := h.ServeHTTP
	for _, l := range slices.Backward(layers) {
		handler = l.(rest.Middleware)(handler)
	}
	handler = zeroRouted(colons(pattern))(handler)
	each := []string{method}
	if method == "" {
		each = []string{"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"}
	}
	for _, method := range each {
		if err := r.Router.Handle(method, colons(pattern), http.HandlerFunc(handler)); err != nil {
			panic(err)
		}
	}
}

// What docs/other-frameworks.md shows locks the key of the path, in a server of go-zero.
func TestGoZeroRoutesLock(t *testing.T) {
	g := guardtest.Guard(t, rule.Rule{Operation: "POST /orders/:id", Key: "lock:order:<id>"})
	served := router.NewRouter()
	server, err := rest.NewServer(rest.RestConf{Host: "127.0.0.1", Port: 1, Timeout: 3000}, rest.WithRouter(served))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	server.AddRoute(zeroRoute(g, "POST", "/orders/:id", func(w http.ResponseWriter, r *http.Request) {
		lease, _ := httplock.From(r)
		_, _ = w.Write([]byte(lease.Key()))
	}))
	route := server.Routes()[0]
	if err := served.Handle(route.Method, route.Path, route.Handler); err != nil {
		t.Fatal(err)
	}
	if w := guardtest.Send(served, "POST", "/orders/7", ""); w.Code != http.StatusOK || w.Body.String() != "lock:order:7" {
		t.Errorf("a free key: %d %s", w.Code, w.Body)
	}
	guardtest.Hold(t, g, "lock:order:7")
	if w := guardtest.Send(served, "POST", "/orders/7", ""); w.Code != http.StatusConflict || guardtest.Code(t, w) != "LOCK_CONTENDED" {
		t.Errorf("while another owner holds it: %d %s", w.Code, w.Body)
	}
}
