package recipes_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
	"github.com/redlatch/redlatch/examples/recipes"
)

// late is the store of a process whose clock is late: all it does comes so much
// later.
type late struct {
	lock.BlockingStore
	by time.Duration
}

func (l late) Acquire(ctx context.Context, c lock.Claim) (uint64, error) {
	time.Sleep(l.by)
	return l.BlockingStore.Acquire(ctx, c)
}

func TestAJobRunsOnceInEachInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const minutes = 60
		store := lock.Blocking(memstore.New())
		ctx, stop := context.WithTimeout(t.Context(), minutes*time.Minute+30*time.Second)
		defer stop()
		var fleet sync.WaitGroup
		var mu sync.Mutex
		runs := map[time.Time]int{}
		for i := range 3 {
			locker := lock.New(lock.Async(late{store, time.Duration(i) * 100 * time.Millisecond}))
			fleet.Go(func() {
				err := recipes.Every(ctx, time.Minute, locker, func(context.Context) error {
					mu.Lock()
					runs[time.Now().Truncate(time.Minute)]++
					mu.Unlock()
					time.Sleep(30 * time.Millisecond)
					return nil
				})
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("Every: %v", err)
				}
				if err := locker.Close(context.Background()); err != nil {
					t.Error(err)
				}
			})
		}
		fleet.Wait()
		if len(runs) != minutes {
			t.Errorf("it ran in %d of %d minutes", len(runs), minutes)
		}
		for minute, n := range runs {
			if n != 1 {
				t.Errorf("it ran %d times at %v", n, minute)
			}
		}
	})
}

// On a real Redis the server's clock keeps the runs apart, however busy the machine is.
func TestAJobRunsOnceInEachIntervalOfRedis(t *testing.T) {
	t.Parallel()
	store := stores["redis"](t)
	const interval, least = 2 * time.Second, 200 * time.Millisecond // of the 1.6 s that are kept
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	runs := make(chan time.Duration) // the server's time of the grant
	var fleet sync.WaitGroup
	for range 3 {
		locker := process(t, store)
		fleet.Go(func() {
			_ = recipes.Every(ctx, interval, locker, func(ctx context.Context) error {
				lease, _ := lock.FromContext(ctx)
				select {
				case runs <- time.Duration(lease.Fence()/lock.FenceStep) * time.Microsecond:
				case <-ctx.Done():
				}
				return nil
			})
		})
	}
	before := await(t, "the first run", runs)
	for range 2 {
		run := await(t, "the next run", runs)
		if run-before < least {
			t.Errorf("it ran again after %v", run-before)
		}
		before = run
	}
	stop()
	fleet.Wait()
}
