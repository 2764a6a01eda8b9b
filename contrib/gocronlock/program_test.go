package gocronlock_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/redlatch/redlatch/core/leader"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
)

// schedule is the program of the README.
func schedule(ctx context.Context, locker *lock.Locker, report func(context.Context) error) error {
	elector := leader.NewElector(locker, "leader:jobs", leader.WithName("jobs"))
	term, resign := context.WithCancel(context.Background())
	var campaign sync.WaitGroup
	campaign.Go(func() { _ = elector.Run(term) })
	defer campaign.Wait()
	defer resign() // behind Shutdown, which waits for the jobs

	scheduler, err := gocron.NewScheduler(gocron.WithDistributedElector(elector))
	if err != nil {
		return err
	}
	_, err = scheduler.NewJob(gocron.DurationJob(time.Minute), gocron.NewTask(func(ctx context.Context) error {
		return elector.Do(ctx, report) // report's context ends when this instance leads no more
	}))
	if err != nil {
		return errors.Join(err, scheduler.Shutdown())
	}
	scheduler.Start()
	<-ctx.Done() // of signal.NotifyContext
	return scheduler.Shutdown()
}

func TestTheProgramOfTheReadmeRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		ctx, stop := context.WithCancel(t.Context())
		var mu sync.Mutex
		var instances sync.WaitGroup
		fences := map[uint64]int{}
		for range 3 {
			locker := lock.New(store)
			instances.Go(func() {
				err := schedule(ctx, locker, func(ctx context.Context) error {
					lease, ok := lock.FromContext(ctx)
					if !ok {
						t.Error("the job has no lease")
						return nil
					}
					mu.Lock()
					defer mu.Unlock()
					fences[lease.Fence()]++
					return nil
				})
				if err != nil {
					t.Error(err)
				}
				if err := locker.Close(context.Background()); err != nil {
					t.Error(err)
				}
			})
		}
		time.Sleep(10*time.Minute + 30*time.Second)
		stop()
		instances.Wait()
		runs := 0
		for _, n := range fences {
			runs += n
		}
		if runs != 10 || len(fences) != 1 {
			t.Errorf("%d runs in 10 minutes, in %d terms", runs, len(fences))
		}
	})
}

func TestTheReadmeShowsThisProgram(t *testing.T) {
	read := func(name string) string {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	_, shown, _ := strings.Cut(read("README.md"), "```go\n")
	shown, _, found := strings.Cut(shown, "```")
	if !found || !strings.Contains(read("program_test.go"), shown) {
		t.Errorf("the README shows another program:\n%s", shown)
	}
}
