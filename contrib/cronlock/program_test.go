package cronlock_test

import (
	"context"
	"log"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/redlatch/redlatch/contrib/cronlock"
	"github.com/redlatch/redlatch/core/leader"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
)

// share is the first program of the README.
func share(ctx context.Context, locker *lock.Locker, report func()) error {
	once := cronlock.SkipIfRunningElsewhere(locker, "job:report", cron.DefaultLogger, lock.WithMinHold(50*time.Second))
	jobs := cron.New()
	if _, err := jobs.AddJob("* * * * *", cron.NewChain(once).Then(cron.FuncJob(report))); err != nil {
		return err
	}
	jobs.Start()
	<-ctx.Done() // of signal.NotifyContext
	<-jobs.Stop().Done()
	return nil
}

// lead is the second.
func lead(ctx context.Context, locker *lock.Locker, report func(context.Context)) error {
	elector := leader.NewElector(locker, "leader:jobs", leader.WithName("jobs"))
	term, resign := context.WithCancel(context.Background())
	var campaign sync.WaitGroup
	campaign.Go(func() { log.Printf("no longer a candidate: %v", elector.Run(term)) })
	defer campaign.Wait()
	defer resign() // behind Stop, when the jobs have ended

	jobs := cron.New()
	// report's context ends when this instance leads no more.
	if _, err := jobs.AddJob("* * * * *", cronlock.Func(elector, report)); err != nil {
		return err
	}
	jobs.Start()
	<-ctx.Done() // of signal.NotifyContext
	<-jobs.Stop().Done()
	return nil
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
		{"share", 0, withoutContext(share)},
		{"lead", 1, lead},
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

// withoutContext adapts a program whose job has no context.
func withoutContext(program func(context.Context, *lock.Locker, func()) error) func(context.Context, *lock.Locker, func(context.Context)) error {
	return func(ctx context.Context, locker *lock.Locker, job func(context.Context)) error {
		return program(ctx, locker, func() { job(ctx) })
	}
}
