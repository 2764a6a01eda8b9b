package doors_test

import (
	"net/http"
	"testing"

	echo4 "github.com/labstack/echo/v4"
	"github.com/labstack/echo/v5"

	"github.com/redlatch/redlatch/core/rule"
	"github.com/redlatch/redlatch/httplock"
)

func tellKeyInEcho(c *echo.Context) error { return c.String(http.StatusOK, keyOf(c.Request())) }

func TestEchoRouteTakesALock(t *testing.T) {
	g := newGuard(t)
	e := echo.New()
	e.POST("/orders/:id", tellKeyInEcho, echo.WrapMiddleware(httplock.New(g, "lock:order:<id>")))
	expect(t, e, "POST", "/orders/7", http.StatusOK, "lock:order:7")
	hold(t, g, "lock:order:7")
	expect(t, e, "POST", "/orders/7", http.StatusConflict, "")
	expect(t, e, "POST", "/orders/8", http.StatusOK, "lock:order:8")
}

func TestEchoRules(t *testing.T) {
	g := newGuard(t, rule.Rule{Operation: "POST /shops/:shop/orders/:id", Key: "lock:shop:<shop>:<id>"})
	e := echo.New()
	shop := e.Group("/shops/:shop", echo.WrapMiddleware(httplock.Rules(g)))
	shop.POST("/orders/:id", tellKeyInEcho)
	shop.GET("/orders/:id", tellKeyInEcho)
	expect(t, e, "POST", "/shops/3/orders/7", http.StatusOK, "lock:shop:3:7")
	expect(t, e, "GET", "/shops/3/orders/7", http.StatusOK, "no lock")
	expect(t, e, "POST", "/nowhere", http.StatusNotFound, "")
}

func TestEchoRulesForAllRoutes(t *testing.T) {
	g := newGuard(t, rule.Rule{Operation: "POST /orders/:id", Key: "lock:order:<id>"})
	e := echo.New()
	pattern := func(r *http.Request) string { return r.Pattern } // empty where there is no route
	e.Use(echo.WrapMiddleware(httplock.Rules(g, httplock.WithPattern(pattern))))
	e.POST("/orders/:id", tellKeyInEcho)
	expect(t, e, "POST", "/orders/7", http.StatusOK, "lock:order:7")
	expect(t, e, "POST", "/nowhere", http.StatusNotFound, "")
}

func TestEchoErrorOfAHandlerIsAnsweredByEcho(t *testing.T) {
	e := echo.New()
	e.POST("/orders/:id", func(*echo.Context) error { return echo.NewHTTPError(http.StatusTeapot, "short and stout") },
		echo.WrapMiddleware(httplock.New(newGuard(t), "lock:order:<id>")))
	expect(t, e, "POST", "/orders/7", http.StatusTeapot, "")
}

// routed tells a request what Echo 4 knows of it, as Echo 5 does by itself.
func routed(next echo4.HandlerFunc) echo4.HandlerFunc {
	return func(c echo4.Context) error {
		c.Request().Pattern = c.Path()
		for i, name := range c.ParamNames() {
			c.Request().SetPathValue(name, c.ParamValues()[i])
		}
		return next(c)
	}
}

func TestEcho4NeedsAMiddlewareInFront(t *testing.T) {
	g := newGuard(t, rule.Rule{Operation: "POST /orders/:id", Key: "lock:order:<id>"})
	tell := func(c echo4.Context) error { return c.String(http.StatusOK, keyOf(c.Request())) }
	e := echo4.New()
	e.Use(routed)
	e.POST("/orders/:id", tell, echo4.WrapMiddleware(httplock.Rules(g)))
	e.POST("/bare/:id", tell, echo4.WrapMiddleware(httplock.New(g, "lock:bare:<path.id>")))
	expect(t, e, "POST", "/orders/7", http.StatusOK, "lock:order:7")
	expect(t, e, "POST", "/bare/7", http.StatusOK, "lock:bare:7")
	hold(t, g, "lock:order:7")
	expect(t, e, "POST", "/orders/7", http.StatusConflict, "")
}
