package readme_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/redis/go-redis/v9"
	"go.uber.org/fx"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/guard/guardtest"
	"github.com/redlatch/redlatch/core/guard/httpguard"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
	"github.com/redlatch/redlatch/core/redisstore"
	"github.com/redlatch/redlatch/core/rule"
	"github.com/redlatch/redlatch/fxmodule"
	"github.com/redlatch/redlatch/ginlock"
	"github.com/redlatch/redlatch/httplock"
	"github.com/redlatch/redlatch/test/internal/redistest"
)

func init() { gin.SetMode(gin.ReleaseMode) }

// authenticate stands for a middleware that identifies the user.
func authenticate(c *gin.Context) { c.Set("userId", 42) }

func createOrder(c *gin.Context) {
	lease, _ := ginlock.From(c)
	c.String(http.StatusCreated, "under "+lease.Key())
}

func buildReport(c *gin.Context) { createOrder(c) }

func export(c *gin.Context) { createOrder(c) }

// post sends a request and prints the answer.
func post(handler http.Handler, path string) {
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, nil))
	body, _ := io.ReadAll(w.Result().Body)
	fmt.Println(w.Code, string(body))
}

func Example_gin() {
	ctx := context.Background()
	locker := lock.New(memstore.New())
	defer locker.Close(ctx)

	r := gin.New()
	r.Use(gin.Recovery(), authenticate) // authenticate calls c.Set("userId", …)
	g := guard.Must(guard.New(locker))
	locked := ginlock.New(g, "lock:order:<userId> wait=200ms")
	r.POST("/vouchers/:id/orders", locked, createOrder)

	post(r, "/vouchers/7/orders")
	lease, _ := locker.TryAcquire(ctx, "lock:order:42")
	post(r, "/vouchers/7/orders")
	_ = lease.Release(ctx)
	fmt.Println(ginlock.Check(r, g, "userId"))
	// Output:
	// 201 under lock:order:42
	// 409 {"type":"https://github.com/redlatch/redlatch/blob/main/ginlock/problems.md#lock_contended","title":"Locked by another request","status":409,"detail":"Another request holds the lock that this one needs. This request was not carried out; it can be sent again.","instance":"/vouchers/7/orders","code":"LOCK_CONTENDED","retryable":true}
	// <nil>
}

// TestUploadsOfTheManual: what is larger than the limit gets to a handler that reads it
// from the connection, and to no other.
func TestUploadsOfTheManual(t *testing.T) {
	const size = httpguard.DefaultMaxBody + 1
	savePicture := func(c *gin.Context) {
		n, err := io.Copy(io.Discard, c.Request.Body)
		if _, held := ginlock.From(c); n != size || err != nil || !held {
			t.Errorf("the handler read %d bytes, %v, under a lock: %v", n, err, held)
		}
	}
	g := guardtest.Guard(t)
	r := gin.New()
	r.PUT("/vouchers/:id/picture", ginlock.New(g, "lock:picture:<id>", httpguard.WithStreamedBody()), savePicture)
	r.PUT("/small/:id", ginlock.New(g, "lock:picture:<id>"), func(*gin.Context) { t.Error("the handler ran") })
	for path, want := range map[string]int{"/vouchers/7/picture": http.StatusOK, "/small/7": http.StatusRequestEntityTooLarge} {
		if w := guardtest.Send(r, http.MethodPut, path, strings.Repeat("x", size)); w.Code != want {
			t.Errorf("%s: got %d %s, want %d", path, w.Code, w.Body, want)
		}
	}
}

// identify stands for a middleware that identifies the user.
func identify(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), "userId", "42"))) //nolint:revive,staticcheck // The template names the string.
	})
}

func Example_http() {
	ctx := context.Background()
	locker := lock.New(memstore.New())
	defer locker.Close(ctx)
	orders := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lease, _ := httplock.From(r)
		_, _ = io.WriteString(w, "under "+lease.Key())
	})

	mux := http.NewServeMux()
	g := guard.Must(guard.New(locker))
	locked := httplock.New(g, "lock:order:<userId> wait=200ms")
	mux.Handle("POST /vouchers/{id}/orders", identify(locked(orders)))

	post(mux, "/vouchers/7/orders")
	lease, _ := locker.TryAcquire(ctx, "lock:order:42")
	post(mux, "/vouchers/7/orders")
	_ = lease.Release(ctx)
	// Output:
	// 200 under lock:order:42
	// 409 {"type":"https://github.com/redlatch/redlatch/blob/main/ginlock/problems.md#lock_contended","title":"Locked by another request","status":409,"detail":"Another request holds the lock that this one needs. This request was not carried out; it can be sent again.","instance":"/vouchers/7/orders","code":"LOCK_CONTENDED","retryable":true}
}

func Example_httpRules() {
	ctx := context.Background()
	locker := lock.New(memstore.New())
	defer locker.Close(ctx)
	g := guard.Must(guard.New(locker, rule.Rule{Operation: "POST /vouchers/{id}/orders", Key: "lock:order:<userId>"}))
	orders := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lease, _ := lock.FromContext(r.Context())
		_, _ = io.WriteString(w, "under "+lease.Key())
	})
	voucher := http.NotFoundHandler()

	mux := http.NewServeMux()
	handle := func(pattern string, h http.Handler) {
		mux.Handle(pattern, identify(httplock.Route(g, pattern, httpguard.WithProvided("userId"))(h)))
	}
	handle("POST /vouchers/{id}/orders", orders)
	handle("GET /vouchers/{id}", voucher) // without a rule
	err := g.Validate()

	fmt.Println(err)
	post(mux, "/vouchers/7/orders")
	// Output:
	// <nil>
	// 200 under lock:order:42
}

func newRouter(g *guard.Guard) *gin.Engine {
	r := gin.New()
	r.Use(gin.Recovery(), authenticate)
	r.Use(ginlock.Rules(g, r, httpguard.WithProvided("userId"))) // routes without a rule pass through
	r.POST("/vouchers/:id/orders", createOrder)
	r.POST("/reports/:day", buildReport)
	r.POST("/exports", export)
	return r
}

func TestFxApplicationOfTheReadmeLocksInRedis(t *testing.T) {
	server := redistest.Standalone(t)
	newRedis := func() *redis.Client { return server.Client(t) }
	var router *gin.Engine
	serve := func(r *gin.Engine, g *guard.Guard) {
		router = r
		guardtest.Served(g)
	}
	t.Chdir("testdata")

	app := fx.New(
		fxmodule.Module,                      // *lock.Locker and *guard.Guard; checks Redis at start, closes the locker at the end
		fx.Provide(newRedis, newRouter),      // a client of any of the three types; fxmodule.InMemory() for memory
		fxmodule.WithRulesFile("locks.yaml"), // or fxmodule.AsRule(rule.Rule{…})
		fx.Invoke(serve),
	)
	if err := app.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := app.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})

	w := httptest.NewRecorder()
	router.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/vouchers/7/orders", nil))
	if w.Code != http.StatusCreated || w.Body.String() != "under lock:order:42" {
		t.Errorf("an order: %d %s", w.Code, w.Body)
	}

	// Somebody else builds the report of that day.
	rdb := server.Client(t)
	if err := rdb.HSet(t.Context(), "lock:report:2026-01-31", "someone:1", 1).Err(); err != nil {
		t.Fatal(err)
	}
	w = httptest.NewRecorder()
	router.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/reports/2026-01-31", nil))
	if w.Code != http.StatusNoContent {
		t.Errorf("a report that is being built: %d %s", w.Code, w.Body)
	}

	// Somebody else has two of the three permits, and takes the last.
	elsewhere := lock.New(redisstore.New(rdb))
	t.Cleanup(func() {
		if err := elsewhere.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	for n, want := range map[int]int{2: http.StatusCreated, 3: http.StatusConflict} {
		lease, err := elsewhere.TryAcquire(t.Context(), "lock:exports", lock.WithPermits(n, 3))
		if err != nil {
			t.Fatal(err)
		}
		w = httptest.NewRecorder()
		router.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/exports", nil))
		if w.Code != want {
			t.Errorf("an export while %d of 3 permits are taken: %d %s", n, w.Code, w.Body)
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
