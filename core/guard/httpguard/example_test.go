package httpguard_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/guard/httpguard"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
	"github.com/redlatch/redlatch/httplock"
)

// The gateway in front sets a header, which the template names without a prefix.
func Example() {
	locker := lock.New(memstore.New())
	defer locker.Close(context.Background())
	g := guard.Must(guard.New(locker))

	locked := httplock.New(g, "lock:order:<userId>",
		httpguard.WithVar("userId", httpguard.Header("X-User-Id")),
		httpguard.WithContentionStatus(http.StatusTooManyRequests))
	mux := http.NewServeMux()
	mux.Handle("POST /orders", locked(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lease, _ := httplock.From(r)
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, "ordered under ", lease.Key())
	})))

	order := func() *httptest.ResponseRecorder {
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/orders", nil)
		r.Header.Set("X-User-Id", "42")
		mux.ServeHTTP(w, r)
		return w
	}
	w := order()
	fmt.Println(w.Code, w.Body)

	lease, _ := locker.TryAcquire(context.Background(), "lock:order:42") // by another order of the user
	w = order()
	fmt.Println(w.Code, w.Header().Get("Retry-After"))
	_ = lease.Release(context.Background())
	// Output:
	// 201 ordered under lock:order:42
	// 429 1
}

// An error handler writes what the service's clients know.
func ExampleWithErrorHandler() {
	locker := lock.New(memstore.New())
	defer locker.Close(context.Background())
	g := guard.Must(guard.New(locker))

	locked := httplock.New(g, "lock:stock:<path.id>",
		httpguard.WithErrorHandler(func(w http.ResponseWriter, _ httpguard.Request, e *guard.Error) {
			http.Error(w, e.Kind.Code(), http.StatusConflict)
		}))
	mux := http.NewServeMux()
	mux.Handle("POST /stock/{id}", locked(http.NotFoundHandler()))

	lease, _ := locker.TryAcquire(context.Background(), "lock:stock:7")
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/stock/7", nil))
	fmt.Print(w.Code, " ", w.Body)
	_ = lease.Release(context.Background())
	// Output:
	// 409 LOCK_CONTENDED
}
