package console_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/redlatch/redlatch/core/console"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
)

// The console is closed until an authorizer opens it, such as one that reads a header of
// the proxy that has logged the operator in.
func Example() {
	recorder := console.NewRecorder()
	locker := lock.New(memstore.New(), lock.WithIdentity(lock.Identity{Service: "checkout"}), lock.WithHooks(recorder.Hooks()))
	page := console.New(locker, console.WithRecorder(recorder), console.WithAuthorizer(func(r *http.Request) (string, bool) {
		operator := r.Header.Get("X-Operator")
		return operator, operator != ""
	}))
	defer page.Close()
	mux := http.NewServeMux()
	mux.Handle("/locks/", http.StripPrefix("/locks", page))

	for _, operator := range []string{"", "ann"} {
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/locks/", nil)
		r.Header.Set("X-Operator", operator)
		mux.ServeHTTP(w, r)
		fmt.Println(w.Code)
	}
	// Output:
	// 403
	// 200
}
