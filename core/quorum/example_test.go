package quorum_test

import (
	"context"
	"fmt"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
	"github.com/redlatch/redlatch/core/quorum"
)

// Three stores in memory stand in for redisstore.New on three independent
// servers.
func ExampleNew() {
	store, err := quorum.New(memstore.New(), memstore.New(), memstore.New())
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	locker := lock.New(store)
	err = locker.Do(ctx, "order:42", func(context.Context) error {
		fmt.Println("a majority has granted it")
		return nil
	})
	fmt.Println(err, locker.Close(ctx), store.Close(ctx))

	_, err = quorum.New(memstore.New(), memstore.New())
	fmt.Println(err)
	// Output:
	// a majority has granted it
	// <nil> <nil> <nil>
	// invalid argument: quorum.New: 2 stores, need an odd number of at least 3
}
