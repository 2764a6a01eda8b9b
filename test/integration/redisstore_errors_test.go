package integration_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/redisstore"
	"github.com/redlatch/redlatch/test/internal/faultproxy"
	"github.com/redlatch/redlatch/test/internal/process"
	"github.com/redlatch/redlatch/test/internal/redistest"
)

func splitAddr(t *testing.T, addr string) (host, port string) {
	t.Helper()
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	return host, port
}

func newClient(t *testing.T, options *redis.Options) *redis.Client {
	t.Helper()
	options.DisableIdentity = true
	rdb := redis.NewClient(options)
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// beforeRedis7 says whether this is Redis 6.2, which has no sharded channels and
// lets scripts write without the replicas of min-replicas-to-write.
func beforeRedis7(t *testing.T, admin redis.UniversalClient) bool {
	t.Helper()
	info, err := admin.Info(t.Context(), "server").Result()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Contains(info, "redis_version:6.")
}

func skipBeforeRedis7(t *testing.T, admin redis.UniversalClient, because string) {
	t.Helper()
	if beforeRedis7(t, admin) {
		t.Skip("Redis 6.2: " + because)
	}
}

// What real servers say, and what it is taken for.
func TestErrorsOfRealServersAreClassified(t *testing.T) {
	server := redistest.Standalone(t)
	admin := server.Admin(t)
	ctx := t.Context()
	set := func(t *testing.T, name, value string) {
		t.Helper()
		if err := admin.ConfigSet(ctx, name, value).Err(); err != nil {
			t.Fatal(err)
		}
	}
	fails := func(t *testing.T, rdb redis.UniversalClient, want lock.Outcome) {
		t.Helper()
		store := redisstore.New(rdb)
		c := claimOf(ownerA, "k")
		_, err := lock.Blocking(store).Acquire(ctx, c)
		wantOutcome(t, "acquire", err, want)
		t.Log(err)
		wantOutcome(t, "release", lock.Blocking(store).Release(ctx, c), want)
		store.Renew(ctx, []lock.Claim{c}, func(_ int, err error) { wantOutcome(t, "renew", err, want) })
	}

	t.Run("WRONGTYPE", func(t *testing.T) {
		admin.Set(ctx, "k", "a text", 0)
		defer admin.Del(ctx, "k")
		store := redisstore.New(server.Client(t))
		c := claimOf(ownerA, "k")
		_, err := lock.Blocking(store).Acquire(ctx, c)
		if !errors.Is(err, lock.ErrInvalid) {
			t.Errorf("acquire: got %v, want ErrInvalid", err)
		}
		if err := lock.Blocking(store).Release(ctx, c); !errors.Is(err, lock.ErrNotHeld) {
			t.Errorf("release: got %v, want ErrNotHeld", err)
		}
		store.Renew(ctx, []lock.Claim{c}, func(_ int, err error) {
			if !errors.Is(err, lock.ErrNotHeld) {
				t.Errorf("renew: got %v, want ErrNotHeld", err)
			}
		})
		_, err = store.Inspect(ctx, "k")
		wantOutcome(t, "inspect", err, lock.OutcomeRefused)
		_, err = store.ForceRelease(ctx, "k")
		wantOutcome(t, "force release", err, lock.OutcomeRefused)
		if admin.Get(ctx, "k").Val() != "a text" {
			t.Error("the text is gone")
		}
	})
	t.Run("NOREPLICAS", func(t *testing.T) {
		skipBeforeRedis7(t, admin, "scripts write whatever min-replicas-to-write says")
		set(t, "min-replicas-to-write", "3")
		defer set(t, "min-replicas-to-write", "0")
		_, err := lock.Blocking(redisstore.New(server.Client(t))).Acquire(ctx, claimOf(ownerA, "k"))
		wantOutcome(t, "acquire", err, lock.OutcomeNotExecuted)
		wantLock(t, admin, "k", nil)
	})
	t.Run("BUSY", func(t *testing.T) {
		set(t, "lua-time-limit", "50") // the name before Redis 7, still understood
		endless := make(chan error, 1)
		spinner := newClient(t, &redis.Options{Addr: server.Addr(), ReadTimeout: patience, MaxRetries: -1})
		go func() { endless <- spinner.Eval(ctx, "while true do end", nil).Err() }()
		eventually(t, func() error {
			if err := admin.Ping(ctx).Err(); !redis.HasErrorPrefix(err, "BUSY") {
				return errors.New("not busy yet")
			}
			return nil
		})
		fails(t, server.Client(t), lock.OutcomeNotExecuted)
		admin.ScriptKill(ctx)
		if err := <-endless; err == nil {
			t.Error("the endless script ended")
		}
	})
	t.Run("READONLY and MASTERDOWN", func(t *testing.T) {
		host, port := splitAddr(t, server.Addr())
		replica := redistest.Standalone(t, "--replicaof", host, port)
		rdb := replica.Admin(t)
		eventually(t, func() error { return linked(rdb) })
		_, err := lock.Blocking(redisstore.New(replica.Client(t))).Acquire(ctx, claimOf(ownerA, "k"))
		wantOutcome(t, "acquire", err, lock.OutcomeNotExecuted)

		rdb.ConfigSet(ctx, "replica-serve-stale-data", "no")
		rdb.Do(ctx, "REPLICAOF", "127.0.0.1", process.Port(t))
		fails(t, replica.Client(t), lock.OutcomeNotExecuted)
	})
	t.Run("NOPERM", func(t *testing.T) {
		admin.Do(ctx, "ACL", "SETUSER", "poor", "on", ">secret", "~other:*", "&*", "+@all")
		fails(t, newClient(t, &redis.Options{Addr: server.Addr(), Username: "poor", Password: "secret"}), lock.OutcomeRefused)
		admin.Do(ctx, "ACL", "SETUSER", "mute", "on", ">secret", "~*", "&*", "+@all", "-evalsha", "-eval")
		fails(t, newClient(t, &redis.Options{Addr: server.Addr(), Username: "mute", Password: "secret"}), lock.OutcomeRefused)
	})
	t.Run("WRONGPASS", func(t *testing.T) {
		fails(t, newClient(t, &redis.Options{Addr: server.Addr(), Username: "poor", Password: "wrong"}), lock.OutcomeRefused)
	})
	t.Run("NOAUTH", func(t *testing.T) {
		locked := redistest.Standalone(t, "--requirepass", "secret")
		fails(t, newClient(t, &redis.Options{Addr: locked.Addr()}), lock.OutcomeRefused)
	})
	t.Run("no such database", func(t *testing.T) {
		fails(t, newClient(t, &redis.Options{Addr: server.Addr(), DB: 999}), lock.OutcomeRefused)
	})
	t.Run("MISCONF", func(t *testing.T) {
		proxy, rdb := throughProxy(t, server)
		proxy.AnswerWhen(faultproxy.Contains("evalsha"), -1, "-MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.")
		fails(t, rdb, lock.OutcomeRefused)
	})
	t.Run("LOADING", func(t *testing.T) {
		proxy, rdb := throughProxy(t, server)
		proxy.AnswerWhen(faultproxy.Contains("evalsha"), -1, "-LOADING Redis is loading the dataset in memory")
		fails(t, rdb, lock.OutcomeNotExecuted)
	})
	t.Run("CLUSTERDOWN", func(t *testing.T) {
		lonely := redistest.Standalone(t, "--cluster-enabled", "yes") // it serves no slot
		fails(t, lonely.Client(t), lock.OutcomeNotExecuted)
	})
	t.Run("max number of clients", func(t *testing.T) {
		full := redistest.Standalone(t, "--maxclients", "1")
		if err := full.Client(t).Ping(ctx).Err(); err != nil {
			t.Fatal(err)
		}
		// The server hangs up after its words, which the client may miss.
		_, err := lock.Blocking(redisstore.New(full.Client(t))).Acquire(ctx, claimOf(ownerA, "k"))
		var failed *lock.StoreError
		if !errors.As(err, &failed) || failed.Outcome == lock.OutcomeRefused {
			t.Errorf("got %v, want a failure that may pass", err)
		}
	})
	t.Run("pool timeout", func(t *testing.T) {
		small := newClient(t, &redis.Options{Addr: server.Addr(), PoolSize: 1, PipelinePoolSize: -1, PoolTimeout: 50 * time.Millisecond})
		conn := small.Conn()
		defer func() { _ = conn.Close() }()
		if err := conn.Ping(ctx).Err(); err != nil { // takes the only connection
			t.Fatal(err)
		}
		_, err := lock.Blocking(redisstore.New(small)).Acquire(ctx, claimOf(ownerA, "k"))
		wantOutcome(t, "acquire", err, lock.OutcomeNotExecuted)
	})
	t.Run("nobody listens", func(t *testing.T) {
		nowhere := newClient(t, &redis.Options{Addr: process.LoopbackAddr(process.Port(t)), DialerRetries: 1})
		fails(t, nowhere, lock.OutcomeNotExecuted)
	})
	t.Run("no sentinel listens", func(t *testing.T) {
		rdb := redis.NewFailoverClient(&redis.FailoverOptions{
			MasterName: "m", SentinelAddrs: []string{process.LoopbackAddr(process.Port(t))}, DialerRetries: 1, MaxRetries: -1,
		})
		t.Cleanup(func() { _ = rdb.Close() })
		_, err := lock.Blocking(redisstore.New(rdb)).Acquire(ctx, claimOf(ownerA, "k"))
		wantOutcome(t, "acquire", err, lock.OutcomeNotExecuted)
	})
	t.Run("closed client", func(t *testing.T) {
		rdb := server.Client(t)
		_ = rdb.Close()
		fails(t, rdb, lock.OutcomeRefused)
	})
	t.Run("timeout", func(t *testing.T) {
		proxy := faultproxy.New(t, server.Addr())
		rdb := newClient(t, &redis.Options{Addr: proxy.Addr(), ReadTimeout: 200 * time.Millisecond})
		if err := rdb.Ping(ctx).Err(); err != nil {
			t.Fatal(err)
		}
		proxy.HoldDown()
		defer proxy.CutAll()
		_, err := lock.Blocking(redisstore.New(rdb)).Acquire(ctx, claimOf(ownerA, "k"))
		wantOutcome(t, "acquire", err, lock.OutcomeUnknown)
	})
	t.Run("cut before the server saw it", func(t *testing.T) {
		proxy, rdb := throughProxy(t, server)
		proxy.CutRequestWhen(faultproxy.Contains("evalsha"), 1)
		_, err := lock.Blocking(redisstore.New(rdb)).Acquire(ctx, claimOf(ownerA, "uncut"))
		wantOutcome(t, "acquire", err, lock.OutcomeUnknown)
		if !errors.Is(err, io.EOF) && !isNetwork(err) {
			t.Errorf("got %v, want the cause", err)
		}
		wantLock(t, admin, "uncut", nil)
	})
	t.Run("MOVED, as no cluster client is used", func(t *testing.T) {
		cluster := redistest.Cluster(t)
		owner := cluster.OwnerOf(t, "k")
		for _, node := range cluster.Masters {
			if node != owner {
				fails(t, node.Client(t), lock.OutcomeNotExecuted)
				break
			}
		}
	})
}

func isNetwork(err error) bool {
	var network net.Error
	return errors.As(err, &network)
}

func linked(replica *redis.Client) error {
	role, err := replica.Do(context.Background(), "ROLE").Slice()
	if err == nil && (len(role) < 4 || role[3] != "connected") {
		err = errors.New("the replica is not connected")
	}
	return err
}

// Redisson takes any leaseTime that Redis does.
func TestALockForAThousandYearsIsBusyWithoutEnd(t *testing.T) {
	b := newBench(t)
	ctx := t.Context()
	for _, tt := range []struct {
		name string
		ms   int64
	}{
		{"more than fits a duration", 1 << 50},
		{"as much as a semaphore says of its size", 1 << 54},
	} {
		b.rdb.HSet(ctx, "k", "of Java:1", 1)
		if err := b.rdb.Do(ctx, "PEXPIRE", "k", tt.ms).Err(); err != nil {
			t.Fatal(err)
		}
		for _, mode := range []lock.Mode{lock.Exclusive, lock.Fair, lock.Read, lock.Write} {
			c := claimIn(mode, ownerA, "k")
			c.Places = nil
			b.busy(c, -1, -1)
		}
		if state, err := b.store.Inspect(ctx, "k"); err != nil || !state.Held || state.TTL != -1 {
			t.Errorf("%s: inspect: %+v, %v, want held without end", tt.name, state, err)
		}
	}
}
