package gocronlock_test

import (
	"context"
	"fmt"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/redlatch/redlatch/contrib/gocronlock"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
)

// Every instance of a fleet runs this, and one of them runs the job.
func ExampleNew() {
	locker := lock.New(memstore.New()) // for a fleet: redisstore.New(redisClient)
	defer locker.Close(context.Background())

	once := gocronlock.New(locker, "job:", lock.WithMinHold(50*time.Second))
	scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(once))
	if err != nil {
		fmt.Println(err)
		return
	}
	done := make(chan struct{})
	_, err = scheduler.NewJob(
		gocron.OneTimeJob(gocron.OneTimeJobStartImmediately()), // or gocron.CronJob("* * * * *", false)
		gocron.NewTask(func() {
			fmt.Println("reporting")
			close(done)
		}),
		gocron.WithName("report"), // the lock is job:report
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	scheduler.Start()
	<-done
	fmt.Println(scheduler.Shutdown())
	// Output:
	// reporting
	// <nil>
}
