package integration_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/redisstore"
	"github.com/redlatch/redlatch/test/internal/redistest"
)

// Redisson's getCountDownLatch.
func TestTheGoldenStatesOfALatch(t *testing.T) {
	t.Run("scripts publish", func(t *testing.T) { goldenLatch(t) })
	t.Run("commands do", func(t *testing.T) { goldenLatch(t, redisstore.WithoutScriptPublish()) })
}

func goldenLatch(t *testing.T, opts ...redisstore.Option) {
	t.Helper()
	server := redistest.Standalone(t)
	b := &bench{T: t, rdb: server.Admin(t), store: redisstore.New(server.Client(t), opts...)}
	ctx := t.Context()
	const channel = "redisson_countdownlatch__channel__{orders}"
	messages := subscribe(t, b.rdb, channel)
	latch := redisstore.NewLatch(b.store, "orders")
	must := func(what string, err, want error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Fatalf("%s: got %v, want %v", what, err, want)
		}
	}
	left := func(want string) {
		t.Helper()
		if got := b.rdb.Get(ctx, "orders").Val(); got != want {
			t.Errorf("the count is %q, want %q", got, want)
		}
	}

	other := redisstore.NewLatch(b.store, "other") // a server that doesn't know a script gets its messages twice
	must("set another", other.TrySet(ctx, 1), nil)
	must("delete it", other.Delete(ctx), nil)
	must("count an open latch down", latch.CountDown(ctx), nil)
	b.keys()
	must("set", latch.TrySet(ctx, 2), nil)
	wantMessage(t, messages, channel, "1")
	left("2")
	if ttl := b.rdb.PTTL(ctx, "orders").Val(); ttl != -1 {
		t.Errorf("the latch expires in %v; Redisson's does not", ttl)
	}
	must("set again", latch.TrySet(ctx, 5), lock.ErrBusy)
	left("2")
	must("count down", latch.CountDown(ctx), nil)
	left("1")
	if n, err := latch.Count(ctx); n != 1 || err != nil {
		t.Errorf("counted %d, %v", n, err)
	}
	if n := len(messages); n != 0 {
		t.Errorf("%d messages too many", n)
	}
	must("count down", latch.CountDown(ctx), nil)
	wantMessage(t, messages, channel, "0")
	b.keys()
	if n, err := latch.Count(ctx); n != 0 || err != nil {
		t.Errorf("counted %d, %v", n, err)
	}
	must("await an open latch", latch.Await(ctx), nil)

	must("set", latch.TrySet(ctx, 3), nil)
	wantMessage(t, messages, channel, "1")
	must("delete", latch.Delete(ctx), nil)
	wantMessage(t, messages, channel, "1")
	b.keys()
	must("delete again", latch.Delete(ctx), nil)
	must("set to nothing", latch.TrySet(ctx, 0), lock.ErrInvalid)
	most := int64(redisstore.MaxLatchCount) // where an int has 32 bits, more is negative
	must("set to what nobody can count", latch.TrySet(ctx, int(most+1)), lock.ErrInvalid)
	must("set to what never opens", latch.TrySet(ctx, int(2*most)), lock.ErrInvalid)
	if n := len(messages); n != 0 {
		t.Errorf("%d messages too many", n)
	}

	b.rdb.Set(ctx, "orders", "a text", 0)
	must("count down a text", latch.CountDown(ctx), lock.ErrInvalid)
	_, err := latch.Count(ctx)
	must("count a text", err, lock.ErrInvalid)
	must("await a text", latch.Await(ctx), lock.ErrInvalid)
	left("a text")
}

// Redisson sets whatever it is given, and lets everybody pass whose count isn't above
// zero.
func TestALatchWithACountOfJava(t *testing.T) {
	b := newBench(t)
	latch := redisstore.NewLatch(b.store, "orders")
	for _, tt := range []struct {
		set   int64
		count int64
		open  bool
	}{{0, 0, true}, {-1, 0, true}, {math.MinInt64, 0, true}, {math.MaxInt64, 1 << 53, false}, {1 << 53, 1 << 53, false}, {7, 7, false}} {
		b.rdb.Set(t.Context(), "orders", tt.set, 0)
		if n, err := latch.Count(t.Context()); n != int(min(tt.count, math.MaxInt)) || err != nil {
			t.Errorf("%d: counted %d, %v", tt.set, n, err)
		}
		limit := 50 * time.Millisecond
		if tt.open {
			limit = patience
		}
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		if err := latch.Await(ctx); (err == nil) != tt.open {
			t.Errorf("%d: await: %v", tt.set, err)
		}
		cancel()
		left, wantErr := fmt.Sprint(tt.set), lock.ErrBusy
		if tt.open {
			left, wantErr = "3", nil
		}
		if err := latch.TrySet(t.Context(), 3); !errors.Is(err, wantErr) || b.rdb.Get(t.Context(), "orders").Val() != left {
			t.Errorf("%d: set: %v, and it is %s", tt.set, err, b.rdb.Get(t.Context(), "orders").Val())
		}
	}
}

func TestALatchOpensForAllWhoWait(t *testing.T) {
	check := func(t *testing.T, open func() redis.UniversalClient, opts ...redisstore.Option) {
		t.Helper()
		const waiters, count = 20, 50
		ctx := t.Context()
		latches := make([]*redisstore.Latch, 4)
		for i := range latches {
			latches[i] = redisstore.NewLatch(redisstore.New(open(), opts...), "latch")
		}
		if err := latches[0].TrySet(ctx, count); err != nil {
			t.Fatal(err)
		}
		opened := make(chan error, waiters)
		for i := range waiters {
			go func() { opened <- latches[i%len(latches)].Await(ctx) }()
		}
		var counting sync.WaitGroup
		for i := range count - 1 {
			counting.Go(func() {
				if err := latches[i%len(latches)].CountDown(ctx); err != nil {
					t.Error(err)
				}
			})
		}
		counting.Wait()
		if n, err := latches[1].Count(ctx); n != 1 || err != nil || len(opened) != 0 {
			t.Fatalf("%d left, %v; %d did not wait", n, err, len(opened))
		}
		if err := latches[2].CountDown(ctx); err != nil {
			t.Fatal(err)
		}
		for range waiters {
			select {
			case err := <-opened:
				if err != nil {
					t.Error(err)
				}
			case <-time.After(patience):
				t.Fatal("a waiter was left behind")
			}
		}
	}
	t.Run("standalone", func(t *testing.T) {
		server := redistest.Standalone(t)
		check(t, func() redis.UniversalClient { return server.Client(t) })
	})
	t.Run("polling", func(t *testing.T) {
		server := redistest.Standalone(t)
		check(t, func() redis.UniversalClient { return server.Client(t) }, redisstore.WithPolling())
	})
	t.Run("cluster", func(t *testing.T) {
		set := redistest.Cluster(t)
		check(t, func() redis.UniversalClient { return set.Client(t) })
		for _, key := range []string{"{t}a", "a{t}b", "a{b", "a}b"} {
			latch := redisstore.NewLatch(redisstore.New(set.Client(t)), key)
			if err := latch.TrySet(t.Context(), 1); !errors.Is(err, lock.ErrInvalid) {
				t.Errorf("%q: got %v, want ErrInvalid", key, err)
			}
			if err := latch.Await(t.Context()); !errors.Is(err, lock.ErrInvalid) {
				t.Errorf("await %q: got %v, want ErrInvalid", key, err)
			}
		}
	})
}

func TestAwaitEndsWithTheLatchOrTheContext(t *testing.T) {
	server := redistest.Standalone(t)
	latch := redisstore.NewLatch(redisstore.New(server.Client(t)), "latch")
	if err := latch.TrySet(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	limited, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := latch.Await(limited); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want DeadlineExceeded", err)
	}
	gone := errors.New("nobody wants to know")
	cancelled, give := context.WithCancelCause(t.Context())
	ended := make(chan error, 2)
	go func() { ended <- latch.Await(cancelled) }()
	give(gone)
	if err := <-ended; !errors.Is(err, gone) {
		t.Errorf("got %v, want the cause", err)
	}
	go func() { ended <- latch.Await(t.Context()) }()
	if err := latch.Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("after delete: %v", err)
		}
	case <-time.After(patience):
		t.Fatal("not opened by delete")
	}
}

func TestAwaitOutlastsARestart(t *testing.T) {
	server := redistest.Standalone(t, "--save", "", "--appendonly", "yes")
	latch := redisstore.NewLatch(redisstore.New(server.Client(t)), "latch")
	if err := latch.TrySet(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	opened := make(chan error, 1)
	go func() { opened <- latch.Await(t.Context()) }()
	server.Kill()
	server.Restart()
	eventually(t, func() error { return latch.CountDown(t.Context()) })
	select {
	case err := <-opened:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Fatal("not opened")
	}
}

func TestTheLastCountWorksWhenMemoryIsFull(t *testing.T) {
	b := newBench(t)
	latch := redisstore.NewLatch(b.store, "latch")
	if err := latch.TrySet(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	b.rdb.(*redis.Client).ConfigSet(t.Context(), "maxmemory", "1")
	if err := latch.CountDown(t.Context()); err != nil {
		t.Error(err)
	}
	if err := latch.TrySet(t.Context(), 1); !errors.Is(err, lock.ErrUnavailable) {
		t.Errorf("set: got %v, want ErrUnavailable", err)
	}
}

// What is no latch is left alone.
func TestALatchIsNotUsedWhereThereIsNone(t *testing.T) {
	b := newBench(t)
	b.rdb.RPush(t.Context(), "list", "of somebody")
	keys := []string{"list"}
	for _, text := range []string{"text", "0.5", "3.14", "nan", "inf", "0x10", "1e3", " 1", "", "007", "-0", "12345678901234567890123"} {
		key := "of " + text
		b.rdb.Set(t.Context(), key, text, 0)
		keys = append(keys, key)
	}
	bounded, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for _, key := range keys {
		latch := redisstore.NewLatch(b.store, key)
		_, counted := latch.Count(t.Context())
		for call, err := range map[string]error{
			"count": counted, "set": latch.TrySet(t.Context(), 3), "count down": latch.CountDown(t.Context()),
			"await": latch.Await(bounded), "delete": latch.Delete(t.Context()),
		} {
			if !errors.Is(err, lock.ErrInvalid) || errors.Is(err, lock.ErrUnavailable) {
				t.Errorf("%s of %q: got %v, want ErrInvalid", call, key, err)
			}
		}
		if text := b.rdb.Get(t.Context(), key).Val(); key != "list" && "of "+text != key {
			t.Errorf("%q has %q", key, text)
		}
	}
	b.keys(keys...)
}

// stuck is a client whose messages are under way until somebody sends for them.
type stuck struct{ until <-chan struct{} }

func (stuck) DialHook(next redis.DialHook) redis.DialHook { return next }

func (s stuck) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		s.await(cmd)
		return next(ctx, cmd)
	}
}

func (s stuck) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		s.await(cmds...)
		return next(ctx, cmds)
	}
}

func (s stuck) await(cmds ...redis.Cmder) {
	if slices.ContainsFunc(cmds, func(cmd redis.Cmder) bool { return cmd.Name() == "publish" }) {
		<-s.until
	}
}

// What a latch publishes behind its script ends with the context of the call.
func TestTheMessageOfALatchEndsWithItsContext(t *testing.T) {
	server := redistest.Standalone(t)
	client := server.Client(t)
	sent := make(chan struct{})
	client.AddHook(stuck{sent})
	latch := redisstore.NewLatch(redisstore.New(client, redisstore.WithoutScriptPublish()), "latch")
	server.Admin(t).Set(t.Context(), "latch", 1, 0)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	counted := make(chan error, 1)
	go func() { counted <- latch.CountDown(ctx) }()
	select {
	case err := <-counted:
		if err != nil {
			t.Errorf("the count is lost with its message: %v", err)
		}
	case <-time.After(patience):
		t.Error("it waits for the message although its context has ended")
	}
	close(sent)
	eventually(t, func() error { _, err := latch.Count(t.Context()); return err }) // its goroutines end
}
