package readme_test

import (
	"log/slog"
	"net/http"
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
		register(r, ginlock.Rules(g))
		return ginlock.Check(r, g, "userId")
	}
	// inMux checks a mux with one rule and one route.
	inMux := func(operation, template, pattern string) error {
		g, mux := rules(operation, template), http.NewServeMux()
		mux.Handle(pattern, httplock.Rules(g)(http.NotFoundHandler()))
		return httplock.Check(mux, g, "userId")
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
			"A variable that nothing sets", `r.POST("/orders/:id", ginlock.Rules(g), work) // lock:order:<userld>`,
			inGin("POST /orders/:id", "lock:order:<userld>", func(r *gin.Engine, locks gin.HandlerFunc) { r.POST("/orders/:id", locks, work) }),
		},
		{
			"A rule for a route that isn't there", `r.POST("/orders/:id", ginlock.Rules(g), work) // rule: POST /order/:id`,
			inGin("POST /order/:id", "lock:order:<id>", func(r *gin.Engine, locks gin.HandlerFunc) { r.POST("/orders/:id", locks, work) }),
		},
		{
			"Use behind the routes", `r.POST("/orders/:id", work); r.Use(ginlock.Rules(g))`,
			inGin("POST /orders/:id", "lock:order:<id>", func(r *gin.Engine, locks gin.HandlerFunc) {
				r.POST("/orders/:id", work)
				r.Use(locks)
			}),
		},
		{
			"A lock behind the handler", `r.POST("/orders/:id", work, ginlock.Rules(g))`,
			inGin("POST /orders/:id", "lock:order:<id>", func(r *gin.Engine, locks gin.HandlerFunc) { r.POST("/orders/:id", work, locks) }),
		},
		{
			"A route for any method", `r.Any("/orders/:id", ginlock.Rules(g), work) // rule: POST /orders/:id`,
			inGin("POST /orders/:id", "lock:order:<id>", func(r *gin.Engine, locks gin.HandlerFunc) { r.Any("/orders/:id", locks, work) }),
		},
		{
			"A pattern without a method (net/http)", `mux.Handle("/orders/{id}", locks(work)) // rule: POST /orders/{id}`,
			inMux("POST /orders/{id}", "lock:order:<id>", "/orders/{id}"),
		},
		{
			"A path of Gin with net/http", `mux.Handle("POST /orders/{id}", locks(work)) // rule: POST /orders/:id`,
			inMux("POST /orders/:id", "lock:order:<id>", "POST /orders/{id}"),
		},
		{
			"A parameter of another name (net/http)", `mux.Handle("POST /orders/{id}", locks(work)) // rule: POST /orders/{id}, lock:order:<path.no>`,
			inMux("POST /orders/{id}", "lock:order:<path.no>", "POST /orders/{id}"),
		},
		{
			"A form of a method that has none", `mux.Handle("DELETE /orders/{id}", locks(work)) // lock:order:<form.user>`,
			inMux("DELETE /orders/{id}", "lock:order:<form.user>", "DELETE /orders/{id}"),
		},
		{"A guard that was told of no router", `r.Use(ginlock.Rules(g)) // and no ginlock.Attach`, rules("POST /orders/:id", "lock:order:<id>").Validate()},
	})
}
