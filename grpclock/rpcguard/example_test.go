package rpcguard_test

import (
	"context"
	"fmt"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
	"github.com/redlatch/redlatch/core/rule"
	"github.com/redlatch/redlatch/grpclock/rpcguard"
)

// An integration enters with what its framework knows of a call, and answers with the
// status in its own form.
func ExampleLocks_Enter() {
	locker := lock.New(memstore.New())
	defer func() { _ = locker.Close(context.Background()) }()
	g := guard.Must(guard.New(locker, rule.Rule{Operation: "/shop.v1.Orders/Place", Key: "lock:order:<md.user-id>"}))
	locks, err := rpcguard.New(g, rpcguard.Config{By: "mylock"})
	if err != nil {
		fmt.Println(err)
		return
	}
	g.Serve("mylock", "/shop.v1.Orders/Place")

	headers := map[string][]string{"user-id": {"42"}}
	request := rpcguard.Request{
		Method:   "/shop.v1.Orders/Place",
		Metadata: func(_ context.Context, name string) []string { return headers[name] },
	}
	inside, leave, refused := locks.Enter(context.Background(), request)
	if refused != nil {
		fmt.Println(refused)
		return
	}
	defer leave() //nolint:errcheck // also if the handler panics; the result is that of the call below
	fmt.Println(lock.AssertHeld(inside, "lock:order:42"))

	_, _, refused = locks.Enter(context.Background(), request) // another call, meanwhile
	fmt.Println(refused.Code, refused.Cause.Kind)
	fmt.Println(leave())
	// Output:
	// <nil>
	// ABORTED contended
	// <nil>
}
