package integration_test

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/redisstore"
	"github.com/redlatch/redlatch/test/internal/redistest"
)

const (
	ownerC = "8a1e2f3b-4c5d-4e6f-9a0b-1c2d3e4f5a6b:2" // of one locker with B and D
	ownerD = "8a1e2f3b-4c5d-4e6f-9a0b-1c2d3e4f5a6b:3"
	ownerE = "ac304b5d-6e7f-4a81-9c2d-3e4f5a6b7c8d:1"
)

// fairWait is how long Redisson's fair waiters mean to wait.
const fairWait = 5 * time.Minute

// claimIn is a claim in a mode; those of a semaphore take two permits of two.
func claimIn(m lock.Mode, owner, key string) lock.Claim {
	c := claimOf(owner, key)
	c.Mode = m
	switch m {
	case lock.Fair:
		c.Places = []string{owner}
	case lock.Semaphore:
		c.Permits, c.Size = 2, 2
	}
	return c
}

// bench is a store on a server, with a plain client that looks at what it
// writes.
type bench struct {
	*testing.T
	rdb   redis.UniversalClient
	store *redisstore.Store
}

func newBench(t *testing.T) *bench {
	t.Helper()
	server := redistest.Standalone(t)
	return &bench{T: t, rdb: server.Admin(t), store: redisstore.New(server.Client(t))}
}

func (b *bench) acquire(c lock.Claim, want error) {
	b.Helper()
	if _, err := lock.Blocking(b.store).Acquire(b.Context(), c); !errors.Is(err, want) {
		b.Fatalf("%s acquires: got %v, want %v", c.Owner, err, want)
	}
}

func (b *bench) busy(c lock.Claim, least, most time.Duration) {
	b.Helper()
	_, err := lock.Blocking(b.store).Acquire(b.Context(), c)
	var busy *lock.BusyError
	if !errors.As(err, &busy) || busy.TTL < least || busy.TTL > most {
		b.Fatalf("%s acquires: got %v, %+v; want busy for %v to %v", c.Owner, err, busy, least, most)
	}
}

func (b *bench) release(c lock.Claim, want error) {
	b.Helper()
	if err := lock.Blocking(b.store).Release(b.Context(), c); !errors.Is(err, want) {
		b.Fatalf("%s releases: got %v, want %v", c.Owner, err, want)
	}
}

func (b *bench) lower(c lock.Claim, want error) {
	b.Helper()
	if err := lock.Blocking(b.store).Lower(b.Context(), c); !errors.Is(err, want) {
		b.Fatalf("%s is lowered: got %v, want %v", c.Owner, err, want)
	}
}

// told says that these messages have come since it was called last, in this order.
func (b *bench) told(messages <-chan *redis.Message, channel string, payloads ...string) {
	b.Helper()
	b.rdb.Publish(b.Context(), channel, "that is all")
	for _, payload := range append(payloads, "that is all") {
		wantMessage(b.T, messages, channel, payload)
	}
}

func (b *bench) renew(c lock.Claim, want error) {
	b.Helper()
	b.store.Renew(b.Context(), []lock.Claim{c}, func(_ int, err error) {
		if !errors.Is(err, want) {
			b.Fatalf("%s renews: got %v, want %v", c.Owner, err, want)
		}
	})
}

// now is the server's clock in ms.
func (b *bench) now() int64 {
	b.Helper()
	now, err := b.rdb.Time(b.Context()).Result()
	if err != nil {
		b.Fatal(err)
	}
	return now.UnixMilli()
}

// keys are all that the server has.
func (b *bench) keys(want ...string) {
	b.Helper()
	got := b.rdb.Keys(b.Context(), "*").Val()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		b.Errorf("keys %q, want %q", got, want)
	}
}

// hash compares fields and expiry of a lock.
func (b *bench) hash(key string, expiry time.Duration, fields map[string]string) {
	b.Helper()
	if got := hash(b.T, b.rdb, key); !maps.Equal(got, fields) {
		b.Errorf("%s has fields %v, want %v", key, got, fields)
	}
	b.ttl(key, expiry)
}

// ttl says when a key expires, up to what a loaded machine takes.
func (b *bench) ttl(key string, want time.Duration) {
	b.Helper()
	if ttl := b.rdb.PTTL(b.Context(), key).Val(); ttl > want || ttl < want-tolerance {
		b.Errorf("%s expires in %v, want %v", key, ttl, want)
	}
}

const tolerance = 10 * time.Second

// queue compares the queue of a fair lock, and its scores as seconds from now.
func (b *bench) queue(key string, want ...any) {
	b.Helper()
	now := b.now()
	queue := b.rdb.LRange(b.Context(), "redisson_lock_queue:{"+key+"}", 0, -1).Val()
	if n := b.rdb.ZCard(b.Context(), "redisson_lock_timeout:{"+key+"}").Val(); n != int64(len(queue)) {
		b.Errorf("%d scores for %d in the queue", n, len(queue))
	}
	if len(queue) != len(want)/2 {
		b.Fatalf("queue %v, want %v", queue, want)
	}
	for i, owner := range queue {
		score := b.rdb.ZScore(b.Context(), "redisson_lock_timeout:{"+key+"}", owner).Val()
		patience := time.Duration(int64(score)-now) * time.Millisecond
		if limit := want[2*i+1].(time.Duration); owner != want[2*i] || patience > limit || patience < limit-tolerance {
			b.Errorf("place %d: %s for %v, want %v for %v", i, owner, patience, want[2*i], limit)
		}
	}
}

// placed is the name of an owner of ours in the queue, and placeTTL how long it
// is there without being repeated.
func placed(owner string) string { return owner + ":redlatch" }

func lockerOf(owner string) string { return lock.Claim{Owner: owner}.Locker() }

const placeTTL = 15 * time.Second

// A release gives the lock to a place of ours, which finds its hold.
func TestTheGoldenStatesOfAFairLock(t *testing.T) {
	b := newBench(t)
	const key, queue, patience, channel = "orders", "redisson_lock_queue:{orders}", "redisson_lock_timeout:{orders}", "redisson_lock__channel:{orders}:"
	fair := func(owner string) lock.Claim { return claimIn(lock.Fair, owner, key) }
	var messages []<-chan *redis.Message
	lockers := []string{lockerOf(ownerA), lockerOf(ownerB)} // which is that of C and D, too
	for _, locker := range lockers {
		messages = append(messages, subscribe(t, b.rdb, channel+locker))
	}

	b.acquire(fair(ownerA), nil)
	b.hash(key, lease, map[string]string{ownerA: "1"})
	b.keys(key)
	for _, owner := range []string{ownerB, ownerC, ownerD} {
		b.busy(fair(owner), lease-tolerance, lease)
	}
	waiting := []any{placed(ownerB), placeTTL, placed(ownerC), placeTTL, placed(ownerD), placeTTL}
	b.queue(key, waiting...)
	b.busy(fair(ownerC), lease-tolerance, lease) // keeps its place
	b.queue(key, waiting...)
	b.keys(key, queue, patience)
	for _, key := range []string{queue, patience} {
		if ttl := b.rdb.PTTL(b.Context(), key).Val(); ttl <= placeTTL || ttl > placeTTL+fairWait {
			b.Errorf("%s expires in %v", key, ttl)
		}
	}
	hasty := fair("somebody:1")
	hasty.Places = nil // Redisson's tryLock
	b.busy(hasty, lease-tolerance, lease)
	b.queue(key, waiting...)

	b.acquire(fair(ownerA), nil) // a repetition
	b.hash(key, lease, map[string]string{ownerA: "1"})
	b.release(fair(ownerA), nil)
	wantMessage(t, messages[1], channel+lockers[1], "0")
	handed := append([]any{placed(ownerB), 5 * time.Second}, waiting[2:]...)
	b.hash(key, 5*time.Second, map[string]string{ownerB: "0"})
	b.queue(key, handed...)

	b.busy(hasty, time.Millisecond, 5*time.Second)
	for range 2 { // a repetition changes nothing
		b.acquire(fair(ownerB), nil)
		b.hash(key, lease, map[string]string{ownerB: "1"})
		b.queue(key, waiting[2:]...)
	}
	for range 2 {
		b.release(fair(ownerC), lock.ErrNotHeld) // gives up
		b.queue(key, waiting[4:]...)
	}
	b.release(fair(ownerB), nil)
	wantMessage(t, messages[1], channel+lockers[1], "0")
	b.acquire(fair(ownerD), nil)
	b.keys(key)
	b.release(fair(ownerD), nil)
	b.release(fair(ownerD), lock.ErrNotHeld) // Redisson says done
	b.keys()
	for i, locker := range lockers {
		if n := len(messages[i]); n != 0 {
			t.Errorf("%d messages too many for %s", n, locker)
		}
	}
}

// java adds a place as Redisson does, and serve takes one as it does.
func (b *bench) java(key, owner string, wait time.Duration) {
	b.Helper()
	ahead := time.Duration(0)
	if last := b.rdb.LIndex(b.Context(), "redisson_lock_queue:{"+key+"}", -1).Val(); last != "" {
		score := b.rdb.ZScore(b.Context(), "redisson_lock_timeout:{"+key+"}", last).Val()
		ahead = time.Duration(int64(score)-b.now()) * time.Millisecond
	}
	b.rdb.ZAdd(b.Context(), "redisson_lock_timeout:{"+key+"}", redis.Z{Score: float64(b.now() + (ahead + wait).Milliseconds()), Member: owner})
	b.rdb.RPush(b.Context(), "redisson_lock_queue:{"+key+"}", owner)
}

func (b *bench) serve(key, owner string, wait time.Duration) {
	b.Helper()
	b.rdb.LPop(b.Context(), "redisson_lock_queue:{"+key+"}")
	b.rdb.ZRem(b.Context(), "redisson_lock_timeout:{"+key+"}", owner)
	b.later(key, -wait)
}

// later moves the time of every place.
func (b *bench) later(key string, d time.Duration) {
	b.Helper()
	for _, name := range b.rdb.ZRange(b.Context(), "redisson_lock_timeout:{"+key+"}", 0, -1).Val() {
		b.rdb.ZIncrBy(b.Context(), "redisson_lock_timeout:{"+key+"}", float64(d.Milliseconds()), name)
	}
}

// A place of ours isn't lost when Redisson takes its own wait from all times.
// When no place of Redisson is left before them, ours are short again.
func TestAPlaceBehindOneOfRedissonOutlivesIt(t *testing.T) {
	b := newBench(t)
	fair := func(owner string) lock.Claim { return claimIn(lock.Fair, owner, "k") }
	b.acquire(fair(ownerA), nil)
	b.busy(fair(ownerB), 0, lease)
	b.java("k", "java:1", fairWait)
	b.busy(fair(ownerC), 0, lease)
	b.busy(fair(ownerE), 0, lease)
	b.busy(fair(ownerB), 0, lease) // the one before Redisson's stays short
	long := placeTTL + 2*fairWait
	b.queue("k", placed(ownerB), placeTTL, "java:1", placeTTL+fairWait, placed(ownerC), long, placed(ownerE), long)

	b.release(fair(ownerA), nil) // to B
	b.acquire(fair(ownerB), nil)
	b.later("k", -fairWait+20*time.Second) // Redisson's has waited for long
	b.busy(fair(ownerC), 0, lease)
	b.release(fair(ownerB), nil)
	b.serve("k", "java:1", fairWait)
	b.queue("k", placed(ownerC), fairWait, placed(ownerE), placeTTL+20*time.Second)
	b.busy(fair(ownerE), 0, 5*time.Second) // the turn of C, which is woken
	b.acquire(fair(ownerC), nil)
	b.busy(fair(ownerE), 0, lease)
	b.queue("k", placed(ownerE), placeTTL)
}

// A head that is alive but wasn't woken is, by the caller who finds the lock free.
func TestTheHeadOfAFreeFairLockIsWoken(t *testing.T) {
	b := newBench(t)
	fair := func(owner string) lock.Claim { return claimIn(lock.Fair, owner, "k") }
	messages := subscribe(t, b.rdb, "redisson_lock__channel:{k}:java:1")
	b.java("k", "java:1", fairWait)
	b.busy(fair(ownerB), time.Second, 5*time.Second)
	wantMessage(t, messages, "redisson_lock__channel:{k}:java:1", "0")
	b.queue("k", "java:1", 5*time.Second, placed(ownerB), 2*fairWait)
	b.release(fair(ownerA), lock.ErrNotHeld) // of a hold that has expired
	wantMessage(t, messages, "redisson_lock__channel:{k}:java:1", "0")
}

// One subscription of a locker hears the turns of all its places, unless Redisson
// may wake one: that publishes on the channel of the place.
func TestAWaiterIsToldWhenRedissonMayWakeIt(t *testing.T) {
	const java = "8a1e2f3b-4c5d-4e6f-9a0b-1c2d3e4f5a6b:47"
	const go1, go2, go3 = "5f0c0e1a-9d5a-8c9e-8f57-0d9a3c1f7b11:1", "7d1c0e1a-9d5a-8c9e-8f57-0d9a3c1f7b11:2", "7d1c0e1a-9d5a-8c9e-8f57-0d9a3c1f7b11:3"
	fair := func(owner string) lock.Claim { return claimIn(lock.Fair, owner, "k") }
	for name, tt := range map[string]struct {
		before func(b *bench)
		apart  bool
	}{
		"ours alone":          {func(b *bench) { b.acquire(fair(go1), nil); b.busy(fair(go2), 0, lease) }, false},
		"a plain lock":        {func(b *bench) { b.acquire(claimOf(go1, "k"), nil) }, false},
		"Redisson has it":     {func(b *bench) { b.acquire(fair(java), nil) }, true},
		"its place is before": {func(b *bench) { b.acquire(fair(go1), nil); b.java("k", java, fairWait) }, true},
		"a short one": {func(b *bench) {
			b.acquire(fair(go1), nil)
			b.java("k", java, 5*time.Second)
			b.busy(fair(go2), 0, lease)
		}, true},
		"it is its turn": {func(b *bench) { b.java("k", java, fairWait) }, true},
		"for ever": {func(b *bench) {
			b.rdb.HSet(b.Context(), "k", java, 1)
		}, true},
		"for a million years": {func(b *bench) {
			b.rdb.HSet(b.Context(), "k", java, 1)
			b.rdb.Do(b.Context(), "PEXPIRE", "k", "31557600000000000")
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			tt.before(b)
			_, err := lock.Blocking(b.store).Acquire(t.Context(), fair(go3))
			var busy *lock.BusyError
			if !errors.As(err, &busy) || busy.WatchPerOwner != tt.apart {
				t.Errorf("got %#v, want it apart: %v", err, tt.apart)
			}
			if name == "for ever" && busy.TTL >= 0 {
				t.Errorf("busy for %v", busy.TTL)
			}
		})
	}
}

// However many waiters of a process died, they delay nobody for longer than
// one place, and leave nothing.
func TestAllDeadPlacesGoInOneCall(t *testing.T) {
	b := newBench(t)
	fair := func(owner string) lock.Claim { return claimIn(lock.Fair, owner, "k") }
	b.acquire(fair(ownerA), nil)
	for i := range 100 {
		b.busy(fair(fmt.Sprintf("dead:%d", i)), 0, lease)
	}
	b.later("k", -placeTTL)
	b.release(fair(ownerA), nil)
	b.acquire(fair(ownerB), nil)
	b.keys("k")
}

// A grant rewrites nothing of the queue, however long that is.
func TestAFairGrantCostsTheSameInALongQueue(t *testing.T) {
	b := newBench(t)
	commands := func() (n int64) {
		b.Helper()
		for line := range strings.Lines(b.rdb.Info(b.Context(), "commandstats").Val()) {
			var calls int64
			if _, stats, found := strings.Cut(line, ":calls="); found && !strings.HasPrefix(line, "cmdstat_info") {
				if _, err := fmt.Sscanf(stats, "%d,", &calls); err != nil {
					b.Fatal(err)
				}
				n += calls
			}
		}
		return n
	}
	fair := func(i int) lock.Claim { return claimIn(lock.Fair, fmt.Sprintf("waiter:%d", i), "k") }
	const waiters, grants = 1000, 100
	b.acquire(fair(0), nil)
	for i := 1; i < waiters; i++ {
		b.busy(fair(i), 0, lease)
	}
	before := commands()
	for i := range grants {
		b.release(fair(i), nil)
		b.acquire(fair(i+1), nil)
	}
	each := (commands() - before) / grants
	t.Logf("%d commands for each grant with %d in the queue, scripts included", each, waiters)
	if each > 20 {
		t.Errorf("%d commands for each grant, want 20 at most", each)
	}
}

// sentinelOf is the sentinel of a reader; Redisson has one for each of its holds.
func sentinelOf(key, owner string) string { return "{" + key + "}:" + owner + ":rwlock_timeout:1" }

// Sections 8.2 to 8.5.
func TestTheGoldenStatesOfAReadWriteLock(t *testing.T) {
	b := newBench(t)
	const key, channel = "orders", "redisson_rwlock:{orders}"
	sentinel := func(owner string) string { return sentinelOf(key, owner) }
	read := func(owner string) lock.Claim { return claimIn(lock.Read, owner, key) }
	write := func(owner string) lock.Claim { return claimIn(lock.Write, owner, key) }
	messages := subscribe(t, b.rdb, channel)
	told := func(payloads ...string) { t.Helper(); b.told(messages, channel, payloads...) }

	b.acquire(read(ownerA), nil)
	b.hash(key, lease, map[string]string{"mode": "read", ownerA: "1"})
	b.keys(key, sentinel(ownerA))
	b.ttl(sentinel(ownerA), lease)
	if text := b.rdb.Get(b.Context(), sentinel(ownerA)).Val(); text != "1" {
		t.Errorf("the sentinel is %q", text)
	}
	long := read(ownerB)
	long.TTL = 2 * lease
	for range 2 {
		b.acquire(long, nil)
		b.hash(key, 2*lease, map[string]string{"mode": "read", ownerA: "1", ownerB: "1"})
		b.keys(key, sentinel(ownerA), sentinel(ownerB))
	}
	b.busy(write(ownerC), 2*lease-tolerance, 2*lease)
	b.busy(write(ownerA), 2*lease-tolerance, 2*lease) // no upgrade
	b.release(write(ownerA), lock.ErrNotHeld)
	b.release(read(ownerC), lock.ErrNotHeld)
	told()

	b.release(read(ownerB), nil) // the lock lasts as long as the readers that are left
	b.hash(key, lease, map[string]string{"mode": "read", ownerA: "1"})
	b.keys(key, sentinel(ownerA))
	told("0") // Redisson wakes nobody here
	b.release(read(ownerA), nil)
	told("0")
	b.keys()
	b.release(read(ownerA), lock.ErrNotHeld)

	for range 2 {
		b.acquire(write(ownerA), nil)
		b.hash(key, lease, map[string]string{"mode": "write", ownerA + ":write": "1"}) // Redisson adds up leases
		b.keys(key)
	}
	b.busy(read(ownerB), lease-tolerance, lease)
	b.busy(write(ownerB), lease-tolerance, lease)
	told()
	b.release(write(ownerA), nil)
	told("0", "1") // Redisson's 1 alone is missed by who is about to sleep
	b.release(write(ownerA), lock.ErrNotHeld)
	b.keys()
}

// A writer goes on as a reader.
func TestTheGoldenStatesOfALoweredHold(t *testing.T) {
	b := newBench(t)
	const key, channel = "orders", "redisson_rwlock:{orders}"
	sentinel := sentinelOf(key, ownerA)
	read, write := claimIn(lock.Read, ownerA, key), claimIn(lock.Write, ownerA, key)
	messages := subscribe(t, b.rdb, channel)
	told := func(payloads ...string) { t.Helper(); b.told(messages, channel, payloads...) }
	lasting := func(c lock.Claim, d time.Duration) lock.Claim {
		c.TTL = d
		return c
	}

	b.lower(read, lock.ErrNotHeld) // creates nothing
	b.keys()
	b.acquire(lasting(write, 2*lease), nil)
	b.acquire(claimIn(lock.Read, ownerB, key), lock.ErrBusy)
	told()
	b.lower(read, nil) // shortens nothing
	lowered := map[string]string{"mode": "read", ownerA: "1"}
	b.hash(key, 2*lease, lowered)
	b.ttl(sentinel, 2*lease)
	b.keys(key, sentinel)
	told("0", "1") // Redisson wakes nobody here
	b.lower(lasting(read, 3*lease), nil)
	b.hash(key, 3*lease, lowered)
	b.ttl(sentinel, 3*lease)
	b.acquire(write, lock.ErrBusy) // late: not upgraded
	b.renew(write, lock.ErrNotHeld)
	b.release(write, lock.ErrNotHeld)
	b.hash(key, 3*lease, lowered)
	told()
	b.acquire(claimIn(lock.Read, ownerB, key), nil)
	b.acquire(claimIn(lock.Write, ownerC, key), lock.ErrBusy)
	b.lower(claimIn(lock.Read, ownerC, key), lock.ErrNotHeld)
	b.lower(read, nil) // among others
	b.hash(key, 3*lease, map[string]string{"mode": "read", ownerA: "1", ownerB: "1"})
	b.release(claimIn(lock.Read, ownerB, key), nil)
	b.release(read, nil)
	b.lower(read, lock.ErrNotHeld) // late: creates nothing
	told("0")
	b.keys()

	b.acquire(write, nil)
	b.lower(lasting(read, 2*lease), nil) // lasts that long at least
	b.hash(key, 2*lease, lowered)
	b.ttl(sentinel, 2*lease)
	if state, err := b.store.Inspect(t.Context(), key); err != nil || state.Mode != lock.Read || !slices.Equal(state.Owners, []lock.OwnerHolds{{Owner: ownerA, Holds: 1}}) {
		t.Errorf("inspected %+v, %v", state, err)
	}
	b.rdb.Del(t.Context(), sentinel) // the hold has expired
	b.lower(read, lock.ErrNotHeld)
}

// Lower may not have run when its owner is called a reader: its write hold is what there is.
func TestAReaderThatStillWritesIsFound(t *testing.T) {
	b := newBench(t)
	const channel = "redisson_rwlock:{k}"
	read, write := claimIn(lock.Read, ownerA, "k"), claimIn(lock.Write, ownerA, "k")
	writes := map[string]string{"mode": "write", ownerA + ":write": "1"}
	messages := subscribe(t, b.rdb, channel)
	b.acquire(write, nil)
	read.TTL = 2 * lease
	b.renew(read, nil)
	b.hash("k", 2*lease, writes)
	read.TTL = 3 * lease
	b.acquire(read, nil) // the mode stays
	b.hash("k", 3*lease, writes)
	read.TTL = lease
	b.acquire(read, nil)
	b.renew(read, nil)
	b.hash("k", 3*lease, writes)
	b.keys("k")
	other := claimIn(lock.Read, ownerB, "k")
	b.acquire(other, lock.ErrBusy)
	b.renew(other, lock.ErrNotHeld)
	b.release(other, lock.ErrNotHeld)
	b.release(read, nil)
	wantMessage(t, messages, channel, "0")
	wantMessage(t, messages, channel, "1")
	b.keys()
	b.release(read, lock.ErrNotHeld)

	b.acquire(write, nil)
	read.Keep = time.Now().Add(time.Minute)
	b.release(read, nil)
	b.hash("k", time.Minute, map[string]string{"mode": "write", ownerA + ":kept:write": "1"})
	b.acquire(other, lock.ErrBusy) // as behind a writer
	b.keys("k")
}

// A watchdog keeps its own readers only.
func TestRenewalOfAReaderKeepsItsOwnSentinels(t *testing.T) {
	b := newBench(t)
	read := func(owner string, ttl time.Duration) lock.Claim {
		c := claimIn(lock.Read, owner, "k")
		c.TTL = ttl
		return c
	}
	b.acquire(read(ownerA, lease), nil)
	b.acquire(read(ownerB, lease), nil)
	b.renew(read(ownerA, time.Hour), nil)
	b.ttl("k", time.Hour)
	b.ttl(sentinelOf("k", ownerA), time.Hour)
	b.ttl(sentinelOf("k", ownerB), lease)
	b.renew(read(ownerB, lease), nil) // must not shorten the lock for A
	b.ttl("k", time.Hour)

	// Java's read watchdog cuts the lock to its own time, and up to 4.3 all sentinels: what
	// is left of a hold is restored.
	for _, key := range []string{"k", sentinelOf("k", ownerA), sentinelOf("k", ownerB)} {
		b.rdb.PExpire(t.Context(), key, lease)
	}
	b.renew(read(ownerA, time.Minute), nil)
	b.ttl("k", time.Minute)
	b.ttl(sentinelOf("k", ownerA), time.Minute)
	b.ttl(sentinelOf("k", ownerB), lease)
}

// Redisson's readers overlook a plain lock. Its owner still has it.
func TestAPlainLockThatAReaderOverlookedIsRenewed(t *testing.T) {
	b := newBench(t)
	for _, mode := range []lock.Mode{lock.Exclusive, lock.Fair} {
		c := claimIn(mode, ownerA, mode.String())
		b.acquire(c, nil)
		b.rdb.HSet(t.Context(), c.Key, "mode", "read", ownerB, "1")
		c.TTL = time.Hour
		b.renew(c, nil)
		b.ttl(c.Key, time.Hour)
		b.release(c, nil)
		b.hash(c.Key, time.Hour, map[string]string{"mode": "read", ownerB: "1"})
	}
}

// A renewal of Redisson cuts the TTL of the lock down to its own: that may end before the
// hold of a reader that Redisson doesn't know.
func TestARenewalThatFindsNoReaderLeavesNoSentinel(t *testing.T) {
	b := newBench(t)
	c := claimIn(lock.Read, ownerA, "k")
	b.acquire(c, nil)
	b.rdb.Del(t.Context(), "k")
	b.renew(c, lock.ErrNotHeld)
	b.keys()
}

// A dead reader is in nobody's way for longer than its lease, and a live one of
// Redisson's isn't taken for dead.
func TestAWriterTakesDeadReadersAway(t *testing.T) {
	b := newBench(t)
	ctx := t.Context()
	const java = "3f0c0e1a-9d5a-4c9e-8f57-0d9a3c1f7b11:12"
	b.rdb.HSet(ctx, "k", "mode", "read", java, "2", "dead:1", "1", "dead:2", "3")
	b.rdb.PExpire(ctx, "k", time.Hour)
	b.rdb.Set(ctx, "{k}:"+java+":rwlock_timeout:2", "1", lease) // the first has a shorter lease
	b.busy(claimIn(lock.Write, ownerA, "k"), 0, time.Hour)
	b.hash("k", time.Hour, map[string]string{"mode": "read", java: "2"})
	if state, err := b.store.Inspect(ctx, "k"); err != nil || len(state.Owners) != 1 {
		t.Errorf("inspected %+v, %v", state, err)
	}
	b.rdb.Del(ctx, "{k}:"+java+":rwlock_timeout:2")
	b.acquire(claimIn(lock.Write, ownerA, "k"), nil)
	b.hash("k", lease, map[string]string{"mode": "write", ownerA + ":write": "1"})
}

// Who leaves a crowd looks at few of it, unless its hold was the longest.
func TestAReaderThatLeavesACrowdLooksAtFew(t *testing.T) {
	b := newBench(t)
	ctx := t.Context()
	read := func(owner int, ttl time.Duration) lock.Claim {
		c := claimIn(lock.Read, fmt.Sprint("reader:", owner), "k")
		c.TTL = ttl
		return c
	}
	const crowd = 60
	for i := range crowd {
		b.acquire(read(i, lease), nil)
	}
	b.acquire(read(crowd, time.Hour), nil)
	looks := func() int64 {
		info := b.rdb.InfoMap(ctx, "commandstats").Item("Commandstats", "cmdstat_exists")
		var n int64
		_, _ = fmt.Sscanf(info, "calls=%d", &n)
		return n
	}
	before := looks()
	for i := range crowd / 2 {
		b.release(read(i, lease), nil)
	}
	if each := float64(looks()-before) / (crowd / 2); each > 6 {
		t.Errorf("%v looks for each release among %d readers", each, crowd)
	}
	b.ttl("k", time.Hour)
	b.release(read(crowd, lease), nil) // the longest
	b.ttl("k", lease)

	for i := crowd / 2; i < crowd-1; i++ {
		b.rdb.Del(ctx, fmt.Sprintf("{k}:reader:%d:rwlock_timeout:1", i)) // dies
	}
	b.release(read(crowd-1, lease), nil)
	b.keys()
}

func TestAWriterLooksAtSomeReadersAtATime(t *testing.T) {
	b := newBench(t)
	ctx := t.Context()
	b.rdb.HSet(ctx, "k", "mode", "read")
	for i := range 1000 {
		b.rdb.HSet(ctx, "k", fmt.Sprintf("dead:%d", i), "1")
	}
	b.rdb.PExpire(ctx, "k", time.Hour)
	c := claimIn(lock.Write, ownerA, "k")
	calls := 0
	for {
		calls++
		before := b.rdb.HLen(ctx, "k").Val()
		_, err := lock.Blocking(b.store).Acquire(ctx, c)
		if err == nil {
			break
		}
		if after := b.rdb.HLen(ctx, "k").Val(); !errors.Is(err, lock.ErrBusy) || before-after > 102 || after >= before {
			t.Fatalf("%v; %d fields, then %d", err, before, after)
		}
	}
	if calls < 9 || calls > 12 {
		t.Errorf("%d calls for 1000 dead readers", calls)
	}
}

// A number that Redisson has set stays without an end, and so do the permits,
// which are worth nothing to it without the number.
func TestASemaphoreThatRedissonHasSetKeepsItsNumber(t *testing.T) {
	b := newBench(t)
	c := claimIn(lock.Semaphore, ownerA, "k")
	c.Permits, c.Size = 2, 3
	b.rdb.Set(t.Context(), "k", "3", 0)
	b.acquire(c, nil)
	b.renew(c, nil)
	for _, key := range []string{"k", "{k}:timeout"} {
		if ttl := b.rdb.PTTL(t.Context(), key).Val(); ttl != -1 {
			t.Errorf("%s expires in %v", key, ttl)
		}
	}
	if freed, err := b.store.ForceRelease(t.Context(), "k"); err != nil || !freed {
		t.Errorf("force release: %v, %v", freed, err)
	}
	if free := b.rdb.Get(t.Context(), "k").Val(); free != "3" {
		t.Errorf("%q permits are free, want 3", free)
	}
	wrong := claimIn(lock.Exclusive, ownerA, "k")
	b.acquire(wrong, lock.ErrInvalid) // for ever, so it is no matter of waiting
	b.release(wrong, lock.ErrNotHeld)
}

// Older versions left the number when the last permit had come back.
func TestAForcedReleaseRemovesANumberThatNobodyUses(t *testing.T) {
	b := newBench(t)
	b.rdb.Set(t.Context(), "k", "3", time.Hour)
	b.rdb.ZAdd(t.Context(), "{k}:timeout", redis.Z{Score: float64(b.now() - 1), Member: "0123456789abcdef"})
	for _, want := range []bool{true, false} {
		if freed, err := b.store.ForceRelease(t.Context(), "k"); err != nil || freed != want {
			t.Errorf("force release: %v, %v; want %v", freed, err, want)
		}
		b.keys()
	}
	b.rdb.Set(t.Context(), "k", "3", 0) // Redisson's
	if freed, err := b.store.ForceRelease(t.Context(), "k"); err != nil || freed {
		t.Errorf("force release of Redisson's number: %v, %v", freed, err)
	}
	b.keys("k")
}

// What is left expires with the longest permit of it.
func TestAReleaseOfTheLongestPermitCutsTheKeys(t *testing.T) {
	b := newBench(t)
	long, short := claimIn(lock.Semaphore, ownerA, "k"), claimIn(lock.Semaphore, ownerB, "k")
	long.Permits, long.Size, long.TTL = 2, 4, time.Hour
	short.Size = 4
	b.acquire(long, nil)
	b.acquire(short, nil)
	b.release(long, nil)
	for _, key := range []string{"k", "{k}:timeout"} {
		b.ttl(key, lease)
	}
	b.release(short, nil)
	b.keys()
}

// As many permits as a claim can have come back as well.
func TestALargeClaimOfPermits(t *testing.T) {
	b := newBench(t)
	c := claimIn(lock.Semaphore, ownerA, "k")
	c.Permits, c.Size = lock.MaxPermits, lock.MaxPermits
	b.acquire(c, nil)
	b.renew(c, nil)
	other := c
	other.Owner, other.Permits = ownerB, 1
	b.busy(other, lease-tolerance, lease)
	b.release(c, nil)
	b.acquire(other, nil)
	if freed, err := b.store.ForceRelease(t.Context(), "k"); err != nil || !freed {
		t.Errorf("force release: %v, %v", freed, err)
	}
	b.keys()
}

// The keys that a fair lock, a read lock and a semaphore have besides the lock
// would be those of the name without braces.
func TestANameThatIsAllBracesIsForExclusiveLocks(t *testing.T) {
	b := newBench(t)
	for _, mode := range everyMode {
		c := claimIn(mode, ownerA, "{k}")
		if mode == lock.Semaphore {
			c.Permits, c.Size = 1, 1
		}
		if mode == lock.Exclusive {
			b.acquire(c, nil)
			b.renew(c, nil)
			b.release(claimIn(mode, ownerA, "{k}"), nil)
			continue
		}
		b.acquire(c, lock.ErrInvalid)
		b.renew(c, lock.ErrInvalid)
		if _, err := b.store.Watch(t.Context(), c, func() {}); !errors.Is(err, lock.ErrInvalid) {
			t.Errorf("%s: watch: %v, want ErrInvalid", mode, err)
		}
		b.release(c, lock.ErrInvalid)
		c.Key = "{k}:" + mode.String()
		b.acquire(c, nil)
	}
	if err := b.store.ReleasePermits(t.Context(), "{k}", strings.Repeat("0", 32)); !errors.Is(err, lock.ErrInvalid) {
		t.Errorf("permits: %v, want ErrInvalid", err)
	}
}

// Redisson's getPermitExpirableSemaphore.
func TestTheGoldenStatesOfASemaphore(t *testing.T) {
	b := newBench(t)
	ctx := t.Context()
	const key, taken, channel = "orders", "{orders}:timeout", "redisson_sc:{orders}"
	claim := func(owner string, n int) lock.Claim {
		c := claimIn(lock.Semaphore, owner, key)
		c.Permits, c.Size = n, 3
		return c
	}
	messages := subscribe(t, b.rdb, channel)
	free := func(want string, out int64) {
		t.Helper()
		if got := b.rdb.Get(ctx, key).Val(); got != want {
			t.Errorf("%s permits are free, want %s", got, want)
		}
		if got := b.rdb.ZCard(ctx, taken).Val(); got != out {
			t.Errorf("%d permits are taken, want %d", got, out)
		}
	}

	b.acquire(claim(ownerA, 2), nil)
	wantMessage(t, messages, channel, "1") // what is left of 3
	free("1", 2)
	b.keys(key, taken)
	now := b.now()
	for _, permit := range b.rdb.ZRangeWithScores(ctx, taken, 0, -1).Val() {
		if id := permit.Member.(string); id != ownerA+"/0" && id != ownerA+"/1" {
			t.Errorf("permit %q doesn't name its owner", id)
		}
		if left := time.Duration(int64(permit.Score)-now) * time.Millisecond; left > lease || left < lease-tolerance {
			t.Errorf("the permit lasts %v, want %v", left, lease)
		}
	}
	for _, key := range []string{key, taken} {
		b.ttl(key, lease) // with the last permit; Redisson's does not
	}
	b.acquire(claim(ownerA, 2), nil)
	free("1", 2)
	b.busy(claim(ownerB, 2), lease-tolerance, lease)
	b.acquire(claim(ownerB, 1), nil)
	free("0", 3)
	state, err := b.store.Inspect(ctx, key)
	if err != nil || !state.Held || state.Mode != lock.Semaphore || len(state.Owners) != 2 {
		t.Fatalf("inspected %+v, %v", state, err)
	}
	for _, o := range state.Owners {
		if want := map[string]int{ownerA: 2, ownerB: 1}; o.Holds != want[o.Owner] {
			t.Errorf("%s has %d permits, want %v", o.Owner, o.Holds, want)
		}
	}

	b.release(claim(ownerA, 2), nil)
	wantMessage(t, messages, channel, "2")
	free("2", 1)
	b.release(claim(ownerA, 2), lock.ErrNotHeld)
	free("2", 1)
	if n := len(messages); n > 0 {
		t.Errorf("%d messages too many", n)
	}

	// A permit of Redisson's that expired comes back at the next call, also at
	// one that is refused; one that never expires doesn't.
	b.rdb.ZAdd(ctx, taken, redis.Z{Score: float64(b.now() - 1), Member: "0123456789abcdef"}, redis.Z{Score: 922337203685477, Member: "fedcba9876543210"})
	b.rdb.DecrBy(ctx, key, 2)
	free("0", 3)
	b.busy(claim(ownerC, 2), lease-tolerance, lease)
	wantMessage(t, messages, channel, "1")
	free("1", 2)
	b.acquire(claim(ownerC, 1), nil)
	free("0", 3)
	b.release(claim(ownerB, 1), nil)
	b.release(claim(ownerC, 1), nil)
	free("2", 1)
	b.acquire(claim(ownerA, 2), nil)
	b.release(claim(ownerA, 2), nil)

	// Redisson releases one of two of ours: the hold is gone, and the other
	// permit with it.
	b.acquire(claim(ownerA, 2), nil)
	b.rdb.ZPopMin(ctx, taken)
	b.rdb.Incr(ctx, key)
	b.renew(claim(ownerA, 2), lock.ErrNotHeld)
	b.release(claim(ownerA, 2), lock.ErrNotHeld)
	free("2", 1)

	b.rdb.ZPopMin(ctx, taken) // the one of Redisson's that never expires
	b.acquire(claim(ownerA, 3), nil)
	b.rdb.Publish(ctx, channel, "here")
	for m := range messages { // those of before may be on their way
		if m.Payload == "here" {
			break
		}
	}
	b.release(claim(ownerA, 3), nil)
	wantMessage(t, messages, channel, "3")
	b.keys()
}

func TestASemaphoreIsNotMadeOfAText(t *testing.T) {
	b := newBench(t)
	b.rdb.Set(t.Context(), "k", "a text", 0)
	_, err := lock.Blocking(b.store).Acquire(t.Context(), claimIn(lock.Semaphore, ownerA, "k"))
	wantOutcome(t, "acquire", err, lock.OutcomeRefused)
	if text := b.rdb.Get(t.Context(), "k").Val(); text != "a text" {
		t.Errorf("the text is now %q", text)
	}
}

// The lock is in its hash, whatever has become of its queue.
func TestAFairLockWhoseQueueWasOverwrittenIsReleased(t *testing.T) {
	b := newBench(t)
	claim := claimIn(lock.Fair, ownerA, "k")
	b.acquire(claim, nil)
	b.rdb.Set(t.Context(), "redisson_lock_queue:{k}", "no queue", 0)
	b.release(claim, nil)
	b.release(claim, lock.ErrNotHeld)
	b.keys("redisson_lock_queue:{k}")
}

// A permit that lasts for longer than a key can is Java's way to say for ever.
func TestAPermitWithoutAnEndDelaysNoOther(t *testing.T) {
	for _, score := range []string{"+inf", "1.8e17"} {
		t.Run(score, func(t *testing.T) {
			b := newBench(t)
			claim := claimIn(lock.Semaphore, ownerA, "k")
			claim.Size = 4
			b.rdb.Do(t.Context(), "ZADD", "{k}:timeout", score, "0123456789abcdef")
			b.acquire(claim, nil)
			b.renew(claim, nil)
			claim.Keep = time.Now().Add(time.Minute)
			b.release(claim, nil)
		})
	}
}

// An id that is named twice is one permit.
func TestAPermitThatIsNamedTwiceComesBackOnce(t *testing.T) {
	b := newBench(t)
	b.rdb.Set(t.Context(), "k", "3", 0)
	claim := claimIn(lock.Semaphore, ownerA, "k")
	claim.Permits, claim.Size = 1, 3
	b.acquire(claim, nil)
	state, err := b.store.Inspect(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	id := state.Owners[0].Owner
	if err := b.store.ReleasePermits(t.Context(), "k", id, id); err != nil {
		t.Error(err)
	}
	if free := b.rdb.Get(t.Context(), "k").Val(); free != "3" {
		t.Errorf("%s permits are free of 3", free)
	}
}

// While its slot moves, the permits may be gone with the last of them.
func TestAPermitOfASlotThatIsMovingComesBack(t *testing.T) {
	set := redistest.Cluster(t)
	rdb, store, ctx := set.Admin(t), redisstore.New(set.Client(t)), t.Context()
	rdb.Set(ctx, "k", "2", 0)
	rdb.Do(ctx, "ZADD", "{k}:timeout", time.Now().Add(time.Minute).UnixMilli(), "0123456789abcdef")
	move := beginMigration(t, set, "k")
	id := hex.EncodeToString([]byte("0123456789abcdef"))
	if err := store.ReleasePermits(ctx, "k", id, id); err != nil {
		t.Error(err)
	}
	move.finish(t)
	if free := rdb.Get(ctx, "k").Val(); free != "3" {
		t.Errorf("%s permits are free of 3", free)
	}
}

// While a slot moves, the sentinel of a writer that goes on as a reader can't be made. It
// is not executed then, and its owner keeps what it has until it is, and can leave.
func TestAHoldOfASlotThatIsMovingIsLoweredLater(t *testing.T) {
	set := redistest.Cluster(t)
	b := &bench{T: t, rdb: set.Admin(t), store: redisstore.New(set.Client(t))}
	for name, taken := range map[string]bool{"here": false, "there": true} {
		for _, keep := range []time.Duration{0, time.Minute} {
			key := fmt.Sprintf("{k}%s:%v", name, keep)
			read, write := claimIn(lock.Read, ownerA, key), claimIn(lock.Write, ownerA, key)
			leaves := read
			leaves.Key += ":leaves"
			b.acquire(write, nil)
			write.Key = leaves.Key
			b.acquire(write, nil)
			move := beginMigration(t, set, key)
			if taken {
				move.take(t, key)
				move.take(t, leaves.Key)
			}
			wantOutcome(t, name, lock.Blocking(b.store).Lower(t.Context(), read), lock.OutcomeNotExecuted)
			read.TTL = time.Hour
			b.renew(read, nil)
			b.hash(key, time.Hour, map[string]string{"mode": "write", ownerA + ":write": "1"})
			if keep > 0 {
				leaves.Keep = time.Now().Add(keep)
			}
			b.release(leaves, nil)
			move.finish(t)
			b.lower(read, nil)
			b.hash(key, time.Hour, map[string]string{"mode": "read", ownerA: "1"})
			b.release(read, nil)
			if keep == 0 {
				b.acquire(claimIn(lock.Write, ownerB, leaves.Key), nil)
			} else {
				b.hash(leaves.Key, keep, map[string]string{"mode": "write", ownerA + ":kept:write": "1"})
			}
		}
	}
}

// A permit of Java lasts longer than the number that Go has made, if Java's lease is
// longer: what Go returns prolongs the number, not only shortens it.
func TestAReturnedPermitLeavesTheNumberToThoseThatLastLonger(t *testing.T) {
	b := newBench(t)
	claim := claimIn(lock.Semaphore, ownerA, "k")
	claim.Permits, claim.Size, claim.TTL = 1, 2, time.Second
	b.acquire(claim, nil)
	b.rdb.DecrBy(t.Context(), "k", 1) // as Java does
	b.rdb.Do(t.Context(), "ZADD", "{k}:timeout", time.Now().Add(time.Minute).UnixMilli(), "0123456789abcdef")
	b.release(claim, nil)
	for _, key := range []string{"k", "{k}:timeout"} {
		if ttl := b.rdb.PTTL(t.Context(), key).Val(); ttl < 50*time.Second {
			t.Errorf("%s lasts for %v", key, ttl)
		}
	}
	next := claimIn(lock.Semaphore, ownerB, "k")
	next.Permits, next.Size = 2, 2
	b.acquire(next, lock.ErrBusy)
}

// A release that fails changes nothing, whatever the number has become meanwhile.
func TestAReleaseOfPermitsThatFailsChangesNothing(t *testing.T) {
	b := newBench(t)
	claim := claimIn(lock.Semaphore, ownerA, "k")
	b.acquire(claim, nil)
	b.rdb.Del(t.Context(), "k")
	b.rdb.RPush(t.Context(), "k", "no number")
	before := snapshot(t, b.rdb)
	b.release(claim, lock.ErrNotHeld)
	if after := snapshot(t, b.rdb); !maps.Equal(before, after) {
		t.Errorf("%v became %v", before, after)
	}
}

// Waiters of a fair lock keep their places for as long as they come back,
// whatever is subtracted from their scores when others are served.
func TestAWaiterThatComesBackKeepsItsPlace(t *testing.T) {
	b := newBench(t)
	fair := func(owner string) lock.Claim { return claimIn(lock.Fair, owner, "k") }
	queue := func(want ...string) {
		t.Helper()
		for i := range want {
			want[i] = placed(want[i])
		}
		if got := b.rdb.LRange(t.Context(), "redisson_lock_queue:{k}", 0, -1).Val(); !slices.Equal(got, want) {
			t.Errorf("queue %v, want %v", got, want)
		}
	}
	b.acquire(fair(ownerA), nil)
	b.busy(fair(ownerB), 0, lease)
	b.busy(fair(ownerC), 0, lease)
	b.later("k", -placeTTL) // both are late
	b.busy(fair(ownerB), 0, lease)
	queue(ownerB, ownerC)
	b.release(fair(ownerA), nil)
	b.acquire(fair(ownerB), nil)
	b.busy(fair(ownerD), 0, lease) // passes over C, which has not come back
	queue(ownerD)
	b.busy(fair(ownerC), 0, lease)
	queue(ownerD, ownerC)
}

// A head without a score blocks Redisson's queue for ever.
func TestAHeadWithoutAScoreIsGivenUp(t *testing.T) {
	b := newBench(t)
	fair := func(owner string) lock.Claim { return claimIn(lock.Fair, owner, "k") }
	b.acquire(fair(ownerA), nil)
	b.busy(fair(ownerB), 0, lease)
	b.busy(fair(ownerC), 0, lease)
	b.rdb.Del(t.Context(), "redisson_lock_timeout:{k}")
	freed, err := b.store.ForceRelease(t.Context(), "k")
	if err != nil || !freed {
		t.Fatal(freed, err)
	}
	b.acquire(fair(ownerC), nil)
	b.keys("k")
}

// However many are dead, one call removes some of them.
func TestTheDeadAreGivenUpInParts(t *testing.T) {
	b := newBench(t)
	ctx := t.Context()
	for i := range 2500 {
		b.rdb.RPush(ctx, "redisson_lock_queue:{k}", fmt.Sprint("dead:", i))
		b.rdb.ZAdd(ctx, "redisson_lock_timeout:{k}", redis.Z{Score: 1, Member: fmt.Sprint("dead:", i)})
	}
	c := claimIn(lock.Fair, ownerA, "k")
	left := []int64{1501, 501} // with A's own place
	for _, want := range left {
		b.busy(c, 0, 0)
		if n := b.rdb.LLen(ctx, "redisson_lock_queue:{k}").Val(); n != want {
			t.Fatalf("%d in the queue, want %d", n, want)
		}
	}
	b.acquire(c, nil)
	b.keys("k")
}

// A waiter that passes over the dead wakes the one whose turn it is then.
func TestTheOneBehindTheDeadIsWoken(t *testing.T) {
	b := newBench(t)
	fair := func(owner string) lock.Claim { return claimIn(lock.Fair, owner, "k") }
	b.acquire(fair(ownerA), nil)
	for _, owner := range []string{"dead:1", ownerC, ownerE} {
		b.busy(fair(owner), 0, lease)
	}
	messages := subscribe(t, b.rdb, "redisson_lock__channel:{k}:"+lockerOf(ownerC))
	b.release(fair(ownerA), nil)
	b.busy(fair(ownerE), 4*time.Second, 5*time.Second) // the dead has that long to come
	eventually(t, func() error {
		_, err := lock.Blocking(b.store).Acquire(context.Background(), fair(ownerE))
		if err == nil {
			t.Fatal("E came before C")
		}
		if len(messages) == 0 {
			return errors.New("C was not woken")
		}
		return nil
	})
	wantMessage(t, messages, "redisson_lock__channel:{k}:"+lockerOf(ownerC), "0")
	b.acquire(fair(ownerC), nil)
}

// before runs something before a command that has this argument is sent.
type before struct {
	argument string
	run      func()
}

func (before) DialHook(next redis.DialHook) redis.DialHook { return next }

func (b before) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if slices.Contains(cmd.Args(), any(b.argument)) {
			b.run()
		}
		return next(ctx, cmd)
	}
}

func (b before) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if slices.ContainsFunc(cmds, func(cmd redis.Cmder) bool { return slices.Contains(cmd.Args(), any(b.argument)) }) {
			b.run()
		}
		return next(ctx, cmds)
	}
}

// However many readers there are, force removes them all, and their sentinels.
func TestAForcedReleaseOfACrowd(t *testing.T) {
	b := newBench(t)
	for i := range 3*lock.MaxListed + 7 {
		b.acquire(claimIn(lock.Read, fmt.Sprint("reader:", i), "k"), nil)
	}
	if freed, err := b.store.ForceRelease(t.Context(), "k"); err != nil || !freed {
		t.Errorf("force release: %v, %v", freed, err)
	}
	b.keys()
	b.acquire(claimIn(lock.Write, ownerA, "k"), nil)
}

// Nor does it take anybody who came when some of them were removed.
func TestAForcedReleaseOfACrowdSparesWhoComesMeanwhile(t *testing.T) {
	server := redistest.Standalone(t)
	b := &bench{T: t, rdb: server.Admin(t), store: redisstore.New(server.Client(t))}
	writer := claimIn(lock.Write, ownerA, "k")
	const readers = lock.MaxListed + 1
	for i := range readers {
		b.acquire(claimIn(lock.Read, fmt.Sprint("reader:", i), "k"), nil)
	}
	rdb := server.Client(t)
	rdb.AddHook(before{"redisson_sc:{k}", sync.OnceFunc(func() { // a removal
		for i := range readers {
			_ = lock.Blocking(b.store).Release(t.Context(), claimIn(lock.Read, fmt.Sprint("reader:", i), "k"))
		}
		b.acquire(writer, nil)
	})})
	if _, err := redisstore.New(rdb).ForceRelease(t.Context(), "k"); err != nil {
		t.Error(err)
	}
	b.renew(writer, nil)
}

// Nor are readers spared that many dead ones hide.
func TestAForcedReleaseFindsTheLivingAmongTheDead(t *testing.T) {
	b := newBench(t)
	for i := range 3 * lock.MaxListed {
		b.rdb.HSet(t.Context(), "k", fmt.Sprint("dead:", i), 1)
	}
	b.rdb.HSet(t.Context(), "k", "mode", "read")
	b.rdb.PExpire(t.Context(), "k", lease)
	b.acquire(claimIn(lock.Read, ownerA, "k"), nil)
	if freed, err := b.store.ForceRelease(t.Context(), "k"); err != nil || !freed {
		t.Errorf("force release: %v, %v", freed, err)
	}
	b.renew(claimIn(lock.Read, ownerA, "k"), lock.ErrNotHeld)
	b.acquire(claimIn(lock.Write, ownerB, "k"), nil)
}

// A forced release finds who reads since Lower, as it finds any reader.
func TestAForcedReleaseOfALoweredHold(t *testing.T) {
	b := newBench(t)
	read := claimIn(lock.Read, ownerA, "k")
	b.acquire(claimIn(lock.Write, ownerA, "k"), nil)
	b.lower(read, nil)
	if freed, err := b.store.ForceRelease(t.Context(), "k"); err != nil || !freed {
		t.Errorf("force release: %v, %v", freed, err)
	}
	b.keys()
	b.renew(read, lock.ErrNotHeld)
	b.lower(read, lock.ErrNotHeld)
}

// The head of a queue may be dead, and a thread of Redisson behind it listens to its own
// channel only.
func TestAForcedReleaseWakesWhoIsBehindADeadHead(t *testing.T) {
	b := newBench(t)
	ctx := t.Context()
	dead, thread := ownerB+":redlatch", "java:1"
	b.acquire(claimIn(lock.Fair, ownerA, "k"), nil)
	b.rdb.RPush(ctx, "redisson_lock_queue:{k}", dead, thread)
	b.rdb.ZAdd(ctx, "redisson_lock_timeout:{k}",
		redis.Z{Score: float64(b.now() - 1), Member: dead}, redis.Z{Score: float64(b.now() + 300_000), Member: thread})
	channel := "redisson_lock__channel:{k}:" + thread
	messages := subscribe(t, b.rdb, channel)
	if freed, err := b.store.ForceRelease(ctx, "k"); err != nil || !freed {
		t.Fatalf("got %v, %v", freed, err)
	}
	wantMessage(t, messages, channel, "0")
}

// The number of a semaphore may be lost, by hand or by eviction, and its name become that
// of another lock while permits are held. That one may last longer than they, or be that of
// an owner that has died.
func TestPermitsWithoutTheirNumberLeaveAnotherLockAlone(t *testing.T) {
	others := map[string]func(b *bench, lasts time.Duration){
		"a token": func(b *bench, lasts time.Duration) { b.rdb.Set(t.Context(), "k", "1700000000123", lasts) },
		"a hash": func(b *bench, lasts time.Duration) {
			b.rdb.Del(t.Context(), "k")
			other := claimOf(ownerB, "k")
			other.TTL = lasts
			b.acquire(other, nil)
		},
	}
	for name, leave := range map[string]func(b *bench, permit lock.Claim){
		"renewed": func(b *bench, permit lock.Claim) { b.renew(permit, nil) },
		"released": func(b *bench, permit lock.Claim) {
			if err := lock.Blocking(b.store).Release(t.Context(), permit); err != nil && !errors.Is(err, lock.ErrNotHeld) {
				t.Error(err)
			}
		},
		"kept": func(b *bench, permit lock.Claim) {
			permit.Keep = time.Now().Add(time.Second)
			b.release(permit, nil)
		},
	} {
		for other, take := range others {
			for _, lasts := range []time.Duration{time.Hour, 10 * time.Second} {
				t.Run(fmt.Sprintf("%s, %s for %v", name, other, lasts), func(t *testing.T) {
					b := newBench(t)
					permit := claimIn(lock.Semaphore, ownerA, "k")
					b.acquire(permit, nil)
					take(b, lasts)
					before := b.rdb.Dump(t.Context(), "k").Val()
					leave(b, permit)
					b.ttl("k", lasts)
					if b.rdb.Dump(t.Context(), "k").Val() != before {
						t.Error("it has changed")
					}
				})
			}
		}
	}
}

// A fair lock that was passed to its next owner is that one's when it calls.
func TestALateForcedReleaseSparesTheNextOwnerOfAFairLock(t *testing.T) {
	server := redistest.Standalone(t)
	b := &bench{T: t, rdb: server.Admin(t), store: redisstore.New(server.Client(t))}
	old, next := claimIn(lock.Fair, ownerA, "k"), claimIn(lock.Fair, ownerB, "k")
	b.acquire(old, nil)
	next.Places = []string{ownerB}
	b.acquire(next, lock.ErrBusy)
	b.release(old, nil)
	if fields := hash(t, b.rdb, "k"); fields[ownerB] != "0" {
		t.Fatalf("not passed on: %v", fields)
	}
	rdb := server.Client(t)
	rdb.AddHook(before{"redisson_sc:{k}", sync.OnceFunc(func() { b.acquire(next, nil) })})
	freed, err := redisstore.New(rdb).ForceRelease(t.Context(), "k")
	if err != nil || freed {
		t.Errorf("got %v, %v; want that there was nothing left to free", freed, err)
	}
	b.renew(next, nil)
}

// What was an idle semaphore when it was looked at may have become a lock with a token
// that is a number.
func TestALateForcedReleaseSparesATokenThatIsANumber(t *testing.T) {
	for _, token := range []string{"1764106772123", "0x1F", "1e3", "1764106772.5"} {
		t.Run(token, func(t *testing.T) {
			server := redistest.Standalone(t)
			b := &bench{T: t, rdb: server.Admin(t)}
			b.rdb.Set(t.Context(), "k", 3, time.Minute) // permits that are back
			rdb := server.Client(t)
			rdb.AddHook(before{"redisson_sc:{k}", sync.OnceFunc(func() { b.rdb.Set(t.Context(), "k", token, time.Minute) })})
			freed, err := redisstore.New(rdb).ForceRelease(t.Context(), "k")
			if err != nil || freed {
				t.Errorf("got %v, %v; want that there was nothing left to free", freed, err)
			}
			if got := b.rdb.Get(t.Context(), "k").Val(); got != token {
				t.Errorf("the token is %q", got)
			}
		})
	}
}

func TestALateForcedReleaseSparesWhoCameSince(t *testing.T) {
	for _, mode := range []lock.Mode{lock.Exclusive, lock.Fair, lock.Read, lock.Write, lock.Semaphore} {
		t.Run(mode.String(), func(t *testing.T) {
			server := redistest.Standalone(t)
			b := &bench{T: t, rdb: server.Admin(t), store: redisstore.New(server.Client(t))}
			old, next := claimIn(mode, ownerA, "k"), claimIn(mode, ownerB, "k")
			b.acquire(old, nil)
			rdb := server.Client(t)
			rdb.AddHook(before{"redisson_sc:{k}", sync.OnceFunc(func() { // once: it may be sent by name and by text
				b.release(old, nil)
				b.acquire(next, nil)
			})})
			freed, err := redisstore.New(rdb).ForceRelease(t.Context(), "k")
			if err != nil || freed {
				t.Errorf("got %v, %v; want that there was nothing left to free", freed, err)
			}
			b.renew(next, nil)
			if freed, err := b.store.ForceRelease(t.Context(), "k"); err != nil || !freed {
				t.Errorf("in time: %v, %v", freed, err)
			}
			b.release(next, lock.ErrNotHeld)
		})
	}
}

// Where readers overlap for long, the lock never ends, and each minimum hold leaves a field in
// it. Releases remove the ones of minimum holds that have ended, so that a writer needn't.
func TestMinimumHoldsOfReadersLeaveNoPile(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	rdb := server.Admin(t)
	l := lock.New(redisstore.New(server.Client(t)))
	defer func() { _ = l.Close(t.Context()) }()
	reading := func(opts ...lock.Option) *lock.Lease {
		t.Helper()
		lease, err := l.Acquire(t.Context(), "k", append(opts, lock.WithMode(lock.Read))...)
		if err != nil {
			t.Fatal(err)
		}
		return lease
	}
	release := func(lease *lock.Lease) {
		t.Helper()
		if err := lease.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	last := reading()
	for range 1000 {
		next := reading(lock.WithMinHold(lock.MinLease))
		release(last)
		last = next
	}
	if n := rdb.HLen(t.Context(), "k").Val(); n > 100 {
		t.Errorf("%d fields", n)
	}
	release(last)
	if _, err := l.Acquire(t.Context(), "k", lock.WithMode(lock.Write), lock.WithWait(500*time.Millisecond)); err != nil {
		t.Error(err)
	}
}
