package guard_test

import (
	"context"
	"fmt"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/key"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
	"github.com/redlatch/redlatch/core/rule"
)

// An integration calls Enter in front of the work.
func ExampleGuard_Enter() {
	ctx := context.Background()
	locker := lock.New(memstore.New())
	defer locker.Close(ctx)
	g := guard.Must(guard.New(locker, rule.Rule{Operation: "place", Key: "lock:order:<userId>"}))
	g.Declare("place")
	if err := g.Validate(); err != nil { // when the program starts
		fmt.Println(err)
	}

	place := func(user string) string {
		call := guard.Call{Operation: "place", Vars: func(key.Var) (string, error) { return user, nil }}
		ctx, leave, err := g.Enter(ctx, call)
		if err != nil {
			return guard.KindOf(err).Code()
		}
		defer leave() //nolint:errcheck // an example's lease is not lost
		lease, _ := lock.FromContext(ctx)
		_, _, second := g.Enter(context.Background(), call)
		return fmt.Sprintf("%s is held, another one gets %s", lease.Key(), guard.KindOf(second).Code())
	}
	fmt.Println(place("42"))
	fmt.Println(place(""))
	// Output:
	// lock:order:42 is held, another one gets LOCK_CONTENDED
	// LOCK_KEY_INVALID
}

// Work that needs two locks takes both or none.
func ExampleGuard_EnterAll() {
	ctx := context.Background()
	locker := lock.New(memstore.New())
	defer locker.Close(ctx)
	g := guard.Must(guard.New(locker, rule.Rule{Operation: "pay", Key: "lock:account:<id>"}))
	g.Declare("pay")

	account := func(id string) guard.Call {
		return guard.Call{Operation: "pay", Vars: func(key.Var) (string, error) { return id, nil }}
	}
	ctx, leave, err := g.EnterAll(ctx, account("7"), account("3"))
	if err != nil {
		fmt.Println(guard.KindOf(err)) // neither is held
		return
	}
	fmt.Println(lock.AssertHeld(ctx, "lock:account:3"), lock.AssertHeld(ctx, "lock:account:7"))
	fmt.Println(leave())
	// Output:
	// <nil> <nil>
	// <nil>
}

// KindOf sorts errors of the kit, also if no guard returned them.
func ExampleKindOf() {
	for _, err := range []error{lock.ErrBusy, key.ErrMissing, lock.ErrUnavailable, context.Canceled, nil} {
		kind := guard.KindOf(err)
		fmt.Printf("%v: %v, %d, retryable %v\n", err, kind, kind.Info().Status, kind.Retryable())
	}
	// Output:
	// lock is held by another owner: contended, 409, retryable true
	// key: missing or empty value: bad key, 400, retryable false
	// lock store is unavailable: unavailable, 503, retryable true
	// context canceled: canceled, 503, retryable true
	// <nil>: none, 0, retryable false
}
