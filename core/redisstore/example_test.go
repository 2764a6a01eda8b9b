package redisstore_test

import (
	"context"
	"log"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/redisstore"
)

// It needs a server, so it is compiled and not run.
func ExampleNew() {
	ctx := context.Background()
	rdb := redis.NewUniversalClient(&redis.UniversalOptions{Addrs: []string{"localhost:6379"}})
	defer rdb.Close()

	store := redisstore.New(rdb, redisstore.WithKeyPrefix("shop:"))
	if err := store.Check(ctx); err != nil {
		log.Fatal(err) // lock store is unavailable: redis at localhost:6379: …
	}
	locker := lock.New(store)
	defer locker.Close(ctx)

	err := locker.Do(ctx, "order:42", func(context.Context) error {
		return nil // the work
	})
	if err != nil {
		log.Print(err)
	}
}
