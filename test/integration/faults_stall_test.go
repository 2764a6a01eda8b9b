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
// full service by itself: what was given up costs no more than the work did. The
// test of core/lock does this for more waits, and in every second.
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
	const load, seconds, stallAt, stall = 250, 12, 2, 2 * time.Second
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
	granted, asked := make([]int, seconds+1), make([]int, seconds+1) // by second
	began := time.Now()
	ticks := time.NewTicker(time.Second / load)
	defer ticks.Stop()
	stalled := false
	for i := 0; time.Since(began) < seconds*time.Second; i++ {
		<-ticks.C
		if !stalled && time.Since(began) > stallAt*time.Second {
			stalled = true
			proxy.HoldUp()
			defer time.AfterFunc(stall, proxy.Resume).Stop()
		}
		second := int(time.Since(began) / time.Second)
		asked[second]++
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
			granted[second]++
			mu.Unlock()
			_ = lease.Release(context.Background())
		})
	}
	callers.Wait()
	t.Logf("granted %v of %v", granted, asked)
	// The last three seconds, five after the stall, against the two before it: on
	// a busy machine some callers leave in either.
	before := served(granted[:stallAt], asked[:stallAt])
	after := served(granted[seconds-3:seconds], asked[seconds-3:seconds])
	if after < before*8/10 {
		t.Errorf("%.0f %% granted before the stall, and %.0f %% long after it; all: %v of %v", before, after, granted, asked)
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

// served is the percentage of callers who were granted their key.
func served(granted, asked []int) float64 {
	var got, wanted int
	for i := range granted {
		got, wanted = got+granted[i], wanted+asked[i]
	}
	return 100 * float64(got) / float64(wanted)
}
