package integration_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/redisstore"
	"github.com/redlatch/redlatch/test/internal/redistest"
)

// scriptCalls counts the calls of scripts that the server has got.
func scriptCalls(t *testing.T, rdb *redis.Client) int {
	t.Helper()
	return commandCalls(t, rdb, "eval|evalsha")
}

// lockerCalls is what lockers send: scripts and subscriptions.
func lockerCalls(t *testing.T, rdb *redis.Client) int {
	t.Helper()
	return commandCalls(t, rdb, "eval|evalsha|subscribe|unsubscribe")
}

// commandCalls is how often the server has run the commands of these names, in
// the syntax of a regular expression.
func commandCalls(t *testing.T, rdb *redis.Client, names string) int {
	t.Helper()
	info, err := rdb.Info(t.Context(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	sent := 0
	for _, m := range regexp.MustCompile(`cmdstat_(?:`+names+`):calls=(\d+)`).FindAllStringSubmatch(info, -1) {
		n, _ := strconv.Atoi(m[1])
		sent += n
	}
	return sent
}

// 8 processes with 16 waiters each, on one fair key: nobody is served before
// one that came earlier, and the number of calls doesn't grow with that of the
// waiters.
func TestAFairKeyUnderACrowd(t *testing.T) {
	server := redistest.Standalone(t)
	rdb := server.Admin(t)
	const processes, waiters = 8, 16
	lockers := make([]*lock.Locker, processes)
	for i := range lockers {
		lockers[i] = newLocker(t, server.Client(t), lock.WithMode(lock.Fair))
	}
	holder := acquire(t, lockers[0], "k")
	queue := func() int { return int(rdb.LLen(t.Context(), "redisson_lock_queue:{k}").Val()) }

	var mu sync.Mutex
	var served []int
	var working sync.WaitGroup
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	place := 0
	for w := range waiters {
		for p := range processes {
			working.Go(func() {
				err := lockers[p].Do(ctx, "k", func(context.Context) error {
					mu.Lock()
					defer mu.Unlock()
					served = append(served, w*processes+p)
					return nil
				})
				if err != nil {
					t.Errorf("process %d, waiter %d: %v", p, w, err)
				}
			})
			place++
			eventually(t, func() error {
				if n := queue(); n != place {
					return fmt.Errorf("%d in the queue, want %d", n, place)
				}
				return nil
			})
		}
	}
	before := lockerCalls(t, rdb)
	began := time.Now()
	release(t, holder)
	working.Wait()
	took := time.Since(began)
	grants := processes * waiters
	sent := lockerCalls(t, rdb) - before
	for i, waiter := range served {
		if waiter != i {
			t.Fatalf("grant %d went to waiter %d", i, waiter)
		}
	}
	t.Logf("%d grants in %v, %.2f calls for each in all", grants, took, float64(sent)/float64(grants))
	// Each has taken its place before: what is left is the claim that finds
	// the hold, the release, two more of each process, and that each polls once in a
	// second.
	if most := 2*grants + 2*processes + int(float64(grants)*took.Seconds()); sent > most {
		t.Errorf("%d calls for %d grants, want %d at most", sent, grants, most)
	}
}

// The same crowd, each coming back for more.
func TestAFairKeyUnderACrowdThatComesBack(t *testing.T) {
	server := redistest.Standalone(t)
	rdb := server.Admin(t)
	const processes, waiters, rounds = 8, 16, 10
	lockers := make([]*lock.Locker, processes)
	for i := range lockers {
		lockers[i] = newLocker(t, server.Client(t), lock.WithMode(lock.Fair))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var longest, polls atomic.Int64
	inside := 0
	var working sync.WaitGroup
	began := time.Now()
	for p := range processes {
		for range waiters {
			working.Go(func() {
				for range rounds {
					asked := time.Now()
					err := lockers[p].Do(ctx, "k", func(context.Context) error {
						inside++ // the race detector watches
						return nil
					})
					if err != nil {
						t.Errorf("process %d: %v", p, err)
						return
					}
					waited := time.Since(asked).Nanoseconds()
					polls.Add(waited / int64(lock.DefaultPoll))
					for was := longest.Load(); waited > was && !longest.CompareAndSwap(was, waited); was = longest.Load() {
					}
				}
			})
		}
	}
	working.Wait()
	took := time.Since(began)
	grants := processes * waiters * rounds
	if inside != grants {
		t.Errorf("%d grants, want %d", inside, grants)
	}
	sent := lockerCalls(t, rdb)
	t.Logf("%d grants in %v, %.2f calls for each in all; time for %d polls, longest wait %v",
		grants, took, float64(sent)/float64(grants), polls.Load(), time.Duration(longest.Load()))
	// One finds the hold and one is the release. The call that takes a place takes
	// those of all who came meanwhile. What is left is for who subscribes.
	if most := 33 * grants / 10; sent > most {
		t.Errorf("%d calls for %d grants, want %d at most", sent, grants, most)
	}
}

// Those behind a dead head wait for its grace to end, and don't storm Redis
// meanwhile: Redisson's waiters call 20,000 times a second.
func TestADeadHeadDelaysAndCostsLittle(t *testing.T) {
	server := redistest.Standalone(t)
	rdb := server.Admin(t)
	const waiters = 32
	l := newLocker(t, server.Client(t), lock.WithMode(lock.Fair))
	holder := acquire(t, l, "k")
	dead := claimIn(lock.Fair, ownerB, "k")
	if _, err := lock.Blocking(redisstore.New(server.Client(t))).Acquire(t.Context(), dead); !errors.Is(err, lock.ErrBusy) {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var working sync.WaitGroup
	for range waiters {
		working.Go(func() {
			if err := l.Do(ctx, "k", func(context.Context) error { return nil }); err != nil {
				t.Error(err)
			}
		})
	}
	eventually(t, func() error {
		if n := rdb.LLen(ctx, "redisson_lock_queue:{k}").Val(); n != waiters+1 {
			return fmt.Errorf("%d in the queue", n)
		}
		return nil
	})
	before := lockerCalls(t, rdb)
	began := time.Now()
	release(t, holder)
	working.Wait()
	sent := lockerCalls(t, rdb) - before
	t.Logf("%d waiters behind a dead one: %v, %d scripts", waiters, time.Since(began), sent)
	// One for all polls once a second, for 5 s, and each is served.
	if sent > 3*waiters+10 {
		t.Errorf("%d scripts", sent)
	}
	if queue := rdb.LLen(ctx, "redisson_lock_queue:{k}").Val(); queue != 0 {
		t.Errorf("%d left in the queue", queue)
	}
}

// A locker's turn goes to the waiter that calls for it. If another of its places
// were served instead, each call would wake the caller itself, as fast as it can
// call.
func TestTheTurnIsTheLockers(t *testing.T) {
	server := redistest.Standalone(t)
	rdb := server.Admin(t)
	store := redisstore.New(server.Client(t))
	claim := func(owner string, places ...string) lock.Claim {
		return lock.Claim{Key: "k", Owner: owner, Mode: lock.Fair, TTL: time.Minute, Places: places}
	}
	const holder, first, lost, foreign = "a:1", "b:1", "b:2", "c:1"
	if _, err := lock.Blocking(store).Acquire(t.Context(), claim(holder)); err != nil {
		t.Fatal(err)
	}
	for _, owner := range []string{lost, foreign, first} { // b:1 has lost its place, and got another
		if _, err := lock.Blocking(store).Acquire(t.Context(), claim(owner, owner)); !errors.Is(err, lock.ErrBusy) {
			t.Fatal(err)
		}
	}
	if err := rdb.Del(t.Context(), "k").Err(); err != nil { // it expires
		t.Fatal(err)
	}
	if _, err := lock.Blocking(store).Acquire(t.Context(), claim(first, first)); err != nil {
		t.Errorf("the head is another place of the locker: %v", err)
	}
	places := rdb.LRange(t.Context(), "redisson_lock_queue:{k}", 0, -1).Val()
	if want := []string{"b:2:redlatch", "c:1:redlatch"}; !slices.Equal(places, want) {
		t.Errorf("the queue is %q, want %q", places, want)
	}
}

// A call that arrives late may queue an owner that has the lock already. Its
// release must not hand the lock to itself: it would be free, and nobody woken.
func TestAReleaseHandsNothingToItself(t *testing.T) {
	server := redistest.Standalone(t)
	rdb := server.Admin(t)
	store := redisstore.New(server.Client(t))
	claim := lock.Claim{Key: "k", Owner: "a:1", Mode: lock.Fair, TTL: time.Minute}
	if _, err := lock.Blocking(store).Acquire(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	sibling, other := claim, claim
	sibling.Owner, sibling.Places = "a:2", []string{"a:1", "a:2"}
	other.Owner, other.Places = "b:1", []string{"b:1"}
	for _, waiter := range []lock.Claim{sibling, other} {
		if _, err := lock.Blocking(store).Acquire(t.Context(), waiter); !errors.Is(err, lock.ErrBusy) {
			t.Fatal(err)
		}
	}
	if err := lock.Blocking(store).Release(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	if holders := rdb.HKeys(t.Context(), "k").Val(); !slices.Equal(holders, []string{"a:2"}) {
		t.Errorf("%q have the lock, want the next in the queue", holders)
	}
}

// Java's tryLock(Long.MAX_VALUE, …) makes a place that lasts for 292 million years. No
// key can expire as late as that.
func TestAJavaWaiterThatWaitsForEver(t *testing.T) {
	for name, till := range map[string]string{"the longest wait": "9.2233720368547758e+18", "no end at all": "inf"} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Standalone(t)
			rdb := server.Admin(t)
			ctx := t.Context()
			for _, command := range [][]any{
				{"hset", "k", ownerA, 1},
				{"pexpire", "k", lease.Milliseconds()},
				{"rpush", "redisson_lock_queue:{k}", ownerB},
				{"zadd", "redisson_lock_timeout:{k}", till, ownerB},
			} {
				if err := rdb.Do(ctx, command...).Err(); err != nil {
					t.Fatal(err)
				}
			}
			store := redisstore.New(server.Client(t))
			claim := lock.Claim{Key: "k", Owner: "a:1", Mode: lock.Fair, TTL: lease, Places: []string{"a:1"}}
			for range 2 {
				if _, err := lock.Blocking(store).Acquire(ctx, claim); !errors.Is(err, lock.ErrBusy) {
					t.Fatalf("behind it: %v", err)
				}
			}
			for _, key := range []string{"redisson_lock_queue:{k}", "redisson_lock_timeout:{k}"} {
				if ttl := rdb.PTTL(ctx, key).Val(); ttl <= 0 {
					t.Errorf("%s has no expiry", key)
				}
			}
			rdb.Del(ctx, "k")
			rdb.LPop(ctx, "redisson_lock_queue:{k}") // it is served, and leaves
			rdb.ZRem(ctx, "redisson_lock_timeout:{k}", ownerB)
			if _, err := lock.Blocking(store).Acquire(ctx, claim); err != nil {
				t.Errorf("behind nobody: %v", err)
			}
		})
	}
}

// An operator has deleted the queue, and left how long its places last: who waited
// in it queues again.
func TestAQueueThatWasDeletedIsMadeAnew(t *testing.T) {
	server := redistest.Standalone(t)
	rdb := server.Admin(t)
	store := redisstore.New(server.Client(t))
	claim := func(owner string) lock.Claim {
		return lock.Claim{Key: "k", Owner: owner, Mode: lock.Fair, TTL: lease, Places: []string{owner}}
	}
	if _, err := lock.Blocking(store).Acquire(t.Context(), claim("a:1")); err != nil {
		t.Fatal(err)
	}
	queue := func(owners ...string) {
		t.Helper()
		for _, owner := range owners {
			if _, err := lock.Blocking(store).Acquire(t.Context(), claim(owner)); !errors.Is(err, lock.ErrBusy) {
				t.Fatalf("%s: %v", owner, err)
			}
		}
	}
	queue("b:1", "c:1")
	rdb.Del(t.Context(), "redisson_lock_queue:{k}")
	queue("c:1", "b:1", "d:1")
	places := rdb.LRange(t.Context(), "redisson_lock_queue:{k}", 0, -1).Val()
	if want := []string{"c:1:redlatch", "b:1:redlatch", "d:1:redlatch"}; !slices.Equal(places, want) {
		t.Errorf("the queue is %q, want %q", places, want)
	}
}
