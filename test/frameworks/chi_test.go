package frameworks_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/go-chi/chi/v5"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/guard/guardtest"
	"github.com/redlatch/redlatch/core/guard/guardtest/httpsuite"
	"github.com/redlatch/redlatch/core/rule"
	"github.com/redlatch/redlatch/httplock"
)

func TestChi(t *testing.T) {
	httpsuite.Run(t, framework(func() httpsuite.Router { return chiRouter{chi.NewRouter()} },
		func(pattern string) string { return pattern },
		func(m middleware) httpsuite.Layer { return m }))
}

type chiRouter struct{ *chi.Mux }

func (r chiRouter) Handle(method, pattern string, h http.Handler, layers ...httpsuite.Layer) {
	var chain []middleware
	for _, l := range layers {
		chain = append(chain, l.(middleware))
	}
	if method == "" {
		r.With(chain...).Handle(pattern, h)
		return
	}
	r.With(chain...).Method(method, pattern, h)
}

// Attach is what httplock's documentation shows.
func (r chiRouter) Attach(g *guard.Guard, provided ...string) {
	var routes []string
	_ = chi.Walk(r, func(method, route string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		routes = append(routes, method+" "+route)
		return nil
	})
	httplock.Serve(g, routes, provided...)
}

// The pattern of a route inside of others is the whole one, behind the router.
func TestChiRulesOfNestedRoutes(t *testing.T) {
	g := guardtest.Guard(t, rule.Rule{Operation: "POST /shops/{shop}/orders/{id}", Key: "lock:shop:<shop>:<id>"})
	r := chi.NewRouter()
	r.Route("/shops/{shop}", func(r chi.Router) {
		r.With(httplock.Rules(g)).Post("/orders/{id}", func(w http.ResponseWriter, r *http.Request) {
			lease, _ := httplock.From(r)
			_, _ = w.Write([]byte(lease.Key()))
		})
	})
	if w := guardtest.Send(r, "POST", "/shops/3/orders/7", ""); w.Body.String() != "lock:shop:3:7" {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

func TestChiRulesInFrontOfTheRouterLetNothingPass(t *testing.T) {
	r := chi.NewRouter()
	r.Use(httplock.Rules(guardtest.Guard(t, rule.Rule{Operation: "POST /orders/{id}", Key: "lock:order:<id>"})))
	r.Post("/orders/{id}", func(http.ResponseWriter, *http.Request) { t.Error("the handler ran without its lock") })
	w := httptest.NewRecorder()
	r.ServeHTTP(w, httptest.NewRequest("POST", "/orders/7", nil))
	if w.Code != http.StatusInternalServerError {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}
