package frameworks_test

import (
	"log/slog"
	"net/http"
	"testing"

	"github.com/zeromicro/go-zero/rest"
	"github.com/zeromicro/go-zero/rest/router"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/guard/guardtest"
	"github.com/redlatch/redlatch/core/memstore"
	"github.com/redlatch/redlatch/core/rule"
	"github.com/redlatch/redlatch/httplock"
)

// TestErrorsOfGoZeroInTheManual: what docs/errors.md quotes is what a user gets who makes
// the mistake.
func TestErrorsOfGoZeroInTheManual(t *testing.T) {
	const path, post = "/orders/:id", "POST /orders/:id"
	work := func(http.ResponseWriter, *http.Request) {}
	ruled := func(operation, template string) *guard.Guard {
		g, err := guard.New(guardtest.Locker(t, memstore.New()), rule.Rule{Operation: operation, Key: template})
		if err != nil {
			t.Fatal(err)
		}
		return g.WithLogger(slog.New(slog.DiscardHandler))
	}
	checked := func(code, operation, template string, register func(g *guard.Guard)) guardtest.Mistake {
		g := ruled(operation, template)
		register(g)
		return guardtest.AtStart(code+" // rule "+operation+", "+template, g.Validate())
	}
	locked := func(g *guard.Guard) rest.Middleware { return rest.ToMiddleware(httplock.Route(g, post)) }
	own := func(g *guard.Guard, text string) rest.Middleware { return rest.ToMiddleware(httplock.New(g, text)) }
	asked := func(code, method string, handler func(g *guard.Guard) http.HandlerFunc) guardtest.Mistake {
		return guardtest.AtRequest(t, code, guardtest.Served(ruled(post, "lock:order:<id>")), func(g *guard.Guard) int {
			r := router.NewRouter()
			if err := r.Handle(method, path, handler(g)); err != nil {
				t.Fatal(err)
			}
			return guardtest.Send(r, method, "/orders/7", "").Code
		})
	}
	guardtest.Listed(t, "../../docs/errors.md", "go-zero", []guardtest.Mistake{
		guardtest.AtStartPanics(`zeroRoute(nil, "POST", "/orders/:id", work)`, func() { zeroRoute(nil, "POST", path, work) }),
		guardtest.AtStartPanics(`zeroRoute(g, "post", "/orders/:id", work)`, func() { zeroRoute(guardtest.Guard(t), "post", path, work) }),
		checked(`server.AddRoute(rest.Route{Method: "POST", Path: "/orders/:id", Handler: work})`, post, "lock:order:<id>", func(*guard.Guard) {}),
		checked(`zeroRoute(g, "POST", "/orders/:id", work)`, "POST /orders/{id}", "lock:order:<id>", func(g *guard.Guard) { zeroRoute(g, "POST", path, work) }),
		checked(`zeroRoute(g, "POST", "/orders/:id", work) // rest.WithPrefix("/api")`, "POST /api/orders/:id", "lock:order:<id>", func(g *guard.Guard) {
			zeroRoute(g, "POST", path, work)
		}),
		checked(`zeroRoute(g, "POST", "/orders/:id", work)`, post, "lock:order:<orderId>", func(g *guard.Guard) { zeroRoute(g, "POST", path, work) }),
		asked(`locked(work) // without zeroRouted`, "POST", func(g *guard.Guard) http.HandlerFunc { return locked(g)(work) }),
		asked(`httplock.New(g, "lock:order:<id>")(work) // without zeroRouted`, "POST", func(g *guard.Guard) http.HandlerFunc {
			return own(g, "lock:order:<id>")(work)
		}),
		asked(`locked(zeroRouted("/orders/:id")(work))`, "POST", func(g *guard.Guard) http.HandlerFunc { return locked(g)(zeroRouted(path)(work)) }),
		asked(`zeroRouted("/order/:id")(locked(work))`, "POST", func(g *guard.Guard) http.HandlerFunc { return zeroRouted("/order/:id")(locked(g)(work)) }),
		asked(`zeroRouted("/orders/:id")(locked(work)) // for GET`, "GET", func(g *guard.Guard) http.HandlerFunc { return zeroRouted(path)(locked(g)(work)) }),
		asked(`zeroRouted("/orders/:id")(locked(locked(work)))`, "POST", func(g *guard.Guard) http.HandlerFunc { return zeroRouted(path)(locked(g)(locked(g)(work))) }),
		asked(`zeroRouted("/orders/:id")(httplock.New(g, "lock:order:<userId>")(work)) // without rest.WithJwt`, "POST", func(g *guard.Guard) http.HandlerFunc {
			return zeroRouted(path)(own(g, "lock:order:<userId>")(work))
		}),
	})
}
