package fiberlock_test

import (
	"log/slog"
	"testing"

	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/adaptor"

	"github.com/redlatch/redlatch/contrib/fiberlock"
	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/guard/guardtest"
	"github.com/redlatch/redlatch/core/memstore"
	"github.com/redlatch/redlatch/core/rule"
	"github.com/redlatch/redlatch/httplock"
)

// TestErrorsOfFiberInTheManual: what docs/errors.md quotes is what a user gets who makes
// the mistake.
func TestErrorsOfFiberInTheManual(t *testing.T) {
	const route, post = "/orders/:id", "POST /orders/:id"
	authenticate := func(c fiber.Ctx) error { c.Locals("userId", "42"); return c.Next() }
	ruled := func(operation, template string) *guard.Guard {
		g, err := guard.New(guardtest.Locker(t, memstore.New()), rule.Rule{Operation: operation, Key: template})
		if err != nil {
			t.Fatal(err)
		}
		return g.WithLogger(slog.New(slog.DiscardHandler))
	}
	checked := func(code, operation, template string, lock func(g *guard.Guard) fiber.Handler) guardtest.Mistake {
		g, app := ruled(operation, template), fiber.New()
		if lock != nil {
			app.Post(route, lock(g), tellKey)
		}
		return guardtest.AtStart(code+" // rule "+operation+", "+template, g.Validate())
	}
	asked := func(code, path string, register func(g *guard.Guard, app *fiber.App)) guardtest.Mistake {
		return guardtest.AtRequest(t, code, guardtest.Served(ruled(post, "lock:order:<id>")), func(g *guard.Guard) int {
			app := fiber.New()
			register(g, app)
			return guardtest.Send(router{app}, "POST", path, "").Code
		})
	}
	routed := func(pattern string) func(g *guard.Guard) fiber.Handler {
		return func(g *guard.Guard) fiber.Handler { return fiberlock.Route(g, pattern) }
	}
	guardtest.Listed(t, "../../docs/errors.md", "Fiber", []guardtest.Mistake{
		guardtest.AtStartPanics(`fiberlock.Route(nil, "POST /orders/:id")`, func() { fiberlock.Route(nil, post) }),
		guardtest.AtStartPanics(`fiberlock.Route(g, "post /orders/:id")`, func() { fiberlock.Route(guardtest.Guard(t), "post /orders/:id") }),
		guardtest.AtStartPanics(`fiberlock.New(g, "POST /orders/:id")`, func() { fiberlock.New(guardtest.Guard(t), post) }),
		checked(`app.Post("/orders/:id", work)`, post, "lock:order:<id>", nil),
		checked(`app.Post("/orders/:id", fiberlock.Route(g, "POST /orders/:id"), work)`, "POST /orders/{id}", "lock:order:<id>", routed(post)),
		checked(`app.Post("/orders/:id", fiberlock.Route(g, "POST /orders/{id}"), work)`, "POST /orders/{id}", "lock:order:<id>", routed("POST /orders/{id}")),
		checked(`app.Post("/orders/:id", fiberlock.Route(g, "POST /orders/:id"), work)`, post, "lock:order:<orderId>", routed(post)),
		checked(`app.All("/orders/:id", fiberlock.Route(g, "/orders/:id"), work)`, post, "lock:order:<id>", routed(route)),
		asked(`app.Use(fiberlock.Route(g, "POST /orders/:id"))`, "/orders/7", func(g *guard.Guard, app *fiber.App) {
			app.Use(fiberlock.Route(g, post))
			app.Post(route, tellKey)
		}),
		asked(`app.Use(fiberlock.New(g, "lock:order:<id>"))`, "/orders/7", func(g *guard.Guard, app *fiber.App) {
			app.Use(fiberlock.New(g, "lock:order:<id>"))
			app.Post(route, tellKey)
		}),
		asked(`app.Group("/api").Post("/orders/:id", fiberlock.Route(g, "POST /orders/:id"), work)`, "/api/orders/7", func(g *guard.Guard, app *fiber.App) {
			app.Group("/api").Post(route, fiberlock.Route(g, post), tellKey)
		}),
		asked(`app.Post("/orders/:id", fiberlock.Route(g, "POST /orders/:id"), fiberlock.Route(g, "POST /orders/:id"), work)`, "/orders/7", func(g *guard.Guard, app *fiber.App) {
			app.Post(route, fiberlock.Route(g, post), fiberlock.Route(g, post), tellKey)
		}),
		asked(`app.Post("/orders/:id", fiberlock.New(g, "lock:order:<userId>"), authenticate, work)`, "/orders/7", func(g *guard.Guard, app *fiber.App) {
			app.Post(route, fiberlock.New(g, "lock:order:<userId>"), authenticate, tellKey)
		}),
		asked(`app.Post("/orders/:id", adaptor.HTTPMiddleware(httplock.Route(g, "POST /orders/:id")), work)`, "/orders/7", func(g *guard.Guard, app *fiber.App) {
			app.Post(route, adaptor.HTTPMiddleware(httplock.Route(g, post)), tellKey)
		}),
	})
}
