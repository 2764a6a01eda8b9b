package interop_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/redisstore"
)

// owned is what holds for every lock that one owner has alone: whatever the
// kind, as long as both sides use the same one.
var owned = []promise{
	{"a release in Go wakes a waiter in Java", goWakesJava, ""},
	{"a release in Java wakes a waiter in Go", javaWakesGo, ""},
	{"a hash tag in the name", hashTags, ""},
	{"Java does not get what Go holds", javaIsRefused, ""},
	{"Go does not get what Java holds", goIsRefused, ""},
	{"holds of a re-entry in Java show in Go", javaReenters, ""},
	{"a re-entry in Go is one hold in Java", goReenters, ""},
	{"Java cannot unlock for Go", javaCannotUnlockForGo, ""},
	{"Go cannot unlock for Java", goCannotUnlockForJava, ""},
	{"a late unlock in Java leaves Go alone", lateUnlockInJava, ""},
	{"forceUnlock in Java takes Go's lease", javaForces, ""},
	{"ForceRelease in Go takes Java's lock", goForces, ""},
	{"the watchdog of Java keeps Go out", javaWatchdog, ""},
	{"the watchdog of Go keeps Java out", goWatchdog, ""},
	{"a killed Java frees its lock", javaIsKilled, ""},
	{"nobody is lost in a crowd", crowd, ""},
	{"names that templates make, and unusual ones", unusualNames, ""},
}

// plain is what holds for Exclusive and getLock besides.
var plain = []promise{
	{"a NameMapper is a key prefix", namePrefix, ""},
	{"a minimum hold in Go keeps Java out until its end", goKeeps, ""},
	{"Java cannot unlock what is free", javaCannotUnlockFree, ""},
	{"a killed Go frees its lock", goIsKilled, ""},
	{"a late release in Go leaves Java alone", lateReleaseInGo, ""},
	{"a spin lock keeps Go out", func(w world) { otherKind(w, "spin") }, ""},
	{"a fenced lock keeps Go out", func(w world) { otherKind(w, "fenced") }, middle},
	{"a lock that is not re-entrant keeps Go out", func(w world) { otherKind(w, "nonreentrant") }, newest},
	{"a lock taken by lockAsync keeps Go out", lockAsync, ""},
	{"a crowd of spin locks", spinCrowd, ""},
	{"500 turns of each side, one after another", func(w world) { alternate(w, 1000) }, ""},
	{"another database, with another codec", func(w world) { elsewhere(w) }, ""},
	{"another database, with another codec, over RESP3", func(w world) { elsewhere(w, "protocol=RESP3") }, middle},
	{"the lock of a map, whose name the codec makes", lockOfMap, ""},
	{"a MultiLock and AcquireAll", multiLock, ""},
	{"subscriptions that are cut are made again", subscriptionsCut, ""},
	{"Go gets what was freed while nobody was subscribed", messageWhileCut, ""},
}

func goWakesJava(w world) { handOverToJava(w, w.key()) }

func handOverToJava(w world, key string) {
	w.Helper()
	lease := w.locker().acquire(key, lock.WithLease(long))
	java := w.thread("waiter")
	waiting := java.start("lock", w.kind, key, long.Milliseconds())
	java.awaitParked()
	waiting.unanswered()
	messages := w.listen(key)

	w.release(lease)
	messages.wakes(waiting)
	java.want("true", "held", w.kind, key)
	java.do("unlock", w.kind, key)
}

// minimum is a hold that Redisson doesn't know: it sees a holder that leaves when it
// has passed.
const minimum = 2 * time.Second

// goKeeps: the waiter knows of a longer lease, and gets the lock when the minimum hold
// has ended.
func goKeeps(w world) {
	key, java, other := w.key(), w.thread("waiter"), w.thread("other")
	start := time.Now()
	lease := w.locker().acquire(key, lock.WithLease(long), lock.WithMinHold(minimum))
	waiting := java.start("lock", w.kind, key, long.Milliseconds())
	java.awaitParked()
	w.release(lease)
	waiting.result()
	w.afterMinimum(start)
	other.want("false", "trylock", w.kind, key)
	java.want("true", "held", w.kind, key)
	java.do("unlock", w.kind, key)
}

// afterMinimum fails the test if what was sent after start has ended too early. It
// counts from the grant, and Redis in whole milliseconds.
func (w world) afterMinimum(start time.Time) {
	w.Helper()
	if early := minimum - time.Since(start); early > 5*time.Millisecond {
		w.Errorf("Java got it %v before the end of the minimum hold", early)
	}
}

func javaWakesGo(w world) { handOverToGo(w, w.key()) }

func handOverToGo(w world, key string) {
	w.Helper()
	java := w.thread("holder")
	java.do("lock", w.kind, key, long.Milliseconds())
	locker := w.locker()
	waiting := locker.acquiring(key)
	locker.awaitParked()

	java.do("unlock", w.kind, key)
	lease := waiting.lease()
	java.want("false", "trylock", w.kind, key)
	w.release(lease)
}

func hashTags(w world) {
	for _, key := range []string{"{" + w.key() + "}:stock:7", "stock:{" + w.key() + "}:7"} {
		handOverToJava(w, key)
		handOverToGo(w, key)
	}
}

func namePrefix(w world) {
	const prefix = "shop:"
	key := w.key()
	java := w.newAgent("prefix="+prefix).thread(w.T, "one")
	locker := w.locker(redisstore.WithKeyPrefix(prefix))

	lease := locker.acquire(key, lock.WithLease(long))
	waiting := java.start("lock", w.kind, key, long.Milliseconds())
	java.awaitParked()
	w.release(lease)
	waiting.result()
	if state := locker.inspect(key); !state.Held {
		w.Error("Go does not see that Java holds it")
	}
	java.do("unlock", w.kind, key)
}

// elsewhere is in another database, where there are several. The codec of Java's
// values has no part in locks.
func elsewhere(w world, options ...string) {
	options = append(options, "codec=org.redisson.codec.SerializationCodec")
	if len(w.args) == 2 && w.args[0] == "standalone" {
		options = append(options, "database=1")
		rdb := redis.NewClient(&redis.Options{Addr: w.addrs[0], DB: 1})
		w.Cleanup(func() { _ = rdb.Close() })
		w.site = &site{rdb: rdb, addrs: w.addrs, args: w.args}
	}
	w.java = w.newAgent(options...)
	handOverToJava(w, w.key())
	handOverToGo(w, w.key())
}

// lockOfMap: Java makes the name of such a lock of what the codec makes of the key. Go
// can use it as it is.
func lockOfMap(w world) {
	java := w.thread("namer")
	names := make(map[string]bool)
	for _, codec := range []string{"", "org.redisson.client.codec.StringCodec", "org.redisson.codec.SerializationCodec"} {
		name := java.do("mapped", codec, w.key(), "user-42")
		if names[name] || !strings.Contains(name, "{"+w.key()+"}:") {
			w.Errorf("with codec %q the name is %s: the tag, or what another codec makes", codec, name)
		}
		names[name] = true
		handOverToJava(w, name)
		handOverToGo(w, name)
	}
}

func lockAsync(w world) {
	key, java, locker := w.key(), w.thread("async"), w.locker()
	java.do("lockasync", w.kind, key, long.Milliseconds())
	locker.refused(key)
	locker.held(key, java.do("owner"), 1)
	java.do("unlock", w.kind, key)
	w.release(locker.acquire(key))
}

// multiLock: each part is a lock that both sides respect.
func multiLock(w world) {
	const kind = "multi"
	a, b := w.key()+"/a", w.key()+"/b"
	both, java, locker := a+"|"+b, w.thread("java"), w.locker()
	all := func() (*lock.Leases, error) {
		return lock.AcquireAll(w.Context(), locker.Request(a), locker.Request(b))
	}

	java.do("lock", kind, both, long.Milliseconds())
	locker.refused(a)
	locker.refused(b)
	got := make(chan error, 1)
	go func() {
		leases, err := all()
		if err == nil {
			err = leases.Release(context.Background())
		}
		got <- err
	}()
	locker.awaitParked()
	java.do("unlock", kind, both)
	if err := <-got; err != nil {
		w.Fatal(err)
	}

	leases, err := all()
	if err != nil {
		w.Fatal(err)
	}
	java.want("false", "trylock", kind, both)
	if err := leases.Release(w.Context()); err != nil {
		w.Fatal(err)
	}
	held := locker.acquire(b)
	java.want("false", "trylock", kind, both)
	w.release(locker.acquire(a)) // Java gave it back
	w.release(held)
	java.want("true", "trylock", kind, both)
	java.do("unlock", kind, both)
}

func javaIsRefused(w world) {
	key, java := w.key(), w.thread("other")
	lease := w.locker().acquire(key, lock.WithLease(long))
	java.want("true", "locked", w.kind, key)
	java.want("false", "trylock", w.kind, key)
	java.want("false", "trylock", w.kind, key, 300, 1000)
	java.want("false", "held", w.kind, key)
	ttl, err := strconv.ParseInt(java.do("ttl", w.kind, key), 10, 64)
	if err != nil || ttl <= long.Milliseconds()/2 || ttl > long.Milliseconds() {
		w.Errorf("Java sees a TTL of %d ms, want almost %v", ttl, long)
	}
	w.release(lease)
	java.want("false", "locked", w.kind, key)
}

func goIsRefused(w world) {
	key, java, locker := w.key(), w.thread("holder"), w.locker()
	java.do("lock", w.kind, key, long.Milliseconds())
	locker.refused(key)
	_, err := locker.Acquire(w.Context(), key, lock.WithWait(time.Second))
	if !errors.Is(err, lock.ErrBusy) || !errors.Is(err, context.DeadlineExceeded) {
		w.Errorf("Acquire: %v, want ErrBusy and DeadlineExceeded", err)
	}
	java.do("unlock", w.kind, key)
	w.release(locker.acquire(key))
}

func javaReenters(w world) {
	key, java, locker := w.key(), w.thread("holder"), w.locker()
	owner := java.do("owner")
	java.do("lock", w.kind, key, long.Milliseconds())
	java.do("lock", w.kind, key, long.Milliseconds())
	locker.held(key, owner, 2)
	java.want("2", "holds", w.kind, key)
	java.do("unlock", w.kind, key)
	locker.held(key, owner, 1)
	locker.refused(key)
	java.do("unlock", w.kind, key)
	w.release(locker.acquire(key))
}

func goReenters(w world) {
	key, java, locker := w.key(), w.thread("other"), w.locker()
	outer := locker.acquire(key)
	inner, err := locker.Acquire(outer.Context(), key)
	if err != nil {
		w.Fatal(err)
	}
	java.want(w.fields(outer.Owner(), 1), "hash", key)
	w.release(outer)
	java.want(w.fields(outer.Owner(), 1), "hash", key)
	writes := "write"
	if w.mode != lock.Read {
		writes = w.kind
	}
	java.want("false", "trylock", writes, key)
	w.release(inner)
	java.want("", "hash", key)
	java.want("true", "trylock", writes, key)
	java.do("unlock", writes, key)
}

func javaCannotUnlockForGo(w world) {
	key, java, locker := w.key(), w.thread("other"), w.locker()
	lease := locker.acquire(key)
	java.refuses("IllegalMonitorStateException", "unlock", w.kind, key)
	locker.held(key, lease.Owner(), 1)
	w.release(lease)
}

// javaCannotUnlockFree: the other kinds take it for a repetition.
func javaCannotUnlockFree(w world) {
	key, java := w.key(), w.thread("other")
	w.release(w.locker().acquire(key))
	java.refuses("IllegalMonitorStateException", "unlock", w.kind, key)
}

func goCannotUnlockForJava(w world) {
	key, java := w.key(), w.thread("holder")
	java.do("lock", w.kind, key, long.Milliseconds())
	err := lock.Blocking(redisstore.New(w.rdb)).Release(w.Context(), lock.Claim{Key: key, Mode: w.mode, Owner: "a-go-process:1", TTL: long})
	if !errors.Is(err, lock.ErrNotHeld) {
		w.Errorf("Release by another owner: %v, want ErrNotHeld", err)
	}
	java.want("true", "held", w.kind, key)
	java.do("unlock", w.kind, key)
}

func lateUnlockInJava(w world) {
	key, java, locker := w.key(), w.thread("late"), w.locker()
	java.do("lock", w.kind, key, 300)
	lease := locker.acquire(key) // once Java's lease has ended
	java.want("false", "held", w.kind, key)
	java.refuses("IllegalMonitorStateException", "unlock", w.kind, key)
	locker.held(key, lease.Owner(), 1)
	w.release(lease)
}

func lateReleaseInGo(w world) {
	key, java, locker := w.key(), w.thread("next"), w.locker()
	lease := locker.acquire(key, lock.WithLease(watchdog)) // long enough to be granted in time
	java.do("lock", w.kind, key, long.Milliseconds())      // once Go's lease has ended
	if cause := context.Cause(lease.Context()); !errors.Is(cause, lock.ErrLost) {
		w.Errorf("Java has the lock, and Go's lease ended with cause %v, want ErrLost", cause)
	}
	if err := lease.Release(w.Context()); !errors.Is(err, lock.ErrLost) {
		w.Errorf("Release: %v, want ErrLost", err)
	}
	java.want("true", "held", w.kind, key)
	java.do("unlock", w.kind, key)
}

func javaForces(w world) {
	key, java, waiter := w.key(), w.thread("operator"), w.locker()
	lease := w.locker().acquire(key, lock.WithWatchdog(patience/3))
	next := waiter.acquiring(key, lock.WithLease(long))
	waiter.awaitParked()

	java.want("true", "force", w.kind, key)
	successor := next.lease()
	<-lease.Context().Done()
	if cause := context.Cause(lease.Context()); !errors.Is(cause, lock.ErrTaken) { // a renewal found out
		w.Errorf("the lease ended with cause %v, want ErrTaken", cause)
	}
	if successor.Fence() <= lease.Fence() {
		w.Errorf("the next owner has fence %d, the old one %d", successor.Fence(), lease.Fence())
	}
	w.release(successor)
	java.want("false", "force", w.kind, key)
}

func goForces(w world) {
	key, locker := w.key(), w.locker()
	old, next := w.thread("old"), w.thread("next")
	old.do("lock", w.kind, key, long.Milliseconds())
	waiting := next.start("lock", w.kind, key, long.Milliseconds())
	next.awaitParked()

	if freed, err := locker.ForceRelease(w.Context(), key); err != nil || !freed {
		w.Fatalf("ForceRelease: %v, %v", freed, err)
	}
	waiting.result()
	old.want("false", "held", w.kind, key)
	old.refuses("IllegalMonitorStateException", "unlock", w.kind, key)
	next.want("true", "held", w.kind, key)
	next.do("unlock", w.kind, key)
	if freed, err := locker.ForceRelease(w.Context(), key); err != nil || freed {
		w.Errorf("ForceRelease of a free key: %v, %v", freed, err)
	}
}

func javaWatchdog(w world) {
	key, java, locker := w.key(), w.thread("holder"), w.locker()
	java.do("lock", w.kind, key, -1)
	w.throughout(5*watchdog/2, func() {
		locker.refused(key)
		java.want("true", "held", w.kind, key)
	})
	java.do("unlock", w.kind, key)
	w.release(locker.acquire(key))
}

func goWatchdog(w world) {
	key, java, locker := w.key(), w.thread("other"), w.locker()
	lease := locker.acquire(key)
	w.throughout(5*watchdog/2, func() {
		java.want("false", "trylock", w.kind, key)
		if err := lease.Context().Err(); err != nil {
			w.Fatalf("Go lost its lease: %v", context.Cause(lease.Context()))
		}
	})
	w.release(lease)
	java.want("true", "trylock", w.kind, key)
	java.do("unlock", w.kind, key)
}

func javaIsKilled(w world) {
	key, locker, java := w.key(), w.locker(), w.newAgent()
	java.thread(w.T, "holder").do("lock", w.kind, key, -1)
	waiting := locker.acquiring(key)
	locker.awaitParked()
	java.kill()
	lease := waiting.lease()
	w.release(lease)
}

func goIsKilled(w world) {
	key, java, holder := w.key(), w.thread("waiter"), w.startHolder(w.key())
	waiting := java.start("lock", w.kind, key, long.Milliseconds())
	java.awaitParked()
	waiting.unanswered()
	holder.kill()
	waiting.result()
	java.do("unlock", w.kind, key)
}

// crowd counts on both sides at once, in two steps that only the lock holds
// together. It lasts until the lock has changed sides often enough, however slow
// one side is: so each side had its turns against the other one's members.
func crowd(w world) {
	const members = 4 // on each side
	key, locker := w.key(), w.locker()
	c := counter{rdb: w.rdb, key: key + "/counter", until: time.Now().Add(crowdTime)}
	if err := w.rdb.Set(w.Context(), c.key, "0 go", 0).Err(); err != nil {
		w.Fatal(err)
	}
	start := locker.acquire(key, lock.WithLease(long)) // until all are there
	var java []*call
	for i := range members {
		thread := w.thread(strconv.Itoa(i))
		call := thread.start("count", w.kind, key, c.key)
		call.patience = 2 * crowdTime
		java = append(java, call)
		thread.awaitParked()
	}
	var group sync.WaitGroup
	for range members {
		group.Go(func() {
			for ended := false; !ended; {
				err := locker.Do(w.Context(), key, func(ctx context.Context) (err error) {
					ended, err = c.countUntil(ctx, enoughCount, enoughTurns)
					return err
				}, lock.WithWait(2*crowdTime))
				if err != nil {
					w.Errorf("Go: %v", err)
					return
				}
			}
		})
		locker.awaitParked()
	}
	w.release(start)
	group.Wait()
	c.judge(w, java, enoughTurns)
}

// judge says that the counter has every turn of both sides, as it has if they had the
// lock one at a time, and that they contended.
func (c *counter) judge(w world, java []*call, enough int) {
	w.Helper()
	counted, longest := c.counted, 0
	for _, call := range java {
		var n, wait int
		if _, err := fmt.Sscan(call.result(), &n, &wait); err != nil {
			w.Fatal(err)
		}
		counted, longest = counted+n, max(longest, wait)
	}
	if got, err := w.rdb.Get(w.Context(), c.key).Result(); err != nil || got != fmt.Sprint(counted, " end") {
		w.Errorf("the counter is %q (%v), but both sides counted to %d: two had the lock at once", got, err, counted)
	}
	w.Logf("counted to %d, %d of that in Go, which took the lock from Java %d times; a thread in Java waited %d ms at most",
		counted, c.counted, c.turns, longest)
	if c.turns < enough {
		w.Errorf("within %v Go took the lock from Java %d times, want %d: they didn't contend", crowdTime, c.turns, enough)
	}
}

// A crowd ends once both sides have counted to enoughCount, and Go took the lock
// from Java enoughTurns times; or when crowdTime has passed, which fails.
const (
	enoughCount = 400
	enoughTurns = 10
	crowdTime   = 5 * patience
)

// counter is counted up by both sides, each time in two steps. It names who did
// so last, or "end". All but rdb, key and until is guarded by the lock under test.
type counter struct {
	rdb     redis.UniversalClient
	key     string
	until   time.Time
	counted int // by Go
	turns   int // of Go right after one of Java
}

// countUntil adds one in a way that doesn't survive company, or ends the crowd. Java
// does the same in Commands.java, but doesn't end it.
func (c *counter) countUntil(ctx context.Context, count, turns int) (ended bool, err error) {
	text, err := c.rdb.Get(ctx, c.key).Result()
	if err != nil {
		return false, err
	}
	number, last, _ := strings.Cut(text, " ")
	n, err := strconv.Atoi(number)
	if err != nil || last == "end" {
		return true, err
	}
	if last == "java" {
		c.turns++
	}
	if n >= count && c.turns >= turns || time.Now().After(c.until) {
		return true, c.rdb.Set(ctx, c.key, fmt.Sprint(n, " end"), 0).Err()
	}
	time.Sleep(time.Millisecond) // the work
	c.counted++
	return false, c.rdb.Set(ctx, c.key, fmt.Sprint(n+1, " go"), 0).Err()
}

// otherKind says that locks of other kinds are the same lock. They wake
// nobody, so there is no hand-over.
func otherKind(w world, kind string) {
	key, java, locker := w.key(), w.thread(kind), w.locker()
	java.do("lock", kind, key, long.Milliseconds())
	locker.refused(key)
	locker.held(key, java.do("owner"), 1)
	java.do("unlock", kind, key)

	lease := locker.acquire(key)
	java.want("false", "trylock", kind, key)
	java.want("true", "locked", kind, key)
	java.refuses("IllegalMonitorStateException", "unlock", kind, key)
	w.release(lease)
	java.want("true", "trylock", kind, key)
	java.do("unlock", kind, key)
}
