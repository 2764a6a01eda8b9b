package fence_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/redlatch/redlatch/core/fence"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
)

// A holder is paused, loses its lock without noticing, and writes after the next
// holder has. The resource refuses it.
func Example() {
	ctx := context.Background()
	locker := lock.New(memstore.New())
	defer locker.Close(ctx)

	gate := &fence.Gate{
		Store: fence.NewMemory(fence.DefaultLimit),
		Key:   func(r *http.Request) (string, error) { return "order:" + r.PathValue("id"), nil },
	}
	mux := http.NewServeMux()
	mux.Handle("PUT /orders/{id}", gate.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNoContent)
	})))
	resource := httptest.NewServer(mux)
	defer resource.Close()

	client := &http.Client{Transport: &fence.Transport{}} // sends the fence of the lease in the context
	defer client.CloseIdleConnections()
	put := func(lease *lock.Lease) int {
		late := context.WithoutCancel(lease.Context()) // as work that doesn't look at its context
		request, _ := http.NewRequestWithContext(late, http.MethodPut, resource.URL+"/orders/42", strings.NewReader("paid"))
		response, err := client.Do(request)
		if err != nil {
			return 0
		}
		_ = response.Body.Close()
		return response.StatusCode
	}

	paused, _ := locker.Acquire(ctx, "order:42")
	_, _ = locker.ForceRelease(ctx, "order:42") // stands for a lease that ran out
	next, _ := locker.Acquire(ctx, "order:42")

	fmt.Println("the next holder:", put(next))
	fmt.Println("the paused one: ", put(paused))
	// Output:
	// the next holder: 204
	// the paused one:  412
}

// A token travels as a string of one line.
func ExampleParse() {
	token := fence.New(1_760_000_000_000_000, "an owner")
	again, err := fence.Parse(token.String())
	fmt.Println(again == token, err)

	_, err = fence.Parse("7")
	fmt.Println(err)
	// Output:
	// true <nil>
	// malformed fence token: the form is <fence>;<owner>
}

// Where anybody can reach the resource, a secret that both sides know signs tokens.
func ExampleSigner() {
	sender, _ := fence.NewSigner([]byte("a secret of sixteen bytes or more"))
	header := sender.Format("order:42", fence.New(7, "an owner"))

	_, err := sender.Parse("order:42", header)
	fmt.Println(err)
	_, err = sender.Parse("order:43", header) // a token of one lock is none of another
	fmt.Println(err)
	// Output:
	// <nil>
	// fence token is not signed as it must be
}
