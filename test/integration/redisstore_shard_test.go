package integration_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/redisstore"
	"github.com/redlatch/redlatch/test/internal/redistest"
)

// shardSubscribe listens like Redisson in a cluster does.
func shardSubscribe(t *testing.T, rdb *redis.ClusterClient, channel string) <-chan *redis.Message {
	t.Helper()
	if beforeRedis7(t, rdb) {
		return subscribe(t, rdb, channel)
	}
	pubsub := rdb.SSubscribe(t.Context(), channel)
	t.Cleanup(func() { _ = pubsub.Close() })
	if _, err := pubsub.Receive(t.Context()); err != nil { // the acknowledgement
		t.Fatal(err)
	}
	return pubsub.Channel()
}

func TestReleasesInAClusterArePublishedAsSet(t *testing.T) {
	set := redistest.Cluster(t)
	plain := set.Admin(t)
	skipBeforeRedis7(t, plain, "no sharded channels")
	tests := []struct {
		name           string
		publish        redisstore.Publishing
		sharded, plain bool
	}{
		{"auto", redisstore.Auto, true, false},
		{"sharded", redisstore.Sharded, true, false},
		{"plain", redisstore.Plain, false, true},
		{"both", redisstore.Both, true, true},
	}
	for _, tt := range tests {
		for _, mode := range everyMode {
			key := "{" + tt.name + "}" + mode.String()
			channel := map[lock.Mode]string{
				lock.Exclusive: "redisson_lock__channel:" + key,
				lock.Fair:      "redisson_lock__channel:" + key + ":" + claimOf(ownerB, key).Locker(),
				lock.Read:      "redisson_rwlock:" + key,
				lock.Write:     "redisson_rwlock:" + key,
				lock.Semaphore: "redisson_sc:" + key,
			}[mode]
			sharded, common := shardSubscribe(t, plain, channel), subscribe(t, plain, channel)
			store := redisstore.New(set.Client(t), redisstore.WithPublish(tt.publish))
			release := func() {
				t.Helper()
				if _, err := lock.Blocking(store).Acquire(t.Context(), claimIn(mode, ownerA, key)); err != nil {
					t.Fatal(err)
				}
				_, _ = lock.Blocking(store).Acquire(t.Context(), claimIn(mode, ownerB, key)) // queues, where there is a queue
				if err := lock.Blocking(store).Release(t.Context(), claimIn(mode, ownerA, key)); err != nil {
					t.Fatal(err)
				}
				_ = lock.Blocking(store).Release(t.Context(), claimIn(mode, ownerB, key))
			}
			release()
			release()
			for plane, p := range map[string]struct {
				messages <-chan *redis.Message
				want     bool
			}{"sharded": {sharded, tt.sharded}, "common": {common, tt.plain}} {
				// A message of the other plane has arrived, so would this one
				// have: they come from the same script.
				if p.want {
					select {
					case <-p.messages:
					case <-time.After(patience):
						t.Errorf("%s, %s: nothing on the %s plane", tt.name, mode, plane)
					}
				}
			}
			if n := len(sharded); !tt.sharded && n > 0 {
				t.Errorf("%s, %s: %d messages on the sharded plane", tt.name, mode, n)
			}
			if n := len(common); !tt.plain && n > 0 {
				t.Errorf("%s, %s: %d messages on the common plane", tt.name, mode, n)
			}
		}
	}
}

// Behind a Sentinel, a client that may read replicas is one of a cluster to go-redis,
// and others of the same master are not: they wake each other.
func TestAClientThatReadsReplicasWakesOneThatDoesNot(t *testing.T) {
	server := redistest.Standalone(t)
	server.Permit(t, "+command", "+ssubscribe", "+sunsubscribe", "+spublish")
	clients := map[string]redis.UniversalClient{"reads replicas": toldClient(t, server.Addr()), "does not": server.Client(t)}
	for _, mode := range everyMode {
		for publishes, by := range clients {
			for hears, to := range clients {
				key := t.Name() + mode.String() + publishes + hears
				hints := new(atomic.Int32)
				stop, err := redisstore.New(to).Watch(t.Context(), claimIn(mode, ownerB, key), func() { hints.Add(1) })
				if err != nil {
					t.Fatal(err)
				}
				store := redisstore.New(by)
				for range 2 { // a server that refuses a command is known after the first
					before := hints.Load()
					if _, err := lock.Blocking(store).Acquire(t.Context(), claimIn(mode, ownerA, key)); err != nil {
						t.Fatal(err)
					}
					_, _ = lock.Blocking(store).Acquire(t.Context(), claimIn(mode, ownerB, key)) // queues, where there is a queue
					if err := lock.Blocking(store).Release(t.Context(), claimIn(mode, ownerA, key)); err != nil {
						t.Fatal(err)
					}
					if mode == lock.Read { // they had it both
						_ = lock.Blocking(store).Release(t.Context(), claimIn(mode, ownerB, key))
					}
					eventually(t, func() error {
						if hints.Load() == before {
							return fmt.Errorf("%s: the client that %s didn't wake the one that %s", mode, publishes, hears)
						}
						return nil
					})
					_ = lock.Blocking(store).Release(t.Context(), claimIn(mode, ownerB, key))
				}
				stop()
			}
		}
	}
}

// toldClient is one of a cluster that has all slots at one address.
func toldClient(t *testing.T, addr string) redis.UniversalClient {
	t.Helper()
	told := redis.NewClusterClient(&redis.ClusterOptions{
		RouteRandomly: true, DisableIdentity: true,
		ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
			return []redis.ClusterSlot{{End: 16383, Nodes: []redis.ClusterNode{{Addr: addr}}}}, nil
		},
	})
	t.Cleanup(func() { _ = told.Close() })
	return told
}

// Whatever the others publish with, it is heard.
func TestBothPlanesOfAClusterWake(t *testing.T) {
	set := redistest.Cluster(t)
	plain := set.Admin(t)
	skipBeforeRedis7(t, plain, "no sharded channels")
	store := redisstore.New(set.Client(t))
	for _, key := range []string{"a", "b", "c", "d", "e", "f"} { // on all masters
		hints, stop := watch(t, store, key)
		channel := "redisson_lock__channel:{" + key + "}"
		if err := plain.SPublish(t.Context(), channel, "0").Err(); err != nil {
			t.Fatal(err)
		}
		wantHint(t, hints, "by SPUBLISH for "+key)
		if err := plain.Publish(t.Context(), channel, "0").Err(); err != nil {
			t.Fatal(err)
		}
		wantHint(t, hints, "by PUBLISH for "+key)
		stop()
	}
	eventually(t, func() error { return silent(t, set) })
}

// silent says whether nobody listens on the sharded plane.
func silent(t *testing.T, set *redistest.ClusterSet) error {
	t.Helper()
	for _, node := range set.Masters {
		channels, err := node.Admin(t).PubSubShardChannels(t.Context(), "*").Result()
		if err != nil {
			return err
		}
		if len(channels) > 0 {
			return errors.New("somebody still listens")
		}
	}
	return nil
}

// publishes sends messages on the sharded plane until one arrives.
func publishes(t *testing.T, set *redistest.ClusterSet, channel string, hints <-chan struct{}) {
	t.Helper()
	plain := set.Admin(t)
	eventually(t, func() error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if n, err := plain.SPublish(ctx, channel, "0").Result(); err != nil || n == 0 {
			return errors.New("nobody hears")
		}
		select {
		case <-hints:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
}

func drain(hints <-chan struct{}) {
	for len(hints) > 0 {
		<-hints
	}
}

// The server ends the subscriptions of a slot that moves away.
func TestAWatchFollowsItsSlot(t *testing.T) {
	set := redistest.Cluster(t)
	skipBeforeRedis7(t, set.Admin(t), "no sharded channels")
	store := redisstore.New(set.Client(t))
	const key, channel = "{moves}k", "redisson_lock__channel:{moves}k"
	hints, stop := watch(t, store, key)
	defer stop()
	for range 4 {
		before := set.OwnerOf(t, key)
		drain(hints)
		migrate(t, set, key)
		if set.OwnerOf(t, key) == before {
			t.Fatal("the slot has not moved")
		}
		wantHint(t, hints, "by the new subscription")
		drain(hints)
		publishes(t, set, channel, hints)
	}
}

func TestAWatchSurvivesTheLossOfItsConnections(t *testing.T) {
	set := redistest.Cluster(t)
	store := redisstore.New(set.Client(t))
	keys := []string{"a", "b", "c", "d"}
	all := make([]chan struct{}, len(keys))
	for i, key := range keys {
		hints, stop := watch(t, store, key)
		defer stop()
		all[i] = hints
	}
	for range 3 {
		for i := range keys {
			drain(all[i])
		}
		for _, node := range set.Nodes() {
			_ = node.Admin(t).ClientKillByFilter(t.Context(), "TYPE", "pubsub").Err()
		}
		for i, key := range keys {
			wantHint(t, all[i], "after the loss, for "+key)
			publishes(t, set, "redisson_lock__channel:{"+key+"}", all[i])
		}
	}
}

func TestAWatchFollowsAFailover(t *testing.T) {
	set := redistest.Cluster(t, "--cluster-node-timeout", "1000")
	store := redisstore.New(set.Client(t))
	hints, stop := watch(t, store, "k")
	defer stop()
	set.Failover(t, "k")
	publishes(t, set, "redisson_lock__channel:{k}", hints)
}

// Where a part of the sharded plane is not permitted, the common one is used.
func TestWhereShardedChannelsAreNotPermittedTheCommonOnesAreUsed(t *testing.T) {
	set := redistest.Cluster(t)
	skipBeforeRedis7(t, set.Admin(t), "no sharded channels")
	for user, denied := range map[string][]any{
		"quiet": {"-spublish"}, "deaf": {"-ssubscribe"}, "neither": {"-spublish", "-ssubscribe"},
	} {
		for _, node := range set.Nodes() {
			rules := append([]any{"ACL", "SETUSER", user, "on", ">secret", "~*", "&*", "+@all"}, denied...)
			if err := node.Admin(t).Do(t.Context(), rules...).Err(); err != nil {
				t.Fatal(err)
			}
		}
		rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: set.Addrs(), Username: user, Password: "secret"})
		t.Cleanup(func() { _ = rdb.Close() })
		wantCommonPlane(t, set, rdb, user, map[string]int{"quiet": 0, "deaf": 1, "neither": 1}[user])
	}
}

// A server before Redis 7 does not know the commands.
func TestWhereThereAreNoShardedChannelsTheCommonOnesAreUsed(t *testing.T) {
	set := redistest.Cluster(t)
	if !beforeRedis7(t, set.Admin(t)) {
		set = redistest.Cluster(t, "--rename-command", "SPUBLISH", "", "--rename-command", "SSUBSCRIBE", "")
	}
	wantCommonPlane(t, set, set.Client(t), "old", 0)
}

// wantCommonPlane wants a message to and from a store, and so many warnings.
func wantCommonPlane(t *testing.T, set *redistest.ClusterSet, rdb *redis.ClusterClient, name string, warnings int) {
	t.Helper()
	plain := set.Admin(t)
	var log bytes.Buffer
	store := redisstore.New(rdb, redisstore.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	hints, stop := watch(t, store, "k")
	if err := plain.Publish(t.Context(), "redisson_lock__channel:{k}", "0").Err(); err != nil {
		t.Fatal(err)
	}
	wantHint(t, hints, "by PUBLISH")
	messages := subscribe(t, plain, "redisson_lock__channel:{k}")
	_, _ = lock.Blocking(store).Acquire(t.Context(), claimOf(ownerA, "k"))
	if err := lock.Blocking(store).Release(t.Context(), claimOf(ownerA, "k")); err != nil {
		t.Fatal(err)
	}
	wantMessage(t, messages, "redisson_lock__channel:{k}", "0")
	stop()
	if warned := strings.Count(log.String(), "level=WARN"); warned != warnings {
		t.Errorf("%s: %d warnings: %s", name, warned, log.String())
	}
}
