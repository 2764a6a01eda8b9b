package hertzlock_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/cloudwego/hertz/pkg/app"
	"github.com/cloudwego/hertz/pkg/common/config"
	"github.com/cloudwego/hertz/pkg/route"

	"github.com/redlatch/redlatch/contrib/hertzlock"
	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
	"github.com/redlatch/redlatch/core/rule"
)

// A route with its own rule. The key has a path parameter.
func Example() {
	locker := lock.New(memstore.New()) // redisstore.New(client) in a fleet
	defer locker.Close(context.Background())
	g := guard.Must(guard.New(locker))
	h := route.NewEngine(config.NewOptions(nil)) // server.Default() in a program
	h.POST("/orders/:id/pay", hertzlock.New(g, "lock:order:<id> wait=200ms"), func(ctx context.Context, c *app.RequestContext) {
		lease, _ := lock.FromContext(ctx)
		c.String(http.StatusOK, "paid under %s", lease.Key())
	})
	show(h)
	// Output: 200 paid under lock:order:7
}

// The guard's rules, for example from a file. Validate names a rule that no route has.
func ExampleRoute() {
	locker := lock.New(memstore.New())
	defer locker.Close(context.Background())
	g := guard.Must(guard.New(locker, rule.Rule{Operation: "POST /orders/:id/pay", Key: "lock:order:<id>"}))
	h := route.NewEngine(config.NewOptions(nil))
	h.POST("/orders/:id/pay", hertzlock.Route(g, "POST /orders/:id/pay"), func(_ context.Context, c *app.RequestContext) {
		c.String(http.StatusOK, "paid")
	})
	if err := g.Validate(); err != nil {
		fmt.Println(err)
		return
	}
	show(h)
	// Output: 200 paid
}

// show sends a request to a route of the examples.
func show(h *route.Engine) {
	w := httptest.NewRecorder()
	router{h}.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/orders/7/pay", nil))
	fmt.Println(w.Code, w.Body)
}
