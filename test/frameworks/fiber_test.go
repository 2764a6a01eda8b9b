package frameworks_test

import (
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	fiber2 "github.com/gofiber/fiber/v2"
	adaptor2 "github.com/gofiber/fiber/v2/middleware/adaptor"
	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/adaptor"
	"github.com/valyala/fasthttp"

	"github.com/redlatch/redlatch/contrib/fiberlock"
	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/guard/guardtest"
	"github.com/redlatch/redlatch/core/rule"
	"github.com/redlatch/redlatch/httplock"
)

// onFiber is a route of Fiber behind the locks of the guard's rules.
func onFiber(g *guard.Guard, transfer fiber.Handler) *fiber.App {
	app := fiber.New()
	app.Post("/transfers/:from/:to", fiberlock.Route(g, transferRoute), transfer)
	return app
}

const transferRoute = "POST /transfers/:from/:to"

// transfers is a guard with two rules for one route, which are taken together.
func transfers(t *testing.T) *guard.Guard {
	t.Helper()
	g, err := guard.New(guardtest.Guard(t).Locker(),
		rule.Rule{Operation: transferRoute, Key: "lock:account:<from>", Wait: guardtest.Timeout},
		rule.Rule{Operation: transferRoute, Key: "lock:account:<to>", Also: true})
	if err != nil {
		t.Fatal(err)
	}
	return g.WithLogger(slog.New(slog.DiscardHandler))
}

func TestFiberTakesCrossingTransfersOneByOne(t *testing.T) {
	var accounts guardtest.Accounts
	g := transfers(t)
	handler := onFiber(g, func(c fiber.Ctx) error {
		accounts.Transfer(strings.Clone(c.Params("from")), strings.Clone(c.Params("to")))
		return nil
	}).Handler()
	accounts.Crossing(t, 10_000, func(from, to string) error {
		var c fasthttp.RequestCtx
		c.Request.Header.SetMethod(http.MethodPost)
		c.Request.SetRequestURI("/transfers/" + from + "/" + to)
		handler(&c)
		if c.Response.StatusCode() != http.StatusOK {
			return errors.New(string(c.Response.Body()))
		}
		return nil
	})
}

func TestARuleOfFiberThatNoRouteHasIsNoticed(t *testing.T) {
	g := transfers(t)
	app := fiber.New()
	app.Post("/transfer/:from/:to", fiberlock.Route(g, "POST /transfer/:from/:to"), func(fiber.Ctx) error { return nil })
	if err := g.Validate(); err == nil || !strings.Contains(err.Error(), "did you mean \"POST /transfer/:from/:to\"") {
		t.Errorf("got %v", err)
	}
}

// The adaptor runs the handler when the middleware has returned, and the lock is released.
func TestFibersAdaptorOfMiddlewaresIsRefused(t *testing.T) {
	for name, serve := range map[string]func(m middleware, ran func()) http.Handler{
		"Fiber 3": func(m middleware, ran func()) http.Handler {
			app := fiber.New()
			app.Post("/orders/:id", adaptor.HTTPMiddleware(m), func(fiber.Ctx) error { ran(); return nil })
			return adaptor.FiberApp(app)
		},
		"Fiber 2": func(m middleware, ran func()) http.Handler {
			app := fiber2.New()
			app.Post("/orders/:id", adaptor2.HTTPMiddleware(m), func(*fiber2.Ctx) error { ran(); return nil })
			return adaptor2.FiberApp(app)
		},
	} {
		t.Run(name, func(t *testing.T) {
			var logged strings.Builder
			g := guardtest.Guard(t).WithLogger(slog.New(slog.NewTextHandler(&logged, nil)))
			handler := serve(httplock.New(g, "lock:orders"), func() { t.Error("the handler ran without its lock") })
			if w := guardtest.Send(handler, "POST", "/orders/7", ""); w.Code != http.StatusInternalServerError || guardtest.Code(t, w) != "LOCK_RULE_INVALID" {
				t.Errorf("got %d %s", w.Code, w.Body)
			}
			if !strings.Contains(logged.String(), "fiberlock") {
				t.Errorf("the log does not name the cure: %s", logged.String())
			}
		})
	}
}
