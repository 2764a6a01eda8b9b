// Program is the one at the top of the README.
package main

import (
	"context"
	"log"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
)

func main() {
	ctx := context.Background()
	locker := lock.New(memstore.New()) // for a fleet: redisstore.New(redisClient)
	defer locker.Close(ctx)            //nolint:errcheck // the program ends
	err := locker.Do(ctx, "order:42", func(ctx context.Context) error {
		lease, _ := lock.FromContext(ctx) // ctx ends when the lock is lost
		log.Println("order 42 is locked, fence", lease.Fence())
		return nil
	})
	log.Println("done, error:", err)
}
