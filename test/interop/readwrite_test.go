package interop_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/redisstore"
)

// write is what holds for Write and the writeLock of getReadWriteLock besides
// what holds for every owned lock.
var write = []promise{
	{"a NameMapper is a key prefix", namePrefix, middle}, // 3.17 maps the name twice
	{"a killed Go frees its lock", goIsKilled, ""},
	{"a late release in Go leaves Java alone", lateReleaseInGo, ""},
	{"a minimum hold in Go keeps Java out until its end", goKeeps, ""},
	{"a writer in Go that goes on reading wakes readers in Java", goDowngrades, ""},
	{"unlocks of readers in Java leave a writer in Go that goes on reading alone", javaUnlocksBesideLowered, ""},
	{"a killed writer in Go that goes on reading frees its lock", loweredIsKilled, ""},
	{"repeated and late calls of a writer in Go that goes on reading do nothing", lowerIsRepeated, ""},
	{"a writer in Java that goes on reading lets readers in Go in", javaDowngrades, ""},
	{"a writer in Go wakes a reader in Java", goWriterWakesReader, ""},
	{"a writer in Java wakes a reader in Go", javaWriterWakesReader, ""},
	{"a plain lock in Java keeps readers and writers in Go out", plainKeepsBothOut, ""},
}

// read is what holds for Read and the readLock.
var read = []promise{
	{"both sides read together, and nobody writes", readTogether, ""},
	{"holds of a re-entry in Java show in Go", javaReads, ""},
	{"a re-entry in Go is one hold in Java", goReenters, ""},
	{"Java cannot unlock for Go", javaCannotUnlockForGo, ""},
	{"Go cannot unlock for Java", goCannotUnlockForJava, ""},
	{"the last reader in Go wakes a writer in Java", goReaderWakesWriter, ""},
	{"the last reader in Java wakes a writer in Go", javaReaderWakesWriter, ""},
	{"the watchdog of a reader in Java keeps a writer in Go out", javaReaderIsRenewed, ""},
	{"the watchdog of a reader in Go keeps a writer in Java out", goReaderIsRenewed, ""},
	{"readers in Go that re-enter leave the watchdog of a reader in Java alone", reentryBesideWatchdog, ""},
	{"the watchdog of a reader in Java cuts no lease of a reader in Go", javaWatchdogCuts, ""},
	{"a killed reader in Java is outlived by a reader in Go", deadReaderInJava, ""},
	{"a killed reader in Go is outlived by a reader in Java", deadReaderInGo, ""},
	{"ForceRelease in Go removes readers in Java", goForcesReaders, ""},
	{"readers that re-enter on both sides keep their holds", readersReenter, newer}, // 3.45 loses those of others
}

func goDowngrades(w world) {
	key, locker := w.key(), w.locker()
	reader, writer := w.thread("reader"), w.thread("writer")
	writes := locker.acquire(key, lock.WithLease(long))
	reads, err := locker.Acquire(writes.Context(), key, lock.WithMode(lock.Read), lock.WithLease(long))
	if err != nil {
		w.Fatal(err)
	}
	waiting := reader.start("lock", "read", key, long.Milliseconds())
	reader.awaitParked()

	w.release(writes)
	waiting.result()
	writer.want("false", "trylock", "write", key)
	reader.do("unlock", "read", key)
	writer.want("false", "trylock", "write", key)
	w.release(reads)
	writer.want("true", "trylock", "write", key)
	writer.do("unlock", "write", key)
}

// lowered takes the key as a writer, and goes on as a reader.
func (w world) lowered(locker *locker, key string) *lock.Lease {
	w.Helper()
	writes := locker.acquire(key, lock.WithLease(long))
	reads, err := locker.Acquire(context.WithoutCancel(writes.Context()), key, lock.WithMode(lock.Read), lock.WithLease(long))
	if err != nil {
		w.Fatal(err)
	}
	w.release(writes)
	return reads
}

// javaUnlocksBesideLowered: with each unlock Redisson computes anew how long the lock lasts,
// and the last one removes it if it finds nobody else.
func javaUnlocksBesideLowered(w world) {
	key, locker := w.key(), w.locker()
	reader, writer := w.thread("reader"), w.thread("writer")
	reads := w.lowered(locker, key)
	reader.do("lock", "read", key, long.Milliseconds())
	reader.do("lock", "read", key, 300)
	for range 2 { // nested, and last
		reader.do("unlock", "read", key)
		writer.want("false", "trylock", "write", key)
		locker.refused(key)
		if ttl := w.rdb.PTTL(w.Context(), key).Val(); ttl < 3*watchdog {
			w.Errorf("the lock lasts for %v", ttl)
		}
	}
	writer.want(fmt.Sprintf("%s=1 mode=read", reads.Owner()), "hash", key)
	w.release(reads)
	writer.want("true", "trylock", "write", key)
	writer.do("unlock", "write", key)
}

func loweredIsKilled(w world) {
	key := w.key()
	holder := w.startLowered(key)
	reader, writer := w.thread("reader"), w.thread("writer")
	reader.want("true", "trylock", "read", key)
	reader.do("unlock", "read", key)
	waiting := writer.start("lock", "write", key, long.Milliseconds())
	writer.awaitParked()
	waiting.unanswered()
	holder.kill()
	waiting.result()
	writer.do("unlock", "write", key)
}

func lowerIsRepeated(w world) {
	key := w.key()
	reader, writer := w.thread("reader"), w.thread("writer")
	store := lock.Blocking(redisstore.New(w.rdb, w.store...))
	read := lock.Claim{Key: key, Owner: "5f0c0e1a-9d5a-8c9e-8f57-0d9a3c1f7b11:1", Mode: lock.Read, TTL: long}
	write := read
	write.Mode = lock.Write
	want := func(what string, err, want error) {
		w.Helper()
		if !errors.Is(err, want) {
			w.Fatalf("%s: got %v, want %v", what, err, want)
		}
	}
	acquire := func(c lock.Claim) error {
		_, err := store.Acquire(w.Context(), c)
		return err
	}
	want("write", acquire(write), nil)
	want("lower", store.Lower(w.Context(), read), nil)
	reader.want("true", "trylock", "read", key, 0, long.Milliseconds())
	before := writer.do("hash", key)
	want("lower again", store.Lower(w.Context(), read), nil)
	want("write again", acquire(write), lock.ErrBusy)
	want("release what it wrote", store.Release(w.Context(), write), lock.ErrNotHeld)
	writer.want(before, "hash", key)
	want("release", store.Release(w.Context(), read), nil)
	want("lower late", store.Lower(w.Context(), read), lock.ErrNotHeld)
	reader.want("true", "held", "read", key)
	reader.do("unlock", "read", key)
	writer.want("", "hash", key)

	writer.do("lock", "write", key, long.Milliseconds())
	before = writer.do("hash", key)
	want("lower what Java writes", store.Lower(w.Context(), read), lock.ErrNotHeld)
	writer.want(before, "hash", key)
	writer.do("unlock", "write", key)
}

// javaDowngrades has no waiter: Redisson wakes nobody then.
func javaDowngrades(w world) {
	key, java, locker := w.key(), w.thread("java"), w.locker()
	java.do("lock", "write", key, long.Milliseconds())
	java.do("lock", "read", key, long.Milliseconds())
	locker.refused(key, lock.WithMode(lock.Read))
	java.do("unlock", "write", key)
	reads := locker.acquire(key, lock.WithMode(lock.Read))
	locker.refused(key)
	java.want("true", "held", "read", key)
	w.release(reads)
	locker.refused(key)
	java.do("unlock", "read", key)
	w.release(locker.acquire(key))
}

func goWriterWakesReader(w world) {
	key, java := w.key(), w.thread("reader")
	lease := w.locker().acquire(key, lock.WithLease(long))
	java.want("false", "trylock", "read", key)
	waiting := java.start("lock", "read", key, long.Milliseconds())
	java.awaitParked()
	w.release(lease)
	waiting.result()
	java.do("unlock", "read", key)
}

func javaWriterWakesReader(w world) {
	key, java, locker := w.key(), w.thread("writer"), w.locker()
	java.do("lock", "write", key, long.Milliseconds())
	locker.refused(key, lock.WithMode(lock.Read))
	waiting := locker.acquiring(key, lock.WithMode(lock.Read))
	locker.awaitParked()
	java.do("unlock", "write", key)
	w.release(waiting.lease())
}

// plainKeepsBothOut is where the kit departs from Redisson, which lets both in.
func plainKeepsBothOut(w world) {
	key, java, locker := w.key(), w.thread("holder"), w.locker()
	java.do("lock", "plain", key, long.Milliseconds())
	locker.refused(key)
	locker.refused(key, lock.WithMode(lock.Read))
	java.want("true", "held", "plain", key)
	java.do("unlock", "plain", key)

	reads := locker.acquire(key, lock.WithMode(lock.Read))
	java.want("false", "trylock", "plain", key)
	w.release(reads)
}

func readTogether(w world) {
	key, locker := w.key(), w.locker()
	one, two := w.thread("one"), w.thread("two")
	one.do("lock", "read", key, long.Milliseconds())
	lease := locker.acquire(key, lock.WithLease(long))
	two.want("true", "trylock", "read", key)
	if got := locker.inspect(key); len(got.Owners) != 3 || got.Mode != lock.Read {
		w.Errorf("Go sees %v in mode %s, want three readers", got.Owners, got.Mode)
	}
	locker.refused(key, lock.WithMode(lock.Write))
	one.want("false", "trylock", "write", key)

	one.do("unlock", "read", key)
	two.do("unlock", "read", key)
	two.want("false", "trylock", "write", key)
	two.want("true", "locked", "read", key)
	w.release(lease)
	two.want("true", "trylock", "write", key)
	two.do("unlock", "write", key)
}

func javaReads(w world) {
	key, java, locker := w.key(), w.thread("reader"), w.locker()
	owner := java.do("owner")
	java.do("lock", "read", key, long.Milliseconds())
	java.do("lock", "read", key, long.Milliseconds())
	locker.held(key, owner, 2)
	java.do("unlock", "read", key)
	locker.held(key, owner, 1)
	locker.refused(key, lock.WithMode(lock.Write))
	java.do("unlock", "read", key)
	w.release(locker.acquire(key, lock.WithMode(lock.Write)))
}

func goReaderWakesWriter(w world) {
	key, locker := w.key(), w.locker()
	reader, writer := w.thread("reader"), w.thread("writer")
	reader.do("lock", "read", key, long.Milliseconds())
	lease := locker.acquire(key, lock.WithLease(long))
	waiting := writer.start("lock", "write", key, long.Milliseconds())
	writer.awaitParked()
	reader.do("unlock", "read", key)
	waiting.unanswered()
	w.release(lease)
	waiting.result()
	writer.do("unlock", "write", key)
}

func javaReaderWakesWriter(w world) {
	key, java, locker := w.key(), w.thread("reader"), w.locker()
	java.do("lock", "read", key, long.Milliseconds())
	lease := w.locker().acquire(key, lock.WithLease(long))
	waiting := locker.acquiring(key, lock.WithMode(lock.Write))
	locker.awaitParked()
	w.release(lease)
	locker.refused(key, lock.WithMode(lock.Write))
	java.do("unlock", "read", key)
	w.release(waiting.lease())
}

func javaReaderIsRenewed(w world) {
	key, java, locker := w.key(), w.renewedReader(), w.locker()
	java.do("lock", "read", key, -1)
	w.throughout(5*watchdog/2, func() {
		locker.refused(key, lock.WithMode(lock.Write))
		java.want("true", "held", "read", key)
	})
	java.do("unlock", "read", key)
	w.release(locker.acquire(key, lock.WithMode(lock.Write)))
}

// renewedReader is a thread whose read lock the watchdog renews. Redisson 3.45 renews one
// of several of a process.
func (w world) renewedReader() thread {
	if w.redisson == middle {
		return w.newAgent().thread(w.T, "reader")
	}
	return w.thread("reader")
}

func goReaderIsRenewed(w world) {
	key, java, locker := w.key(), w.thread("writer"), w.locker()
	lease := locker.acquire(key)
	w.throughout(5*watchdog/2, func() {
		java.want("false", "trylock", "write", key)
		if err := lease.Context().Err(); err != nil {
			w.Fatalf("Go lost its lease: %v", err)
		}
	})
	w.release(lease)
	java.want("true", "trylock", "write", key)
	java.do("unlock", "write", key)
}

// reentryBesideWatchdog: 3.45 renews none of a lock that has a reader with a count above 1
// before its own.
func reentryBesideWatchdog(w world) {
	key, java, writer := w.key(), w.newAgent().thread(w.T, "reader"), w.locker()
	for range 4 {
		locker := w.locker()
		outer := locker.acquire(key, lock.WithLease(long))
		inner, err := locker.Acquire(outer.Context(), key, lock.WithLease(long))
		if err != nil {
			w.Fatal(err)
		}
		defer w.release(inner)
		defer w.release(outer)
	}
	java.do("lock", "read", key, -1)
	w.throughout(5*watchdog/2, func() {
		for _, owner := range writer.inspect(key).Owners {
			if owner.Owner == java.do("owner") {
				return
			}
		}
		w.Error("the reader in Java is dead")
	})
	java.do("unlock", "read", key)
}

// javaWatchdogCuts: each renewal of a reader in Java sets the lock to its own watchdog, and
// up to 4.3 all sentinels. Go restores what is left of its leases, every 10 s at least.
func javaWatchdogCuts(w world) {
	const java = 12 * time.Second
	keys := []string{w.key(), w.key() + "/watchdog"}
	agent, writer := w.newAgent(fmt.Sprintf("watchdog=%d", java.Milliseconds())), w.thread("writer")
	var leases []*lock.Lease
	for i, opt := range []lock.Option{lock.WithLease(90 * time.Second), lock.WithWatchdog(time.Minute)} {
		leases = append(leases, w.locker().acquire(keys[i], opt))
		reader := agent.thread(w.T, keys[i])
		reader.do("lock", "read", keys[i], -1)
	}
	w.eventually("Java cuts a lock", func() bool { return w.rdb.PTTL(w.Context(), keys[0]).Val() <= java })
	agent.kill()
	w.throughout(java+watchdog, func() {
		for _, key := range keys {
			writer.want("false", "trylock", "write", key)
		}
	})
	for i, lease := range leases {
		if err := lease.Context().Err(); err != nil {
			w.Errorf("Go lost %s: %v", keys[i], context.Cause(lease.Context()))
		}
		w.release(lease)
	}
}

func deadReaderInJava(w world) {
	key, locker, java := w.key(), w.locker(), w.newAgent()
	java.thread(w.T, "reader").do("lock", "read", key, -1)
	lease := locker.acquire(key)
	java.kill()
	w.throughout(5*watchdog/2, func() { w.thread("writer").want("false", "trylock", "write", key) })
	w.release(lease)
	locker.free(key, lock.WithMode(lock.Write)) // nobody has kept the dead one alive
}

func deadReaderInGo(w world) {
	key, java, locker, holder := w.key(), w.renewedReader(), w.locker(), w.startHolder(w.key())
	java.do("lock", "read", key, -1)
	holder.kill()
	w.throughout(5*watchdog/2, func() {
		locker.refused(key, lock.WithMode(lock.Write))
		java.want("true", "held", "read", key)
	})
	java.do("unlock", "read", key)
	if w.redisson < newest { // Java has kept the dead one alive until now
		w.release(locker.acquire(key, lock.WithMode(lock.Write)))
	}
	locker.free(key, lock.WithMode(lock.Write))
}

func goForcesReaders(w world) {
	key, locker := w.key(), w.locker()
	reader, writer := w.thread("reader"), w.thread("writer")
	reader.do("lock", "read", key, long.Milliseconds())
	waiting := writer.start("lock", "write", key, long.Milliseconds())
	writer.awaitParked()
	if freed, err := locker.ForceRelease(w.Context(), key); err != nil || !freed {
		w.Fatalf("ForceRelease: %v, %v", freed, err)
	}
	waiting.result()
	reader.want("false", "held", "read", key)
	writer.do("unlock", "write", key)
}

func readersReenter(w world) {
	key, locker := w.key(), w.locker()
	one, two, writer := w.thread("one"), w.thread("two"), w.thread("writer")
	one.do("lock", "read", key, long.Milliseconds())
	outer := locker.acquire(key, lock.WithLease(long))
	two.do("lock", "read", key, long.Milliseconds())
	one.do("lock", "read", key, long.Milliseconds())
	inner, err := locker.Acquire(outer.Context(), key, lock.WithLease(long))
	if err != nil {
		w.Fatal(err)
	}
	w.holds(locker, key, map[string]int{one.do("owner"): 2, two.do("owner"): 1, outer.Owner(): 1})
	one.do("unlock", "read", key)
	w.release(inner)
	w.holds(locker, key, map[string]int{one.do("owner"): 1, two.do("owner"): 1, outer.Owner(): 1})
	w.release(outer)
	two.do("unlock", "read", key)
	writer.want("false", "trylock", "write", key)
	locker.refused(key, lock.WithMode(lock.Write))
	one.do("unlock", "read", key)
	w.release(locker.acquire(key, lock.WithMode(lock.Write)))
}

// holds says who has how many holds.
func (w world) holds(locker *locker, key string, want map[string]int) {
	w.Helper()
	got := make(map[string]int)
	for _, owner := range locker.inspect(key).Owners {
		got[owner.Owner] = owner.Holds
	}
	if !maps.Equal(got, want) {
		w.Errorf("Go sees the holds %v, want %v", got, want)
	}
}
