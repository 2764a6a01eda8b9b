package interop_test

import (
	"context"
	"encoding/hex"
	"errors"
	"strings"
	"time"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/redisstore"
)

// permits is what holds for WithPermits and getPermitExpirableSemaphore.
var permits = []promise{
	{"both sides share the permits", sharePermits, ""},
	{"Go sets the size, and Java knows it", goSetsSize, ""},
	{"a permit returned in Go wakes a waiter in Java", goPermitWakesJava, ""},
	{"a permit returned in Java wakes a waiter in Go", javaPermitWakesGo, ""},
	{"Java returns a permit of Go", javaReleasesForGo, ""},
	{"Go returns a permit of Java", goReleasesForJava, ""},
	{"ForceRelease in Go takes the permits of Java", goForcesPermits, ""},
	{"the watchdog of Go keeps its permit", goPermitIsRenewed, ""},
	{"the permit of a killed Go comes back", permitOfKilledGo, ""},
	{"a permit of Java comes back when its lease has ended", permitOfJavaExpires, ""},
	{"updateLeaseTime in Java keeps Go out for longer", permitOfJavaIsExtended, ""},
	{"addPermits in Java makes room for Go", javaAddsPermits, ""},
	{"each side takes several permits at once", severalPermits, newer}, // 3.45 does not wake a waiter for more than one
	{"a minimum hold in Go keeps a permit from Java until its end", goKeepsPermit, ""},
}

func sharePermits(w world) {
	key, java, locker := w.key(), w.thread("java"), w.locker()
	three := func(n int) lock.Option { return lock.WithPermits(n, 3) }
	java.want("true", "permit.set", key, 3)
	id := java.do("permit.acquire", key, 0, long.Milliseconds())
	lease := locker.acquire(key, three(2))
	java.want("0", "permit.available", key)
	java.want("null", "permit.acquire", key, 0, 1000)
	locker.refused(key, three(1))
	java.do("permit.release", key, id)
	locker.refused(key, three(2))
	w.release(locker.acquire(key, three(1)))
	w.release(lease)
	java.want("3", "permit.available", key)
	w.release(locker.acquire(key, three(3)))
}

func goSetsSize(w world) {
	key, java, locker := w.key(), w.thread("java"), w.locker()
	lease := locker.acquire(key, lock.WithPermits(1, 2))
	java.want("1", "permit.available", key)
	java.want("false", "permit.set", key, 5)
	id := java.do("permit.acquire", key, 0, long.Milliseconds())
	locker.refused(key, lock.WithPermits(1, 2))
	java.do("permit.release", key, id)
	w.release(lease)
	java.want("0", "permit.available", key) // what Go sets ends with its permits
}

func goPermitWakesJava(w world) {
	key, java, locker := w.key(), w.thread("waiter"), w.locker()
	java.want("true", "permit.set", key, 1) // what Go sets ends with its permits
	lease := locker.acquire(key, lock.WithPermits(1, 1), lock.WithLease(long))
	waiting := java.start("permit.acquire", key, long.Milliseconds(), long.Milliseconds())
	java.awaitParked()
	waiting.unanswered()
	w.release(lease)
	id := waiting.result()
	java.do("permit.release", key, id)
}

func javaPermitWakesGo(w world) {
	key, java, locker := w.key(), w.thread("holder"), w.locker()
	java.want("true", "permit.set", key, 1)
	id := java.do("permit.acquire", key, 0, long.Milliseconds())
	waiting := locker.acquiring(key, lock.WithPermits(1, 1))
	locker.awaitParked()
	java.do("permit.release", key, id)
	w.release(waiting.lease())
}

// permitIn is the only permit that is taken, as Go shows it.
func (l *locker) permitIn(key string) string {
	l.t.Helper()
	owners := l.inspect(key).Owners
	if len(owners) != 1 {
		l.t.Fatalf("Go sees the permits %v, want one", owners)
	}
	return owners[0].Owner
}

// idInJava is Java's id of the only permit that an owner in Go has.
func idInJava(owner string) string { return hex.EncodeToString([]byte(owner + "/0")) }

func javaReleasesForGo(w world) {
	key, java, locker := w.key(), w.thread("java"), w.locker()
	lease := locker.acquire(key, lock.WithPermits(1, 1))
	owner := locker.permitIn(key)
	if !strings.HasPrefix(owner, locker.ID()+":") {
		w.Errorf("Go sees the permit %s, want one of %s", owner, locker.ID())
	}
	java.do("permit.release", key, idInJava(owner))
	java.want("1", "permit.available", key)
	<-lease.Context().Done() // at the next renewal
	if cause := context.Cause(lease.Context()); !errors.Is(cause, lock.ErrLost) {
		w.Errorf("the lease ended with cause %v, want ErrLost", cause)
	}
	if err := lease.Release(w.Context()); !errors.Is(err, lock.ErrLost) {
		w.Errorf("Release: %v, want ErrLost", err)
	}
	java.want("1", "permit.available", key)
}

func goReleasesForJava(w world) {
	key, java := w.key(), w.thread("java")
	store := redisstore.New(w.rdb, w.store...)
	java.want("true", "permit.set", key, 1)
	id := java.do("permit.acquire", key, 0, long.Milliseconds())
	next := w.thread("next")
	waiting := next.start("permit.acquire", key, long.Milliseconds(), long.Milliseconds())
	next.awaitParked()
	if err := store.ReleasePermits(w.Context(), key, id); err != nil {
		w.Fatal(err)
	}
	waiting.result()
	if err := store.ReleasePermits(w.Context(), key, id); !errors.Is(err, lock.ErrNotHeld) {
		w.Errorf("once more: %v, want ErrNotHeld", err)
	}
	if err := store.ReleasePermits(w.Context(), key, "17"); !errors.Is(err, lock.ErrInvalid) {
		w.Errorf("no id: %v, want ErrInvalid", err)
	}
	java.want("0", "permit.available", key)
}

func goForcesPermits(w world) {
	key, java, locker := w.key(), w.thread("java"), w.locker()
	java.want("true", "permit.set", key, 1)
	id := java.do("permit.acquire", key, 0, long.Milliseconds())
	if got := locker.permitIn(key); got != id {
		w.Errorf("Go sees the permit %s, Java has %s", got, id)
	}
	next := w.thread("next")
	waiting := next.start("permit.acquire", key, long.Milliseconds(), long.Milliseconds())
	next.awaitParked()
	if freed, err := locker.ForceRelease(w.Context(), key); err != nil || !freed {
		w.Fatalf("ForceRelease: %v, %v", freed, err)
	}
	waiting.result()
	java.refuses("IllegalArgumentException", "permit.release", key, id)
	java.want("0", "permit.available", key)
}

func goPermitIsRenewed(w world) {
	key, java, locker := w.key(), w.thread("java"), w.locker()
	java.want("true", "permit.set", key, 1) // what Go sets ends with its permits
	lease := locker.acquire(key, lock.WithPermits(1, 1))
	w.throughout(5*watchdog/2, func() {
		java.want("null", "permit.acquire", key, 0, 1000)
		if err := lease.Context().Err(); err != nil {
			w.Fatalf("Go lost its lease: %v", context.Cause(lease.Context()))
		}
	})
	w.release(lease)
	java.want("1", "permit.available", key)
}

func permitOfKilledGo(w world) {
	key, java := w.key(), w.thread("java")
	java.want("true", "permit.set", key, 1) // what Go sets ends with its permits
	holder := w.startHolder(key)
	waiting := java.start("permit.acquire", key, long.Milliseconds(), long.Milliseconds())
	java.awaitParked()
	holder.kill()
	waiting.result()
}

// permitOfJavaExpires: permits of Java have no watchdog.
func permitOfJavaExpires(w world) {
	key, java, locker := w.key(), w.thread("java"), w.locker()
	java.want("true", "permit.set", key, 1)
	id := java.do("permit.acquire", key, 0, watchdog.Milliseconds())
	lease := locker.acquire(key, lock.WithPermits(1, 1))
	java.refuses("IllegalArgumentException", "permit.release", key, id)
	java.want("0", "permit.available", key)
	w.release(lease)
}

func permitOfJavaIsExtended(w world) {
	key, java, locker := w.key(), w.thread("java"), w.locker()
	java.want("true", "permit.set", key, 1)
	id := java.do("permit.acquire", key, 0, watchdog.Milliseconds())
	java.want("true", "permit.update", key, id, long.Milliseconds())
	_, err := locker.Acquire(w.Context(), key, lock.WithWait(watchdog+3*time.Second/2), lock.WithPoll(lock.DefaultPoll))
	if !errors.Is(err, lock.ErrBusy) {
		w.Errorf("Acquire: %v, want ErrBusy", err)
	}
	java.do("permit.release", key, id)
	w.release(locker.acquire(key))
}

// javaAddsPermits: the size that everybody names is then another.
func javaAddsPermits(w world) {
	key, java, locker := w.key(), w.thread("java"), w.locker()
	java.want("true", "permit.set", key, 1)
	id := java.do("permit.acquire", key, 0, long.Milliseconds())
	locker.refused(key)
	java.do("permit.add", key, 2)
	lease := locker.acquire(key, lock.WithPermits(2, 3))
	java.want("0", "permit.available", key)
	locker.refused(key, lock.WithPermits(1, 3))
	w.release(lease)
	java.do("permit.release", key, id)
	java.want("3", "permit.available", key)
}

func goKeepsPermit(w world) {
	key, java := w.key(), w.thread("java")
	java.want("true", "permit.set", key, 1) // what Go sets ends with its permits
	start := time.Now()
	w.release(w.locker().acquire(key, lock.WithMinHold(minimum)))
	id := java.do("permit.acquire", key, long.Milliseconds(), long.Milliseconds())
	w.afterMinimum(start)
	java.do("permit.release", key, id)
}

// severalPermits: all or none, on both sides.
func severalPermits(w world) {
	key, java, other, locker := w.key(), w.thread("java"), w.thread("other"), w.locker()
	of5 := func(n int) lock.Option { return lock.WithPermits(n, 5) }
	java.want("true", "permit.set", key, 5)
	ids := java.do("permit.acquire.n", key, 3, 0, long.Milliseconds())
	if got := locker.inspect(key).Owners; len(got) != 3 {
		w.Errorf("Go sees the permits %v, want 3", got)
	}
	locker.refused(key, of5(3))
	lease := locker.acquire(key, of5(2), lock.WithLease(long))
	java.want("0", "permit.available", key)

	waiting := locker.acquiring(key, of5(3), lock.WithLease(long))
	locker.awaitParked()
	java.do("permit.release.n", key, ids)
	three := waiting.lease()
	java.want("null", "permit.acquire.n", key, 2, 0, long.Milliseconds())

	two := other.start("permit.acquire.n", key, 2, long.Milliseconds(), long.Milliseconds())
	other.awaitParked()
	w.release(lease)
	ids = two.result()
	w.release(three)
	if err := redisstore.New(w.rdb, w.store...).ReleasePermits(w.Context(), key, strings.Split(ids, ",")...); err != nil {
		w.Errorf("Go returns what Java took: %v", err)
	}
	java.want("5", "permit.available", key)
}
