package integration_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/redisstore"
	"github.com/redlatch/redlatch/test/internal/redistest"
)

// patience bounds every wait for something that must happen.
const patience = 30 * time.Second

func newLocker(t *testing.T, rdb redis.UniversalClient, opts ...lock.Option) *lock.Locker {
	t.Helper()
	l := lock.New(redisstore.New(rdb), opts...)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := l.Close(ctx); err != nil && rdb.Ping(ctx).Err() == nil { // a Redis that is away may keep something
			t.Errorf("Close: %v", err)
		}
	})
	return l
}

func acquire(t *testing.T, l *lock.Locker, key string, opts ...lock.Option) *lock.Lease {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	lease, err := l.Acquire(ctx, key, opts...)
	if err != nil {
		t.Fatalf("Acquire(%q): %v", key, err)
	}
	return lease
}

func release(t *testing.T, lease *lock.Lease) {
	t.Helper()
	if err := lease.Release(context.Background()); err != nil {
		t.Fatalf("Release: %v", err)
	}
}

// eventually polls until check returns nil.
func eventually(t *testing.T, check func() error) {
	t.Helper()
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("still after %v: %v", patience, err)
		}
		<-tick.C
	}
}

// hash is what Redis has for a lock.
func hash(t *testing.T, rdb redis.UniversalClient, key string) map[string]string {
	t.Helper()
	fields, err := rdb.HGetAll(context.Background(), key).Result()
	if err != nil {
		t.Fatal(err)
	}
	return fields
}

func wantHolds(t *testing.T, rdb redis.UniversalClient, key string, want string) {
	t.Helper()
	fields := hash(t, rdb, key)
	if len(fields) != 1 {
		t.Fatalf("the lock has fields %v, want one owner", fields)
	}
	for _, count := range fields {
		if count != want {
			t.Errorf("hold count %s, want %s", count, want)
		}
	}
}

func TestOneLineIsAllItTakes(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"standalone", "sentinel", "cluster"} {
		t.Run(name, func(t *testing.T) {
			rdb := topology(t, name)
			l := newLocker(t, rdb)
			t.Run("re-enter three times, release three times", func(t *testing.T) { reenters(t, l) })
			t.Run("a thousand tries, one winner", func(t *testing.T) { oneWinner(t, l) })
			t.Run("a hundred waiters, all in turn", func(t *testing.T) { allInTurn(t, l) })
			t.Run("a thousand goroutines count exactly", func(t *testing.T) { countsExactly(t, rdb, l) })
		})
	}
}

func topology(t *testing.T, name string) redis.UniversalClient {
	t.Helper()
	switch name {
	case "sentinel":
		return redistest.Sentinel(t).Client(t)
	case "cluster":
		return redistest.Cluster(t).Client(t)
	}
	return redistest.Standalone(t).Client(t)
}

func reenters(t *testing.T, l *lock.Locker) {
	t.Helper()
	held := func() {
		t.Helper()
		state, err := l.Inspect(t.Context(), "reenter")
		if err != nil || len(state.Owners) != 1 || state.Owners[0].Holds != 1 {
			t.Errorf("%+v, %v; want one owner with one hold", state, err)
		}
	}
	ctx := t.Context()
	var leases []*lock.Lease
	for range 3 {
		lease, err := l.Acquire(ctx, "reenter")
		if err != nil {
			t.Fatal(err)
		}
		leases, ctx = append(leases, lease), lease.Context()
		held()
	}
	release(t, leases[2])
	held()
	release(t, leases[1])
	held()
	release(t, leases[0])
	if state, err := l.Inspect(t.Context(), "reenter"); err != nil || state.Held {
		t.Errorf("left behind: %+v, %v", state, err)
	}
}

// A re-entry is the process's own business: it makes no call, and works when Redis is full.
func TestAReentryMakesNoCall(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	admin := server.Admin(t)
	for name, opt := range inEveryMode {
		if name == "permits" {
			continue // nobody re-enters permits
		}
		l := newLocker(t, server.Client(t), opt)
		lease := acquire(t, l, name)
		admin.ConfigSet(t.Context(), "maxmemory", "1")
		before := scriptCalls(t, admin)
		for range 10 {
			inner, err := l.Acquire(lease.Context(), name)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			release(t, inner)
		}
		if calls := scriptCalls(t, admin) - before; calls > 0 {
			t.Errorf("%s: %d calls", name, calls)
		}
		admin.ConfigSet(t.Context(), "maxmemory", "0")
		release(t, lease)
		wantFree(t, admin, name)
	}
}

func oneWinner(t *testing.T, l *lock.Locker) {
	t.Helper()
	var won atomic.Int32
	var wg sync.WaitGroup
	for range 1000 {
		wg.Go(func() {
			switch _, err := l.TryAcquire(t.Context(), "winner"); {
			case err == nil:
				won.Add(1)
			case !errors.Is(err, lock.ErrBusy):
				t.Errorf("got %v, want ErrBusy", err)
			}
		})
	}
	wg.Wait()
	if n := won.Load(); n != 1 {
		t.Errorf("%d winners", n)
	}
}

func allInTurn(t *testing.T, l *lock.Locker) {
	t.Helper()
	var got atomic.Int32
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() {
			err := l.Do(t.Context(), "turn", func(context.Context) error { got.Add(1); return nil })
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := got.Load(); n != 100 {
		t.Errorf("%d of 100 got it", n)
	}
}

func countsExactly(t *testing.T, rdb redis.UniversalClient, l *lock.Locker) {
	t.Helper()
	lockers := []*lock.Locker{l, newLocker(t, rdb), newLocker(t, rdb)}
	counter := 0 // unsafe on purpose
	var wg sync.WaitGroup
	for i := range 1000 {
		wg.Go(func() {
			err := lockers[i%len(lockers)].Do(t.Context(), "counter", func(context.Context) error { counter++; return nil })
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if counter != 1000 {
		t.Errorf("counted %d, want 1000", counter)
	}
}

// Cancel a waiter in the moment the lock frees, hundreds of times, with
// nothing but wake-ups to rely on. rueidislock strands a waiter here.
func TestACancelledWaiterStrandsNobody(t *testing.T) {
	server := redistest.Standalone(t)
	onHintsOnly := []lock.Option{lock.WithPoll(time.Hour), lock.WithWatchdog(time.Hour)}
	holder := newLocker(t, server.Client(t), onHintsOnly...)
	waiters := newLocker(t, server.Client(t), onHintsOnly...)
	for round := range 300 {
		lease := acquire(t, holder, "k")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 2)
		go func() {
			next, err := waiters.Acquire(ctx, "k")
			if err == nil {
				err = next.Release(context.Background())
			}
			if errors.Is(err, context.Canceled) {
				err = nil
			}
			done <- err
		}()
		go func() {
			limited, stop := context.WithTimeout(context.Background(), patience)
			defer stop()
			done <- waiters.Do(limited, "k", func(context.Context) error { return nil })
		}()
		go cancel()
		release(t, lease)
		for range 2 {
			if err := <-done; err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
		}
	}
}

func TestTenThousandCyclesLeaveNothing(t *testing.T) {
	server := redistest.Standalone(t)
	rdb, plain := server.Client(t), server.Admin(t)
	if err := plain.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	before := runtime.NumGoroutine()
	l := lock.New(redisstore.New(rdb))
	var wg sync.WaitGroup
	for g := range 20 {
		wg.Go(func() {
			for i := range 500 {
				// Every tenth cycle contends, so that there is subscribing too.
				key := fmt.Sprintf("k:%d:%d", g, i)
				if i%10 == 0 {
					key = fmt.Sprintf("shared:%d", i)
				}
				if err := l.Do(t.Context(), key, func(context.Context) error { return nil }); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := plain.DBSize(t.Context()).Val(); n != 0 {
		t.Errorf("%d keys left", n)
	}
	eventually(t, func() error {
		channels := plain.PubSubChannels(t.Context(), "*").Val()
		if len(channels) != 0 {
			return fmt.Errorf("subscriptions left: %v", channels)
		}
		if clients := plain.ClientList(t.Context()).Val(); strings.Contains(clients, "cmd=subscribe") || strings.Contains(clients, "flags=P") {
			return fmt.Errorf("subscribers left: %s", clients)
		}
		return nil
	})
	_ = rdb.Close()
	eventually(t, func() error {
		if n := runtime.NumGoroutine(); n > before {
			return fmt.Errorf("%d goroutines, %d before", n, before)
		}
		return nil
	})
}

func TestAnUnreachableRedisSaysWhatAndWhere(t *testing.T) {
	server := redistest.Standalone(t)
	addr := server.Addr()
	server.Kill()
	rdb := redis.NewClient(&redis.Options{Addr: addr, Password: "s3cret", DialerRetries: 1})
	t.Cleanup(func() { _ = rdb.Close() })
	store := redisstore.New(rdb)
	err := store.Check(t.Context())
	if err == nil || !strings.Contains(err.Error(), addr) || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("Check: %v, want the address and no password", err)
	}
	l := newLocker(t, rdb)
	_, err = l.Acquire(t.Context(), "k")
	if !errors.Is(err, lock.ErrUnavailable) {
		t.Errorf("Acquire: %v, want ErrUnavailable", err)
	}
}

func TestAWaiterSurvivesARestartOfRedis(t *testing.T) {
	server := redistest.Standalone(t)
	holder, waiter := newLocker(t, server.Client(t)), newLocker(t, server.Client(t))
	lease := acquire(t, holder, "k")
	got := make(chan error, 1)
	asked := make(chan struct{})
	go func() {
		close(asked)
		got <- waiter.Do(t.Context(), "k", func(context.Context) error { return nil })
	}()
	<-asked
	eventually(t, func() error {
		if n := server.Admin(t).PubSubNumSub(t.Context(), "redisson_lock__channel:{k}").Val(); n["redisson_lock__channel:{k}"] == 0 {
			return errors.New("the waiter has not subscribed")
		}
		return nil
	})
	server.Kill()
	server.Restart() // empty: the lock is gone
	if err := <-got; err != nil {
		t.Errorf("the waiter: %v", err)
	}
	if err := lease.Release(t.Context()); !errors.Is(err, lock.ErrLost) {
		t.Errorf("the holder's release: %v, want ErrLost", err)
	}
}
