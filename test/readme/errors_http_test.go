package readme_test

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/guard/guardtest"
	"github.com/redlatch/redlatch/core/guard/httpguard"
	"github.com/redlatch/redlatch/core/rule"
	"github.com/redlatch/redlatch/ginlock"
	"github.com/redlatch/redlatch/httplock"
)

// TestErrorsOfHTTPInTheManual: what docs/errors.md quotes is what a user gets who
// makes the mistake.
func TestErrorsOfHTTPInTheManual(t *testing.T) {
	work := func(*gin.Context) {}
	build := func(text string, opts ...httpguard.Option) error {
		_, err := ginlock.Build(guardtest.Guard(t), text, opts...)
		return err
	}
	rules := func(operation, template string) *guard.Guard {
		g, err := guard.New(guardtest.Guard(t).Locker(), rule.Rule{Operation: operation, Key: template})
		if err != nil {
			t.Fatal(err)
		}
		return g.WithLogger(slog.New(slog.DiscardHandler))
	}
	// inGin checks an engine with one rule.
	inGin := func(operation, template string, register func(r *gin.Engine, locks gin.HandlerFunc)) error {
		g, r := rules(operation, template), gin.New()
		register(r, ginlock.Rules(g, r, httpguard.WithProvided("userId")))
		return g.Validate()
	}
	// inMux checks a mux with one rule and the routes that have a lock.
	inMux := func(operation, template string, patterns ...string) error {
		g, mux := rules(operation, template), http.NewServeMux()
		for _, pattern := range patterns {
			mux.Handle(pattern, httplock.Route(g, pattern, httpguard.WithProvided("userId"))(http.NotFoundHandler()))
		}
		return g.Validate()
	}
	// logged is what the operator reads of a request.
	logged := func(operation string, serve func(g *guard.Guard) http.Handler, method, path string) error {
		var line strings.Builder
		g := guardtest.Served(rules(operation, "lock:order:<id>")).WithLogger(slog.New(slog.NewTextHandler(&line, nil)))
		guardtest.Send(serve(g), method, path, "")
		_, reason, _ := strings.Cut(strings.TrimSpace(line.String()), "reason=")
		reason, err := strconv.Unquote(reason)
		if err != nil {
			return fmt.Errorf("%w: %s", err, line.String())
		}
		return errors.New(reason)
	}
	quoted(t, "HTTP", []mistake{
		{"A template in another language", `ginlock.New(g, "lock:order:{id}")`, build("lock:order:{id}")},
		{"A wait without a unit", `ginlock.New(g, "lock:order:<id> wait=200")`, build("lock:order:<id> wait=200")},
		{"A misspelled field", `ginlock.New(g, "lock:order:<id> wiat=200ms")`, build("lock:order:<id> wiat=200ms")},
		{"A variable that isn't closed", `ginlock.New(g, "lock:order:<id")`, build("lock:order:<id")},
		{"A source of gRPC", `ginlock.New(g, "lock:order:<md.user>")`, build("lock:order:<md.user>")},
		{
			"A bound variable that the template doesn't have", `ginlock.New(g, "lock:order:<id>", httpguard.WithVar("user", …))`,
			build("lock:order:<id>", httpguard.WithVar("user", httpguard.Header("X-User"))),
		},
		{
			"A variable that nothing sets", `r.POST("/orders/:id", ginlock.Rules(g, r), work) // lock:order:<userld>`,
			inGin("POST /orders/:id", "lock:order:<userld>", func(r *gin.Engine, locks gin.HandlerFunc) { r.POST("/orders/:id", locks, work) }),
		},
		{
			"A misspelled name of an option", `r.POST("/users/:userId/orders", ginlock.Rules(g, r, httpguard.WithVar("userID", …)), work) // lock:order:<userId>`,
			func() error {
				g, r := rules("POST /users/:userId/orders", "lock:order:<userId>"), gin.New()
				r.POST("/users/:userId/orders", ginlock.Rules(g, r, httpguard.WithVar("userID", httpguard.Header("X-User-Id"))), work)
				return g.Validate()
			}(),
		},
		{
			"A rule for a route that isn't there", `r.POST("/orders/:id", ginlock.Rules(g, r), work) // rule: POST /order/:id`,
			inGin("POST /order/:id", "lock:order:<id>", func(r *gin.Engine, locks gin.HandlerFunc) { r.POST("/orders/:id", locks, work) }),
		},
		{
			"Use behind the routes", `r.POST("/orders/:id", work); r.Use(ginlock.Rules(g, r)) // panics`,
			func() error {
				r := gin.New()
				r.POST("/orders/:id", work)
				_, err := ginlock.BuildRules(rules("POST /orders/:id", "lock:order:<id>"), r)
				return err
			}(),
		},
		{
			"A route outside of the group that has the lock", `r.Group("/v1", ginlock.Rules(g, r)); r.POST("/orders/:id", work)`,
			inGin("POST /orders/:id", "lock:order:<id>", func(r *gin.Engine, locks gin.HandlerFunc) {
				r.Group("/v1", locks)
				r.POST("/orders/:id", work)
			}),
		},
		{
			"A lock behind the handler", `r.POST("/orders/:id", work, ginlock.Rules(g, r))`,
			inGin("POST /orders/:id", "lock:order:<id>", func(r *gin.Engine, locks gin.HandlerFunc) { r.POST("/orders/:id", work, locks) }),
		},
		{
			"A route for any method", `r.Any("/orders/:id", ginlock.Rules(g, r), work) // rule: POST /orders/:id`,
			inGin("POST /orders/:id", "lock:order:<id>", func(r *gin.Engine, locks gin.HandlerFunc) { r.Any("/orders/:id", locks, work) }),
		},
		{
			"A pattern without a method (net/http)", `mux.Handle("/orders/{id}", httplock.Route(g, "/orders/{id}")(work)) // rule: POST /orders/{id}`,
			inMux("POST /orders/{id}", "lock:order:<id>", "/orders/{id}"),
		},
		{
			"A path of Gin with net/http", `mux.Handle("POST /orders/{id}", httplock.Route(g, "POST /orders/{id}")(work)) // rule: POST /orders/:id`,
			inMux("POST /orders/:id", "lock:order:<id>", "POST /orders/{id}"),
		},
		{
			"A parameter of another name (net/http)", `mux.Handle("POST /orders/{id}", httplock.Route(g, "POST /orders/{id}")(work)) // lock:order:<path.no>`,
			inMux("POST /orders/{id}", "lock:order:<path.no>", "POST /orders/{id}"),
		},
		{
			"A form of a method that has none", `mux.Handle("DELETE /orders/{id}", httplock.Route(g, "DELETE /orders/{id}")(work)) // lock:order:<form.user>`,
			inMux("DELETE /orders/{id}", "lock:order:<form.user>", "DELETE /orders/{id}"),
		},
		{
			"A route without its lock (net/http, chi, Echo)", `mux.Handle("POST /orders/{id}", work) // rule: POST /orders/{id}`,
			inMux("POST /orders/{id}", "lock:order:<id>"),
		},
		{
			"A lock around another route (net/http, chi, Echo)", `mux.Handle("POST /orders/{id}", httplock.Route(g, "POST /order/{id}")(work))`,
			logged("POST /orders/{id}", func(g *guard.Guard) http.Handler {
				mux := http.NewServeMux()
				mux.Handle("POST /orders/{id}", httplock.Route(g, "POST /order/{id}")(http.NotFoundHandler()))
				return mux
			}, "POST", "/orders/7"),
		},
		{
			"A lock in front of the router (net/http, chi, Echo)", `httplock.Route(g, "POST /orders/{id}")(mux)`,
			logged("POST /orders/{id}", func(g *guard.Guard) http.Handler {
				return httplock.Route(g, "POST /orders/{id}")(http.NewServeMux())
			}, "POST", "/orders/7"),
		},
		{
			"A path parameter that the route doesn't have", `mux.Handle("POST /orders/{id}", httplock.New(g, "lock:order:<path.no>")(work))`,
			logged("POST /orders/{id}", func(g *guard.Guard) http.Handler {
				mux := http.NewServeMux()
				mux.Handle("POST /orders/{id}", httplock.New(g, "lock:order:<path.no>")(http.NotFoundHandler()))
				return mux
			}, "POST", "/orders/7"),
		},
	})
}
