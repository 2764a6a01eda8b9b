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
