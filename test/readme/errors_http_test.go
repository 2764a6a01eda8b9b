package readme_test

import (
	"log/slog"
	"net/http"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/guard/guardtest"
	"github.com/redlatch/redlatch/core/guard/httpguard"
	"github.com/redlatch/redlatch/core/memstore"
	"github.com/redlatch/redlatch/core/rule"
	"github.com/redlatch/redlatch/ginlock"
	"github.com/redlatch/redlatch/httplock"
)

// ruled is a guard with one rule.
func ruled(t *testing.T, operation, template string) *guard.Guard {
	t.Helper()
	g, err := guard.New(guardtest.Locker(t, memstore.New()), rule.Rule{Operation: operation, Key: template})
	if err != nil {
		t.Fatal(err)
	}
	return g.WithLogger(slog.New(slog.DiscardHandler))
}

// TestErrorsOfGinInTheManual: what docs/errors.md quotes is what a user gets who makes the
// mistake.
func TestErrorsOfGinInTheManual(t *testing.T) {
	const post = "POST /orders/:id"
	work := func(*gin.Context) {}
	authenticate := func(c *gin.Context) { c.Set("userId", "42") }
	build := func(text string, opts ...httpguard.Option) guardtest.Mistake {
		_, err := ginlock.Build(guardtest.Guard(t), text, opts...)
		return guardtest.AtStart(`ginlock.New(g, "`+text+`"`+map[bool]string{true: `, httpguard.WithVar("user", source)`}[len(opts) > 0]+")", err)
	}
	// checked is a route whose guard has one rule.
	checked := func(code, operation, template string, register func(g *guard.Guard, r *gin.Engine)) guardtest.Mistake {
		g, r := ruled(t, operation, template), gin.New()
		register(g, r)
		return guardtest.AtStart(code+" // rule "+operation+", "+template, g.Validate())
	}
	// asked is a route that gets a request.
	asked := func(code string, register func(g *guard.Guard, r *gin.Engine)) guardtest.Mistake {
		return guardtest.AtRequest(t, code, guardtest.Guard(t), func(g *guard.Guard) int {
			r := gin.New()
			register(g, r)
			return guardtest.Send(r, "POST", "/orders/7", "").Code
		})
	}
	guardtest.Listed(t, "../../docs/errors.md", "Gin", []guardtest.Mistake{
		guardtest.AtStart("guard.New(nil)", func() error { _, err := guard.New(nil); return err }()),
		guardtest.AtStartPanics(`ginlock.New(nil, "lock:order:<id>")`, func() { ginlock.New(nil, "lock:order:<id>") }),
		build("lock:order:{id}"),
		build("lock:order:<id> wait=200"),
		build("lock:order:<id> wiat=200ms"),
		build("lock:order:<id> mode=semaphore"),
		build("lock:order:<id"),
		build("lock:order:<user.id>"),
		build("lock:order:<md.user>"),
		build("lock:order:<id>", httpguard.WithVar("user", httpguard.Header("X-User"))),
		checked(`r.POST("/orders/:id", ginlock.Rules(g, r), work)`, post, "lock:order:<userld>", func(g *guard.Guard, r *gin.Engine) {
			r.POST("/orders/:id", ginlock.Rules(g, r), work)
		}),
		checked(`r.POST("/users/:userId/orders", ginlock.Rules(g, r, httpguard.WithVar("userID", source)), work)`, "POST /users/:userId/orders", "lock:order:<userId>",
			func(g *guard.Guard, r *gin.Engine) {
				r.POST("/users/:userId/orders", ginlock.Rules(g, r, httpguard.WithVar("userID", httpguard.Header("X-User-Id"))), work)
			}),
		checked(`r.POST("/orders/:id", ginlock.Rules(g, r), work)`, "POST /order/:id", "lock:order:<id>", func(g *guard.Guard, r *gin.Engine) {
			r.POST("/orders/:id", ginlock.Rules(g, r), work)
		}),
		checked(`r.POST("/orders/:id", work)`, post, "lock:order:<id>", func(_ *guard.Guard, r *gin.Engine) { r.POST("/orders/:id", work) }),
		guardtest.AtStart(`r.POST("/orders/:id", work); r.Use(ginlock.Rules(g, r)) // rule `+post, func() error {
			r := gin.New()
			r.POST("/orders/:id", work)
			_, err := ginlock.BuildRules(ruled(t, post, "lock:order:<id>"), r)
			return err
		}()),
		checked(`r.Group("/v1", ginlock.Rules(g, r)); r.POST("/orders/:id", work)`, post, "lock:order:<id>", func(g *guard.Guard, r *gin.Engine) {
			r.Group("/v1", ginlock.Rules(g, r))
			r.POST("/orders/:id", work)
		}),
		checked(`r.POST("/orders/:id", work, ginlock.Rules(g, r))`, post, "lock:order:<id>", func(g *guard.Guard, r *gin.Engine) {
			r.POST("/orders/:id", work, ginlock.Rules(g, r))
		}),
		checked(`r.Use(ginlock.Rules(g, r)); r.POST("/orders/:id", ginlock.Rules(g, r), work)`, post, "lock:order:<id>", func(g *guard.Guard, r *gin.Engine) {
			r.Use(ginlock.Rules(g, r))
			r.POST("/orders/:id", ginlock.Rules(g, r), work)
		}),
		checked(`r.Any("/orders/:id", ginlock.Rules(g, r), work)`, post, "lock:order:<id>", func(g *guard.Guard, r *gin.Engine) {
			r.Any("/orders/:id", ginlock.Rules(g, r), work)
		}),
		asked(`r.POST("/orders/:id", ginlock.New(g, "lock:a:<id>"), ginlock.New(g, "lock:b:<id>"), work)`, func(g *guard.Guard, r *gin.Engine) {
			r.POST("/orders/:id", ginlock.New(g, "lock:a:<id>"), ginlock.New(g, "lock:b:<id>"), work)
		}),
		asked(`r.POST("/orders/:id", ginlock.New(g, "lock:order:<userId>"), authenticate, work)`, func(g *guard.Guard, r *gin.Engine) {
			r.POST("/orders/:id", ginlock.New(g, "lock:order:<userId>"), authenticate, work)
		}),
		asked(`r.POST("/orders/:id", ginlock.New(g, "lock:order:<path.no>"), work)`, func(g *guard.Guard, r *gin.Engine) {
			r.POST("/orders/:id", ginlock.New(g, "lock:order:<path.no>"), work)
		}),
		asked(`c.Set("user", User{ID: 7}) // ginlock.New(g, "lock:order:<user>")`, func(g *guard.Guard, r *gin.Engine) {
			r.POST("/orders/:id", func(c *gin.Context) { c.Set("user", struct{ ID int }{7}) }, ginlock.New(g, "lock:order:<user>"), work)
		}),
	})
}

// TestErrorsOfHTTPInTheManual: the same with the routers of net/http.
func TestErrorsOfHTTPInTheManual(t *testing.T) {
	const post = "POST /orders/{id}"
	// checked is a mux with one rule and the route that has a lock.
	checked := func(code, operation, template, pattern string) guardtest.Mistake {
		g, mux := ruled(t, operation, template), http.NewServeMux()
		if pattern != "" {
			mux.Handle(pattern, httplock.Route(g, pattern)(http.NotFoundHandler()))
		}
		return guardtest.AtStart(code+" // rule "+operation+", "+template, g.Validate())
	}
	// asked is a handler that gets a request.
	asked := func(code string, serve func(g *guard.Guard) http.Handler) guardtest.Mistake {
		return guardtest.AtRequest(t, code, guardtest.Served(ruled(t, post, "lock:order:<id>")), func(g *guard.Guard) int {
			return guardtest.Send(serve(g), "POST", "/orders/7", "").Code
		})
	}
	onMux := func(lock func(http.Handler) http.Handler) http.Handler {
		mux := http.NewServeMux()
		mux.Handle(post, lock(http.NotFoundHandler()))
		return mux
	}
	guardtest.Listed(t, "../../docs/errors.md", "net/http, chi and Echo", []guardtest.Mistake{
		checked(`mux.Handle("/orders/{id}", httplock.Route(g, "/orders/{id}")(work))`, post, "lock:order:<id>", "/orders/{id}"),
		checked(`mux.Handle("POST /orders/{id}", httplock.Route(g, "POST /orders/{id}")(work))`, "POST /orders/:id", "lock:order:<id>", post),
		checked(`mux.Handle("POST /orders/{id}", httplock.Route(g, "POST /orders/{id}")(work))`, post, "lock:order:<path.no>", post),
		checked(`mux.Handle("DELETE /orders/{id}", httplock.Route(g, "DELETE /orders/{id}")(work))`, "DELETE /orders/{id}", "lock:order:<form.user>", "DELETE /orders/{id}"),
		checked(`mux.Handle("POST /orders/{id}", work)`, post, "lock:order:<id>", ""),
		asked(`mux.Handle("POST /orders/{id}", httplock.Route(g, "POST /order/{id}")(work))`, func(g *guard.Guard) http.Handler {
			return onMux(httplock.Route(g, "POST /order/{id}"))
		}),
		asked(`httplock.Route(g, "POST /orders/{id}")(mux)`, func(g *guard.Guard) http.Handler { return httplock.Route(g, post)(http.NewServeMux()) }),
		asked(`httplock.Route(g, "POST /orders/{id}")(httplock.Route(g, "POST /orders/{id}")(work))`, func(g *guard.Guard) http.Handler {
			return onMux(func(work http.Handler) http.Handler { return httplock.Route(g, post)(httplock.Route(g, post)(work)) })
		}),
		asked(`httplock.New(g, "lock:order:<userId>")(identify(work)) // identify sets userId`, func(g *guard.Guard) http.Handler {
			return onMux(httplock.New(g, "lock:order:<userId>"))
		}),
	})
}
