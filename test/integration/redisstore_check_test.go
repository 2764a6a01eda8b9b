package integration_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/redisstore"
	"github.com/redlatch/redlatch/test/internal/process"
	"github.com/redlatch/redlatch/test/internal/redistest"
)

// logged checks a store and returns what it said.
func logged(t *testing.T, rdb redis.UniversalClient, modes ...lock.Mode) (log string, err error) {
	t.Helper()
	var out lines
	store := redisstore.New(rdb, redisstore.WithLogger(slog.New(slog.NewTextHandler(&out, nil))))
	err = store.Check(t.Context(), modes...)
	return out.String(), err
}

var allModes = []lock.Mode{lock.Exclusive, lock.Fair, lock.Read, lock.Write, lock.Semaphore}

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

func TestCheckWarnsOfEvictionAndOfForgetting(t *testing.T) {
	server := redistest.Standalone(t, "--appendonly", "yes")
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
	admin.ConfigSet(t.Context(), "maxmemory-policy", "noeviction")
	admin.ConfigSet(t.Context(), "appendonly", "no")
	log, err = logged(t, server.Client(t))
	if err != nil || strings.Count(log, "level=WARN") != 1 || !strings.Contains(log, "appendonly") {
		t.Errorf("a server that forgets: %v\n%s", err, log)
	}

	admin.Do(t.Context(), "ACL", "SETUSER", "blind", "on", ">secret", "~*", "&*", "+@all", "-info")
	blind := newClient(t, &redis.Options{Addr: server.Addr(), Username: "blind", Password: "secret"})
	log, err = logged(t, blind)
	if err != nil || strings.Count(log, "\n") != 1 || !strings.Contains(log, "level=INFO") || !strings.Contains(log, "class=NOPERM") {
		t.Errorf("without permission for INFO: %v\n%s", err, log)
	}
}

// What Check takes it releases, in every mode, and nothing is left.
func TestCheckTakesALockInEveryModeAndLeavesNothing(t *testing.T) {
	server := redistest.Standalone(t, "--appendonly", "yes")
	admin := server.Admin(t)
	if err := admin.ConfigResetStat(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	if log, err := logged(t, server.Client(t), allModes...); err != nil || log != "" {
		t.Errorf("%v\n%s", err, log)
	}
	for _, store := range []*redisstore.Store{
		redisstore.New(server.Client(t), redisstore.WithRedissonTokens()),
		redisstore.New(server.Client(t), redisstore.WithKeyPrefix("lk:")),
		redisstore.New(server.Client(t), redisstore.WithPolling()),
	} {
		if err := store.Check(t.Context()); err != nil {
			t.Error(err)
		}
	}
	eventually(t, func() error { // what a minimum hold keeps ends by itself
		if keys := admin.Keys(t.Context(), "*").Val(); len(keys) > 0 {
			return fmt.Errorf("left: %q", keys)
		}
		return nil
	})
	if stats := admin.Info(t.Context(), "commandstats").Val(); !strings.Contains(stats, "cmdstat_evalsha") || !strings.Contains(stats, "cmdstat_subscribe") {
		t.Errorf("no lock was taken: %s", stats)
	}
}

// A wrong set-up ends the start with its cure, not the first request.
func TestCheckSaysWhatToPutRight(t *testing.T) {
	server := redistest.Standalone(t, "--appendonly", "yes")
	admin := server.Admin(t)
	user := func(name string, rules ...any) *redis.Client {
		t.Helper()
		rules = append([]any{"ACL", "SETUSER", name, "on", ">secret", "~*", "&*", "+@all"}, rules...)
		if err := admin.Do(t.Context(), rules...).Err(); err != nil {
			t.Fatal(err)
		}
		return newClient(t, &redis.Options{Addr: server.Addr(), Username: name, Password: "secret"})
	}
	_, replica := follow(t, server)
	sentinels := redistest.Sentinel(t)
	for name, tt := range map[string]struct {
		rdb  redis.UniversalClient
		want string
	}{
		"a replica":                   {replica.Admin(t), "this is a replica: connect to its master"},
		"a replica, INFO not allowed": {readOnly(t, replica), "this is a replica: connect to its master"},
		"a Sentinel":                  {sentinels.Sentinels[0].Admin(t), "redis.NewFailoverClient"},
		"other channels":              {user("channels", "resetchannels"), "docs/security.md"},
		"no scripts":                  {user("noscripts", "-evalsha"), "docs/security.md"},
		"a script cannot run":         {user("nohset", "-hincrby", "-hset"), "docs/security.md"},
		"other keys":                  {user("keys", "resetkeys", "~orders:*"), "redlatch:check:*"},
		"a wrong password":            {newClient(t, &redis.Options{Addr: server.Addr(), Username: "keys", Password: "wrong"}), "set Username and Password"},
		"no cluster":                  {newCluster(t, server), "redis.NewClient"},
	} {
		_, err := logged(t, tt.rdb, allModes...)
		if !errors.Is(err, lock.ErrUnavailable) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q", name, err, tt.want)
		}
	}
	log, err := logged(t, user("deaf", "-subscribe"))
	if err != nil || !strings.Contains(log, "WithPolling") {
		t.Errorf("no subscriptions: %v\n%s, want a warning", err, log)
	}
}

// A lock that nobody waits for needs less than one that somebody waits for.
func TestCheckFindsWhatOnlyWaitersNeed(t *testing.T) {
	server := redistest.Standalone(t, "--appendonly", "yes")
	admin := server.Admin(t)
	for _, mode := range allModes {
		for _, command := range []string{"-publish", "-rpush"} {
			if command == "-rpush" && mode != lock.Fair {
				continue
			}
			name := mode.String() + command
			if err := admin.Do(t.Context(), "ACL", "SETUSER", name, "on", ">secret", "~*", "&*", "+@all", command).Err(); err != nil {
				t.Fatal(err)
			}
			_, err := logged(t, newClient(t, &redis.Options{Addr: server.Addr(), Username: name, Password: "secret"}), mode)
			if !errors.Is(err, lock.ErrUnavailable) || !strings.Contains(err.Error(), "a lock in mode "+mode.String()) {
				t.Errorf("%s: got %v", name, err)
			}
		}
	}
	eventually(t, func() error {
		if keys := admin.Keys(t.Context(), "*").Val(); len(keys) > 0 {
			return fmt.Errorf("left: %q", keys)
		}
		return nil
	})
}

// readOnly is a user of a replica that may not read INFO.
func readOnly(t *testing.T, replica *redistest.Server) *redis.Client {
	t.Helper()
	replica.Admin(t).Do(t.Context(), "ACL", "SETUSER", "reader", "on", ">secret", "~*", "&*", "+@all", "-info")
	return newClient(t, &redis.Options{Addr: replica.Addr(), Username: "reader", Password: "secret"})
}

// newCluster takes a server for a cluster, as a user who may do everything.
func newCluster(t *testing.T, server *redistest.Server) *redis.ClusterClient {
	t.Helper()
	user := server.Admin(t).Options()
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{server.Addr()}, Username: user.Username, Password: user.Password})
	t.Cleanup(func() { _ = cluster.Close() })
	return cluster
}

func TestCheckFollowsASentinel(t *testing.T) {
	set := redistest.Sentinel(t)
	set.Current(t).Permit(t, "+command", "+ssubscribe", "+sunsubscribe", "+spublish")
	// go-redis makes such a client of a cluster where replicas may be read, and never
	// ends what follows the Sentinel in it.
	told := toldClient(t, set.Current(t).Addr())
	for _, rdb := range []redis.UniversalClient{set.Client(t), told} {
		log, err := logged(t, rdb, allModes...)
		if err != nil || !strings.Contains(log, "min-replicas-to-write") || strings.Contains(log, "cluster") {
			t.Errorf("%T: %v\n%s", rdb, err, log)
		}
	}
}

func TestCheckWarnsOfAMasterThatWouldGoOnWithoutItsReplicas(t *testing.T) {
	server := redistest.Standalone(t, "--appendonly", "yes")
	_, _ = follow(t, server)
	log, err := logged(t, server.Client(t))
	if err != nil || strings.Count(log, "level=WARN") != 1 ||
		!strings.Contains(log, "min-replicas-to-write") || !strings.Contains(log, server.Addr()) {
		t.Errorf("a master that would go on: %v\n%s", err, log)
	}
	stopWithoutReplicas(t, server)
	eventually(t, func() error { // once the replica has reported how far it is
		log, err := logged(t, server.Client(t))
		if old := beforeRedis7(t, server.Admin(t)); err != nil || !old && log != "" || old && !strings.Contains(log, "before Redis 7") {
			return fmt.Errorf("a master that would stop: %w\n%s", err, log)
		}
		return nil
	})
}

func TestCheckLooksAtEveryMasterOfACluster(t *testing.T) {
	t.Parallel()
	set := redistest.Cluster(t, "--cluster-node-timeout", "60000", "--appendonly", "yes")
	for _, node := range set.Nodes() {
		node.Permit(t, "+config|get")
	}
	rdb := set.Client(t)
	log, err := logged(t, rdb, allModes...)
	if err != nil || strings.Count(log, "level=") != 1 || !strings.Contains(log, "cluster-require-full-coverage") {
		t.Errorf("a cluster that stops as a whole: %v\n%s", err, log)
	}
	for _, node := range set.Nodes() {
		node.Admin(t).ConfigSet(t.Context(), "cluster-require-full-coverage", "no")
	}
	if log, err := logged(t, rdb); err != nil || log != "" {
		t.Errorf("a good cluster: %v\n%s", err, log)
	}
	_, err = logged(t, newClient(t, &redis.Options{Addr: set.Masters[0].Addr()}))
	if !errors.Is(err, lock.ErrUnavailable) || !strings.Contains(err.Error(), "redis.NewClusterClient") {
		t.Errorf("a client that knows one node: %v", err)
	}
	for _, node := range set.Masters[1:] {
		node.Admin(t).ConfigSet(t.Context(), "maxmemory-policy", "allkeys-lru")
	}
	log, err = logged(t, rdb)
	if err != nil || strings.Count(log, "level=WARN") != 2 {
		t.Errorf("two masters evict: %v\n%s", err, log)
	}
	set.Masters[2].Kill()
	if _, err := logged(t, rdb); !errors.Is(err, lock.ErrUnavailable) || !strings.Contains(err.Error(), set.Masters[2].Addr()) {
		t.Errorf("got %v, want ErrUnavailable with the address %s", err, set.Masters[2].Addr())
	}
}
