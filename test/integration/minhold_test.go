package integration_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/redisstore"
	"github.com/redlatch/redlatch/test/internal/redistest"
)

// What a release under a minimum hold leaves in Redis, also when its memory is full,
// and which message wakes waiters that would sleep for longer.
func TestTheGoldenStatesOfAKeptLock(t *testing.T) {
	t.Parallel()
	const keep = 20 * time.Second
	for name, tt := range map[string]struct {
		mode     lock.Mode
		setnx    bool
		channel  string
		payloads string
		hash     map[string]string // of k
		keys     []string          // all there are
	}{
		"exclusive": {
			channel: "redisson_lock__channel:{k}", payloads: "0",
			hash: map[string]string{ownerA + ":kept": "1"}, keys: []string{"k"},
		},
		"fair": {
			mode: lock.Fair, channel: "redisson_lock__channel:{k}:" + ownerB, payloads: "0",
			hash: map[string]string{ownerA + ":kept": "1"}, keys: []string{"k", "redisson_lock_queue:{k}", "redisson_lock_timeout:{k}"},
		},
		"write": {
			mode: lock.Write, channel: "redisson_rwlock:{k}", payloads: "01",
			hash: map[string]string{"mode": "write", ownerA + ":kept:write": "1"}, keys: []string{"k"},
		},
		"read": {
			mode: lock.Read, channel: "redisson_rwlock:{k}", payloads: "0",
			hash: map[string]string{"mode": "read", ownerA + ":kept": "1"}, keys: []string{"k", "{k}:" + ownerA + ":kept:rwlock_timeout:1"},
		},
		"semaphore": {mode: lock.Semaphore, channel: "redisson_sc:{k}", payloads: "2", keys: []string{"k", "{k}:timeout"}},
		"SETNX":     {setnx: true, channel: "redisson_lock__channel:{k}", payloads: "0", keys: []string{"k"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, ctx := redistest.Standalone(t), t.Context()
			admin := server.Admin(t)
			var opts []redisstore.Option
			if tt.setnx {
				opts = append(opts, redisstore.WithSETNX())
			}
			store := redisstore.New(server.Client(t), opts...)
			messages := subscribe(t, admin, tt.channel)
			for _, memory := range []string{"0", "1"} {
				admin.FlushAll(ctx)
				c := claimOf(ownerA, "k")
				c.Mode = tt.mode
				if c.Mode == lock.Semaphore {
					c.Permits, c.Size = 2, 2
				}
				if _, err := lock.Blocking(store).Acquire(ctx, c); err != nil {
					t.Fatal(err)
				}
				if c.Mode == lock.Fair { // a thread of Redisson waits
					admin.RPush(ctx, "redisson_lock_queue:{k}", ownerB)
					admin.ZAdd(ctx, "redisson_lock_timeout:{k}", redis.Z{Score: float64(time.Now().Add(lease).UnixMilli()), Member: ownerB})
				}
				admin.ConfigSet(ctx, "maxmemory", memory)
				c.Keep = time.Now().Add(keep)
				if err := lock.Blocking(store).Release(ctx, c); err != nil {
					t.Fatalf("with maxmemory %s: %v", memory, err)
				}
				admin.ConfigSet(ctx, "maxmemory", "0")
				for _, payload := range tt.payloads {
					wantMessage(t, messages, tt.channel, string(payload))
				}
				if tt.hash != nil {
					wantLock(t, admin, "k", tt.hash)
				}
				wantKept(t, admin, keep, tt.keys)
			}
		})
	}
}

// wantKept says that these are all keys, that the ones of the hold last for keep at
// most, and that a permit or a token goes by a name that no owner has.
func wantKept(t *testing.T, rdb *redis.Client, keep time.Duration, keys []string) {
	t.Helper()
	ctx := t.Context()
	got := rdb.Keys(ctx, "*").Val()
	if slices.Sort(got); !slices.Equal(got, slices.Sorted(slices.Values(keys))) {
		t.Errorf("the keys are %q, want %q", got, keys)
	}
	for _, key := range got {
		if ttl := rdb.PTTL(ctx, key).Val(); !strings.HasPrefix(key, "redisson_") && (ttl <= 0 || ttl > keep+time.Millisecond) {
			t.Errorf("%s lasts for %v, want %v at most", key, ttl, keep)
		}
	}
	for _, permit := range rdb.ZRange(ctx, "{k}:timeout", 0, -1).Val() {
		if !strings.HasPrefix(permit, ownerA+":kept/") {
			t.Errorf("permit %q", permit)
		}
	}
	if token, err := rdb.Get(ctx, "k").Result(); err == nil && token != ownerA+":kept" && token != "0" {
		t.Errorf("the token is %q", token)
	}
}
