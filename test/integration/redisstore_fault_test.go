package integration_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

// throughProxy is a client with the retries that go-redis has by default.
func throughProxy(t *testing.T, server *redistest.Server) (*faultproxy.Proxy, *redis.Client) {
	t.Helper()
	proxy := faultproxy.New(t, server.Addr())
	rdb := redis.NewClient(&redis.Options{Addr: proxy.Addr(), DisableIdentity: true})
	t.Cleanup(func() { _ = rdb.Close() })
	return proxy, rdb
}

func TestAScriptWhoseReplyIsLostRunsOnce(t *testing.T) {
	server := redistest.Standalone(t)
	plain := server.Admin(t)
	proxy, rdb := throughProxy(t, server)
	store := redisstore.New(rdb)
	ctx := t.Context()

	// The server knows all scripts: what is cut is the script itself.
	_, _ = lock.Blocking(store).Acquire(ctx, claimOf(ownerB, "warm-up"))
	store.Renew(ctx, []lock.Claim{claimOf(ownerB, "warm-up")}, func(int, error) {})
	_ = lock.Blocking(store).Release(ctx, claimOf(ownerB, "warm-up"))

	sent := proxy.Observe(faultproxy.Contains("evalsha", "orders"))
	cut := func() { proxy.CutReplyWhen(faultproxy.Contains("evalsha", "orders"), 1) }

	cut()
	_, err := lock.Blocking(store).Acquire(ctx, claimOf(ownerA, "orders"))
	wantOutcome(t, "acquire", err, lock.OutcomeUnknown)
	wantLock(t, plain, "orders", map[string]string{ownerA: "1"}) // it did run
	if n := sent.Hits(); n != 1 {
		t.Errorf("acquire was sent %d times", n)
	}
	if _, err := lock.Blocking(store).Acquire(ctx, claimOf(ownerA, "orders")); err != nil {
		t.Fatalf("our own repetition: %v", err)
	}
	wantLock(t, plain, "orders", map[string]string{ownerA: "1"})

	cut()
	c := claimOf(ownerA, "orders")
	c.TTL = 2 * lease
	store.Renew(ctx, []lock.Claim{c}, func(_ int, err error) { wantOutcome(t, "renew", err, lock.OutcomeUnknown) })
	if ttl := plain.PTTL(ctx, "orders").Val(); ttl <= lease {
		t.Errorf("the renewal did not run: TTL %v", ttl)
	}
	store.Renew(ctx, []lock.Claim{c}, func(_ int, err error) {
		if err != nil {
			t.Errorf("our own repetition: %v", err)
		}
	})

	cut()
	wantOutcome(t, "release", lock.Blocking(store).Release(ctx, claimOf(ownerA, "orders")), lock.OutcomeUnknown)
	wantLock(t, plain, "orders", nil)
	if _, err := lock.Blocking(store).Acquire(ctx, claimOf(ownerB, "orders")); err != nil {
		t.Fatal(err)
	}
	if err := lock.Blocking(store).Release(ctx, claimOf(ownerA, "orders")); !errors.Is(err, lock.ErrNotHeld) {
		t.Errorf("our own repetition: got %v, want ErrNotHeld", err)
	}
	wantLock(t, plain, "orders", map[string]string{ownerB: "1"})
	if n := sent.Hits(); n != 7 {
		t.Errorf("7 calls sent %d scripts", n)
	}
}

func TestFlushedScriptsAreNotNoticed(t *testing.T) {
	check := func(t *testing.T, rdb redis.UniversalClient, flush func(context.Context) error) {
		t.Helper()
		store := redisstore.New(rdb)
		ctx, stop := context.WithCancel(t.Context())
		var flushing, working sync.WaitGroup
		var flushed atomic.Int64
		flushing.Go(func() {
			for ctx.Err() == nil {
				if flush(ctx) == nil {
					flushed.Add(1)
				}
			}
		})
		for w := range 4 {
			working.Go(func() {
				owner := fmt.Sprintf("%s:%d", ownerA, w)
				claims := make([]lock.Claim, 60) // more than a batch
				for round := 0; round < 5 || flushed.Load() < 50; round++ {
					for i := range claims {
						claims[i] = claimOf(owner, fmt.Sprintf("k:%d:%d", w, i))
						if _, err := lock.Blocking(store).Acquire(ctx, claims[i]); err != nil {
							t.Errorf("acquire: %v", err)
							return
						}
					}
					store.Renew(ctx, claims, func(i int, err error) {
						if err != nil {
							t.Errorf("renew %d: %v", i, err)
						}
					})
					for _, c := range claims {
						if err := lock.Blocking(store).Release(ctx, c); err != nil {
							t.Errorf("release: %v", err)
							return
						}
					}
				}
			})
		}
		working.Wait()
		stop()
		flushing.Wait()
	}
	t.Run("standalone", func(t *testing.T) {
		server := redistest.Standalone(t)
		plain := server.Admin(t)
		check(t, server.Client(t), func(ctx context.Context) error { return plain.ScriptFlush(ctx).Err() })
	})
	t.Run("cluster", func(t *testing.T) {
		set := redistest.Cluster(t)
		plain := set.Admin(t)
		check(t, set.Client(t), func(ctx context.Context) error {
			return plain.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
				return node.ScriptFlush(ctx).Err()
			})
		})
	})
}

func TestOneBadKeyDoesNotSpoilTheRenewalOfOthers(t *testing.T) {
	server := redistest.Standalone(t)
	rdb := server.Admin(t)
	store := redisstore.New(server.Client(t))
	ctx := t.Context()
	claims := make([]lock.Claim, 70)
	for i := range claims {
		claims[i] = claimOf(ownerA, fmt.Sprintf("k%d", i))
		if _, err := lock.Blocking(store).Acquire(ctx, claims[i]); err != nil {
			t.Fatal(err)
		}
		claims[i].TTL = 10 * lease
	}
	rdb.Set(ctx, "k7", "a text", 0)
	store.Renew(ctx, claims, func(i int, err error) {
		if i == 7 { // what is there is no lock, so nobody holds it
			if !errors.Is(err, lock.ErrNotHeld) {
				t.Errorf("the bad key: %v, want ErrNotHeld", err)
			}
		} else if err != nil {
			t.Errorf("claim %d: %v", i, err)
		}
	})
	for i := range claims {
		if ttl := rdb.PTTL(ctx, claims[i].Key).Val(); i != 7 && ttl <= lease {
			t.Errorf("claim %d was not renewed: TTL %v", i, ttl)
		}
	}
}

// A node that hangs delays only the renewal of its keys.
func TestRenewalDoesNotWaitForADeadNode(t *testing.T) {
	set := redistest.Cluster(t, "--cluster-node-timeout", "60000") // nobody takes over
	store := redisstore.New(set.Client(t))
	ctx := t.Context()
	frozen := set.OwnerOf(t, "k0")
	claims := make([]lock.Claim, 60)
	dead := make(map[int]bool)
	for i := range claims {
		claims[i] = claimOf(ownerA, fmt.Sprintf("k%d", i))
		dead[i] = set.OwnerOf(t, claims[i].Key) == frozen
		if _, err := lock.Blocking(store).Acquire(ctx, claims[i]); err != nil {
			t.Fatal(err)
		}
	}
	if len(claims) == len(dead) && !dead[0] {
		t.Fatal("no key on the frozen node")
	}
	frozen.Stop()
	reports := make(chan int, len(claims))
	var done sync.WaitGroup
	done.Go(func() {
		store.Renew(ctx, claims, func(i int, err error) {
			if !dead[i] && err != nil {
				t.Errorf("claim %d on a healthy node: %v", i, err)
			}
			reports <- i
		})
	})
	alive := 0
	for i := range claims {
		if !dead[i] {
			alive++
		}
	}
	for range alive { // the frozen node has not answered yet, nor timed out
		if i := <-reports; dead[i] {
			t.Fatalf("claim %d on the frozen node was reported before those on healthy ones", i)
		}
	}
	frozen.Cont()
	done.Wait()
}

// A dead master answers nothing, so nothing shows the client where its slots
// went, and it would look again only after a minute.
func TestAClusterFailoverIsFollowed(t *testing.T) {
	set := redistest.Cluster(t, "--cluster-node-timeout", "1000")
	store := redisstore.New(set.Client(t))
	ctx := t.Context()
	if _, err := lock.Blocking(store).Acquire(ctx, claimOf(ownerA, "k")); err != nil {
		t.Fatal(err)
	}
	set.Failover(t, "k")
	began := time.Now()
	eventually(t, func() error {
		_, err := lock.Blocking(store).Acquire(ctx, claimOf(ownerA, "k"))
		return err
	})
	// The client's own interval is 60 s; patience is 30 s.
	t.Logf("followed %v after the takeover", time.Since(began))
}

// A slot moves from one master to another under traffic: nobody notices.
func TestASlotMigrationIsNotNoticed(t *testing.T) {
	set := redistest.Cluster(t)
	plain := set.Admin(t)
	store := redisstore.New(set.Client(t))
	ctx := t.Context()
	const held = "{migrating}held"
	if _, err := lock.Blocking(store).Acquire(ctx, claimOf(ownerA, held)); err != nil {
		t.Fatal(err)
	}

	stop := make(chan struct{})
	var working sync.WaitGroup
	var rounds [3]atomic.Int64
	for w := range rounds {
		working.Go(func() {
			owner := fmt.Sprintf("%s:%d", ownerB, w)
			for {
				select {
				case <-stop:
					return
				default:
				}
				c := claimOf(owner, fmt.Sprintf("{migrating}%d", w))
				if _, err := lock.Blocking(store).Acquire(ctx, c); err != nil {
					t.Errorf("acquire: %v", err)
					return
				}
				store.Renew(ctx, []lock.Claim{c, claimOf(ownerA, held)}, func(i int, err error) {
					if err != nil {
						t.Errorf("renew %d: %v", i, err)
					}
				})
				if err := lock.Blocking(store).Release(ctx, c); err != nil {
					t.Errorf("release: %v", err)
					return
				}
				rounds[w].Add(1)
			}
		})
	}
	for range 6 {
		migrate(t, set, held)
		for w := range rounds { // everybody has followed before it moves on
			seen := rounds[w].Load()
			eventually(t, func() error {
				if t.Failed() || rounds[w].Load() > seen+1 {
					return nil
				}
				return errors.New("no traffic")
			})
		}
	}
	close(stop)
	working.Wait()
	wantLock(t, plain, held, map[string]string{ownerA: "1"})
	messages := shardSubscribe(t, plain, "redisson_lock__channel:"+held)
	if err := lock.Blocking(store).Release(ctx, claimOf(ownerA, held)); err != nil {
		t.Fatal(err)
	}
	wantMessage(t, messages, "redisson_lock__channel:"+held, "0")
}

// The slot of a held lock begins to move: everything still works on it, also
// what removes it, and new locks of the slot are already made on the target.
func TestLocksOfASlotThatIsMovingCanBeUsed(t *testing.T) {
	set := redistest.Cluster(t)
	plain := set.Admin(t)
	store := redisstore.New(set.Client(t))
	ctx := t.Context()
	const held, forced, fresh = "{moving}held", "{moving}forced", "{moving}fresh"
	for _, key := range []string{held, forced} {
		if _, err := lock.Blocking(store).Acquire(ctx, claimOf(ownerA, key)); err != nil {
			t.Fatal(err)
		}
	}
	channel := func(key string) string { return "redisson_lock__channel:" + key }
	messages := shardSubscribe(t, plain, channel(held))
	forcedMessages := shardSubscribe(t, plain, channel(forced))
	move := beginMigration(t, set, held)

	if _, err := lock.Blocking(store).Acquire(ctx, claimOf(ownerA, held)); err != nil {
		t.Errorf("a repetition: %v", err)
	}
	if _, err := lock.Blocking(store).Acquire(ctx, claimOf(ownerB, held)); !errors.Is(err, lock.ErrBusy) {
		t.Errorf("a stranger: got %v, want ErrBusy", err)
	}
	store.Renew(ctx, []lock.Claim{claimOf(ownerA, held)}, func(_ int, err error) {
		if err != nil {
			t.Errorf("renew: %v", err)
		}
	})
	if state, err := store.Inspect(ctx, held); err != nil || len(state.Owners) != 1 {
		t.Errorf("inspect: %+v, %v", state, err)
	}
	if err := lock.Blocking(store).Release(ctx, claimOf(ownerA, held)); err != nil {
		t.Errorf("release: %v", err)
	}
	wantMessage(t, messages, channel(held), "0")
	if freed, err := store.ForceRelease(ctx, forced); err != nil || !freed {
		t.Errorf("force release: %v, %v", freed, err)
	}
	wantMessage(t, forcedMessages, channel(forced), "0")

	if _, err := lock.Blocking(store).Acquire(ctx, claimOf(ownerB, fresh)); err != nil {
		t.Errorf("acquire on the target: %v", err)
	}
	store.Renew(ctx, []lock.Claim{claimOf(ownerB, fresh)}, func(_ int, err error) {
		if err != nil {
			t.Errorf("renew on the target: %v", err)
		}
	})
	if err := lock.Blocking(store).Release(ctx, claimOf(ownerB, fresh)); err != nil {
		t.Errorf("release on the target: %v", err)
	}
	move.finish(t)
	for _, key := range []string{held, forced, fresh} {
		wantLock(t, plain, key, nil)
	}
}

// migration is a slot on its way from one master to the next.
type migration struct {
	set      *redistest.ClusterSet
	from, to *redistest.Server
	slot     int64
	targetID string
}

func migrate(t *testing.T, set *redistest.ClusterSet, key string) {
	t.Helper()
	beginMigration(t, set, key).finish(t)
}

func beginMigration(t *testing.T, set *redistest.ClusterSet, key string) *migration {
	t.Helper()
	ctx := t.Context()
	m := &migration{set: set, from: set.OwnerOf(t, key)}
	m.to = set.Masters[(slices.Index(set.Masters, m.from)+1)%len(set.Masters)]
	source, target := m.from.Admin(t), m.to.Admin(t)
	var err error
	m.slot, err = source.ClusterKeySlot(ctx, key).Result()
	mustMigrate(t, err)
	sourceID, err := source.ClusterMyID(ctx).Result()
	mustMigrate(t, err)
	m.targetID, err = target.ClusterMyID(ctx).Result()
	mustMigrate(t, err)
	mustMigrate(t, target.Do(ctx, "CLUSTER", "SETSLOT", m.slot, "IMPORTING", sourceID).Err())
	mustMigrate(t, source.Do(ctx, "CLUSTER", "SETSLOT", m.slot, "MIGRATING", m.targetID).Err())
	return m
}

// finish moves the keys, and then says where the slot is.
func (m *migration) finish(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	source := m.from.Admin(t)
	for {
		keys, err := source.ClusterGetKeysInSlot(ctx, int(m.slot), 10).Result()
		mustMigrate(t, err)
		if len(keys) == 0 {
			break
		}
		for _, key := range keys {
			m.take(t, key)
		}
	}
	// The target first, or both would send clients to each other.
	for _, node := range append([]*redistest.Server{m.to, m.from}, m.set.Masters...) {
		mustMigrate(t, node.Admin(t).Do(ctx, "CLUSTER", "SETSLOT", m.slot, "NODE", m.targetID).Err())
	}
}

// take moves one key.
func (m *migration) take(t *testing.T, key string) {
	t.Helper()
	host, port := splitAddr(t, m.to.Addr())
	mustMigrate(t, m.from.Admin(t).Do(t.Context(), append([]any{"MIGRATE", host, port, key, 0, 5000}, redistest.MigrateAuth()...)...).Err())
}

func mustMigrate(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("migrate: %v", err)
	}
}
