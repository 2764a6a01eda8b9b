package interop_test

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/redisstore"
	"github.com/redlatch/redlatch/test/internal/redistest"
)

// ownServer is a Redis of the test's own, which both sides use from then on: the same
// Java process has a client for it.
func (w *world) ownServer() {
	w.Helper()
	server := redistest.Standalone(w.T)
	w.site = &site{rdb: server.Client(w.T), addrs: []string{server.Addr()}}
	w.kind += "@" + server.Addr()
	closer := w.thread("closer")
	w.Cleanup(func() { closer.do("close", server.Addr()) })
}

// subscriptionsCut: both sides subscribe again, and are woken.
func subscriptionsCut(w world) {
	w.ownServer()
	key, list, java, locker := w.key(), w.key()+"/list", w.thread("java"), w.locker()
	lease := w.locker().acquire(key, lock.WithLease(long))
	inJava := java.start("turn", w.kind, key, list, "java")
	java.awaitParked()
	inGo := locker.acquiring(key, lock.WithLease(long))
	locker.awaitParked()
	w.subscribed("java", "go")
	if n, err := w.rdb.ClientKillByFilter(w.Context(), "TYPE", "pubsub").Result(); err != nil || n < 2 {
		w.Fatalf("cut %d subscribers: %v", n, err)
	}
	w.subscribed("java", "go")
	inJava.unanswered()
	w.release(lease)
	if err := inGo.turn(w, list, "go"); err != nil { // before Java, or after it
		w.Fatal(err)
	}
	inJava.result()
}

// messageWhileCut: the lock is freed while nobody is subscribed. Go looks when it has
// subscribed again, and its release wakes Java, which hasn't noticed anything.
func messageWhileCut(w world) {
	w.ownServer()
	key, java, locker := w.key(), w.thread("java"), w.locker()
	w.locker().acquire(key, lock.WithLease(long))
	inJava := java.start("lock", w.kind, key, long.Milliseconds())
	java.awaitParked()
	inGo := locker.acquiring(key, lock.WithLease(long))
	locker.awaitParked()
	w.subscribed("java", "go")
	_, err := w.rdb.TxPipelined(w.Context(), func(tx redis.Pipeliner) error {
		tx.ClientKillByFilter(w.Context(), "TYPE", "pubsub")
		tx.Del(w.Context(), key)
		tx.Publish(w.Context(), "redisson_lock__channel:{"+key+"}", "0")
		return nil
	})
	if err != nil {
		w.Fatal(err)
	}
	lease := inGo.lease()
	w.subscribed("java")
	inJava.unanswered()
	w.release(lease)
	inJava.result()
	java.do("unlock", w.kind, key)
}

// subscribed waits until each side has a connection with a subscription.
func (w world) subscribed(sides ...string) {
	w.Helper()
	w.eventually("both sides are subscribed", func() bool {
		clients, err := w.rdb.Do(w.Context(), "CLIENT", "LIST", "TYPE", "pubsub").Text()
		if err != nil {
			w.Fatal(err)
		}
		found := make(map[string]bool)
		for line := range strings.Lines(clients) {
			if strings.Contains(line, " sub=0 ") {
				continue
			}
			if strings.Contains(line, " name=java ") {
				found["java"] = true
			} else {
				found["go"] = true
			}
		}
		return !slices.ContainsFunc(sides, func(side string) bool { return !found[side] })
	})
}

// failover: what was acknowledged by a replica is held on the next master, which both
// sides follow.
func failover(w world) {
	byGo, byJava := w.key()+"/go", w.key()+"/java"
	java, locker := w.thread("java"), w.locker(redisstore.WithReplicas(1, 4*time.Second))
	lease := locker.acquire(byGo, lock.WithLease(long), lock.WithCallTimeout(patience))
	java.do("lock", w.kind, byJava, long.Milliseconds()) // waits for a replica as well
	w.failover(w.T)
	w.eventually("a replica follows the next master", func() bool { // Java waits for one
		info, err := w.rdb.Info(w.Context(), "replication").Result()
		return err == nil && strings.Contains(info, "state=online")
	})
	w.eventually("Go is refused on the next master", func() bool {
		_, err := locker.TryAcquire(w.Context(), byJava)
		if err == nil {
			w.Fatal("Go got what Java holds")
		}
		return errors.Is(err, lock.ErrBusy)
	})
	w.eventually("Java is refused on the next master", func() bool {
		kind, text := w.thread("other").start("trylock", w.kind, byGo).wait()
		if text == "true" {
			w.Fatal("Java got what Go holds")
		}
		return kind == "ok"
	})
	w.release(lease)
	java.do("unlock", w.kind, byJava)
	handOverToJava(w, byGo)
	handOverToGo(w, byJava)
}
