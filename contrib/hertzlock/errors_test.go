package hertzlock_test

import (
	"context"
	"log/slog"
	"testing"

	"github.com/cloudwego/hertz/pkg/app"
	"github.com/cloudwego/hertz/pkg/common/config"
	"github.com/cloudwego/hertz/pkg/common/ut"
	"github.com/cloudwego/hertz/pkg/route"

	"github.com/redlatch/redlatch/contrib/hertzlock"
	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/guard/guardtest"
	"github.com/redlatch/redlatch/core/memstore"
	"github.com/redlatch/redlatch/core/rule"
)

// TestErrorsOfHertzInTheManual: what docs/errors.md quotes is what a user gets who makes
// the mistake.
func TestErrorsOfHertzInTheManual(t *testing.T) {
	const path, post = "/orders/:id", "POST /orders/:id"
	work := func(context.Context, *app.RequestContext) {}
	authenticate := func(_ context.Context, c *app.RequestContext) { c.Set("userId", "42") }
	ruled := func(operation, template string) *guard.Guard {
		g, err := guard.New(guardtest.Locker(t, memstore.New()), rule.Rule{Operation: operation, Key: template})
		if err != nil {
			t.Fatal(err)
		}
		return g.WithLogger(slog.New(slog.DiscardHandler))
	}
	engine := func() *route.Engine { return route.NewEngine(config.NewOptions(nil)) }
	checked := func(code, operation, template string, lock func(g *guard.Guard) app.HandlerFunc) guardtest.Mistake {
		g, h := ruled(operation, template), engine()
		if lock != nil {
			h.POST(path, lock(g), work)
		}
		return guardtest.AtStart(code+" // rule "+operation+", "+template, g.Validate())
	}
	asked := func(code, target string, register func(g *guard.Guard, h *route.Engine)) guardtest.Mistake {
		return guardtest.AtRequest(t, code, guardtest.Served(ruled(post, "lock:order:<id>")), func(g *guard.Guard) int {
			h := engine()
			register(g, h)
			return ut.PerformRequest(h, "POST", target, nil).Code
		})
	}
	routed := func(pattern string) func(g *guard.Guard) app.HandlerFunc {
		return func(g *guard.Guard) app.HandlerFunc { return hertzlock.Route(g, pattern) }
	}
	guardtest.Listed(t, "../../docs/errors.md", "Hertz", []guardtest.Mistake{
		guardtest.AtStartPanics(`hertzlock.Route(nil, "POST /orders/:id")`, func() { hertzlock.Route(nil, post) }),
		guardtest.AtStartPanics(`hertzlock.Route(g, "post /orders/:id")`, func() { hertzlock.Route(guardtest.Guard(t), "post /orders/:id") }),
		checked(`h.POST("/orders/:id", work)`, post, "lock:order:<id>", nil),
		checked(`h.POST("/orders/:id", hertzlock.Route(g, "POST /orders/:id"), work)`, "POST /orders/{id}", "lock:order:<id>", routed(post)),
		checked(`h.POST("/orders/:id", hertzlock.Route(g, "POST /orders/:id"), work)`, post, "lock:order:<orderId>", routed(post)),
		checked(`h.Any("/orders/:id", hertzlock.Route(g, "/orders/:id"), work)`, post, "lock:order:<id>", routed(path)),
		asked(`h.POST("/orders/:id", hertzlock.Route(g, "POST /orders/{id}"), work)`, "/orders/7", func(g *guard.Guard, h *route.Engine) {
			h.POST(path, hertzlock.Route(g, "POST /orders/{id}"), work)
		}),
		asked(`h.Use(hertzlock.Route(g, "POST /orders/:id")); h.POST("/refunds", work)`, "/refunds", func(g *guard.Guard, h *route.Engine) {
			h.Use(hertzlock.Route(g, post))
			h.POST("/refunds", work)
		}),
		asked(`h.Use(hertzlock.New(g, "lock:order:<id>")); h.POST("/refunds", work)`, "/refunds", func(g *guard.Guard, h *route.Engine) {
			h.Use(hertzlock.New(g, "lock:order:<id>"))
			h.POST("/refunds", work)
		}),
		asked(`h.Group("/api").POST("/orders/:id", hertzlock.Route(g, "POST /orders/:id"), work)`, "/api/orders/7", func(g *guard.Guard, h *route.Engine) {
			h.Group("/api").POST(path, hertzlock.Route(g, post), work)
		}),
		asked(`h.POST("/orders/:id", work, hertzlock.Route(g, "POST /orders/:id"))`, "/orders/7", func(g *guard.Guard, h *route.Engine) {
			h.POST(path, work, hertzlock.Route(g, post))
		}),
		asked(`h.POST("/orders/:id", hertzlock.New(g, "lock:a:<id>"), hertzlock.New(g, "lock:b:<id>"), work)`, "/orders/7", func(g *guard.Guard, h *route.Engine) {
			h.POST(path, hertzlock.New(g, "lock:a:<id>"), hertzlock.New(g, "lock:b:<id>"), work)
		}),
		asked(`h.POST("/orders/:id", hertzlock.New(g, "lock:order:<userId>"), authenticate, work)`, "/orders/7", func(g *guard.Guard, h *route.Engine) {
			h.POST(path, hertzlock.New(g, "lock:order:<userId>"), authenticate, work)
		}),
	})
}
