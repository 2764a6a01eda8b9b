package integration_test

import (
	"bytes"
	"errors"
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

func TestCheckWarnsOfAMasterThatWouldGoOnWithoutItsReplicas(t *testing.T) {
	server := redistest.Standalone(t)
	_, _ = follow(t, server)
	log, err := logged(t, server.Client(t))
	if err != nil || strings.Count(log, "level=WARN") != 1 ||
		!strings.Contains(log, "min-replicas-to-write") || !strings.Contains(log, server.Addr()) {
		t.Errorf("a master that would go on: %v\n%s", err, log)
	}
	stopWithoutReplicas(t, server)
	if log, err := logged(t, server.Client(t)); err != nil || log != "" {
		t.Errorf("a master that would stop: %v\n%s", err, log)
	}
}

func TestCheckLooksAtEveryMasterOfACluster(t *testing.T) {
	t.Parallel()
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
