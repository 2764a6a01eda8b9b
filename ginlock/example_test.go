package ginlock_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/gin-gonic/gin"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/guard/httpguard"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
	"github.com/redlatch/redlatch/core/rule"
	"github.com/redlatch/redlatch/ginlock"
)

// authenticate stands for a middleware that identifies the user.
func authenticate(c *gin.Context) { c.Set("userId", 42) }

func Example() {
	locker := lock.New(memstore.New()) // redisstore.New(rdb) to share locks with other processes
	defer locker.Close(context.Background())
	g := guard.Must(guard.New(locker))

	r := gin.New()
	r.POST("/vouchers/:id/orders", authenticate, ginlock.New(g, "lock:order:<userId>"), func(c *gin.Context) {
		lease, _ := ginlock.From(c)
		c.String(http.StatusCreated, "ordered under %s", lease.Key())
	})

	w := httptest.NewRecorder()
	r.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/vouchers/7/orders", nil))
	fmt.Println(w.Code, w.Body)

	// The same user once more, while the first order is under way.
	lease, _ := locker.TryAcquire(context.Background(), "lock:order:42")
	w = httptest.NewRecorder()
	r.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/vouchers/7/orders", nil))
	fmt.Println(w.Code, w.Header().Get("Content-Type"), w.Header().Get("Retry-After"))
	_ = lease.Release(context.Background())
	// Output:
	// 201 ordered under lock:order:42
	// 409 application/problem+json 1
}

// Rules can come from a file, too: see package rulefile.
func ExampleRules() {
	locker := lock.New(memstore.New())
	defer locker.Close(context.Background())
	g := guard.Must(guard.New(locker, rule.Rule{
		Operation: "POST /vouchers/:id/orders",
		Key:       "lock:order:<userId>",
	}))

	r := gin.New()
	r.Use(authenticate, ginlock.Rules(g, r, httpguard.WithProvided("userId")))
	r.POST("/vouchers/:id/orders", func(c *gin.Context) {
		lease, _ := ginlock.From(c)
		c.String(http.StatusCreated, lease.Key())
	})

	w := httptest.NewRecorder()
	r.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/vouchers/7/orders", nil))
	fmt.Println(w.Code, w.Body)
	// Output: 201 lock:order:42
}

// A unit test of the application calls Check with the names that its
// middlewares set.
func ExampleCheck() {
	locker := lock.New(memstore.New())
	defer locker.Close(context.Background())
	g := guard.Must(guard.New(locker))

	r := gin.New()
	r.POST("/vouchers/:id/orders", authenticate, ginlock.New(g, "lock:order:<userld>"), func(*gin.Context) {})
	fmt.Println(ginlock.Check(r, g, "userId"))
	// Output:
	// ginlock: "POST /vouchers/:id/orders": template "lock:order:<userld>", column 12: <userld> is not a parameter of the route, not bound by WithVar, and not named by WithProvided
}
