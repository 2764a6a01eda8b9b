package integration_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/quorum"
	"github.com/redlatch/redlatch/core/redisstore"
	"github.com/redlatch/redlatch/core/storetest"
	"github.com/redlatch/redlatch/test/internal/redistest"
)

const (
	lockUser, lockSecret = "locks", "SECRET" // as the document has it
	lockPrefix           = "lk:"
)

// aclRules reads the rules that the document shows, so that what is tested is
// what users read.
func aclRules(t *testing.T, blocks ...string) (rules []any) {
	t.Helper()
	documented, err := redistest.ReadACL("../../docs/security.md", blocks...)
	if err != nil {
		t.Fatal(err)
	}
	for _, rule := range documented {
		rules = append(rules, rule)
	}
	return rules
}

// admit gives the user of the locks to some servers. In the end they must have
// refused it nothing.
func admit(t *testing.T, servers []*redistest.Server, rules []any) {
	t.Helper()
	for _, server := range servers {
		admin := server.Admin(t)
		if err := admin.Do(t.Context(), append([]any{"ACL", "SETUSER", lockUser}, rules...)...).Err(); err != nil {
			t.Fatalf("the rules: %v", err)
		}
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			refused, err := server.Admin(t).Do(ctx, "ACL", "LOG").Result()
			if err != nil {
				t.Errorf("ACL LOG of %s: %v", server.Addr(), err)
			}
			entries, ok := refused.([]any)
			entries = slices.DeleteFunc(entries, redistest.MayBeRefused)
			if !ok || len(entries) > 0 {
				t.Errorf("%s refused: %v", server.Addr(), refused)
			}
		})
	}
}

func asLockUser(t *testing.T, server *redistest.Server) *redis.Client {
	t.Helper()
	return newClient(t, &redis.Options{Addr: server.Addr(), Username: lockUser, Password: lockSecret})
}

// The whole contract of the store, the engine on top of it, and what is
// around it: under the user that the document describes, without one refusal.
func TestTheKitNeedsNoMoreThanItsACL(t *testing.T) {
	t.Run("standalone", func(t *testing.T) {
		t.Parallel()
		server := redistest.Standalone(t)
		admit(t, []*redistest.Server{server}, aclRules(t, "acl", "acl-names", "acl-operators"))
		underACL(t, asLockUser(t, server))
		older := newClient(t, &redis.Options{Addr: server.Addr(), Username: lockUser, Password: lockSecret, Protocol: 2})
		lockedOnce(t, lock.New(redisstore.New(older, redisstore.WithKeyPrefix(lockPrefix))), "resp2")
	})
	t.Run("sentinel", func(t *testing.T) {
		t.Parallel()
		set := redistest.Sentinel(t)
		admit(t, append([]*redistest.Server{set.Master}, set.Replicas...), aclRules(t, "acl", "acl-options", "acl-names", "acl-operators"))
		admit(t, set.Sentinels, aclRules(t, "acl-sentinel"))
		rdb := redis.NewFailoverClient(&redis.FailoverOptions{
			MasterName: set.Name, SentinelAddrs: set.Addrs(), DisableIdentity: true,
			Username: lockUser, Password: lockSecret, SentinelUsername: lockUser, SentinelPassword: lockSecret,
		})
		t.Cleanup(func() { _ = rdb.Close() })
		underACL(t, rdb)
		lockedOnce(t, lock.New(redisstore.New(rdb, redisstore.WithKeyPrefix(lockPrefix), redisstore.WithReplicas(1, time.Second))), "replicas")
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		set := redistest.Cluster(t)
		admit(t, set.Nodes(), aclRules(t, "acl", "acl-cluster", "acl-names", "acl-operators"))
		rdb := redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: set.Addrs(), DisableIdentity: true, Username: lockUser, Password: lockSecret,
		})
		t.Cleanup(func() { _ = rdb.Close() })
		underACL(t, rdb)
	})
	t.Run("quorum", func(t *testing.T) {
		t.Parallel()
		servers := redistest.Independent(t, 3)
		admit(t, servers, aclRules(t, "acl"))
		var nodes []lock.Store
		for _, server := range servers {
			nodes = append(nodes, redisstore.New(asLockUser(t, server), redisstore.WithKeyPrefix(lockPrefix)))
		}
		store, err := quorum.New(nodes...)
		if err != nil {
			t.Fatal(err)
		}
		lockedOnce(t, lock.New(store), "quorum")
	})
}

func underACL(t *testing.T, rdb redis.UniversalClient) {
	t.Helper()
	store := redisstore.New(rdb, redisstore.WithKeyPrefix(lockPrefix))
	if err := store.Check(t.Context(), allModes...); err != nil {
		t.Fatal(err)
	}
	storetest.Run(t, func(*testing.T) lock.Store { return store }, storetest.Require(everyMode...))
	t.Run("hash tags", func(t *testing.T) {
		for _, opt := range []lock.Option{
			lock.WithMode(lock.Exclusive), lock.WithMode(lock.Fair), lock.WithMode(lock.Read), lock.WithMode(lock.Write), lock.WithPermits(1, 2),
		} {
			lockedOnce(t, lock.New(store), "{tag:7}:k", opt)
		}
	})
	t.Run("a latch", func(t *testing.T) {
		latch := redisstore.NewLatch(store, "latch")
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		opened := make(chan error, 1)
		if err := latch.TrySet(ctx, 1); err != nil {
			t.Fatal(err)
		}
		go func() { opened <- latch.Await(ctx) }()
		if err := errors.Join(latch.CountDown(ctx), <-opened, latch.TrySet(ctx, 1), latch.Delete(ctx)); err != nil {
			t.Error(err)
		}
	})
	t.Run("tokens of Redisson", func(t *testing.T) {
		lockedOnce(t, lock.New(redisstore.New(rdb, redisstore.WithKeyPrefix(lockPrefix), redisstore.WithRedissonTokens())), "{tokens}")
		lockedOnce(t, lock.New(redisstore.New(rdb, redisstore.WithKeyPrefix(lockPrefix), redisstore.WithRedissonTokens())), "tokens")
	})
}

// lockedOnce takes a lock, lets another locker wait for it, looks at it, and
// frees it.
func lockedOnce(t *testing.T, l *lock.Locker, key string, opts ...lock.Option) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	defer func() {
		if err := l.Close(ctx); err != nil {
			t.Errorf("%s: close: %v", key, err)
		}
	}()
	lease, err := l.Acquire(ctx, key, opts...)
	if err != nil {
		t.Errorf("%s: %v", key, err)
		return
	}
	if _, err := l.Inspect(ctx, key); err != nil && !errors.Is(err, lock.ErrUnsupported) {
		t.Errorf("%s: inspect: %v", key, err)
	}
	if err := errors.Join(lease.Extend(ctx, time.Minute), lease.Release(ctx)); err != nil {
		t.Errorf("%s: %v", key, err)
	}
}

// A locker with an identity works as any other where the ACL knows of no names.
func TestAnIdentityThatTheACLForbidsIsSilent(t *testing.T) {
	server := redistest.Standalone(t)
	admin := server.Admin(t)
	if err := admin.Do(t.Context(), append([]any{"ACL", "SETUSER", lockUser}, aclRules(t, "acl")...)...).Err(); err != nil {
		t.Fatal(err)
	}
	var out lines
	log := redisstore.WithLogger(slog.New(slog.NewTextHandler(&out, nil)))
	store := redisstore.New(asLockUser(t, server), redisstore.WithKeyPrefix(lockPrefix), log)
	me := lock.WithIdentity(lock.Identity{Service: "shop"})
	for i := range 3 {
		lockedOnce(t, lock.New(store, me), fmt.Sprint("k", i))
	}
	holder, operator := lock.New(store, me), lock.New(store, me)
	lease, err := holder.Acquire(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	state, err := operator.Inspect(t.Context(), "k")
	if err != nil || !state.Held || state.Lockers != nil || state.Zombie(state.Owners[0].Owner) {
		t.Errorf("inspected %+v, %v; want a holder without a name", state, err)
	}
	for _, err := range operator.List(t.Context(), "*", 100) {
		if !errors.Is(err, lock.ErrUnavailable) || lock.ClassOf(err) != "NOPERM" {
			t.Errorf("list: %v, want NOPERM", err)
		}
	}
	if freed, err := operator.ForceRelease(t.Context(), "k"); err != nil || !freed {
		t.Errorf("forced: %v, %v", freed, err)
	}
	if err := lease.Release(t.Context()); err != nil && !errors.Is(err, lock.ErrLost) {
		t.Error(err)
	}
	if err := errors.Join(holder.Close(t.Context()), operator.Close(t.Context())); err != nil {
		t.Error(err)
	}
	if out.String() != "" {
		t.Errorf("logged %s", out.String())
	}
}

// What nobody may do in the name of the locks.
func TestTheACLForbidsTheRest(t *testing.T) {
	server := redistest.Standalone(t)
	admin := server.Admin(t)
	ctx := t.Context()
	if err := admin.Do(ctx, append([]any{"ACL", "SETUSER", lockUser}, aclRules(t, "acl")...)...).Err(); err != nil {
		t.Fatal(err)
	}
	admin.Set(ctx, "secret", "of others", 0)
	rdb := asLockUser(t, server)
	for _, command := range [][]any{
		{"GET", "secret"},
		{"SET", "secret", "x"},
		{"DEL", "secret"},
		{"GET", "lkx"},
		{"GET", "redisson_lock_queue:secret"},
		{"EVAL", "return redis.call('get', KEYS[1])", 1, "secret"},
		{"EVAL", "return redis.call('get', 'secret')", 0},
		{"EVAL", "return redis.call('flushall')", 0},
		{"EVAL", "return redis.call('publish', 'news', 'x')", 0},
		{"FLUSHALL"},
		{"FLUSHDB"},
		{"KEYS", "*"},
		{"SCAN", 0},
		{"RANDOMKEY"},
		{"DBSIZE"},
		{"MONITOR"},
		{"CONFIG", "GET", "*"},
		{"CONFIG", "SET", "maxmemory", "1"},
		{"SHUTDOWN", "NOSAVE"},
		{"SCRIPT", "FLUSH"},
		{"SCRIPT", "KILL"},
		{"FUNCTION", "LIST"},
		{"CLIENT", "LIST"},
		{"CLIENT", "KILL", "ID", 1},
		{"ACL", "LIST"},
		{"ACL", "WHOAMI"},
		{"REPLICAOF", "NO", "ONE"},
		{"SLOWLOG", "GET"},
		{"MIGRATE", "h", 1, "lk:a", 0, 1},
		{"PUBLISH", "news", "x"},
		{"PUBLISH", "lk:news", "x"},
		{"SUBSCRIBE", "news"},
		{"PSUBSCRIBE", "*"},
		{"PSUBSCRIBE", "redisson_lock__channel:*"},
		{"PUBSUB", "CHANNELS"},
		{"RENAME", "lk:a", "lk:b"},
		{"OBJECT", "ENCODING", "lk:a"},
	} {
		err := rdb.Do(ctx, command...).Err()
		if err == nil || !strings.Contains(err.Error(), "NOPERM") && !strings.Contains(err.Error(), "The user executing the script can't") {
			t.Errorf("%v: %v, want a refusal", command, err)
		}
	}
	if got := admin.Get(ctx, "secret").Val(); got != "of others" {
		t.Errorf("the key of others is %q", got)
	}
	// A lock outside of the prefix: refused, and said in a way that isn't tried again.
	l := newLocker(t, rdb)
	_, err := l.TryAcquire(ctx, "elsewhere")
	if !errors.Is(err, lock.ErrUnavailable) || !strings.Contains(err.Error(), "NOPERM") {
		t.Errorf("a lock without the prefix: %v", err)
	}
}

// Without INFO, Check can't read the settings, says so, and doesn't fail.
func TestCheckDoesWithoutInfo(t *testing.T) {
	server := redistest.Standalone(t)
	admin := server.Admin(t)
	rules := slices.DeleteFunc(aclRules(t, "acl"), func(rule any) bool { return rule == "+info" })
	if err := admin.Do(t.Context(), append([]any{"ACL", "SETUSER", lockUser}, rules...)...).Err(); err != nil {
		t.Fatal(err)
	}
	var out lines
	store := redisstore.New(asLockUser(t, server), redisstore.WithKeyPrefix(lockPrefix),
		redisstore.WithLogger(slog.New(slog.NewTextHandler(&out, nil))))
	err := store.Check(t.Context(), allModes...)
	if log := out.String(); err != nil || strings.Count(log, "level=") != 1 || !strings.Contains(log, "permit INFO") {
		t.Errorf("check: %v\n%s, want a line that says what it could not read", err, log)
	}
	refused, err := admin.ACLLog(t.Context(), 10).Result()
	if err != nil || len(refused) != 1 || refused[0].Object != "info" {
		t.Errorf("refused: %v, %v, want INFO alone", refused, err)
	}
}

var luaCommand = regexp.MustCompile(`redis\.p?call\('([a-z]+)'`)

// The rules allow what the scripts call and, besides, what is listed here.
func TestTheACLAllowsWhatScriptsCallAndNoMore(t *testing.T) {
	want := make(map[string]bool)
	for _, own := range []string{"eval", "evalsha", "ping", "info", "publish", "subscribe", "unsubscribe"} {
		want[own] = true
	}
	files, err := filepath.Glob("../../core/redisstore/scripts/*.lua")
	if err != nil || len(files) == 0 {
		t.Fatal("no scripts", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range luaCommand.FindAllStringSubmatch(string(text), -1) {
			want[match[1]] = true
		}
	}
	delete(want, "spublish") // in a cluster only, and among its rules
	got := make(map[string]bool)
	for _, rule := range aclRules(t, "acl") {
		if command, found := strings.CutPrefix(fmt.Sprint(rule), "+"); found {
			got[command] = true
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("allowed %v\nneeded  %v", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
}
