package gocronlock_test

import (
	"context"
	"errors"
	"log"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"

	"github.com/redlatch/redlatch/contrib/gocronlock"
	"github.com/redlatch/redlatch/core/leader"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
)

// share is the first program of the README.
func share(ctx context.Context, locker *lock.Locker, report func(context.Context) error) error {
	once := gocronlock.New(locker, "job:", lock.WithMinHold(50*time.Second))
	scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(once))
	if err != nil {
		return err
	}
	skipped := gocron.AfterLockError(func(_ uuid.UUID, name string, err error) {
		if !errors.Is(err, lock.ErrBusy) { // another instance runs it
			log.Printf("%s is skipped: %v", name, err)
		}
	})
	_, err = scheduler.NewJob(gocron.CronJob("* * * * *", false), gocron.NewTask(report), gocron.WithName("report"), gocron.WithEventListeners(skipped))
	if err != nil {
		return errors.Join(err, scheduler.Shutdown())
	}
	scheduler.Start()
	<-ctx.Done() // of signal.NotifyContext
	return scheduler.Shutdown()
}

// lead is the second.
func lead(ctx context.Context, locker *lock.Locker, report func(context.Context) error) error {
	elector := leader.NewElector(locker, "leader:jobs", leader.WithName("jobs"))
	term, resign := context.WithCancel(context.Background())
	var campaign sync.WaitGroup
	campaign.Go(func() { log.Printf("no longer a candidate: %v", elector.Run(term)) })
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

// tenMinutes runs a program in three instances for ten minutes and a half, and returns
// how often the job ran, and in how many leases that it can see.
func tenMinutes(t *testing.T, program func(context.Context, *lock.Locker, func(context.Context)) error) (runs, leases int) {
	t.Helper()
	store := memstore.New()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var mu sync.Mutex
	var instances sync.WaitGroup
	fences := map[uint64]bool{}
	for range 3 {
		locker := lock.New(store)
		instances.Go(func() {
			err := program(ctx, locker, func(ctx context.Context) {
				mu.Lock()
				defer mu.Unlock()
				runs++
				if lease, ok := lock.FromContext(ctx); ok {
					fences[lease.Fence()] = true
				}
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
	return runs, len(fences)
}

func TestTheProgramsOfTheReadmeRun(t *testing.T) {
	for _, program := range []struct {
		name   string
		leases int // that the job sees
		run    func(context.Context, *lock.Locker, func(context.Context)) error
	}{
		{"share", 0, withError(share)},
		{"lead", 1, withError(lead)},
	} {
		t.Run(program.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if runs, leases := tenMinutes(t, program.run); runs != 10 || leases != program.leases {
					t.Errorf("%d runs in 10 minutes, in %d leases", runs, leases)
				}
			})
		})
	}
}

func TestTheReadmeShowsThesePrograms(t *testing.T) {
	read := func(name string) string {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	shown := strings.Split(read("README.md"), "```go\n")[1:]
	for _, program := range shown {
		program, _, _ = strings.Cut(program, "```")
		if !strings.Contains(read("program_test.go"), program) {
			t.Errorf("the README shows another program:\n%s", program)
		}
	}
	if len(shown) != 2 {
		t.Errorf("the README shows %d programs", len(shown))
	}
}

// withError adapts a program whose job returns an error.
func withError(program func(context.Context, *lock.Locker, func(context.Context) error) error) func(context.Context, *lock.Locker, func(context.Context)) error {
	return func(ctx context.Context, locker *lock.Locker, job func(context.Context)) error {
		return program(ctx, locker, func(ctx context.Context) error { job(ctx); return nil })
	}
}
