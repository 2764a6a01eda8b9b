package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/redisstore"
)

// cast is a cluster of two whose servers answer each command as said, and which notes
// what came, without the names of scripts.
type cast struct {
	mu    sync.Mutex
	lines []string
}

// play returns a client of servers that answer with the next of their replies. The
// first has the key "k".
func play(t *testing.T, first, second []string) (*cast, *redis.ClusterClient) {
	t.Helper()
	c := &cast{}
	server := func(number int, replies []string) *fake {
		f, _ := newFake(t, func(command []string) string {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.lines = append(c.lines, fmt.Sprint(number, " ", command[0]))
			if len(replies) == 0 {
				t.Errorf("%d has no reply to %q", number, command)
				return "hang up"
			}
			reply := replies[0]
			replies = replies[1:]
			return reply
		})
		return f
	}
	return c, clusterOf(t, server(1, first), server(2, second))
}

func (c *cast) played(t *testing.T, want ...string) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Equal(c.lines, want) {
		t.Errorf("got %q, want %q", c.lines, want)
	}
}

func clock(seconds int64) string { return fmt.Sprintf("*2\r\n:%d\r\n:0\r\n", seconds) }

const (
	movedAway = "MOVED 1 10.0.0.2:6379"
	movedBack = "MOVED 1 10.0.0.1:6379"
	askAway   = "ASK 1 10.0.0.2:6379"
	noScript  = "NOSCRIPT No matching script."
	ok        = "+OK\r\n"
)

// A node that does not have the key says who has it. The time must come from there, on
// the connection of the script.
func TestACallThatIsRedirected(t *testing.T) {
	timed := []redisstore.Option{redisstore.WithoutScriptTime()}
	for name, tt := range map[string]struct {
		opts          []redisstore.Option
		first, second []string
		want          []string
		fence         uint64
	}{
		"moved": {
			nil,
			[]string{failed(movedAway), failed(movedAway)},
			[]string{integer(7)},
			[]string{"1 evalsha", "1 evalsha", "2 evalsha"},
			7, // the client of the cluster finds the way
		},
		"moved, with the time behind it": {
			timed,
			[]string{failed(movedAway), clock(1)},
			[]string{integer(1), clock(7)},
			[]string{"1 evalsha", "1 time", "2 evalsha", "2 time"},
			7_000_000,
		},
		"on its way": {
			timed,
			[]string{failed(askAway), clock(1)},
			[]string{ok, integer(1), clock(7)},
			[]string{"1 evalsha", "1 time", "2 asking", "2 evalsha", "2 time"},
			7_000_000,
		},
		"on its way, to a node without the script": {
			timed,
			[]string{failed(askAway), clock(1)},
			[]string{ok, failed(noScript), clock(6), ok, integer(1), clock(7)},
			[]string{"1 evalsha", "1 time", "2 asking", "2 evalsha", "2 time", "2 asking", "2 eval", "2 time"},
			7_000_000,
		},
		"on its way, and back": {
			timed,
			[]string{failed(askAway), clock(1), integer(1), clock(7)},
			[]string{ok, failed(movedBack), clock(1)},
			[]string{"1 evalsha", "1 time", "2 asking", "2 evalsha", "2 time", "1 evalsha", "1 time"},
			7_000_000,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, client := play(t, tt.first, tt.second)
			if _, err := client.MasterForKey(t.Context(), "k"); err != nil { // where the slots are
				t.Fatal(err)
			}
			a := answered(t, begin(t.Context(), redisstore.New(client, tt.opts...), "k", time.Now().Add(soon)))
			if a.err != nil || a.fence != tt.fence*lock.FenceStep {
				t.Errorf("fence %d, %v; want %d", a.fence/lock.FenceStep, a.err, tt.fence)
			}
			c.played(t, tt.want...)
		})
	}
}

// A call that was redirected, and then had no answer, may have run where it went. The
// client of the cluster leaves the redirection in it.
func TestACallThatWasRedirectedAndHasNoAnswerMayHaveRun(t *testing.T) {
	c, client := play(t,
		[]string{failed(askAway), failed(askAway)},
		[]string{"", "hang up"}) // it reads both, and answers none
	if _, err := client.MasterForKey(t.Context(), "k"); err != nil {
		t.Fatal(err)
	}
	a := answered(t, begin(t.Context(), redisstore.New(client), "k", time.Now().Add(soon)))
	var failed *lock.StoreError
	if !errors.As(a.err, &failed) || failed.Outcome != lock.OutcomeUnknown {
		t.Errorf("got %#v", a.err)
	}
	c.played(t, "1 evalsha", "1 evalsha", "2 asking", "2 evalsha")
}

// A grant without its time is one that somebody has to undo.
func TestAGrantWhoseTimeIsRefusedMayHaveRun(t *testing.T) {
	_, client := newFake(t, func(command []string) string {
		if command[0] == "time" {
			return failed("NOPERM this user has no permissions to run the 'time' command")
		}
		return integer(1)
	})
	store := redisstore.New(client, redisstore.WithoutScriptTime())
	_, err := lock.Blocking(store).Acquire(t.Context(), lock.Claim{Key: "k", Owner: "o:1", TTL: time.Minute})
	unclear, ok := errors.AsType[*lock.StoreError](err)
	if !ok || unclear.Outcome != lock.OutcomeUnknown || lock.ClassOf(err) != "NOPERM" {
		t.Errorf("got %v (%+v), want an unknown outcome because of NOPERM", err, unclear)
	}
}

// The client of a cluster that gets no connection tries again by itself, and leaves the
// first error in all calls but one if that has no answer.
func TestACallThatHadNoConnectionAtFirstMayHaveRun(t *testing.T) {
	var mu sync.Mutex
	met, ran := make(map[string]bool), make(map[string]bool)
	var until time.Time // no connection is made
	f, _ := newFake(t, func(command []string) string {
		mu.Lock()
		defer mu.Unlock()
		key := command[3]
		if met[key] {
			ran[key] = true
			return "" // the answer is lost
		}
		if met[key] = true; until.IsZero() {
			until = time.Now().Add(50 * time.Millisecond)
		}
		return failed("READONLY You can't write against a read only replica.")
	})
	client := redis.NewClusterClient(&redis.ClusterOptions{
		ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
			return []redis.ClusterSlot{{End: 16383, Nodes: []redis.ClusterNode{{Addr: "10.0.0.1:6379"}}}}, nil
		},
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			mu.Lock()
			refused := time.Now().Before(until)
			mu.Unlock()
			if refused {
				return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
			}
			return f.dial(ctx, network, addr)
		},
		Protocol: 2, DisableIdentity: true, DialerRetries: 1, ConnMaxLifetime: time.Nanosecond, ReadTimeout: 300 * time.Millisecond,
		MinRetryBackoff: 70 * time.Millisecond, MaxRetryBackoff: 80 * time.Millisecond, PoolSize: 1000,
	})
	t.Cleanup(func() { _ = client.Close() })
	store := redisstore.New(client, redisstore.WithCircuit(0, 0))
	calls := make(map[string]<-chan answer)
	for i := range 64 {
		key := fmt.Sprint("k", i)
		calls[key] = begin(t.Context(), store, key, time.Now().Add(2*time.Second))
	}
	for key, answers := range calls {
		a := answered(t, answers)
		failed, _ := errors.AsType[*lock.StoreError](a.err)
		mu.Lock()
		if ran[key] && (failed == nil || failed.Outcome != lock.OutcomeUnknown) {
			t.Errorf("%s ran, and got %v", key, a.err)
		}
		mu.Unlock()
	}
	if len(ran) == 0 {
		t.Error("nothing ran: this tests nothing")
	}
}

// A client that doesn't know yet where the slots are takes the time from the node with the
// key all the same.
func TestTheFirstCallHasTheTimeOfItsNode(t *testing.T) {
	for range 10 { // a command without a key goes to any node
		c, client := play(t, []string{integer(1), clock(7)}, nil)
		a := answered(t, begin(t.Context(), redisstore.New(client, redisstore.WithoutScriptTime()), "k", time.Now().Add(soon)))
		if a.err != nil || a.fence != 7_000_000*lock.FenceStep {
			t.Errorf("got %d, %v", a.fence, a.err)
		}
		c.played(t, "1 evalsha", "1 time")
	}
}

// A call that waits for a node which leaves the cluster goes to the one that has its key now.
func TestACallThatWaitsForANodeThatLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		first, _ := newFake(t, func([]string) string {
			<-hold
			return integer(1)
		})
		second, _ := newFake(t, func([]string) string { return integer(2) })
		var left atomic.Bool
		client := redis.NewClusterClient(&redis.ClusterOptions{
			ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
				addr := "10.0.0.1:6379"
				if left.Load() {
					addr = "10.0.0.2:6379"
				}
				return []redis.ClusterSlot{{End: 16383, Nodes: []redis.ClusterNode{{Addr: addr}}}}, nil
			},
			Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
				if addr == "10.0.0.2:6379" {
					return second.dial(ctx, network, addr)
				}
				return first.dial(ctx, network, addr)
			},
			Protocol: 2, DisableIdentity: true, DialerRetries: 1,
		})
		store := redisstore.New(client)
		node, err := client.MasterForKey(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		for i := range redisstore.Overlap {
			begin(t.Context(), store, fmt.Sprint("before:", i), time.Now().Add(soon))
			synctest.Wait()
		}
		waiting := begin(t.Context(), store, "k", time.Now().Add(soon))
		left.Store(true)
		client.ReloadState(t.Context())
		synctest.Wait()
		_ = node.Close() // as the client does a minute after that
		close(hold)
		if a := answered(t, waiting); a.err != nil || a.fence != 2*lock.FenceStep {
			t.Errorf("got %d, %v", a.fence, a.err)
		}
		_ = client.Close()
		time.Sleep(time.Minute) // long enough for workers without work to end
	})
}
