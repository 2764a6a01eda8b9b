package fiberlock_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/gofiber/fiber/v3"

	"github.com/redlatch/redlatch/contrib/fiberlock"
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
	app := fiber.New()
	app.Post("/orders/:id/pay", fiberlock.New(g, "lock:order:<id> wait=200ms"), func(c fiber.Ctx) error {
		lease, _ := fiberlock.From(c)
		return c.SendString("paid under " + lease.Key())
	})
	show(app)
	// Output: 200 paid under lock:order:7
}

// The guard's rules, for example from a file. Validate names a rule that no route has.
func ExampleRoute() {
	locker := lock.New(memstore.New())
	defer locker.Close(context.Background())
	g := guard.Must(guard.New(locker, rule.Rule{Operation: "POST /orders/:id/pay", Key: "lock:order:<id>"}))
	app := fiber.New()
	app.Post("/orders/:id/pay", fiberlock.Route(g, "POST /orders/:id/pay"), func(c fiber.Ctx) error {
		return c.SendString("paid")
	})
	if err := g.Validate(); err != nil {
		fmt.Println(err)
		return
	}
	show(app)
	// Output: 200 paid
}

// show sends a request to a route of the examples.
func show(app *fiber.App) {
	w := httptest.NewRecorder()
	router{app}.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/orders/7/pay", nil))
	fmt.Println(w.Code, w.Body)
}
