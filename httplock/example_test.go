package httplock_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/guard/httpguard"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
	"github.com/redlatch/redlatch/core/rule"
	"github.com/redlatch/redlatch/httplock"
)

// authenticate stands for a middleware that identifies the user.
func authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), "userId", 42))) //nolint:revive,staticcheck // templates name strings
	})
}

func createOrder(w http.ResponseWriter, r *http.Request) {
	lease, _ := httplock.From(r)
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(w, "ordered under %s", lease.Key())
}

func Example() {
	locker := lock.New(memstore.New()) // redisstore.New(rdb) to share locks with other processes
	defer locker.Close(context.Background())
	g := guard.Must(guard.New(locker))

	mux := http.NewServeMux()
	locked := httplock.New(g, "lock:order:<userId>")
	mux.Handle("POST /vouchers/{id}/orders", authenticate(locked(http.HandlerFunc(createOrder))))

	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/vouchers/7/orders", nil))
	fmt.Println(w.Code, w.Body)

	// The same user once more, while the first order is under way.
	lease, _ := locker.TryAcquire(context.Background(), "lock:order:42")
	w = httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/vouchers/7/orders", nil))
	fmt.Println(w.Code, w.Header().Get("Content-Type"), w.Header().Get("Retry-After"))
	_ = lease.Release(context.Background())
	// Output:
	// 201 ordered under lock:order:42
	// 409 application/problem+json 1
}

// Rules can come from a file, too: see package rulefile.
func ExampleRoute() {
	locker := lock.New(memstore.New())
	defer locker.Close(context.Background())
	g := guard.Must(guard.New(locker, rule.Rule{Operation: "POST /vouchers/{id}/orders", Key: "lock:order:<userId>"}))

	mux := http.NewServeMux()
	handle := func(pattern string, h http.HandlerFunc) {
		mux.Handle(pattern, authenticate(httplock.Route(g, pattern, httpguard.WithProvided("userId"))(h)))
	}
	handle("POST /vouchers/{id}/orders", createOrder)
	handle("GET /vouchers/{id}", func(http.ResponseWriter, *http.Request) {}) // without a rule
	fmt.Println(g.Validate())

	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/vouchers/7/orders", nil))
	fmt.Println(w.Code, w.Body)
	// Output:
	// <nil>
	// 201 ordered under lock:order:42
}
