package frameworks_test

import (
	"io"
	"log/slog"
	"net/http"
	"testing"

	echo4 "github.com/labstack/echo/v4"
	"github.com/labstack/echo/v5"

	"github.com/redlatch/redlatch/core/guard/guardtest"
	"github.com/redlatch/redlatch/core/guard/guardtest/httpsuite"
	"github.com/redlatch/redlatch/core/rule"
	"github.com/redlatch/redlatch/httplock"
)

func TestEcho5(t *testing.T) {
	httpsuite.Run(t, framework(func() httpsuite.Router { return echoRouter{echo.New()} }, colons,
		func(m middleware) httpsuite.Layer { return echo.WrapMiddleware(m) }))
}

type echoRouter struct{ *echo.Echo }

func (r echoRouter) Handle(method, pattern string, h http.Handler, layers ...httpsuite.Layer) {
	var chain []echo.MiddlewareFunc
	for _, l := range layers {
		chain = append(chain, l.(echo.MiddlewareFunc))
	}
	if method == "" {
		method = echo.RouteAny
	}
	r.Add(method, colons(pattern), echo.WrapHandler(h), chain...)
}

func TestEcho4(t *testing.T) {
	httpsuite.Run(t, framework(func() httpsuite.Router {
		e := echo4.New()
		e.Use(routed)
		return echo4Router{e}
	}, colons, func(m middleware) httpsuite.Layer { return echo4.WrapMiddleware(m) }))
}

// routed adds to a request what Echo 4 knows of its route, as Echo 5 does by itself.
// docs/http.md shows it.
func routed(next echo4.HandlerFunc) echo4.HandlerFunc {
	return func(c echo4.Context) error {
		c.Request().Pattern = c.Path()
		for i, name := range c.ParamNames() {
			c.Request().SetPathValue(name, c.ParamValues()[i])
		}
		return next(c)
	}
}

type echo4Router struct{ *echo4.Echo }

func (r echo4Router) Handle(method, pattern string, h http.Handler, layers ...httpsuite.Layer) {
	var chain []echo4.MiddlewareFunc
	for _, l := range layers {
		chain = append(chain, l.(echo4.MiddlewareFunc))
	}
	if method == "" {
		r.Any(colons(pattern), echo4.WrapHandler(h), chain...)
		return
	}
	r.Add(method, colons(pattern), echo4.WrapHandler(h), chain...)
}

// A lock of one route in front of all of them, in Echo's chain or before its router.
func TestEchoLocksInFrontOfOtherRoutesLetNothingPass(t *testing.T) {
	for name, use := range map[string]func(e *echo.Echo, m ...echo.MiddlewareFunc){
		"Use": (*echo.Echo).Use, "Pre": (*echo.Echo).Pre,
	} {
		t.Run(name, func(t *testing.T) {
			g := guardtest.Guard(t, rule.Rule{Operation: "POST /orders/:id", Key: "lock:order:<id>"}).WithLogger(slog.New(slog.DiscardHandler))
			e := echo.New()
			use(e, echo.WrapMiddleware(httplock.Route(g, "POST /orders/:id")))
			e.POST("/refunds/:id", func(*echo.Context) error {
				t.Error("the handler ran without its lock")
				return nil
			})
			if w := guardtest.Send(e, "POST", "/refunds/7", ""); w.Code != http.StatusInternalServerError || guardtest.Code(t, w) != "LOCK_RULE_INVALID" {
				t.Errorf("got %d %s", w.Code, w.Body)
			}
		})
	}
}

func TestEchoErrorOfAHandlerIsAnsweredByEcho(t *testing.T) {
	e := echo.New()
	e.POST("/orders/:id", func(*echo.Context) error { return echo.NewHTTPError(http.StatusTeapot, "short and stout") },
		echo.WrapMiddleware(httplock.New(guardtest.Guard(t), "lock:order:<id>")))
	if w := guardtest.Send(e, "POST", "/orders/7", ""); w.Code != http.StatusTeapot {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

// Echo answers an error of a handler after the lock has answered.
func TestEchoAnswersALostLeaseOnce(t *testing.T) {
	loses := func(t *testing.T) (middleware, func(*http.Request) error) {
		t.Helper()
		g := guardtest.Guard(t).WithLogger(slog.New(slog.DiscardHandler))
		return httplock.New(g, "lock:order:<id>"), func(r *http.Request) error {
			if _, err := g.Locker().ForceRelease(r.Context(), "lock:order:7"); err != nil {
				t.Error(err)
			}
			<-r.Context().Done()
			return r.Context().Err()
		}
	}
	for name, router := range map[string]func(t *testing.T) http.Handler{
		"Echo 5": func(t *testing.T) http.Handler {
			t.Helper()
			locked, work := loses(t)
			e := echo.New()
			e.Logger = slog.New(slog.DiscardHandler)
			e.POST("/orders/:id", func(c *echo.Context) error { return work(c.Request()) }, echo.WrapMiddleware(locked))
			return e
		},
		"Echo 4": func(t *testing.T) http.Handler {
			t.Helper()
			locked, work := loses(t)
			e := echo4.New()
			e.Logger.SetOutput(io.Discard)
			e.Use(routed)
			e.POST("/orders/:id", func(c echo4.Context) error { return work(c.Request()) }, echo4.WrapMiddleware(locked))
			return e
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := guardtest.Send(router(t), "POST", "/orders/7", "")
			if w.Code != http.StatusInternalServerError || guardtest.Code(t, w) != "LOCK_LOST" {
				t.Errorf("got %d %s", w.Code, w.Body)
			}
		})
	}
}
