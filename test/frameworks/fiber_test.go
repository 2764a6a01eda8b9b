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

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/guard/guardtest"
	"github.com/redlatch/redlatch/core/key"
	"github.com/redlatch/redlatch/core/rule"
	"github.com/redlatch/redlatch/httplock"
)

// fiberLock is a middleware of Fiber 3 that enters the guard. Its rules name path
// parameters.
func fiberLock(g *guard.Guard, operation string) fiber.Handler {
	g.Declare(operation)
	return func(c fiber.Ctx) error {
		outside := c.Context()
		inside, leave, err := g.Enter(outside, guard.Call{Operation: operation, Vars: func(v key.Var) (string, error) {
			if value := c.Params(v.Name); value != "" {
				return value, nil
			}
			return "", key.ErrMissing
		}})
		if err != nil {
			return fiber.NewError(guard.KindOf(err).Info().Status, guard.KindOf(err).Code())
		}
		defer leave() //nolint:errcheck // a second call returns the same
		defer c.SetContext(outside)
		c.SetContext(inside)
		err = c.Next()
		if lost := leave(); lost != nil {
			return fiber.NewError(http.StatusInternalServerError, guard.Lost.Code())
		}
		return err
	}
}

const transferRoute = "POST /transfers/:from/:to"

// Two rules on one route of Fiber, which its middleware takes together.
func TestFiberTakesCrossingTransfersOneByOne(t *testing.T) {
	var accounts guardtest.Accounts
	g := guardtest.Guard(t,
		rule.Rule{Operation: transferRoute, Key: "lock:account:<from>", Wait: guardtest.Timeout},
		rule.Rule{Operation: transferRoute, Key: "lock:account:<to>", Also: true})
	app := fiber.New()
	app.Post("/transfers/:from/:to", fiberLock(g, transferRoute), func(c fiber.Ctx) error {
		accounts.Transfer(strings.Clone(c.Params("from")), strings.Clone(c.Params("to")))
		return nil
	})
	handler := app.Handler()
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
	guardtest.Hold(t, g, "lock:account:a")
	if w := guardtest.Send(adaptor.FiberApp(app), "POST", "/transfers/a/b", ""); w.Code != http.StatusConflict || w.Body.String() != "LOCK_CONTENDED" {
		t.Errorf("while another owner holds an account: %d %s", w.Code, w.Body)
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
			if !strings.Contains(logged.String(), "enter the guard in a handler of Fiber") {
				t.Errorf("the log does not name the cure: %s", logged.String())
			}
		})
	}
}
