package lock_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

// The first table of docs/locks.md, "Who calls and who hears", row by row: how many of a
// crowd that waits in one process call the store, in each poll interval and on a wake-up.
func TestWhoOfAWaitingCrowdCalls(t *testing.T) {
	const n, intervals = 20, 10
	rows := map[string]struct {
		holder, waiter lock.Option
		callers, woken int
	}{
		"exclusive": {lock.WithMode(lock.Exclusive), lock.WithMode(lock.Exclusive), 1, 1},
		"fair":      {fair, fair, 1, 1},
		"write":     {writing, writing, 1, 1},
		"read":      {writing, reading, 1, n},
		"permits":   {lock.WithPermits(n, n), lock.WithPermits(1, n), 1, 1},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newFaulty()
				heard := hearing{faulty: store}
				l, other := newLocker(t, &heard, row.waiter), newLocker(t, store.Store, row.holder)
				held := acquire(t, other, t.Context(), "k")
				ctx, cancel := context.WithCancel(t.Context())
				var crowd sync.WaitGroup
				for range n {
					crowd.Go(func() { _, _ = l.Acquire(ctx, "k") })
				}
				time.Sleep(5*lock.DefaultPoll + lock.DefaultPoll/2)
				before := store.count("acquire")
				time.Sleep(intervals * lock.DefaultPoll)
				if calls := store.count("acquire") - before; calls < intervals || calls > intervals*row.callers {
					t.Errorf("%d waiters call %d times in %d poll intervals, want %d at a time", n, calls, intervals, row.callers)
				}
				if subscribed := store.count("watch"); row.callers == 1 && subscribed != 1 {
					t.Errorf("%d waiters subscribe %d times", n, subscribed)
				}
				before = store.count("acquire")
				(*heard.wake.Load())()
				synctest.Wait()
				if calls := store.count("acquire") - before; calls < 1 || calls > row.woken {
					t.Errorf("a wake-up makes %d of %d waiters call, want %d", calls, n, row.woken)
				}
				cancel()
				crowd.Wait()
				release(t, held)
			})
		})
	}
}

// hearing remembers what to call for a wake-up.
type hearing struct {
	*faulty

	wake atomic.Pointer[func()]
}

func (h *hearing) Watch(ctx context.Context, c lock.Claim, wake func()) (stop func(), err error) {
	h.wake.Store(&wake)
	return h.faulty.Watch(ctx, c, wake)
}
