package integration_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/redisstore"
	"github.com/redlatch/redlatch/test/internal/redistest"
)

// A script stops the server for everybody: reading a lock must not take longer
// the more owners it has.
func TestInspectCostsNoMoreForManyOwners(t *testing.T) {
	t.Parallel()
	const few, many = 200, 50_000 // both are more than are listed
	server := redistest.Standalone(t)
	rdb := server.Admin(t)
	store := redisstore.New(server.Client(t))
	cost := func(readers int) float64 {
		key := fmt.Sprint("readers:", readers)
		read(t, rdb, key, readers)
		state, err := store.Inspect(t.Context(), key)
		if err != nil || !state.Held || state.Mode != lock.Read || len(state.Owners)+state.MoreOwners != readers {
			t.Fatalf("%d readers: %v, held %v in mode %s, %d owners and %d more",
				readers, err, state.Held, state.Mode, len(state.Owners), state.MoreOwners)
		}
		if err := rdb.ConfigResetStat(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		for range 20 {
			if _, err := store.Inspect(t.Context(), key); err != nil {
				t.Fatal(err)
			}
		}
		return scriptTime(t, rdb)
	}
	small, large := cost(few), cost(many)
	t.Logf("%d readers: %.0f µs, %d readers: %.0f µs", few, small, many, large)
	if large > 10*small {
		t.Errorf("%d readers cost %.0f times what %d cost", many, large/small, few)
	}
}

// read makes a lock that is held by many readers, as the scripts would.
func read(t *testing.T, rdb *redis.Client, key string, readers int) {
	t.Helper()
	pipe := rdb.Pipeline()
	pipe.HSet(t.Context(), key, "mode", "read")
	for i := range readers {
		owner := "reader:" + strconv.Itoa(i)
		pipe.HSet(t.Context(), key, owner, 1)
		pipe.Set(t.Context(), "{"+key+"}:"+owner+":rwlock_timeout:1", 1, time.Hour)
	}
	pipe.PExpire(t.Context(), key, time.Hour)
	if _, err := pipe.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// scriptTime is how many µs a script took on average.
func scriptTime(t *testing.T, rdb *redis.Client) float64 {
	t.Helper()
	text, err := rdb.Info(t.Context(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "cmdstat_evalsha:") {
			_, rest, _ := strings.Cut(line, "usec_per_call=")
			number, _, _ := strings.Cut(rest, ",")
			if usec, err := strconv.ParseFloat(number, 64); err == nil {
				return usec
			}
		}
	}
	t.Fatalf("no evalsha in %s", text)
	return 0
}

// "{a}" and "a" have the same key for a queue, so no fair lock has the first name.
func TestInspectShowsNoQueueOfAnotherLock(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	store := redisstore.New(server.Client(t))
	claim := func(key, owner string) lock.Claim {
		return lock.Claim{Key: key, Owner: owner, Mode: lock.Fair, TTL: 30 * time.Second, Places: []string{owner}}
	}
	if _, err := lock.Blocking(store).Acquire(t.Context(), claim("a", "a:1")); err != nil {
		t.Fatal(err)
	}
	if _, err := lock.Blocking(store).Acquire(t.Context(), claim("a", "a:2")); !errors.Is(err, lock.ErrBusy) {
		t.Fatal(err)
	}
	if state, err := store.Inspect(t.Context(), "a"); err != nil || len(state.Waiters) != 1 {
		t.Errorf("a: %+v, %v", state, err)
	}
	state, err := store.Inspect(t.Context(), "{a}")
	if err != nil || state.Held || len(state.Waiters) > 0 {
		t.Errorf("{a}: %+v, %v", state, err)
	}
}

// A store that answers is not away: the operator is to look at the key.
func TestAKeyOfAnotherTypeIsInvalid(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	rdb := server.Admin(t)
	locker := newLocker(t, server.Client(t))
	keys := map[string]func() error{
		"a list":                   func() error { return rdb.LPush(t.Context(), "a list", "x").Err() },
		"a text without an expiry": func() error { return rdb.Set(t.Context(), "a text without an expiry", "x", 0).Err() },
		"a queue that is no list": func() error {
			return rdb.Set(t.Context(), "redisson_lock_queue:{a queue that is no list}", "x", 0).Err()
		},
	}
	for key, put := range keys {
		if err := put(); err != nil {
			t.Fatal(err)
		}
		calls := map[string]func() error{
			"Inspect":      func() error { _, err := locker.Inspect(t.Context(), key); return err },
			"ForceRelease": func() error { _, err := locker.ForceRelease(t.Context(), key); return err },
		}
		for name, call := range calls {
			if err := call(); !errors.Is(err, lock.ErrInvalid) || errors.Is(err, lock.ErrUnavailable) || !strings.Contains(err.Error(), key) {
				t.Errorf("%s of %s: %v", name, key, err)
			}
		}
	}
	err := redisstore.New(server.Client(t)).ReleasePermits(t.Context(), "a list", strings.Repeat("00", 16))
	if !errors.Is(err, lock.ErrInvalid) || !strings.Contains(err.Error(), "a list") {
		t.Errorf("ReleasePermits: %v", err)
	}
}
