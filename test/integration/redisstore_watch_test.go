package integration_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/redisstore"
	"github.com/redlatch/redlatch/test/internal/faultproxy"
	"github.com/redlatch/redlatch/test/internal/process"
	"github.com/redlatch/redlatch/test/internal/redistest"
)

// watch returns a channel that holds a hint after a wake-up.
func watch(t *testing.T, store *redisstore.Store, key string) (hints chan struct{}, stop func()) {
	t.Helper()
	hints = make(chan struct{}, 1)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	stop, err := store.Watch(ctx, claimOf(ownerA, key), func() {
		select {
		case hints <- struct{}{}:
		default:
		}
	})
	if err != nil {
		t.Fatalf("Watch: %v", err)
	}
	return hints, stop
}

func wantHint(t *testing.T, hints <-chan struct{}, why string) {
	t.Helper()
	select {
	case <-hints:
	case <-time.After(patience):
		t.Fatalf("not woken %s", why)
	}
}

// nobodyListens waits until the server has no subscriber of ours.
func nobodyListens(t *testing.T, rdb *redis.Client) {
	t.Helper()
	eventually(t, func() error {
		if channels := rdb.PubSubChannels(context.Background(), "*").Val(); len(channels) > 0 {
			return fmt.Errorf("subscribed: %v", channels)
		}
		if clients := rdb.Do(context.Background(), "CLIENT", "LIST", "TYPE", "pubsub").String(); strings.Contains(clients, "addr=") {
			return fmt.Errorf("connected: %s", clients)
		}
		return nil
	})
}

func TestAWatchMissesNothingFromItsReturnOn(t *testing.T) {
	server := redistest.Standalone(t)
	rdb := server.Admin(t)
	store := redisstore.New(server.Client(t))
	for range 200 {
		hints, stop := watch(t, store, "k")
		// The connection of the watch before may not be closed yet.
		if n := rdb.Publish(t.Context(), "redisson_lock__channel:{k}", "0").Val(); n == 0 {
			t.Fatal("no subscriber after Watch has returned")
		}
		wantHint(t, hints, "by the message")
		stop()
	}
	nobodyListens(t, rdb)
}

// The channel is wanted again before the server got the unsubscription.
func TestAChannelCanBeWatchedAgainAtOnce(t *testing.T) {
	server := redistest.Standalone(t)
	rdb := server.Admin(t)
	store := redisstore.New(server.Client(t))
	_, leave := watch(t, store, "other") // keeps the connection
	for range 500 {
		_, stop := watch(t, store, "k")
		stop()
	}
	hints, stop := watch(t, store, "k")
	rdb.Publish(t.Context(), "redisson_lock__channel:{k}", "0")
	wantHint(t, hints, "by the message")
	stop()
	leave()
	nobodyListens(t, rdb)
}

func TestWatchesShareOneConnection(t *testing.T) {
	server := redistest.Standalone(t)
	rdb := server.Admin(t)
	store := redisstore.New(server.Client(t))
	var stops []func()
	for i := range 100 {
		_, stop := watch(t, store, fmt.Sprintf("k%d", i%40))
		stops = append(stops, stop)
	}
	if n := strings.Count(rdb.Do(t.Context(), "CLIENT", "LIST", "TYPE", "pubsub").String(), " addr="); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
	if n := len(rdb.PubSubChannels(t.Context(), "*").Val()); n != 40 {
		t.Errorf("%d channels, want 40", n)
	}
	rand.Shuffle(len(stops), func(i, j int) { stops[i], stops[j] = stops[j], stops[i] })
	for _, stop := range stops {
		stop()
		stop() // a second call does nothing
	}
	nobodyListens(t, rdb)
}

// In a cluster, a loss on both planes are two gaps, that end one by one.
func TestAfterALostConnectionEverybodyIsWokenOnce(t *testing.T) {
	check := func(t *testing.T, rdb redis.UniversalClient, store *redisstore.Store, kill func() (connections int64)) {
		t.Helper()
		var first, second atomic.Int32
		for key, hints := range map[string]*atomic.Int32{"k1": &first, "k2": &second} {
			stop, err := store.Watch(t.Context(), claimOf(ownerA, key), func() { hints.Add(1) })
			if err != nil {
				t.Fatal(err)
			}
			defer stop()
		}
		woken := func(hints *atomic.Int32, before int32, why string) {
			t.Helper()
			eventually(t, func() error {
				if hints.Load() == before {
					return errors.New("not woken " + why)
				}
				return nil
			})
		}
		var losses int64
		for range 10 {
			firstBefore, secondBefore := first.Load(), second.Load()
			losses += kill()
			woken(&first, firstBefore, "after the connection was lost")
			woken(&second, secondBefore, "after the connection was lost")
			secondBefore = second.Load()
			rdb.Publish(t.Context(), "redisson_lock__channel:{k2}", "0")
			woken(&second, secondBefore, "by a message on the new connection")
		}
		if n := first.Load(); int64(n) > losses {
			t.Errorf("woken %d times by %d losses, or by another key's messages", n, losses)
		}
	}
	t.Run("standalone", func(t *testing.T) {
		server := redistest.Standalone(t)
		rdb := server.Admin(t)
		check(t, rdb, redisstore.New(server.Client(t)), func() int64 {
			return killSubscribers(t, rdb)
		})
	})
	t.Run("cluster", func(t *testing.T) {
		set := redistest.Cluster(t)
		rdb := set.Admin(t)
		check(t, rdb, redisstore.New(set.Client(t)), func() int64 { return killAllSubscribers(t, rdb) })
	})
}

// killSubscribers cuts all connections that listen, and returns how many.
func killSubscribers(t *testing.T, rdb redis.Cmdable) int64 {
	t.Helper()
	killed, err := rdb.ClientKillByFilter(t.Context(), "TYPE", "pubsub").Result()
	if err != nil {
		t.Error(err)
	}
	return killed
}

// killAllSubscribers does so at all masters. One that is killed at a node may come back to
// the next in time to be killed once more.
func killAllSubscribers(t *testing.T, rdb *redis.ClusterClient) int64 {
	t.Helper()
	var killed atomic.Int64
	_ = rdb.ForEachMaster(t.Context(), func(_ context.Context, node *redis.Client) error {
		killed.Add(killSubscribers(t, node))
		return nil
	})
	return killed.Load()
}

// However often connections are killed, a waiter has one nearly all the time.
func TestASubscriptionThatIsKilledAgainAndAgainIsThere(t *testing.T) {
	t.Parallel()
	check := func(t *testing.T, store *redisstore.Store, kill func() (connections int64)) {
		t.Helper()
		hints, stop := watch(t, store, "k")
		defer stop()
		const kills = 20
		found := 0
		for range kills {
			time.Sleep(200 * time.Millisecond) // how often, not when
			if kill() > 0 {
				found++
			}
		}
		if found < kills*3/4 {
			t.Errorf("%d of %d kills found a subscription", found, kills)
		}
		wantHint(t, hints, "by a new connection")
	}
	t.Run("standalone", func(t *testing.T) {
		server := redistest.Standalone(t)
		rdb := server.Admin(t)
		check(t, redisstore.New(server.Client(t)), func() int64 { return killSubscribers(t, rdb) })
	})
	t.Run("cluster", func(t *testing.T) {
		set := redistest.Cluster(t)
		check(t, redisstore.New(set.Client(t)), func() int64 { return killAllSubscribers(t, set.Admin(t)) })
	})
}

// A release while the waiter's connection is down must reach it all the same.
func TestAReleaseDuringAGapIsNotMissed(t *testing.T) {
	server := redistest.Standalone(t)
	proxy, rdb := throughProxy(t, server)
	plain := server.Admin(t)
	store := redisstore.New(rdb)
	other := redisstore.New(server.Client(t))
	for range 20 {
		if _, err := lock.Blocking(other).Acquire(t.Context(), claimOf(ownerB, "k")); err != nil {
			t.Fatal(err)
		}
		hints, stop := watch(t, store, "k")
		proxy.Refuse()
		proxy.CutAll()
		if err := lock.Blocking(other).Release(t.Context(), claimOf(ownerB, "k")); err != nil {
			t.Fatal(err)
		}
		proxy.Accept()
		wantHint(t, hints, "after the gap")
		stop()
	}
	nobodyListens(t, plain)
}

func TestAWatchWithoutAConnectionIsAnError(t *testing.T) {
	nowhere := newClient(t, &redis.Options{Addr: process.LoopbackAddr(process.Port(t))})
	store := redisstore.New(nowhere)
	for range 3 {
		_, err := store.Watch(t.Context(), claimOf(ownerA, "k"), func() {})
		wantOutcome(t, "watch", err, lock.OutcomeNotExecuted)
	}
}

func TestARefusedChannelIsAnError(t *testing.T) {
	server := redistest.Standalone(t)
	admin := server.Admin(t)
	admin.Do(t.Context(), "ACL", "SETUSER", "deaf", "on", ">secret", "~*", "resetchannels", "&redisson_lock__channel:{ok}", "+@all")
	store := redisstore.New(newClient(t, &redis.Options{Addr: server.Addr(), Username: "deaf", Password: "secret"}))
	hints, stop := watch(t, store, "ok")
	defer stop()
	_, err := store.Watch(t.Context(), claimOf(ownerA, "forbidden"), func() {})
	wantOutcome(t, "watch", err, lock.OutcomeRefused)
	admin.Publish(t.Context(), "redisson_lock__channel:{ok}", "0")
	wantHint(t, hints, "although another channel was refused")
}

// The reply to SUBSCRIBE is lost with its connection.
func TestALostAcknowledgementIsAskedForAgain(t *testing.T) {
	server := redistest.Standalone(t)
	proxy, rdb := throughProxy(t, server)
	store := redisstore.New(rdb)
	for i := range 5 {
		lost := proxy.CutReplyWhen(faultproxy.Contains("subscribe", "redisson_lock__channel"), 1)
		key := fmt.Sprintf("k%d", i) // what was subscribed a moment ago needs no acknowledgement
		hints, stop := watch(t, store, key)
		select {
		case <-lost.Hit():
		case <-time.After(patience):
			t.Fatal("no acknowledgement was lost")
		}
		server.Admin(t).Publish(t.Context(), "redisson_lock__channel:{"+key+"}", "0")
		wantHint(t, hints, "by a message")
		stop()
	}
}

// Watches wait for the server side by side: one that gives up takes nothing
// from the others, and nothing waits for a server that hangs.
func TestWatchesDoNotDependOnEachOther(t *testing.T) {
	server := redistest.Standalone(t)
	proxy, rdb := throughProxy(t, server)
	store := redisstore.New(rdb)
	_, stop := watch(t, store, "present")
	proxy.HoldDown() // no acknowledgement comes through

	patient := make(chan error, 1)
	stops := make(chan func(), 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		stop, err := store.Watch(ctx, claimOf(ownerA, "k"), func() {})
		stops <- stop
		patient <- err
	}()
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		_, err := store.Watch(ctx, claimOf(ownerA, "k"), func() {})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want DeadlineExceeded", err)
		}
		wantOutcome(t, "watch", err, lock.OutcomeNotExecuted)
		cancel()
	}
	stop() // while the server is silent
	proxy.Resume()
	if err := <-patient; err != nil {
		t.Errorf("the patient watch: %v", err)
	} else {
		(<-stops)()
	}
	nobodyListens(t, server.Admin(t))
}

func TestStopDoesNotWaitForTheServer(t *testing.T) {
	server := redistest.Standalone(t)
	store := redisstore.New(server.Client(t))
	_, first := watch(t, store, "k1")
	_, last := watch(t, store, "k2")
	server.Stop()
	first()
	last()
	server.Cont() // only now: a stop that waits would never have come here in time
	nobodyListens(t, server.Admin(t))
}

// Watches come and go on few channels while connections are killed. Each
// watcher must hear each message that is published while nothing is killed,
// and in the end nothing is left.
func TestAStormOfWatches(t *testing.T) {
	server := redistest.Standalone(t)
	rdb := server.Admin(t)
	store := redisstore.New(server.Client(t))
	const keys = 4
	steady := make([]chan struct{}, keys)
	var stops []func()
	for k := range steady {
		hints, stop := watch(t, store, fmt.Sprintf("k%d", k))
		steady[k], stops = hints, append(stops, stop)
	}
	ctx, calm := context.WithCancel(context.Background())
	var storm sync.WaitGroup
	var watches, cancelled atomic.Int64
	for range 16 {
		storm.Go(func() {
			for ctx.Err() == nil {
				limit := time.Duration(rand.IntN(3000)) * time.Microsecond
				watching, cancel := context.WithTimeout(context.Background(), limit)
				var stopped atomic.Bool
				stop, err := store.Watch(watching, claimOf(ownerA, fmt.Sprintf("k%d", rand.IntN(keys+2))), func() {
					if stopped.Load() {
						t.Error("woken after stop")
					}
				})
				cancel()
				if err != nil {
					cancelled.Add(1)
					continue
				}
				watches.Add(1)
				stop()
				stopped.Store(true)
			}
		})
	}
	storm.Go(func() {
		for ctx.Err() == nil {
			rdb.ClientKillByFilter(context.Background(), "TYPE", "pubsub")
			time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond) // how often, not when
		}
	})
	storm.Go(func() {
		for ctx.Err() == nil {
			rdb.Publish(context.Background(), fmt.Sprintf("redisson_lock__channel:{k%d}", rand.IntN(keys+2)), "0")
		}
	})
	eventually(t, func() error {
		if watches.Load() < 2000 || cancelled.Load() < 50 {
			return fmt.Errorf("%d watches, %d cancelled", watches.Load(), cancelled.Load())
		}
		return nil
	})
	calm()
	storm.Wait()
	for k, hints := range steady {
		channel := fmt.Sprintf("redisson_lock__channel:{k%d}", k)
		eventually(t, func() error { // the last kill may not have been noticed yet
			if n := rdb.Publish(t.Context(), channel, "0").Val(); n != 1 {
				return fmt.Errorf("%d subscribers of %s, want 1", n, channel)
			}
			return nil
		})
		wantHint(t, hints, "after the storm")
	}
	for _, stop := range stops {
		stop()
	}
	nobodyListens(t, rdb)
}

// Under the engine, a waiter whose connection dies all the time gets the key
// by wake-ups alone.
func TestWaitersProceedWhileConnectionsDie(t *testing.T) {
	server := redistest.Standalone(t)
	rdb := server.Admin(t)
	slow := lock.WithPoll(2 * patience) // only a hint comes in time
	here, there := newLocker(t, server.Client(t), slow), newLocker(t, server.Client(t), slow)
	ctx, calm := context.WithCancel(t.Context())
	var killing sync.WaitGroup
	killing.Go(func() {
		for ctx.Err() == nil {
			rdb.ClientKillByFilter(context.Background(), "TYPE", "pubsub")
			time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond)
		}
	})
	counter := 0 // unsafe on purpose
	var working sync.WaitGroup
	const rounds = 60
	for _, l := range []*lock.Locker{here, there} {
		for range 2 {
			working.Go(func() {
				for range rounds {
					limited, cancel := context.WithTimeout(context.Background(), patience)
					err := l.Do(limited, "k", func(context.Context) error {
						counter++
						return nil
					})
					cancel()
					if err != nil {
						t.Errorf("Do: %v", err)
						return
					}
				}
			})
		}
	}
	working.Wait()
	calm()
	killing.Wait()
	if counter != 4*rounds {
		t.Errorf("counted %d, want %d", counter, 4*rounds)
	}
}

func TestAStoreWithoutPublishSubscribePolls(t *testing.T) {
	server := redistest.Standalone(t)
	admin := server.Admin(t)
	var lockers []*lock.Locker
	for range 2 {
		store := redisstore.New(server.Client(t), redisstore.WithPolling())
		l := lock.New(store, lock.WithPoll(20*time.Millisecond))
		t.Cleanup(func() { _ = l.Close(context.Background()) })
		lockers = append(lockers, l)
	}
	held := acquire(t, lockers[0], "k")
	next := make(chan *lock.Lease, 1)
	go func() {
		l, err := lockers[1].Acquire(context.Background(), "k")
		if err != nil {
			t.Errorf("the waiter: %v", err)
		}
		next <- l
	}()
	nobodyListens(t, admin)
	release(t, held)
	if l := <-next; l != nil {
		release(t, l)
	}
	if n := admin.Info(t.Context(), "commandstats").Val(); strings.Contains(n, "cmdstat_subscribe") {
		t.Error("it subscribed")
	}
}
