package cronlock_test

import (
	"context"
	"fmt"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/redlatch/redlatch/contrib/cronlock"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
)

// Two instances come to the same tick, and one of them runs the job.
func ExampleSkipIfRunningElsewhere() {
	store := memstore.New() // for a fleet: redisstore.New(redisClient)
	for _, instance := range []string{"one", "two"} {
		locker := lock.New(store)
		defer locker.Close(context.Background())

		once := cronlock.SkipIfRunningElsewhere(locker, "job:report", cron.DiscardLogger, lock.WithMinHold(50*time.Second))
		job := cron.NewChain(once).Then(cron.FuncJob(func() { fmt.Println("reporting from", instance) }))
		job.Run() // as a cron.Cron does at each tick, after AddJob("* * * * *", job)
	}
	// Output: reporting from one
}
