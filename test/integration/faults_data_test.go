package integration_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/test/internal/redistest"
)

// Somebody else's hand, or a Redis that makes room, takes the lock away: the
// next renewal finds out, and doesn't put it back.
func TestALockThatIsTakenAwayIsNoticedAtTheNextRenewal(t *testing.T) {
	t.Parallel()
	for name, take := range map[string]func(t *testing.T, rdb *redis.Client){
		"DEL":     func(t *testing.T, rdb *redis.Client) { t.Helper(); rdb.Del(t.Context(), "k") },
		"FLUSHDB": func(t *testing.T, rdb *redis.Client) { t.Helper(); rdb.FlushDB(t.Context()) },
		"eviction": func(t *testing.T, rdb *redis.Client) {
			t.Helper()
			rdb.ConfigSet(t.Context(), "maxmemory-policy", "volatile-ttl") // of all keys, the lock alone expires
			used := rdb.InfoMap(t.Context(), "memory").Item("Memory", "used_memory")
			rdb.ConfigSet(t.Context(), "maxmemory", used)
			eventually(t, func() error {
				rdb.Set(t.Context(), fmt.Sprint("filler", time.Now()), "x", 0)
				if n := rdb.Exists(t.Context(), "k").Val(); n != 0 {
					return fmt.Errorf("it is still there")
				}
				return nil
			})
		},
		"rename": func(t *testing.T, rdb *redis.Client) { t.Helper(); rdb.Rename(t.Context(), "k", "another") },
		"another owner's": func(t *testing.T, rdb *redis.Client) {
			t.Helper()
			rdb.Del(t.Context(), "k")
			rdb.HSet(t.Context(), "k", "a stranger", 1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Standalone(t)
			rdb := server.Admin(t)
			told, hooks := losses()
			l := newLocker(t, server.Client(t), hooks, lock.WithWatchdog(6*time.Second))
			lease := acquire(t, l, "k")
			take(t, rdb)
			want := hash(t, rdb, "k")
			wantLoss(t, told, lease, lock.LossTaken) // not by an expiry, that would be three times later
			if got := hash(t, rdb, "k"); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("Redis has %v, had %v when it was taken away", got, want)
			}
		})
	}
}
