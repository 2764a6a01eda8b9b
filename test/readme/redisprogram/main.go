// Redisprogram is the one of docs/redis.md.
package main

import (
	"context"
	"errors"
	"log"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/redisstore"
)

func main() {
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	locker := lock.New(redisstore.New(rdb)) // or memstore.New(): one process, no Redis
	err := locker.Do(ctx, "order:42", func(ctx context.Context) error {
		lease, _ := lock.FromContext(ctx) // ctx ends when the lease does
		log.Println("working on order 42, fence", lease.Fence())
		return nil
	})
	if err := errors.Join(err, locker.Close(ctx), rdb.Close()); err != nil {
		log.Fatal(err)
	}
}
