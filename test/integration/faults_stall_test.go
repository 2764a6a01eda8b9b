package integration_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/test/internal/redistest"
)

// A Redis that serves 833 scripts in a second stands still for two seconds under
// 60 % load, most of whose callers don't stay for the answer. It comes back to
// full service by itself, while the load goes on: what was given up costs no more
// than the work did. The test of core/lock does this for more waits, and in every
// second, which takes a clock that a busy machine doesn't disturb.
func TestAfterAStallOfRedisServiceComesBackInFull(t *testing.T) {
	for name, c := range map[string]struct {
		wait      time.Duration
		cancelled bool
	}{
		"a wait of 20ms":       {20 * time.Millisecond, false},
		"cancelled after 20ms": {20 * time.Millisecond, true},
		"cancelled after 90ms": {90 * time.Millisecond, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stallRedis(t, c.wait, c.cancelled)
		})
	}
}

func stallRedis(t *testing.T, wait time.Duration, cancelled bool) {
	t.Helper()
	const load, stallAt, stall = 250, 2, 2 * time.Second
	server := redistest.Standalone(t)
	proxy, rdb := throughProxy(t, server)
	proxy.Pace(1200 * time.Microsecond)
	var mu sync.Mutex
	backlog := 0
	l := newLocker(t, rdb, lock.WithHooks(lock.Hooks{Backlog: func(n int) {
		mu.Lock()
		defer mu.Unlock()
		backlog = n
	}}))
	release(t, acquire(t, l, "warm-up"))
	var callers sync.WaitGroup
	seconds := make([]second, 1)
	began := time.Now()
	ticks := time.NewTicker(time.Second / load)
	defer ticks.Stop()
	var before, after float64
	recovered := func() bool { // in the last second whose callers have all ended
		mu.Lock()
		defer mu.Unlock()
		last := len(seconds) - 3
		if last < stallAt+int(stall/time.Second) {
			return false
		}
		before, after = served(seconds[:stallAt]...), served(seconds[last])
		return after >= before*8/10
	}
	for i := 0; !recovered(); i++ {
		<-ticks.C
		now := int(time.Since(began) / time.Second)
		if now > int(2*patience/time.Second) {
			break
		}
		mu.Lock()
		for len(seconds) <= now {
			if seconds = append(seconds, second{}); len(seconds) == stallAt+1 {
				proxy.HoldUp()
				defer time.AfterFunc(stall, proxy.Resume).Stop()
			}
		}
		seconds[now].asked++
		mu.Unlock()
		callers.Go(func() {
			ctx, opts := t.Context(), []lock.Option{lock.WithWait(wait)}
			if cancelled {
				var cancel context.CancelFunc
				ctx, cancel = context.WithCancel(ctx)
				defer cancel()
				defer time.AfterFunc(wait, cancel).Stop()
				opts = nil
			}
			lease, err := l.Acquire(ctx, "k:"+strconv.Itoa(i), opts...)
			if err != nil {
				return
			}
			mu.Lock()
			seconds[now].granted++
			mu.Unlock()
			_ = lease.Release(context.Background())
		})
	}
	callers.Wait()
	t.Logf("by second: %v", seconds)
	if after < before*8/10 {
		t.Errorf("%.0f %% granted before the stall, and never as many after it", before)
	}
	eventually(t, func() error {
		mu.Lock()
		defer mu.Unlock()
		if backlog > 0 {
			return fmt.Errorf("%d to be undone", backlog)
		}
		return nil
	})
	eventuallyFree(t, server.Admin(t))
}

// second is how many callers came in one, and how many of them were granted their key.
type second struct{ granted, asked int }

// served is the percentage of callers who were granted their key.
func served(seconds ...second) float64 {
	var all second
	for _, s := range seconds {
		all.granted, all.asked = all.granted+s.granted, all.asked+s.asked
	}
	return 100 * float64(all.granted) / float64(max(all.asked, 1))
}
