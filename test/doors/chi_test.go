package doors_test

import (
	"io"
	"net/http"
	"testing"

	"github.com/go-chi/chi/v5"

	"github.com/redlatch/redlatch/core/rule"
	"github.com/redlatch/redlatch/httplock"
)

func tellKey(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, keyOf(r)) }

func TestChiRouteTakesALock(t *testing.T) {
	g := newGuard(t)
	r := chi.NewRouter()
	r.With(httplock.New(g, "lock:order:<id>")).Post("/orders/{id}", tellKey)
	r.With(httplock.New(g, "lock:no:<no|int>")).Post("/numbers/{no:[0-9%]+}", tellKey)
	expect(t, r, "POST", "/orders/7", http.StatusOK, "lock:order:7")
	hold(t, g, "lock:order:7")
	expect(t, r, "POST", "/orders/7", http.StatusConflict, "")
	expect(t, r, "POST", "/orders/8", http.StatusOK, "lock:order:8")
	expect(t, r, "POST", "/numbers/7", http.StatusOK, "lock:no:7")
}

func TestChiTellsPathValuesAsTheClientHasEscapedThem(t *testing.T) {
	g := newGuard(t)
	r := chi.NewRouter()
	r.With(httplock.New(g, "lock:<id>")).Post("/any/{id}", tellKey)
	r.With(httplock.New(g, "lock:<id|int>")).Post("/int/{id}", tellKey)
	expect(t, r, "POST", "/any/%37", http.StatusOK, "lock:%2537")
	expect(t, r, "POST", "/int/%37", http.StatusBadRequest, "")
}

func TestChiRulesBehindTheRouter(t *testing.T) {
	g := newGuard(t,
		rule.Rule{Operation: "POST /orders/{id}", Key: "lock:order:<id>"},
		rule.Rule{Operation: "POST /shops/{shop}/orders/{id}", Key: "lock:shop:<shop>:<id>"},
	)
	locks := httplock.Rules(g)
	r := chi.NewRouter()
	r.Group(func(r chi.Router) {
		r.Use(locks)
		r.Post("/orders/{id}", tellKey)
		r.Get("/orders/{id}", tellKey)
	})
	r.Route("/shops/{shop}", func(r chi.Router) {
		r.With(locks).Post("/orders/{id}", tellKey)
	})
	expect(t, r, "POST", "/orders/7", http.StatusOK, "lock:order:7")
	expect(t, r, "GET", "/orders/7", http.StatusOK, "no lock")
	expect(t, r, "POST", "/shops/3/orders/7", http.StatusOK, "lock:shop:3:7")
}

func TestChiRulesInFrontOfTheRouterLetNothingPass(t *testing.T) {
	g := newGuard(t, rule.Rule{Operation: "POST /orders/{id}", Key: "lock:order:<id>"})
	r := chi.NewRouter()
	r.Use(httplock.Rules(g))
	r.Post("/orders/{id}", func(http.ResponseWriter, *http.Request) { t.Error("the handler ran without its lock") })
	expect(t, r, "POST", "/orders/7", http.StatusInternalServerError, "")
}
