package integration_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/redisstore"
	"github.com/redlatch/redlatch/test/internal/faultproxy"
	"github.com/redlatch/redlatch/test/internal/redistest"
)

// snapshot is what the server has, but for when it ends.
func snapshot(t *testing.T, rdb redis.UniversalClient) map[string]string {
	t.Helper()
	ctx := t.Context()
	content := make(map[string]string)
	for _, key := range rdb.Keys(ctx, "*").Val() {
		var value any
		switch rdb.Type(ctx, key).Val() {
		case "hash":
			value = rdb.HGetAll(ctx, key).Val()
		case "list":
			value = rdb.LRange(ctx, key, 0, -1).Val()
		case "zset":
			members := make(map[string]bool)
			for _, member := range rdb.ZRange(ctx, key, 0, -1).Val() {
				members[member] = true
			}
			value = members
		default:
			value = rdb.Get(ctx, key).Val()
		}
		content[key] = fmt.Sprint(value)
	}
	return content
}

// step is one call of a store.
type step struct {
	op    string
	claim lock.Claim
	want  error
	// again is what a repetition answers, if that is something else.
	again error
}

func (s step) run(ctx context.Context, store *redisstore.Store) (err error) {
	switch s.op {
	case "acquire":
		_, err = lock.Blocking(store).Acquire(ctx, s.claim)
	case "release":
		err = lock.Blocking(store).Release(ctx, s.claim)
	case "lower":
		err = lock.Blocking(store).Lower(ctx, s.claim)
	case "renew":
		store.Renew(ctx, []lock.Claim{s.claim}, func(_ int, e error) { err = e })
	}
	return err
}

// life is all that happens to holds in a mode, waiting included.
func life(m lock.Mode, key string) []step {
	claim := func(owner string) lock.Claim { return claimIn(m, owner, key) }
	steps := []step{{op: "acquire", claim: claim(ownerA)}}
	if m == lock.Read {
		steps = append(steps,
			step{op: "acquire", claim: claim(ownerB)},
			step{op: "acquire", claim: claimIn(lock.Write, ownerC, key), want: lock.ErrBusy},
			step{op: "release", claim: claim(ownerB), again: lock.ErrNotHeld},
		)
	} else {
		steps = append(steps,
			step{op: "acquire", claim: claim(ownerB), want: lock.ErrBusy},
			step{op: "acquire", claim: claim(ownerC), want: lock.ErrBusy},
			step{op: "acquire", claim: claim(ownerD), want: lock.ErrBusy},
			step{op: "release", claim: claim(ownerC), want: lock.ErrNotHeld}, // gives up its place
		)
	}
	steps = append(steps, step{op: "renew", claim: claim(ownerA)})
	last := claim(ownerA)
	if m == lock.Write { // and goes on as a reader
		last = claimIn(lock.Read, ownerA, key)
		steps = append(steps,
			step{op: "lower", claim: last},
			step{op: "acquire", claim: claim(ownerA), want: lock.ErrBusy}, // late
			step{op: "release", claim: claim(ownerA), want: lock.ErrNotHeld},
			step{op: "renew", claim: last},
		)
	}
	steps = append(steps, step{op: "release", claim: last, again: lock.ErrNotHeld})
	if m == lock.Fair { // it is the turn of B's locker
		steps = append(steps, step{op: "acquire", claim: claim(ownerA), want: lock.ErrBusy})
	}
	return append(steps,
		step{op: "acquire", claim: claim(ownerB)},
		step{op: "release", claim: claim(ownerB), again: lock.ErrNotHeld},
	)
}

// The reply to each call is lost once. It ran all the same, and the repetition
// changes nothing.
func TestInEveryModeARepeatedScriptChangesNothing(t *testing.T) {
	server := redistest.Standalone(t)
	plain := server.Admin(t)
	for _, mode := range everyMode {
		proxy, rdb := throughProxy(t, server)
		store := redisstore.New(rdb)
		for _, s := range life(mode, "warm-up") { // the server learns all scripts
			if err := s.run(t.Context(), store); !errors.Is(err, s.want) {
				t.Fatalf("%s: %s by %s: got %v, want %v", mode, s.op, s.claim.Owner, err, s.want)
			}
		}
		plain.FlushDB(t.Context())
		for i, s := range life(mode, "k") {
			name := fmt.Sprintf("%s: step %d, %s by %s in mode %s", mode, i, s.op, s.claim.Owner, s.claim.Mode)
			sent := proxy.Observe(faultproxy.Contains("evalsha"))
			proxy.CutReplyWhen(faultproxy.Contains("evalsha"), 1)
			wantOutcome(t, name, s.run(t.Context(), store), lock.OutcomeUnknown)
			if n := sent.Hits(); n != 1 {
				t.Errorf("%s: sent %d times", name, n)
			}
			once := snapshot(t, plain)
			want := s.want
			if s.again != nil {
				want = s.again
			}
			for range 2 {
				if err := s.run(t.Context(), store); !errors.Is(err, want) {
					t.Errorf("%s, repeated: got %v, want %v", name, err, want)
				}
				if twice := snapshot(t, plain); !maps.Equal(once, twice) {
					t.Errorf("%s, repeated: %v became %v", name, once, twice)
				}
			}
			sent.Remove()
		}
		plain.FlushDB(t.Context())
	}
}

// Holders and waiters can leave, and stay, when Redis is out of memory.
func TestInEveryModeWhatIsHeldCanBeKeptAndLeftWhenMemoryIsFull(t *testing.T) {
	for _, mode := range everyMode {
		t.Run(mode.String(), func(t *testing.T) {
			b := newBench(t)
			full := func(bytes string) {
				t.Helper()
				if err := b.rdb.(*redis.Client).ConfigSet(t.Context(), "maxmemory", bytes).Err(); err != nil {
					t.Fatal(err)
				}
			}
			claim := func(owner string) lock.Claim { return claimIn(mode, owner, "k") }
			// Every script has run before: to learn one takes memory as well.
			for _, s := range life(mode, "warm-up") {
				_ = s.run(t.Context(), b.store)
			}
			b.acquire(claim(ownerA), nil)
			for _, owner := range []string{ownerB, ownerC, ownerD} {
				_, _ = lock.Blocking(b.store).Acquire(t.Context(), claim(owner)) // queues, reads, or is refused
			}
			before := snapshot(t, b.rdb)
			full("1")
			defer full("0")

			_, err := lock.Blocking(b.store).Acquire(t.Context(), claim("new:1"))
			if !errors.Is(err, lock.ErrBusy) || mode == lock.Fair || mode == lock.Read {
				wantOutcome(t, "a newcomer", err, lock.OutcomeNotExecuted)
			}
			_, err = lock.Blocking(b.store).Acquire(t.Context(), claimIn(mode, "new:2", "another key"))
			wantOutcome(t, "a newcomer to a free key", err, lock.OutcomeNotExecuted)
			if after := snapshot(t, b.rdb); !maps.Equal(before, after) {
				t.Errorf("the refused calls changed %v to %v", before, after)
			}
			long := claim(ownerA)
			long.TTL = time.Hour
			b.renew(long, nil)
			if mode != lock.Semaphore {
				long.TTL += time.Hour
				b.acquire(long, nil) // a repetition
			}
			if mode == lock.Fair {
				b.release(claim(ownerC), lock.ErrNotHeld)
				b.queue("k", placed(ownerB), placeTTL, placed(ownerD), placeTTL)
			}
			if mode == lock.Read {
				b.release(claim(ownerC), nil)
			}
			if last := claim(ownerA); mode == lock.Write {
				last.Mode = lock.Read
				b.lower(last, nil)
				b.ttl("k", long.TTL)
				b.ttl(sentinelOf("k", ownerA), long.TTL)
				b.release(last, nil)
			} else {
				b.release(last, nil)
			}
			if mode == lock.Fair { // given on
				b.release(claim(ownerB), nil)
				b.release(claim(ownerD), nil)
			}
			if mode == lock.Read {
				b.release(claim(ownerB), nil)
				b.release(claim(ownerD), nil)
			}
			if state, err := b.store.Inspect(t.Context(), "k"); err != nil || state.Held {
				t.Errorf("after all is released: %+v, %v", state, err)
			}
		})
	}
}

func TestForceWorksWhenMemoryIsFull(t *testing.T) {
	for _, mode := range everyMode {
		b := newBench(t)
		b.acquire(claimIn(mode, ownerA, "k"), nil)
		b.acquire(claimIn(mode, ownerA, "warm-up"), nil)
		if freed, err := b.store.ForceRelease(t.Context(), "warm-up"); err != nil || !freed {
			t.Fatal(freed, err)
		}
		b.rdb.(*redis.Client).ConfigSet(t.Context(), "maxmemory", "1")
		if freed, err := b.store.ForceRelease(t.Context(), "k"); err != nil || !freed {
			t.Errorf("%s: %v, %v", mode, freed, err)
		}
		if state, err := b.store.Inspect(t.Context(), "k"); err != nil || state.Held {
			t.Errorf("%s: after the release: %+v, %v", mode, state, err)
		}
	}
}

// While a slot moves, keys that are declared together may be in two places, or
// not be there. Grants may have to wait for that. Releases don't.
func TestInEveryModeALockOfASlotThatIsMovingCanBeReleased(t *testing.T) {
	set := redistest.Cluster(t)
	store := redisstore.New(set.Client(t))
	ctx := t.Context()
	for _, mode := range everyMode {
		key := func(name string) string { return "{" + mode.String() + "}" + name }
		for _, name := range []string{"one", "moved", "forced"} {
			if _, err := lock.Blocking(store).Acquire(ctx, claimIn(mode, ownerA, key(name))); err != nil {
				t.Fatal(err)
			}
		}
		move := beginMigration(t, set, key("one"))
		host, port := splitAddr(t, move.to.Addr())
		// Of this lock only the key itself has moved, nothing else.
		mustMigrate(t, move.from.Admin(t).Do(ctx, append([]any{"MIGRATE", host, port, key("moved"), 0, 5000}, redistest.MigrateAuth()...)...).Err())
		for _, name := range []string{"one", "moved"} {
			err := lock.Blocking(store).Release(ctx, claimIn(mode, ownerA, key(name)))
			if name == "moved" && mode == lock.Semaphore {
				wantOutcome(t, "a semaphore in two places", err, lock.OutcomeNotExecuted)
				continue
			}
			if err != nil {
				t.Errorf("%s, %s: release: %v", mode, name, err)
			}
			if state, err := store.Inspect(ctx, key(name)); err != nil || state.Held {
				t.Errorf("%s, %s: after the release: %+v, %v", mode, name, state, err)
			}
		}
		if freed, err := store.ForceRelease(ctx, key("forced")); err != nil || !freed {
			t.Errorf("%s: force release: %v, %v", mode, freed, err)
		}
		move.finish(t)
		err := lock.Blocking(store).Release(ctx, claimIn(mode, ownerA, key("moved")))
		if (mode == lock.Semaphore) != (err == nil) {
			t.Errorf("%s: release after the move: %v", mode, err)
		}
		for _, name := range []string{"one", "moved", "forced"} {
			c := claimIn(mode, ownerB, key(name))
			if _, err := lock.Blocking(store).Acquire(ctx, c); err != nil {
				t.Errorf("%s, %s: acquire after the move: %v", mode, name, err)
			}
			_ = lock.Blocking(store).Release(ctx, claimIn(mode, ownerB, key(name)))
		}
	}
}

// A grant takes the last place out of its queue, and gives others theirs. The queue must
// not be gone in between: in a slot that moves, it could not be looked at.
func TestAGrantThatEmptiesItsQueueIsTold(t *testing.T) {
	set := redistest.Cluster(t)
	store := redisstore.New(set.Client(t))
	for name, places := range map[string][]string{
		"its own place": {ownerB, ownerC}, "another one of its locker": {ownerC, ownerD},
	} {
		t.Run(name, func(t *testing.T) {
			b := &bench{T: t, rdb: set.Admin(t), store: store}
			key := "{k}" + strings.ReplaceAll(name, " ", "-")
			holder, waiter := claimIn(lock.Fair, ownerA, key), claimIn(lock.Fair, ownerB, key)
			b.acquire(holder, nil)
			b.acquire(waiter, lock.ErrBusy)
			b.release(holder, nil) // to the waiter
			move := beginMigration(t, set, key)
			defer move.finish(t)
			next := claimIn(lock.Fair, places[0], key)
			next.Places = places
			b.acquire(next, nil)
			b.hash(key, lease, map[string]string{places[0]: "1"})
			queue := b.rdb.LRange(t.Context(), "redisson_lock_queue:"+key, 0, -1).Val()
			if !slices.Equal(queue, []string{placed(places[1])}) {
				t.Errorf("the queue is %v", queue)
			}
			b.release(next, nil)
			b.release(claimIn(lock.Fair, places[1], key), nil)
		})
	}
}

// A reader whose sentinel is still on the other side of a moving slot is alive.
func TestAWriterDoesNotTakeReadersOfASlotThatIsMovingForDead(t *testing.T) {
	set := redistest.Cluster(t)
	store := redisstore.New(set.Client(t))
	ctx := t.Context()
	const key = "{moving}k"
	read, write := claimIn(lock.Read, ownerA, key), claimIn(lock.Write, ownerB, key)
	if _, err := lock.Blocking(store).Acquire(ctx, read); err != nil {
		t.Fatal(err)
	}
	wait := func(where string) {
		t.Helper()
		var failed *lock.StoreError
		_, err := lock.Blocking(store).Acquire(ctx, write)
		if !errors.Is(err, lock.ErrBusy) && (!errors.As(err, &failed) || failed.Outcome != lock.OutcomeNotExecuted) {
			t.Errorf("%s: the writer got %v", where, err)
		}
		if state, err := store.Inspect(ctx, key); err != nil || len(state.Owners) != 1 {
			t.Errorf("%s: inspected %+v, %v", where, state, err)
		}
	}
	move := beginMigration(t, set, key)
	wait("all here")
	host, port := splitAddr(t, move.to.Addr())
	migrate := func(key string) {
		t.Helper()
		mustMigrate(t, move.from.Admin(t).Do(ctx, append([]any{"MIGRATE", host, port, key, 0, 5000}, redistest.MigrateAuth()...)...).Err())
	}
	migrate(key)
	wait("the lock there, the sentinel here")
	move.finish(t)
	wait("all there")
	store.Renew(ctx, []lock.Claim{read}, func(_ int, err error) {
		if err != nil {
			t.Errorf("renew: %v", err)
		}
	})

	move = beginMigration(t, set, key)
	host, port = splitAddr(t, move.to.Addr())
	migrate(key + ":" + ownerA + ":rwlock_timeout:1")
	wait("the lock here, the sentinel there")
	move.finish(t)
	if err := lock.Blocking(store).Release(ctx, claimIn(lock.Read, ownerA, key)); err != nil {
		t.Errorf("release: %v", err)
	}
	if _, err := lock.Blocking(store).Acquire(ctx, write); err != nil {
		t.Errorf("the writer at last: %v", err)
	}
}

// All modes go on while their slot moves to and fro.
func TestInEveryModeASlotMigrationIsSurvived(t *testing.T) {
	set := redistest.Cluster(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	stop := make(chan struct{})
	const workers = 3
	done := make(chan error, workers*len(everyMode))
	var grants atomic.Int64
	for _, mode := range everyMode {
		for range workers {
			kind := lock.WithMode(mode)
			if mode == lock.Semaphore {
				kind = lock.WithPermits(1, 2)
			}
			l := newLocker(t, set.Client(t), kind, lock.WithCallTimeout(patience/2)) // the machine may be busy
			go func() {
				for {
					select {
					case <-stop:
						done <- nil
						return
					default:
					}
					if err := l.Do(ctx, "{moving}"+mode.String(), func(context.Context) error { return nil }); err != nil {
						done <- fmt.Errorf("%s: %w", mode, err)
						return
					}
					grants.Add(1)
				}
			}()
		}
	}
	for round := range 4 {
		migrate(t, set, "{moving}k")
		before := grants.Load()
		eventually(t, func() error { // traffic goes on where the slot is now
			select {
			case err := <-done:
				t.Fatalf("round %d: %v", round, err)
			default:
			}
			if n := grants.Load() - before; n < 100 {
				return fmt.Errorf("%d grants", n)
			}
			return nil
		})
	}
	close(stop)
	for range workers * len(everyMode) {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}
