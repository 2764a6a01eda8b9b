package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
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

// Connections that nobody looks at before they are used, such as those over TLS, are of
// no use after a failover. Each of them fails the next call, and there may be many.
func TestConnectionsOfBeforeDoNotKeepTheCircuitOpen(t *testing.T) {
	for name, left := range map[string]func([]string) string{
		"cut":  cut,
		"mute": hung, // until the client gives up
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, client, takeOver := newDistantPair(t, manyConnections)
				store := d.store(client)
				l := newLocker(t, store)
				connectMany(t, d, l)
				d.leave(left)
				for i := range redisstore.DefaultCircuitFailures + 1 { // without a locker, whose undos would take connections, too
					begin(t.Context(), store, fmt.Sprint("opening:", i), time.Now().Add(50*time.Millisecond))
					time.Sleep(100 * time.Millisecond)
				}
				wantOpen(t, l)
				takeOver()
				start := time.Now()
				for time.Since(start) < 10*time.Second {
					if lease, err := l.TryAcquire(t.Context(), "k"); err == nil {
						release(t, lease)
						break
					}
					time.Sleep(10 * time.Millisecond)
				}
				if took := time.Since(start); took > 2*redisstore.DefaultCircuitPause {
					t.Errorf("refused for %v", took)
				}
			})
		})
	}
}

// newDistantPair returns a server, a client, and what puts another server in its place,
// which says yes to everything.
func newDistantPair(t *testing.T, change func(*redis.Options)) (d *distant, client *redis.Client, takeOver func()) {
	t.Helper()
	d, _ = newDistantServer(t)
	next, _ := newFake(t, func([]string) string { return integer(1) })
	var tookOver atomic.Bool
	options := &redis.Options{
		Addr: "127.0.0.1:6379", Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			if tookOver.Load() {
				return next.dial(ctx, network, addr)
			}
			return d.dial(ctx, network, addr)
		},
		Protocol: 2, DisableIdentity: true, DialerRetries: 1,
	}
	change(options)
	client = redis.NewClient(options)
	t.Cleanup(func() { _ = client.Close() })
	return d, client, func() { tookOver.Store(true) }
}

// Nor must a lease be lost because one renewal after the other takes a connection of before.
func TestConnectionsOfBeforeDoNotLoseALease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, client, takeOver := newDistantPair(t, manyConnections)
		l := newLocker(t, d.store(client), lock.WithWatchdog(3*time.Second))
		connectMany(t, d, l)
		d.away(nil)
		lease := acquire(t, l, "k")
		takeOver()
		d.leave(hung) // until the client gives up
		time.Sleep(time.Minute)
		if err := lease.Context().Err(); err != nil {
			t.Errorf("lost: %v", context.Cause(lease.Context()))
		}
		release(t, lease)
	})
}

// connectMany leaves the client of the locker with as many idle connections as it keeps
// for batches.
func connectMany(t *testing.T, d *distant, l *lock.Locker) {
	t.Helper()
	d.away(func([]string) string {
		time.Sleep(400 * time.Millisecond) // so that each call takes a connection
		return "well"
	})
	var all sync.WaitGroup
	for i := range redisstore.MaxWorkers {
		all.Go(func() { release(t, acquire(t, l, fmt.Sprint("before:", i))) })
		time.Sleep(20 * time.Millisecond)
	}
	all.Wait()
	if n := d.connections(); n < redisstore.MaxWorkers {
		t.Fatalf("%d connections: this tests nothing", n)
	}
}

// manyConnections are as many as one server gets calls on.
func manyConnections(o *redis.Options) {
	o.PipelinePoolSize, o.ContextTimeoutEnabled = redisstore.MaxWorkers, true
}

// leaveUnanswered opens the circuit with callers that leave soon.
func leaveUnanswered(t *testing.T, d *distant, store *redisstore.Store, outage time.Duration) {
	t.Helper()
	d.away(hung)
	for start := time.Now(); time.Since(start) < outage; {
		begin(t.Context(), store, "unanswered", time.Now().Add(100*time.Millisecond))
		time.Sleep(50 * time.Millisecond)
	}
	if !slices.Equal(d.told(), []string{"127.0.0.1:6379 true"}) {
		t.Fatalf("the circuit is not open: %q", d.told())
	}
}

// Batches of before, whose callers have gone, may be under way for long. They don't open
// the circuit of a server that answers.
func TestBatchesOfBeforeDoNotOpenTheCircuitAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, client, takeOver := newDistantPair(t, func(*redis.Options) {})
		store := d.store(client)
		leaveUnanswered(t, d, store, 2*time.Second)
		takeOver()
		time.Sleep(500 * time.Millisecond)
		begin(t.Context(), store, "begins a probe", time.Now().Add(soon))
		time.Sleep(500 * time.Millisecond)
		for range 40 {
			time.Sleep(200 * time.Millisecond) // twice as long as a server is silent
			if a := answered(t, begin(t.Context(), store, "k", time.Now().Add(100*time.Millisecond))); a.err != nil {
				t.Error(a.err)
			}
		}
		if n := len(d.told()); n != 2 {
			t.Errorf("%d changes of the circuit", n)
		}
	})
}

// One connection goes mute that carries the calls of many. All others answer.
func TestOneMuteConnectionOpensNoCircuit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, store := newDistant(t)
		tokens := make(chan struct{})
		d.away(func(c []string) string {
			if len(c) > 3 && strings.HasPrefix(c[3], "before") {
				<-tokens
			}
			if len(c) > 3 && c[3] == "mute" {
				return ""
			}
			return "well"
		})
		ctx, leave := context.WithCancel(t.Context())
		together(t, store, tokens, ctx, slices.Repeat([]string{"mute"}, 16)...)
		time.Sleep(200 * time.Millisecond)
		leave()
		var refused int
		for range 30 {
			time.Sleep(150 * time.Millisecond)
			if a := answered(t, begin(t.Context(), store, "k", time.Now().Add(100*time.Millisecond))); a.err != nil {
				refused++
			}
		}
		if refused > 1 { // the first comes before anything was answered
			t.Errorf("refused %d of 30; changes %q", refused, d.told())
		}
	})
}

// PINGs that are mute don't use up the places of all others, however long the client
// waits for an answer.
func TestMutePingsDoNotEndTheProbes(t *testing.T) {
	for name, timeout := range map[string]time.Duration{"default": 0, "30 s": 30 * time.Second, "none": -1} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, client, takeOver := newDistantPair(t, func(o *redis.Options) { o.ReadTimeout = timeout })
				store := d.store(client)
				leaveUnanswered(t, d, store, 6*time.Second)
				takeOver()
				back := time.Now()
				for answered(t, begin(t.Context(), store, "k", time.Now().Add(100*time.Millisecond))).err != nil && time.Since(back) < time.Minute {
					time.Sleep(50 * time.Millisecond)
				}
				if took := time.Since(back); took > 2*time.Second {
					t.Errorf("refused for %v", took)
				}
				_ = client.Close()
			})
		})
	}
}

// Nor do they hold the connections of the application.
func TestMutePingsLeaveThePoolToTheApplication(t *testing.T) {
	for name, sizes := range map[string][2]int{"no pool of pipelines": {10, -1}, "a pool of four": {4, 0}, "a pool of one": {1, 0}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, client, takeOver := newDistantPair(t, func(o *redis.Options) { o.PoolSize, o.PipelinePoolSize = sizes[0], sizes[1] })
				store := d.store(client)
				leaveUnanswered(t, d, store, 12*time.Second)
				takeOver()
				back := time.Now()
				err := client.Set(t.Context(), "a", "b", 0).Err()
				if took := time.Since(back); took > 100*time.Millisecond {
					t.Errorf("the first command of the application waited %v: %v", took, err)
				}
			})
		})
	}
}

// Calls wait for a probe also when the pause is shorter than a round trip.
func TestCallsWaitForAProbeWhateverThePause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, store := newDistant(t, redisstore.WithCircuit(5, time.Millisecond))
		d.refuse()
		open(t, newLocker(t, store))
		time.Sleep(40 * time.Second)
		d.away(func([]string) string { time.Sleep(20 * time.Millisecond); return "well" })
		var all []<-chan answer
		for i := range 10 {
			all = append(all, begin(t.Context(), store, fmt.Sprint(i), time.Now().Add(time.Second)))
			time.Sleep(1500 * time.Microsecond)
		}
		for _, answers := range all {
			if err := answered(t, answers).err; err != nil {
				t.Error(err)
			}
		}
	})
}

// lingering is a connection that takes a second to close, as one over TLS may.
type lingering struct {
	net.Conn
	linger *atomic.Bool
}

func (c lingering) Close() error {
	if c.linger.Load() {
		time.Sleep(time.Second)
	}
	return c.Conn.Close()
}

// The client keeps its pool locked while it closes connections. In real time, as a wait for
// a mutex keeps the time of a bubble from passing.
func TestACallerDoesNotWaitForThePool(t *testing.T) {
	var linger, refusing atomic.Bool
	f, _ := newFake(t, func([]string) string { return integer(1) })
	client := redis.NewClient(&redis.Options{
		Addr: "127.0.0.1:6379", Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			if refusing.Load() {
				return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
			}
			c, err := f.dial(ctx, network, addr)
			return lingering{c, &linger}, err
		},
		Protocol: 2, DisableIdentity: true, DialerRetries: 1,
		PoolSize: 1000, // after so many refusals, the client would dial for a second more
	})
	t.Cleanup(func() { _ = client.Close() })
	store := redisstore.New(client, redisstore.WithCircuit(1, 200*time.Millisecond))
	refusing.Store(true)
	answered(t, begin(t.Context(), store, "opens", time.Now().Add(soon)))
	if a := answered(t, begin(t.Context(), store, "refused", time.Now().Add(soon))); !errors.Is(a.err, lock.ErrCircuitOpen) {
		t.Fatal(a.err)
	}
	refusing.Store(false)
	for client.Ping(t.Context()).Err() != nil { // leaves an idle connection, as soon as the client dials again
		time.Sleep(100 * time.Millisecond)
	}
	refusing.Store(true)
	time.Sleep(300 * time.Millisecond) // the pause
	linger.Store(true)
	closed := make(chan struct{})
	go func() { _ = client.Close(); close(closed) }()
	time.Sleep(50 * time.Millisecond)
	start := time.Now()
	begin(t.Context(), store, "k", time.Now().Add(soon))
	if took := time.Since(start); took > 500*time.Millisecond {
		t.Errorf("the call came back after %v", took)
	}
	<-closed
}
