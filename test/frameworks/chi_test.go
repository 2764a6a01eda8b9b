package frameworks_test

import (
	"log/slog"
	"net/http"
	"strings"
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

// The pattern of a route inside of others is the whole one, behind the router.
func TestChiRulesOfNestedRoutes(t *testing.T) {
	g := guardtest.Guard(t, rule.Rule{Operation: "POST /shops/{shop}/orders/{id}", Key: "lock:shop:<shop>:<id>"})
	r := chi.NewRouter()
	r.Route("/shops/{shop}", func(r chi.Router) {
		r.With(httplock.Route(g, "POST /shops/{shop}/orders/{id}")).Post("/orders/{id}", func(w http.ResponseWriter, r *http.Request) {
			lease, _ := httplock.From(r)
			_, _ = w.Write([]byte(lease.Key()))
		})
	})
	if w := guardtest.Send(r, "POST", "/shops/3/orders/7", ""); w.Body.String() != "lock:shop:3:7" {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

// Use of a router runs its middlewares before the router has found the route.
func TestChiLocksInFrontOfTheRouterLetNothingPass(t *testing.T) {
	const operation = "POST /shops/{shop}/orders/{id}"
	for name, register := range map[string]func(r chi.Router, lock middleware, work http.HandlerFunc){
		"of all routes": func(r chi.Router, lock middleware, work http.HandlerFunc) {
			r.Use(lock)
			r.Post("/shops/{shop}/orders/{id}", work)
		},
		"of a router inside": func(r chi.Router, lock middleware, work http.HandlerFunc) {
			r.Route("/shops/{shop}", func(r chi.Router) {
				r.Use(lock)
				r.Post("/orders/{id}", work)
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := guardtest.Guard(t, rule.Rule{Operation: operation, Key: "lock:order:<id>"}).WithLogger(slog.New(slog.DiscardHandler))
			r := chi.NewRouter()
			register(r, httplock.Route(g, operation), func(http.ResponseWriter, *http.Request) { t.Error("the handler ran without its lock") })
			if w := guardtest.Send(r, "POST", "/shops/3/orders/7", ""); w.Code != http.StatusInternalServerError || guardtest.Code(t, w) != "LOCK_RULE_INVALID" {
				t.Errorf("got %d %s", w.Code, w.Body)
			}
		})
	}
}

// A segment of chi may have several parameters.
func TestChiRulesOfASegmentWithSeveralParameters(t *testing.T) {
	const operation = "GET /articles/{month:[0-9]{2}}-{day}"
	g := guard.Must(guard.New(guardtest.Guard(t).Locker(), rule.Rule{Operation: operation, Key: "lock:article:<path.month>:<day>"}))
	r := chi.NewRouter()
	r.With(httplock.Route(g, operation)).Get("/articles/{month:[0-9]{2}}-{day}", func(w http.ResponseWriter, r *http.Request) {
		lease, _ := httplock.From(r)
		_, _ = w.Write([]byte(lease.Key()))
	})
	if err := g.Validate(); err != nil {
		t.Error(err)
	}
	if w := guardtest.Send(r, "GET", "/articles/01-16", ""); w.Body.String() != "lock:article:01:16" {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

// A lock in front of the router has no path parameter for its key. That is no fault of the
// client's.
func TestChiKeysInFrontOfTheRouterAreTheProgramsFault(t *testing.T) {
	for key, want := range map[string]int{
		"lock:order:<id>": http.StatusInternalServerError, "lock:order:<path.id>": http.StatusInternalServerError, "lock:orders": http.StatusOK,
	} {
		t.Run(key, func(t *testing.T) {
			var logged strings.Builder
			g := guardtest.Guard(t).WithLogger(slog.New(slog.NewTextHandler(&logged, nil)))
			r := chi.NewRouter()
			r.Use(httplock.New(g, key))
			r.Post("/orders/{id}", func(http.ResponseWriter, *http.Request) {})
			w := guardtest.Send(r, "POST", "/orders/7", "")
			if w.Code != want {
				t.Errorf("got %d %s", w.Code, w.Body)
			}
			if want != http.StatusOK && (guardtest.Code(t, w) != "LOCK_RULE_INVALID" || !strings.Contains(logged.String(), "put the lock around the handler of a route")) {
				t.Errorf("got %s, logged %s", w.Body, logged.String())
			}
		})
	}
}
