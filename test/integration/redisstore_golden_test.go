package integration_test

import (
	"context"
	"errors"
	"maps"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/redisstore"
	"github.com/redlatch/redlatch/test/internal/redistest"
)

// Owners as Redisson writes them.
const (
	ownerA = "5f0c0e1a-9d5a-4c9e-8f57-0d9a3c1f7b11:47"
	ownerB = "8a1e2f3b-4c5d-4e6f-9a0b-1c2d3e4f5a6b:1"
)

const lease = 30 * time.Second

func claimOf(owner, key string) lock.Claim {
	return lock.Claim{Key: key, Owner: owner, TTL: lease}
}

// subscribe listens like a Java client would.
func subscribe(t *testing.T, rdb redis.UniversalClient, channels ...string) <-chan *redis.Message {
	t.Helper()
	pubsub := rdb.Subscribe(t.Context(), channels...)
	t.Cleanup(func() { _ = pubsub.Close() })
	for range channels {
		if _, err := pubsub.Receive(t.Context()); err != nil { // the acknowledgement
			t.Fatal(err)
		}
	}
	return pubsub.Channel()
}

func wantMessage(t *testing.T, messages <-chan *redis.Message, channel, payload string) {
	t.Helper()
	select {
	case m := <-messages:
		if m.Channel != channel || m.Payload != payload {
			t.Errorf("message %q on %q, want %q on %q", m.Payload, m.Channel, payload, channel)
		}
	case <-time.After(patience):
		t.Fatalf("no message on %s", channel)
	}
}

// wantLock compares what Redis has, byte for byte.
func wantLock(t *testing.T, rdb redis.UniversalClient, key string, fields map[string]string) {
	t.Helper()
	ctx := context.Background()
	if got := hash(t, rdb, key); !maps.Equal(got, fields) {
		t.Errorf("%s has fields %v, want %v", key, got, fields)
	}
	ttl := rdb.PTTL(ctx, key).Val()
	if len(fields) == 0 {
		if n := rdb.Exists(ctx, key).Val(); n != 0 {
			t.Errorf("%s exists", key)
		}
	} else if ttl <= 0 || ttl > lease {
		t.Errorf("%s expires in %v, want at most %v", key, ttl, lease)
	}
}

// wantNothingElse says that the lock has no keys but the given ones.
func wantNothingElse(t *testing.T, rdb *redis.Client, keys int64) {
	t.Helper()
	if n := rdb.DBSize(context.Background()).Val(); n != keys {
		t.Errorf("%d keys in the database, want %d", n, keys)
	}
}

func TestTheGoldenStatesOfARedissonLock(t *testing.T) {
	server := redistest.Standalone(t)
	rdb := server.Admin(t)
	store := redisstore.New(server.Client(t))
	ctx := t.Context()
	const key, channel = "orders", "redisson_lock__channel:{orders}"
	messages := subscribe(t, rdb, channel)
	must := func(what string, err, want error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Fatalf("%s: got %v, want %v", what, err, want)
		}
	}

	_, err := lock.Blocking(store).Acquire(ctx, claimOf(ownerA, key))
	must("A acquires", err, nil)
	wantLock(t, rdb, key, map[string]string{ownerA: "1"})
	_, err = lock.Blocking(store).Acquire(ctx, claimOf(ownerA, key))
	must("A acquires again", err, nil)
	wantLock(t, rdb, key, map[string]string{ownerA: "1"})

	_, err = lock.Blocking(store).Acquire(ctx, claimOf(ownerB, key))
	must("B acquires", err, lock.ErrBusy)
	var busy *lock.BusyError
	if errors.As(err, &busy); busy.TTL <= 0 || busy.TTL > lease {
		t.Errorf("B sees %v, want what is left of %v", busy.TTL, lease)
	}
	must("B releases", lock.Blocking(store).Release(ctx, claimOf(ownerB, key)), lock.ErrNotHeld)
	wantLock(t, rdb, key, map[string]string{ownerA: "1"})
	wantNothingElse(t, rdb, 1)
	select {
	case m := <-messages:
		t.Errorf("message %q while the lock is held", m.Payload)
	default:
	}

	must("A releases", lock.Blocking(store).Release(ctx, claimOf(ownerA, key)), nil)
	wantLock(t, rdb, key, nil)
	wantMessage(t, messages, channel, "0")
	must("A releases again", lock.Blocking(store).Release(ctx, claimOf(ownerA, key)), lock.ErrNotHeld)
	wantNothingElse(t, rdb, 0)
}

func TestNamesFallWhereRedissonLooksForThem(t *testing.T) {
	names := []struct{ prefix, key, name, channel string }{
		{"", "a", "a", "redisson_lock__channel:{a}"},
		{"", "{t}a", "{t}a", "redisson_lock__channel:{t}a"},
		{"", "a{t}b", "a{t}b", "redisson_lock__channel:a{t}b"},
		{"app:", "a", "app:a", "redisson_lock__channel:{app:a}"},
		{"app:", "{t}a", "app:{t}a", "redisson_lock__channel:app:{t}a"},
		{"{app}:", "a", "{app}:a", "redisson_lock__channel:{app}:a"},
	}
	check := func(t *testing.T, rdb, own redis.UniversalClient) {
		t.Helper()
		for _, n := range names {
			store := redisstore.New(own, redisstore.WithKeyPrefix(n.prefix), redisstore.WithPublish(redisstore.Both))
			messages := subscribe(t, rdb, n.channel)
			if _, err := lock.Blocking(store).Acquire(t.Context(), claimOf(ownerA, n.key)); err != nil {
				t.Fatalf("%q: %v", n.name, err)
			}
			wantLock(t, rdb, n.name, map[string]string{ownerA: "1"})
			if err := lock.Blocking(store).Release(t.Context(), claimOf(ownerA, n.key)); err != nil {
				t.Fatalf("%q: %v", n.name, err)
			}
			wantLock(t, rdb, n.name, nil)
			wantMessage(t, messages, n.channel, "0")
		}
	}
	broken := []string{"a{b", "{}x", "a}b{"}

	t.Run("standalone", func(t *testing.T) {
		server := redistest.Standalone(t)
		rdb := server.Admin(t)
		check(t, rdb, server.Client(t))
		for _, key := range broken { // slots do not matter here
			if _, err := lock.Blocking(redisstore.New(server.Client(t))).Acquire(t.Context(), claimOf(ownerA, key)); err != nil {
				t.Errorf("%q: %v", key, err)
			}
			wantLock(t, rdb, key, map[string]string{ownerA: "1"})
		}
	})
	t.Run("cluster", func(t *testing.T) {
		set := redistest.Cluster(t)
		rdb := set.Admin(t)
		check(t, rdb, set.Client(t))
		store := redisstore.New(set.Client(t))
		for _, key := range broken {
			c := claimOf(ownerA, key)
			_, err := lock.Blocking(store).Acquire(t.Context(), c)
			if !errors.Is(err, lock.ErrInvalid) {
				t.Errorf("%q: got %v, want ErrInvalid", key, err)
			}
			if _, err = store.Watch(t.Context(), c, func() {}); !errors.Is(err, lock.ErrInvalid) {
				t.Errorf("watch %q: got %v, want ErrInvalid", key, err)
			}
			wantLock(t, rdb, key, nil)
		}
	})
}

// A Redisson read/write lock of the same name is respected, shown, and
// removed only by force.
func TestAReadWriteLockOfTheSameNameIsHeld(t *testing.T) {
	server := redistest.Standalone(t)
	rdb := server.Admin(t)
	store := redisstore.New(server.Client(t))
	ctx := t.Context()
	tests := []struct {
		mode     lock.Mode
		field    string
		payloads []string
	}{
		{lock.Read, ownerA, []string{"0"}},
		{lock.Write, ownerA + ":write", []string{"0", "1"}},
	}
	for _, tt := range tests {
		key := tt.mode.String()
		fields := map[string]string{"mode": tt.mode.String(), tt.field: "1"}
		rdb.HSet(ctx, key, fields)
		rdb.PExpire(ctx, key, lease)
		rdb.Set(ctx, "{"+key+"}:"+ownerA+":rwlock_timeout:1", "1", lease) // writers do not look at it
		for _, owner := range []string{ownerA, ownerB} {
			if _, err := lock.Blocking(store).Acquire(ctx, claimOf(owner, key)); !errors.Is(err, lock.ErrBusy) {
				t.Errorf("%s: acquire got %v, want ErrBusy", key, err)
			}
		}
		if err := lock.Blocking(store).Release(ctx, claimOf(ownerB, key)); !errors.Is(err, lock.ErrNotHeld) {
			t.Errorf("%s: release got %v, want ErrNotHeld", key, err)
		}
		wantLock(t, rdb, key, fields)

		state, err := store.Inspect(ctx, key)
		if err != nil || !state.Held || state.Mode != tt.mode || len(state.Owners) != 1 ||
			state.Owners[0] != (lock.OwnerHolds{Owner: ownerA, Holds: 1}) || state.TTL <= 0 {
			t.Errorf("%s: inspected %+v, %v", key, state, err)
		}

		messages := subscribe(t, rdb, "redisson_rwlock:{"+key+"}")
		plain := subscribe(t, rdb, "redisson_lock__channel:{"+key+"}")
		if freed, err := store.ForceRelease(ctx, key); err != nil || !freed {
			t.Errorf("%s: force release: %v, %v", key, freed, err)
		}
		for _, payload := range tt.payloads {
			wantMessage(t, messages, "redisson_rwlock:{"+key+"}", payload)
		}
		wantMessage(t, plain, "redisson_lock__channel:{"+key+"}", "0")
		wantLock(t, rdb, key, nil)
	}
}

// Redisson's readers overlook a plain lock and come in. What they leave is
// not taken along by our release, and not left over by it either.
func TestReleaseRemovesItsOwnFieldOnly(t *testing.T) {
	server := redistest.Standalone(t)
	rdb := server.Admin(t)
	store := redisstore.New(server.Client(t))
	ctx := t.Context()

	_, _ = lock.Blocking(store).Acquire(ctx, claimOf(ownerA, "with-reader"))
	rdb.HSet(ctx, "with-reader", "mode", "read", ownerB, "1")
	if err := lock.Blocking(store).Release(ctx, claimOf(ownerA, "with-reader")); err != nil {
		t.Fatal(err)
	}
	wantLock(t, rdb, "with-reader", map[string]string{"mode": "read", ownerB: "1"})

	_, _ = lock.Blocking(store).Acquire(ctx, claimOf(ownerA, "reader-gone"))
	rdb.HSet(ctx, "reader-gone", "mode", "read")
	messages := subscribe(t, rdb, "redisson_lock__channel:{reader-gone}")
	if err := lock.Blocking(store).Release(ctx, claimOf(ownerA, "reader-gone")); err != nil {
		t.Fatal(err)
	}
	wantLock(t, rdb, "reader-gone", nil)
	wantMessage(t, messages, "redisson_lock__channel:{reader-gone}", "0")
}

func TestAHoldWithoutExpiry(t *testing.T) {
	server := redistest.Standalone(t)
	rdb := server.Admin(t)
	store := redisstore.New(server.Client(t))
	ctx := t.Context()
	_, _ = lock.Blocking(store).Acquire(ctx, claimOf(ownerA, "k"))
	rdb.Persist(ctx, "k")

	_, err := lock.Blocking(store).Acquire(ctx, claimOf(ownerB, "k"))
	var busy *lock.BusyError
	if !errors.As(err, &busy) || busy.TTL >= 0 {
		t.Errorf("a stranger sees %v, want busy without an end", err)
	}
	if state, err := store.Inspect(ctx, "k"); err != nil || state.TTL >= 0 {
		t.Errorf("inspected %+v, %v", state, err)
	}
	if _, err := lock.Blocking(store).Acquire(ctx, claimOf(ownerA, "k")); err != nil {
		t.Fatal(err)
	}
	wantLock(t, rdb, "k", map[string]string{ownerA: "1"}) // and expires again
}

// Nothing lies between these grants and releases but the scripts themselves,
// and the fence is a clock: it must tick faster than scripts run.
func TestFencesGrowHoweverFastLocksChangeHands(t *testing.T) {
	server := redistest.Standalone(t)
	rdb, admin := server.Client(t), server.Admin(t)
	ctx := t.Context()
	text := func(names ...string) string {
		t.Helper()
		var script []byte
		for _, name := range names {
			part, err := os.ReadFile("../../core/redisstore/scripts/" + name + ".lua")
			if err != nil {
				t.Fatal(err)
			}
			script = append(script, part...)
		}
		return string(script)
	}
	acquire := admin.ScriptLoad(ctx, text("plain", "acquire")).Val()
	release := admin.ScriptLoad(ctx, text("publish", "keep", "release")).Val()
	key := []string{"k"}
	pipe := rdb.Pipeline()
	var grants []*redis.Cmd
	for range 5000 {
		for _, owner := range []string{ownerA, ownerB} {
			grants = append(grants, pipe.EvalSha(ctx, acquire, key, owner, 30000))
			pipe.EvalSha(ctx, release, key, owner, "redisson_lock__channel:{k}", "publish")
		}
	}
	if _, err := pipe.Exec(ctx); err != nil {
		t.Fatal(err)
	}
	last := int64(0)
	for i, grant := range grants {
		fence, err := grant.Int64()
		if err != nil || fence <= last {
			t.Fatalf("grant %d has fence %d after %d, %v", i, fence, last, err)
		}
		last = fence
	}
}

// The pressure of a full memory must not keep locks from being released.
func TestReleaseAndRenewalWorkWhenMemoryIsFull(t *testing.T) {
	server := redistest.Standalone(t)
	rdb := server.Admin(t)
	store := redisstore.New(server.Client(t))
	ctx := t.Context()
	if _, err := lock.Blocking(store).Acquire(ctx, claimOf(ownerA, "k")); err != nil {
		t.Fatal(err)
	}
	messages := subscribe(t, rdb, "redisson_lock__channel:{k}")
	if err := rdb.ConfigSet(ctx, "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	if err := rdb.Set(ctx, "anything", "x", 0).Err(); !redis.IsOOMError(err) {
		t.Fatalf("the memory is not full: %v", err)
	}

	_, err := lock.Blocking(store).Acquire(ctx, claimOf(ownerB, "free"))
	wantOutcome(t, "a grant", err, lock.OutcomeNotExecuted)
	wantLock(t, rdb, "free", nil)
	if _, err := lock.Blocking(store).Acquire(ctx, claimOf(ownerA, "k")); err != nil {
		t.Errorf("a repetition: %v", err)
	}

	c := claimOf(ownerA, "k")
	rdb.PExpire(ctx, "k", lease/2)
	store.Renew(ctx, []lock.Claim{c}, func(_ int, err error) {
		if err != nil {
			t.Errorf("renew: %v", err)
		}
	})
	if ttl := rdb.PTTL(ctx, "k").Val(); ttl <= lease/2 {
		t.Errorf("TTL %v after renewal to %v", ttl, lease)
	}
	if err := lock.Blocking(store).Release(ctx, claimOf(ownerA, "k")); err != nil {
		t.Errorf("release: %v", err)
	}
	wantMessage(t, messages, "redisson_lock__channel:{k}", "0")
	wantNothingElse(t, rdb, 0)
}

func wantOutcome(t *testing.T, what string, err error, want lock.Outcome) {
	t.Helper()
	var failed *lock.StoreError
	if !errors.As(err, &failed) {
		t.Errorf("%s: got %v, want a StoreError", what, err)
	} else if failed.Outcome != want {
		t.Errorf("%s: outcome %d of %v, want %d", what, failed.Outcome, err, want)
	}
}
