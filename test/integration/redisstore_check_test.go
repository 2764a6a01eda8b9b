package integration_test

import (
	"bytes"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/redisstore"
	"github.com/redlatch/redlatch/test/internal/process"
	"github.com/redlatch/redlatch/test/internal/redistest"
)

// logged checks a store and returns what it said.
func logged(t *testing.T, rdb redis.UniversalClient) (log string, err error) {
	t.Helper()
	var out lines
	store := redisstore.New(rdb, redisstore.WithLogger(slog.New(slog.NewTextHandler(&out, nil))))
	err = store.Check(t.Context())
	return out.String(), err
}

// lines may be written to from several goroutines.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func TestCheckSaysWhatIsWrongAndWhere(t *testing.T) {
	nowhere := process.LoopbackAddr(process.Port(t))
	const password = "hunter2"
	failover := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "mymaster", SentinelAddrs: []string{nowhere}, Password: password, DialerRetries: 1, MaxRetries: -1})
	t.Cleanup(func() { _ = failover.Close() })
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{nowhere}, Password: password})
	t.Cleanup(func() { _ = cluster.Close() })
	tests := map[string]redis.UniversalClient{
		"standalone": newClient(t, &redis.Options{Addr: nowhere, Password: password}),
		"sentinel":   failover,
		"cluster":    cluster,
	}
	for name, rdb := range tests {
		_, err := logged(t, rdb)
		if !errors.Is(err, lock.ErrUnavailable) || !strings.Contains(err.Error(), nowhere) {
			t.Errorf("%s: got %v, want ErrUnavailable with the address %s", name, err, nowhere)
		}
		if err != nil && strings.Contains(err.Error(), password) {
			t.Errorf("%s: the error shows the password: %v", name, err)
		}
	}
}

func TestCheckWarnsOfEviction(t *testing.T) {
	server := redistest.Standalone(t)
	admin := server.Admin(t)
	if log, err := logged(t, server.Client(t)); err != nil || log != "" {
		t.Errorf("a good server: %v\n%s", err, log)
	}
	admin.ConfigSet(t.Context(), "maxmemory-policy", "volatile-ttl")
	log, err := logged(t, server.Client(t))
	if err != nil || strings.Count(log, "level=WARN") != 1 ||
		!strings.Contains(log, "volatile-ttl") || !strings.Contains(log, server.Addr()) {
		t.Errorf("a server that evicts: %v\n%s", err, log)
	}

	admin.Do(t.Context(), "ACL", "SETUSER", "blind", "on", ">secret", "~*", "&*", "+@all", "-info")
	blind := newClient(t, &redis.Options{Addr: server.Addr(), Username: "blind", Password: "secret"})
	if log, err := logged(t, blind); err != nil || log != "" {
		t.Errorf("without permission for INFO: %v\n%s", err, log)
	}
}

func TestCheckLooksAtEveryMasterOfACluster(t *testing.T) {
	set := redistest.Cluster(t, "--cluster-node-timeout", "60000")
	rdb := set.Client(t)
	if log, err := logged(t, rdb); err != nil || log != "" {
		t.Errorf("a good cluster: %v\n%s", err, log)
	}
	for _, node := range set.Masters[1:] {
		node.Admin(t).ConfigSet(t.Context(), "maxmemory-policy", "allkeys-lru")
	}
	log, err := logged(t, rdb)
	if err != nil || strings.Count(log, "level=WARN") != 2 {
		t.Errorf("two masters evict: %v\n%s", err, log)
	}
	set.Masters[2].Kill()
	if _, err := logged(t, rdb); !errors.Is(err, lock.ErrUnavailable) || !strings.Contains(err.Error(), set.Masters[2].Addr()) {
		t.Errorf("got %v, want ErrUnavailable with the address %s", err, set.Masters[2].Addr())
	}
}

// The permissions that docs/wire.md asks for are enough.
func TestAMinimalACLIsEnough(t *testing.T) {
	commands := []any{
		"ACL", "SETUSER", "locker", "on", ">secret", "resetkeys", "~lock:*", "~{lock:*", "~redisson_lock_queue:{lock:*", "~redisson_lock_timeout:{lock:*",
		"resetchannels", "&redisson_lock__channel:{lock:*", "&redisson_rwlock:{lock:*", "&redisson_sc:{lock:*",
		"&redisson_countdownlatch__channel__{lock:*", "-@all",
		"+eval", "+evalsha", "+time", "+type", "+exists", "+del", "+pexpire", "+pttl",
		"+hexists", "+hget", "+hmget", "+hgetall", "+hlen", "+hset", "+hdel", "+hrandfield",
		"+llen", "+lindex", "+lrange", "+lpop", "+rpush", "+lrem", "+get", "+set", "+incrby", "+decrby", "+decr",
		"+zadd", "+zrem", "+zscore", "+zcard", "+zrange", "+zrangebyscore", "+zremrangebyscore",
		"+publish", "+subscribe", "+unsubscribe", "+ping",
	}
	t.Run("standalone", func(t *testing.T) {
		server := redistest.Standalone(t)
		admin := server.Admin(t)
		if err := admin.Do(t.Context(), commands...).Err(); err != nil {
			t.Fatal(err)
		}
		doEverything(t, newClient(t, &redis.Options{Addr: server.Addr(), Username: "locker", Password: "secret"}))
		wantDenied(t, admin, "info") // Check does without
	})
	t.Run("cluster", func(t *testing.T) {
		set := redistest.Cluster(t)
		commands := append(commands[:len(commands):len(commands)],
			"+info", "+cluster|slots", "+cluster|shards", "+asking", "+readonly", "+command",
			"+pubsub|shardnumsub", "+spublish", "+ssubscribe", "+sunsubscribe")
		for _, node := range set.Nodes() {
			if err := node.Admin(t).Do(t.Context(), commands...).Err(); err != nil {
				t.Fatal(err)
			}
		}
		rdb := redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: set.Addrs(), Username: "locker", Password: "secret", DisableIdentity: true,
		})
		t.Cleanup(func() { _ = rdb.Close() })
		doEverything(t, rdb)
		for _, node := range set.Nodes() {
			wantDenied(t, node.Admin(t))
		}
	})
}

// doEverything uses all scripts and channels.
func doEverything(t *testing.T, rdb redis.UniversalClient) {
	t.Helper()
	store := redisstore.New(rdb)
	ctx := t.Context()
	if err := store.Check(ctx); err != nil {
		t.Errorf("check: %v", err)
	}
	for _, mode := range everyMode {
		const key = "lock:k"
		hints := make(chan struct{}, 100)
		stop, err := store.Watch(ctx, claimIn(mode, ownerA, key, 1), func() { hints <- struct{}{} })
		if err != nil {
			t.Errorf("%s: watch: %v", mode, err)
			continue
		}
		for holds := 1; holds <= 2; holds++ {
			if _, err := store.Acquire(ctx, claimIn(mode, ownerA, key, holds)); err != nil {
				t.Errorf("%s: acquire: %v", mode, err)
			}
		}
		_, err = store.Acquire(ctx, claimIn(mode, ownerB, key, 1))
		if refused := err != nil; refused && !errors.Is(err, lock.ErrBusy) {
			t.Errorf("%s: acquire for another: %v", mode, err)
		}
		store.Renew(ctx, []lock.Claim{claimIn(mode, ownerA, key, 2)}, func(_ int, err error) {
			if err != nil {
				t.Errorf("%s: renew: %v", mode, err)
			}
		})
		if state, err := store.Inspect(ctx, key); err != nil || !state.Held {
			t.Errorf("%s: inspect: %+v, %v", mode, state, err)
		}
		if err := store.Release(ctx, claimIn(mode, ownerB, key, 0)); err != nil && !errors.Is(err, lock.ErrNotHeld) {
			t.Errorf("%s: release for another: %v", mode, err)
		}
		for remain := 1; remain >= 0; remain-- {
			if err := store.Release(ctx, claimIn(mode, ownerA, key, remain)); err != nil {
				t.Errorf("%s: release: %v", mode, err)
			}
		}
		if mode != lock.Fair { // nobody is in the queue any more
			wantHint(t, hints, "by the release in mode "+mode.String())
		}
		stop()
		_, _ = store.Acquire(ctx, claimIn(mode, ownerA, key, 1))
		if freed, err := store.ForceRelease(ctx, key); err != nil || !freed {
			t.Errorf("%s: force release: %v, %v", mode, freed, err)
		}
	}
	latch := redisstore.NewLatch(store, "lock:latch")
	opened := make(chan error, 1)
	err := latch.TrySet(ctx, 3)
	go func() { opened <- latch.Await(ctx) }()
	for range 2 {
		err = errors.Join(err, latch.CountDown(ctx))
	}
	_, counted := latch.Count(ctx)
	if err = errors.Join(err, counted, latch.Delete(ctx), <-opened); err != nil {
		t.Errorf("latch: %v", err)
	}
	// A dead reader is in a writer's way until somebody looks.
	dead := claimIn(lock.Read, ownerA, "lock:dead", 1)
	_, _ = store.Acquire(ctx, dead)
	dead.Owner, dead.TTL = ownerB, time.Millisecond
	_, _ = store.Acquire(ctx, dead)
	_, _ = store.Acquire(ctx, claimIn(lock.Write, ownerB, "lock:dead", 1))
	_, _ = store.ForceRelease(ctx, "lock:dead")
}

// wantDenied compares what the server has refused by its ACL.
func wantDenied(t *testing.T, admin *redis.Client, want ...string) {
	t.Helper()
	log, err := admin.ACLLog(t.Context(), 10).Result()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, entry := range log {
		got = append(got, entry.Object)
	}
	if !slices.Equal(got, want) {
		t.Errorf("denied %q, want %q", got, want)
	}
}
