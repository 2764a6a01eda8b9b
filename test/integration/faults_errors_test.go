package integration_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/redisstore"
	"github.com/redlatch/redlatch/test/internal/redistest"
)

// wantRefusal is what the store and the engine make of a server that says no:
// the outcome, and an error that the caller can act on. It reports an outage,
// not another holder, and hides nothing from operators.
func wantRefusal(t *testing.T, rdb redis.UniversalClient, key, says string, want lock.Outcome, opts ...lock.Option) {
	t.Helper()
	claim := claimOf(ownerA, key)
	if len(opts) > 0 {
		claim = claimIn(lock.Fair, ownerA, key)
	}
	_, err := lock.Blocking(redisstore.New(rdb)).Acquire(t.Context(), claim)
	wantOutcome(t, "acquire", err, want)
	if lock.ClassOf(err) != says {
		t.Errorf("the server said %v, want %s", err, says)
	}
	_, err = newLocker(t, rdb, opts...).TryAcquire(t.Context(), key)
	if !errors.Is(err, lock.ErrUnavailable) || errors.Is(err, lock.ErrBusy) || lock.ClassOf(err) != says {
		t.Errorf("the engine said %v, want ErrUnavailable with %s as its cause", err, says)
	}
}

// Replies that take a server in a special state. The others are in
// TestErrorsOfRealServersAreClassified.
func TestServersThatCannotGrantSaySoAndAreUnderstood(t *testing.T) {
	t.Parallel()
	t.Run("OOM", func(t *testing.T) {
		server := redistest.Standalone(t, "--maxmemory", "1")
		wantRefusal(t, server.Client(t), "k", "OOM", lock.OutcomeNotExecuted)
	})
	t.Run("NOREPLICAS", func(t *testing.T) {
		server := redistest.Standalone(t, "--min-replicas-to-write", "1")
		skipBeforeRedis7(t, server.Admin(t), "scripts write whatever min-replicas-to-write says")
		wantRefusal(t, server.Client(t), "k", "NOREPLICAS", lock.OutcomeNotExecuted)
	})
	t.Run("MISCONF", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "gone")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		server := redistest.Standalone(t, "--save", "3600", "1", "--dir", dir)
		rdb := server.Admin(t)
		if err := os.Remove(dir); err != nil {
			t.Fatal(err)
		}
		if err := rdb.Save(t.Context()).Err(); err == nil {
			t.Fatal("it saved into a folder that is not there")
		}
		eventually(t, func() error {
			rdb.BgSave(t.Context())
			if err := rdb.Set(t.Context(), "anything", "x", 0).Err(); !redis.HasErrorPrefix(err, "MISCONF") {
				return errors.New("it still writes")
			}
			return nil
		})
		wantRefusal(t, server.Client(t), "k", "MISCONF", lock.OutcomeRefused)
	})
	t.Run("cluster", func(t *testing.T) {
		set := redistest.Cluster(t)
		single := set.OwnerOf(t, "{k}").Client(t) // knows nothing of clusters
		t.Run("CROSSSLOT", func(t *testing.T) {
			// A cluster client isn't let through with such a name.
			wantRefusal(t, single, "}{k", "CROSSSLOT", lock.OutcomeRefused, lock.WithMode(lock.Fair))
		})
		t.Run("MOVED", func(t *testing.T) {
			other := slices.IndexFunc(set.Masters, func(s *redistest.Server) bool { return s != set.OwnerOf(t, "{k}") })
			wantRefusal(t, set.Masters[other].Client(t), "{k}", "MOVED", lock.OutcomeNotExecuted)
		})
		m := beginMigration(t, set, "{k}")
		t.Run("ASK", func(t *testing.T) { // the key has left, or isn't there yet
			wantRefusal(t, single, "{k}new", "ASK", lock.OutcomeNotExecuted)
		})
		t.Run("TRYAGAIN", func(t *testing.T) { // one key is there, others are not
			if err := set.OwnerOf(t, "{k}").Admin(t).RPush(t.Context(), "redisson_lock_queue:{k}half", "somebody").Err(); err == nil {
				t.Fatal("a new key in a slot that moves away")
			}
			// Through the target, which may be asked for what has come already.
			target := m.to.Admin(t)
			pipe := target.Pipeline()
			pipe.Do(t.Context(), "ASKING")
			pipe.RPush(t.Context(), "redisson_lock_queue:{k}half", "somebody")
			if _, err := pipe.Exec(t.Context()); err != nil {
				t.Fatal(err)
			}
			store := redisstore.New(set.Client(t))
			_, err := lock.Blocking(store).Acquire(t.Context(), claimIn(lock.Fair, ownerA, "{k}half"))
			wantOutcome(t, "an acquire of a lock in two places", err, lock.OutcomeNotExecuted)
			if !redis.HasErrorPrefix(err, "TRYAGAIN") {
				t.Errorf("got %v, want TRYAGAIN", err)
			}
		})
		m.finish(t)
		// When the slot has moved, everything works again.
		release(t, acquire(t, newLocker(t, set.Client(t), lock.WithCallTimeout(patience/2)), "{k}new"))
	})
}
