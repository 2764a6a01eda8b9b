package integration_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/redisstore"
	"github.com/redlatch/redlatch/test/internal/redistest"
)

// requests acquires n keys one after the other, and says how long each took and
// how many were refused without a call to Redis.
func requests(t *testing.T, l *lock.Locker, n int) (took []time.Duration, refused int) {
	t.Helper()
	for i := range n {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		start := time.Now()
		lease, err := l.Acquire(ctx, fmt.Sprintf("request:%d", i))
		took = append(took, time.Since(start))
		cancel()
		switch {
		case err == nil:
			t.Error("granted")
			_ = lease.Release(t.Context())
		case !errors.Is(err, lock.ErrUnavailable):
			t.Errorf("got %v, want ErrUnavailable", err)
		case errors.Is(err, lock.ErrCircuitOpen):
			refused++
		}
	}
	slices.Sort(took)
	return took, refused
}

// back waits until a key can be had again.
func back(t *testing.T, l *lock.Locker) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; {
		lease, err := l.Acquire(t.Context(), "back")
		if err == nil {
			_ = lease.Release(t.Context())
			return
		}
		if !errors.Is(err, lock.ErrUnavailable) || time.Now().After(deadline) {
			t.Fatalf("not back: %v", err)
		}
	}
}

func TestARedisThatIsAwayCostsRequestsLittle(t *testing.T) {
	t.Parallel()
	const callTimeout = time.Second
	for name, fault := range map[string]struct{ begin, end func(*redistest.Server) }{
		"killed": {(*redistest.Server).Kill, (*redistest.Server).Restart},
		"frozen": {(*redistest.Server).Stop, (*redistest.Server).Cont},
	} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Standalone(t, "--appendonly", "yes")
			var changes []bool
			told := make(chan bool, 100)
			store := redisstore.New(server.Client(t), redisstore.WithCircuitHook(func(_ string, open bool) { told <- open }))
			l := lock.New(store, lock.WithCallTimeout(callTimeout), lock.WithWatchdog(10*time.Minute))
			defer func() { _ = l.Close(context.Background()) }()
			held, err := l.Acquire(t.Context(), "held")
			if err != nil {
				t.Fatal(err)
			}
			fault.begin(server)
			took, refused := requests(t, l, 2000)
			median := took[len(took)/2]
			t.Logf("of %d requests %d were refused without Redis: median %v, 99 %% %v, longest %v",
				len(took), refused, median, took[len(took)*99/100], took[len(took)-1])
			if refused < 1900 || median > callTimeout/20 {
				t.Errorf("%d refused, median %v", refused, median)
			}
			fault.end(server)
			back(t, l)
			if err := held.Extend(t.Context(), time.Minute); err != nil {
				t.Errorf("the lease that was held: %v", err)
			}
			if err := held.Release(t.Context()); err != nil {
				t.Errorf("its release: %v", err)
			}
			for len(changes) == 0 || changes[len(changes)-1] { // the hook hears of it after the callers
				select {
				case open := <-told:
					changes = append(changes, open)
				case <-time.After(10 * time.Second):
					t.Fatalf("the hook saw %v", changes)
				}
			}
			if !changes[0] {
				t.Errorf("the hook saw %v", changes)
			}
		})
	}
}

// In a cluster a node that is away must cost neither time nor the keys of the
// others.
func TestANodeThatIsAwayLeavesTheOthersAlone(t *testing.T) {
	t.Parallel()
	set := redistest.Cluster(t, "--cluster-node-timeout", "60000") // nobody is elected meanwhile
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: set.Addrs(), DisableIdentity: true, DialerRetries: 1})
	t.Cleanup(func() { _ = rdb.Close() })
	l := lock.New(redisstore.New(rdb), lock.WithCallTimeout(time.Second))
	defer func() { _ = l.Close(context.Background()) }()
	var here, there string
	for i := 0; here == "" || there == ""; i++ {
		key := fmt.Sprintf("k:%d", i)
		if set.OwnerOf(t, key) == set.Masters[0] {
			there = key
		} else {
			here = key
		}
	}
	for _, key := range []string{here, there} { // the client has to know the nodes
		lease, err := l.Acquire(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	set.Masters[0].Stop()
	defer set.Masters[0].Cont()
	open := 0
	for range 200 {
		lease, err := l.Acquire(t.Context(), here)
		if err != nil {
			t.Fatalf("a key of a healthy node: %v", err)
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Acquire(t.Context(), there); errors.Is(err, lock.ErrCircuitOpen) {
			open++
		} else if !errors.Is(err, lock.ErrUnavailable) {
			t.Fatalf("a key of the frozen node: %v", err)
		}
	}
	if open < 150 {
		t.Errorf("%d of 200 were refused without asking", open)
	}
}
