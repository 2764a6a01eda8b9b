package frameworks_test

import (
	"net/http"
	"testing"

	"github.com/go-chi/chi/v5"
	echo4 "github.com/labstack/echo/v4"
	"github.com/labstack/echo/v5"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/guard/guardtest"
	"github.com/redlatch/redlatch/httplock"
)

// What docs/http.md shows locks the key of the path.
func TestTheManualsRoutesLock(t *testing.T) {
	for name, route := range map[string]func(*guard.Guard, http.HandlerFunc) http.Handler{
		"chi": onChi, "Echo 5": onEcho, "Echo 4": onEcho4,
	} {
		t.Run(name, func(t *testing.T) {
			g := guardtest.Guard(t)
			handler := route(g, func(w http.ResponseWriter, r *http.Request) {
				lease, _ := httplock.From(r)
				_, _ = w.Write([]byte(lease.Key()))
			})
			if w := guardtest.Send(handler, "POST", "/orders/7", ""); w.Code != http.StatusOK || w.Body.String() != "lock:order:7" {
				t.Errorf("a free key: %d %s", w.Code, w.Body)
			}
			guardtest.Hold(t, g, "lock:order:7")
			if w := guardtest.Send(handler, "POST", "/orders/7", ""); w.Code != http.StatusConflict || guardtest.Code(t, w) != "LOCK_CONTENDED" {
				t.Errorf("while another owner holds it: %d %s", w.Code, w.Body)
			}
		})
	}
}

func onChi(g *guard.Guard, create http.HandlerFunc) http.Handler {
	r := chi.NewRouter()
	r.With(httplock.New(g, "lock:order:<id>")).Post("/orders/{id}", create)
	return r
}

func onEcho(g *guard.Guard, handler http.HandlerFunc) http.Handler {
	create := echo.WrapHandler(handler)
	e := echo.New()
	e.POST("/orders/:id", create, echo.WrapMiddleware(httplock.New(g, "lock:order:<id>")))
	return e
}

func onEcho4(g *guard.Guard, handler http.HandlerFunc) http.Handler {
	create := echo4.WrapHandler(handler)
	e := echo4.New()
	e.Use(routed)
	e.POST("/orders/:id", create, echo4.WrapMiddleware(httplock.New(g, "lock:order:<id>")))
	return e
}
