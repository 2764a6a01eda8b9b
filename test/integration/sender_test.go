package integration_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/redisstore"
	"github.com/redlatch/redlatch/test/internal/faultproxy"
	"github.com/redlatch/redlatch/test/internal/redistest"
)

const (
	callers     = 64
	connections = 16 // as many as the store takes of a server that says nothing
)

// pipelined matches a request with that many scripts at least.
func pipelined(atLeast int) faultproxy.Match {
	return func(request []byte) bool { return bytes.Count(request, []byte("evalsha")) >= atLeast }
}

// got is what one of a crowd was given.
type got struct {
	lease *lock.Lease
	err   error
}

// together has a crowd acquire a key each while the proxy keeps everything, so
// that most of them travel in one pipeline; meanwhile runs before it is let
// through.
func together(
	t *testing.T, proxy *faultproxy.Proxy, l *lock.Locker, ctxOf func(i int) context.Context, meanwhile func(returned <-chan int),
) []got {
	t.Helper()
	proxy.HoldUp()
	allSent := arrive(t, proxy)
	answers, returned := make([]got, callers), make(chan int, callers)
	var all sync.WaitGroup
	for i := range answers {
		all.Go(func() {
			answers[i].lease, answers[i].err = l.Acquire(ctxOf(i), crowdKey(i))
			returned <- i
		})
	}
	allSent()
	meanwhile(returned)
	proxy.Resume()
	all.Wait()
	return answers
}

// arrive returns a func that waits until the scripts of a crowd have come to the
// proxy, or as many batches as the store sends: the others follow in one pipeline.
func arrive(t *testing.T, proxy *faultproxy.Proxy) func() {
	t.Helper()
	count := proxy.Arrivals("evalsha")
	return func() {
		t.Helper()
		eventually(t, func() error {
			if n, batches := count(); n < callers && batches < connections {
				return fmt.Errorf("%d have been sent in %d batches", n, batches)
			}
			return nil
		})
	}
}

func crowdKey(i int) string { return fmt.Sprintf("crowd:%d", i) }

// newCrowd returns a locker behind a proxy. The server has its scripts, and the
// client its connections: one that is made while the proxy keeps everything isn't
// ready before that ends. A call waits for longer than the test for anything, so that
// none is sent twice meanwhile.
func newCrowd(t *testing.T) (*redis.Client, *faultproxy.Proxy, *lock.Locker) {
	t.Helper()
	server := redistest.Standalone(t)
	server.Permit(t, "+blpop") // of the test
	proxy := faultproxy.New(t, server.Addr())
	rdb := redis.NewClient(&redis.Options{
		Addr: proxy.Addr(), DisableIdentity: true, ReadTimeout: 2 * patience, PipelinePoolSize: connections,
	})
	t.Cleanup(func() { _ = rdb.Close() })
	eventually(t, func() error {
		var all sync.WaitGroup
		for range connections {
			all.Go(func() {
				_, _ = rdb.Pipelined(t.Context(), func(p redis.Pipeliner) error {
					return p.BLPop(t.Context(), 100*time.Millisecond, "nothing comes").Err()
				})
			})
		}
		all.Wait()
		if n := proxy.Connections(); n < connections {
			return fmt.Errorf("%d connections", n)
		}
		return nil
	})
	l := newLocker(t, rdb, lock.WithWatchdog(4*patience), lock.WithCallTimeout(2*patience))
	release(t, acquire(t, l, "warm-up"))
	return server.Admin(t), proxy, l
}

// A connection dies in the middle of a pipeline: the server ran the first
// scripts, and the client doesn't know which.
func TestAPipelineCutMidwayCountsRight(t *testing.T) {
	plain, proxy, l := newCrowd(t)

	t.Run("everybody gets a key, once", func(t *testing.T) {
		var cut *faultproxy.Rule
		answers := together(t, proxy, l, func(int) context.Context { return t.Context() }, func(<-chan int) {
			cut = proxy.CutMidwayWhen(pipelined(8))
		})
		wantHit(t, cut)
		for i, a := range answers {
			if a.err != nil {
				t.Fatalf("caller %d: %v", i, a.err)
			}
			wantHolds(t, plain, crowdKey(i), "1")
		}
		cut = proxy.CutMidwayWhen(pipelined(8))
		proxy.HoldUp()
		allSent := arrive(t, proxy)
		var all sync.WaitGroup
		for _, a := range answers {
			all.Go(func() {
				if err := a.lease.Release(t.Context()); err != nil {
					t.Errorf("release: %v", err)
				}
			})
		}
		allSent()
		proxy.Resume()
		all.Wait()
		wantHit(t, cut)
		eventuallyFree(t, plain)
	})

	t.Run("nobody waits for it", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var cut *faultproxy.Rule
		answers := together(t, proxy, l, func(int) context.Context { return ctx }, func(<-chan int) {
			cut = proxy.CutMidwayWhen(pipelined(8))
			cancel()
		})
		select {
		case <-cut.Hit():
		case <-time.After(patience):
			t.Fatal("nothing was cut")
		}
		for i, a := range answers {
			if !errors.Is(a.err, context.Canceled) {
				t.Errorf("caller %d got %v", i, a.err)
			}
		}
		eventuallyFree(t, plain) // long before a key would expire
	})
}

func TestOneOfACrowdLeavesAtOnceAndTheOthersStay(t *testing.T) {
	plain, proxy, l := newCrowd(t)
	gone, leave := context.WithCancel(t.Context())
	defer leave()
	const one = callers / 2
	answers := together(t, proxy, l, func(i int) context.Context {
		if i == one {
			return gone
		}
		return t.Context()
	}, func(returned <-chan int) {
		leave()
		select {
		case i := <-returned:
			if i != one {
				t.Errorf("caller %d returned", i)
			}
		case <-time.After(patience):
			t.Error("the one does not return")
		}
	})
	for i, a := range answers {
		switch {
		case i == one && !errors.Is(a.err, context.Canceled):
			t.Errorf("the one got %v", a.err)
		case i != one && a.err != nil:
			t.Errorf("caller %d got %v", i, a.err)
		case i != one:
			wantHolds(t, plain, crowdKey(i), "1")
		}
	}
	eventually(t, func() error {
		if plain.Exists(t.Context(), crowdKey(one)).Val() > 0 {
			return errors.New("the key of the one that left is there")
		}
		return nil
	})
	for i, a := range answers {
		if i != one {
			release(t, a.lease)
		}
	}
	eventuallyFree(t, plain)
}

// A server forgets its scripts while a pipeline is on its way.
func TestAPipelineThatMeetsNoScriptRunsOnce(t *testing.T) {
	plain, proxy, l := newCrowd(t)
	answers := together(t, proxy, l, func(int) context.Context { return t.Context() }, func(<-chan int) {
		if err := plain.ScriptFlush(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
	})
	for i, a := range answers {
		if a.err != nil {
			t.Fatalf("caller %d: %v", i, a.err)
		}
		wantHolds(t, plain, crowdKey(i), "1")
		release(t, a.lease)
	}
	eventuallyFree(t, plain)
}

// A batch that never comes back keeps nobody else from the server.
func TestAStuckBatchBlocksNobody(t *testing.T) {
	server := redistest.Standalone(t)
	proxy := faultproxy.New(t, server.Addr())
	var held sync.WaitGroup
	var kept atomic.Int32
	held.Add(1)
	proxy.Observe(func(request []byte) bool { // keeps the connection that asks for it
		if bytes.Contains(request, []byte("stuck")) {
			kept.Add(1)
			held.Wait()
		}
		return false
	})
	rdb := redis.NewClient(&redis.Options{Addr: proxy.Addr(), DisableIdentity: true, ReadTimeout: patience})
	t.Cleanup(func() { _ = rdb.Close() })
	l := lock.New(redisstore.New(rdb, redisstore.WithCircuit(0, 0)), lock.WithCallTimeout(patience/2))
	t.Cleanup(func() { _ = l.Close(context.Background()) })
	release(t, acquire(t, l, "warm-up"))

	var stuck sync.WaitGroup
	for i := range 3 { // more than overlap
		stuck.Go(func() {
			if lease, err := l.Acquire(t.Context(), fmt.Sprintf("stuck:%d", i)); err != nil {
				t.Errorf("the stuck one got %v", err)
			} else {
				release(t, lease)
			}
		})
		eventually(t, func() error {
			if int(kept.Load()) <= i {
				return errors.New("not sent")
			}
			return nil
		})
	}
	start := time.Now()
	var others sync.WaitGroup
	for i := range callers {
		others.Go(func() {
			for range 20 {
				release(t, acquire(t, l, crowdKey(i)))
			}
		})
	}
	others.Wait()
	if took := time.Since(start); took > patience/2 {
		t.Errorf("the others took %v", took)
	}
	held.Done()
	stuck.Wait()
}

// A node of a cluster hangs: the keys of the others are had as ever.
func TestANodeThatHangsBlocksNoOther(t *testing.T) {
	set := redistest.Cluster(t, "--cluster-node-timeout", "60000") // nobody takes over
	l := lock.New(redisstore.New(patientClient(t, set), redisstore.WithCircuit(0, 0)), lock.WithCallTimeout(2*patience), lock.WithWatchdog(6*patience))
	t.Cleanup(func() { _ = l.Close(context.Background()) })
	var live, dead []string
	for i := range callers {
		if key := crowdKey(i); set.OwnerOf(t, key) == set.Masters[0] {
			dead = append(dead, key)
		} else {
			live = append(live, key)
		}
		release(t, acquire(t, l, crowdKey(i)))
	}
	if len(live) == 0 || len(dead) == 0 {
		t.Fatalf("%d and %d keys", len(live), len(dead))
	}
	set.Masters[0].Stop()
	t.Cleanup(set.Masters[0].Cont) // before the locker waits for its calls
	var waiting, going sync.WaitGroup
	for _, key := range dead {
		waiting.Go(func() {
			if lease, err := l.TryAcquire(t.Context(), key); err != nil {
				t.Errorf("a key of the node that hung: %v", err)
			} else {
				release(t, lease)
			}
		})
	}
	for _, key := range live {
		going.Go(func() {
			for range 10 {
				release(t, acquire(t, l, key)) // which has less patience than a call to the node that hangs
			}
		})
	}
	going.Wait()
	set.Masters[0].Cont()
	waiting.Wait()
}

// The slot of a crowd's keys moves while it works.
func TestACrowdWorksOnWhileItsSlotMoves(t *testing.T) {
	set := redistest.Cluster(t)
	rdb := set.Client(t)
	l := newLocker(t, rdb)
	for range 3 {
		const tag = "{moving}"
		to := set.Masters[0]
		if set.OwnerOf(t, tag) == to {
			to = set.Masters[1]
		}
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for i := range 16 {
			all.Go(func() {
				for ctx.Err() == nil {
					release(t, acquire(t, l, fmt.Sprintf("%s:%d", tag, i)))
				}
			})
		}
		if !set.MoveSlot(t, tag, to, time.Second/2) {
			t.Error("the slot does not move")
		}
		stop()
		all.Wait()
		for i := range 16 {
			wantFree(t, rdb, fmt.Sprintf("%s:%d", tag, i))
		}
	}
}
