package integration_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/redisstore"
	"github.com/redlatch/redlatch/test/internal/redistest"
)

// crowdEnv makes this test binary one of many processes that want one fair
// key: "<address> <waiters> <rounds>".
const crowdEnv = "REDLATCH_TEST_CROWD"

// witness is a store that counts what goes through it, and sees by the
// server's clock, in steps of fences, when each owner came into the queue.
type witness struct {
	lock.BlockingStore
	mu                    sync.Mutex
	rdb                   *redis.Client
	came, queued          map[string]uint64 // before and after the call that took the place
	asks, releases, renew int
}

func (w *witness) Acquire(ctx context.Context, c lock.Claim) (uint64, error) {
	w.mu.Lock()
	w.asks++
	var unknown []string
	for _, owner := range c.Places {
		if _, known := w.came[owner]; !known {
			unknown = append(unknown, owner)
		}
	}
	w.mu.Unlock()
	var came uint64
	if len(unknown) > 0 {
		came = lock.FenceStep * uint64(w.rdb.Time(ctx).Val().UnixMicro())
	}
	fence, err := w.BlockingStore.Acquire(ctx, c)
	if len(unknown) == 0 || err != nil && !errors.Is(err, lock.ErrBusy) {
		return fence, err
	}
	queued := lock.FenceStep * uint64(w.rdb.Time(ctx).Val().UnixMicro())
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, owner := range unknown {
		if err != nil || owner != c.Owner {
			w.came[owner], w.queued[owner] = came, queued
		}
	}
	return fence, err
}

func (w *witness) Release(ctx context.Context, c lock.Claim) error {
	w.mu.Lock()
	w.releases++
	w.mu.Unlock()
	return w.BlockingStore.Release(ctx, c)
}

func (w *witness) Renew(ctx context.Context, claims []lock.Claim, report func(int, error)) {
	w.mu.Lock()
	w.renew++
	w.mu.Unlock()
	w.BlockingStore.Renew(ctx, claims, report)
}

// grant is what a process says of each.
type grant struct {
	fence uint64
	// by the same clock, between which it came into the queue; the fence if it
	// didn't have to wait
	came, queued uint64
	waited       time.Duration
}

// TestCrowdProcess is one process of a crowd. It begins when its standard input
// says so.
func TestCrowdProcess(t *testing.T) {
	plan := strings.Fields(os.Getenv(crowdEnv))
	if len(plan) != 3 {
		t.Skip("only runs as a child of TestAFairKeyUnderACrowdOfProcesses")
	}
	waiters, _ := strconv.Atoi(plan[1])
	rounds, _ := strconv.Atoi(plan[2])
	rdb := redis.NewClient(&redis.Options{Addr: plan[0]})
	defer func() { _ = rdb.Close() }()
	store := &witness{BlockingStore: lock.Blocking(redisstore.New(rdb)), rdb: rdb, came: make(map[string]uint64), queued: make(map[string]uint64)}
	l := lock.New(lock.Async(store), lock.WithMode(lock.Fair))
	fmt.Println("ready", os.Getpid())
	_, _ = fmt.Scanln()

	var mu sync.Mutex
	var grants []grant
	var working sync.WaitGroup
	for range waiters {
		working.Go(func() {
			for range rounds {
				asked := time.Now()
				lease, err := l.Acquire(t.Context(), "k")
				if err != nil {
					t.Error(err)
					return
				}
				waited := time.Since(asked)
				store.mu.Lock()
				came := cmp.Or(store.came[lease.Owner()], lease.Fence())
				queued := cmp.Or(store.queued[lease.Owner()], lease.Fence())
				store.mu.Unlock()
				mu.Lock()
				grants = append(grants, grant{lease.Fence(), came, queued, waited})
				mu.Unlock()
				if err := lease.Release(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	working.Wait()
	if err := l.Close(context.Background()); err != nil {
		t.Error(err)
	}
	for _, g := range grants {
		fmt.Println("grant", g.fence, g.came, g.queued, int64(g.waited))
	}
	fmt.Println("calls", store.asks, store.releases, store.renew)
}

// throng is what the processes of a crowd did.
type throng struct {
	grants                []grant // in the order in which they were made
	asks, releases, renew int
	polls                 int // that there was time for
}

// listen reads what a child says at its end.
func (c *throng) listen(p *holderProcess) {
	p.Helper()
	for p.lines.Scan() {
		var g grant
		var asks, releases, renew int
		if n, _ := fmt.Sscanf(p.lines.Text(), "grant %d %d %d %d", &g.fence, &g.came, &g.queued, &g.waited); n == 4 {
			c.grants = append(c.grants, g)
			c.polls += int(g.waited / lock.DefaultPoll)
		}
		if n, _ := fmt.Sscanf(p.lines.Text(), "calls %d %d %d", &asks, &releases, &renew); n == 3 {
			c.asks, c.releases, c.renew = c.asks+asks, c.releases+releases, c.renew+renew
			return
		}
	}
	p.Fatal("the child ended without saying what it did")
}

// inOrder fails if one was served before another that came earlier, and says
// how many were served at most while one waited.
func (c *throng) inOrder(t *testing.T) (passed int) {
	t.Helper()
	slices.SortFunc(c.grants, func(a, b grant) int { return cmp.Compare(a.fence, b.fence) })
	inversions := 0
	for i := 1; i < len(c.grants); i++ {
		if c.grants[i].fence == c.grants[i-1].fence {
			t.Errorf("fence %d twice", c.grants[i].fence)
		}
		if c.grants[i].queued < c.grants[i-1].came {
			inversions++
		}
	}
	if inversions > 0 {
		t.Errorf("%d inversions in %d grants", inversions, len(c.grants))
	}
	for i, g := range c.grants {
		came, _ := slices.BinarySearchFunc(c.grants, g.queued, func(g grant, at uint64) int { return cmp.Compare(g.fence, at) })
		passed = max(passed, i-came)
	}
	return passed
}

// 8 processes with 16 waiters each on one fair key. What the server counts is
// all that is sent; three calls for each grant are the place, the claim that
// finds the hold, and the release.
func TestAFairKeyUnderACrowdOfProcesses(t *testing.T) {
	const processes, waiters = 8, 16
	for name, rounds := range map[string]int{"in one queue": 1, "that comes back": 20} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Standalone(t)
			rdb := server.Admin(t)
			l := newLocker(t, server.Client(t), lock.WithMode(lock.Fair))
			release(t, acquire(t, l, "k")) // the server learns the scripts
			var children []*holderProcess
			for range processes {
				child := startChild(t, "TestCrowdProcess", fmt.Sprintf("%s=%s %d %d", crowdEnv, server.Addr(), waiters, rounds))
				child.word("ready")
				children = append(children, child)
			}
			before := scriptCalls(t, rdb)
			holder := acquire(t, l, "k")
			for _, child := range children {
				child.say("go")
			}
			eventually(t, func() error {
				if n := rdb.LLen(t.Context(), "redisson_lock_queue:{k}").Val(); n != processes*waiters {
					return fmt.Errorf("%d in the queue", n)
				}
				return nil
			})
			began := time.Now()
			release(t, holder)
			var all throng
			for _, child := range children {
				all.listen(child)
				child.wait()
			}
			took := time.Since(began)
			calls := scriptCalls(t, rdb) - before - 2 // those of the holder
			grants := processes * waiters * rounds
			if len(all.grants) != grants || all.releases != grants {
				t.Fatalf("%d grants, %d releases, want %d", len(all.grants), all.releases, grants)
			}
			if counted := all.asks + all.releases + all.renew; calls != counted {
				t.Errorf("the server ran %d scripts, the processes sent %d", calls, counted)
			}
			passed := all.inOrder(t)
			t.Logf("%d grants in %v: %d calls (%.3f for each), of which %d renewals; time for %d polls; %d were served at most while one waited",
				grants, took, calls, float64(calls)/float64(grants), all.renew, all.polls, passed)
			// The first of each process doesn't know that it has to wait, and
			// calls again when it has subscribed. Renewals are of holds that last
			// for seconds: a machine that is very busy.
			if most := 3*grants + processes + all.polls + all.renew; calls > most {
				t.Errorf("%d calls for %d grants, want %d at most", calls, grants, most)
			}
			if passed > processes*waiters {
				t.Errorf("%d were served while one waited, with %d in the queue at most", passed, processes*waiters)
			}
			if keys := rdb.Keys(t.Context(), "*").Val(); len(keys) > 0 {
				t.Errorf("left: %v", keys)
			}
		})
	}
}
