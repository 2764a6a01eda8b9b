package interop_test

import (
	"maps"

	"github.com/redlatch/redlatch/core/lock"
)

// write is what holds for Write and the writeLock of getReadWriteLock besides
// what holds for every owned lock.
var write = []promise{
	{"a NameMapper is a key prefix", namePrefix, middle}, // 3.17 maps the name twice
	{"a killed Go frees its lock", goIsKilled, ""},
	{"a late release in Go leaves Java alone", lateReleaseInGo, ""},
	{"a minimum hold in Go keeps Java out until its end", goKeeps, ""},
	{"a writer in Go that goes on reading wakes readers in Java", goDowngrades, ""},
	{"a writer in Java that goes on reading lets readers in Go in", javaDowngrades, ""},
	{"a writer in Go wakes a reader in Java", goWriterWakesReader, ""},
	{"a writer in Java wakes a reader in Go", javaWriterWakesReader, ""},
	{"a plain lock in Java keeps readers and writers in Go out", plainKeepsBothOut, ""},
}

// read is what holds for Read and the readLock.
var read = []promise{
	{"both sides read together, and nobody writes", readTogether, ""},
	{"holds of a re-entry in Java show in Go", javaReads, ""},
	{"holds of a re-entry in Go show in Java", goReads, ""},
	{"Java cannot unlock for Go", javaCannotUnlockForGo, ""},
	{"Go cannot unlock for Java", goCannotUnlockForJava, ""},
	{"the last reader in Go wakes a writer in Java", goReaderWakesWriter, ""},
	{"the last reader in Java wakes a writer in Go", javaReaderWakesWriter, ""},
	{"the watchdog of a reader in Java keeps a writer in Go out", javaReaderIsRenewed, ""},
	{"the watchdog of a reader in Go keeps a writer in Java out", goReaderIsRenewed, ""},
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

func goReads(w world) {
	key, java, locker := w.key(), w.thread("other"), w.locker()
	outer := locker.acquire(key)
	inner, err := locker.Acquire(outer.Context(), key)
	if err != nil {
		w.Fatal(err)
	}
	java.want(w.fields(outer.Owner(), 2), "hash", key)
	w.release(outer)
	java.want(w.fields(outer.Owner(), 1), "hash", key)
	java.want("false", "trylock", "write", key)
	w.release(inner)
	java.want("", "hash", key)
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
	w.holds(locker, key, map[string]int{one.do("owner"): 2, two.do("owner"): 1, outer.Owner(): 2})
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
