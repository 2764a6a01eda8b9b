package redisstore_test

import (
	"context"
	"fmt"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
	"github.com/redlatch/redlatch/core/redisstore"
)

// Three stores in memory stand in for redisstore.New on three independent
// servers.
func ExampleQuorum() {
	quorum, err := redisstore.Quorum(memstore.New(), memstore.New(), memstore.New())
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	locker := lock.New(quorum)
	err = locker.Do(ctx, "order:42", func(context.Context) error {
		fmt.Println("a majority has granted it")
		return nil
	})
	fmt.Println(err, locker.Close(ctx), quorum.Close(ctx))

	_, err = redisstore.Quorum(memstore.New(), memstore.New())
	fmt.Println(err)
	// Output:
	// a majority has granted it
	// <nil> <nil> <nil>
	// invalid argument: redisstore.Quorum: 2 stores, need an odd number of at least 3
}
