package interop_test

import (
	"context"
	"errors"
	"strings"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/quorum"
	"github.com/redlatch/redlatch/core/redisstore"
	"github.com/redlatch/redlatch/test/internal/redistest"
)

// redlock is what holds for a quorum of servers and getRedLock. The servers are the
// test's own.
var redlock = []promise{
	{"getRedLock and a quorum keep each other out, and hand over", quorumAndRedLock, ""},
	{"with one of three servers gone", quorumWithoutOne, ""},
	{"one server of each side's own lets both in", minorities, ""},
}

// ground is three servers that don't know each other.
type ground struct {
	world
	servers []*redistest.Server
	java    string // the kind of lock
	quorum  *locker
}

func (w world) ground() ground {
	w.Helper()
	g := ground{world: w, servers: redistest.Independent(w.T, 3)}
	var addrs []string
	var stores []lock.Store
	for _, server := range g.servers {
		addrs = append(addrs, server.Addr())
		stores = append(stores, redisstore.New(server.Client(w.T)))
	}
	store, err := quorum.New(stores...)
	if err != nil {
		w.Fatal(err)
	}
	store.SetNodeTimeout(patience / 10) // no server is slow, but the machine may be
	g.quorum = w.lockerOf(store, lock.WithWatchdog(6*patience), lock.WithCallTimeout(2*patience))
	w.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := store.Close(ctx); err != nil {
			w.Errorf("Close: %v", err)
		}
	})
	g.java = "red@" + strings.Join(addrs, ",")
	w.Cleanup(func() { w.thread("closer").do("close", strings.Join(addrs, ",")) })
	return g
}

func quorumAndRedLock(w world) {
	g := w.ground()
	key, java := w.key(), w.thread("java")
	g.bothWays(key, java)

	waiting := g.afterJava(key, java)
	g.quorum.awaitParked()
	java.do("unlock", g.java, key)
	lease := waiting.lease()
	queued := java.start("lock", g.java, key, long.Milliseconds())
	w.eventually("Java tries in vain", func() bool { return w.thread("other").do("trylock", g.java, key) == "false" })
	queued.unanswered()
	w.release(lease)
	queued.result()
	java.do("unlock", g.java, key)
}

// bothWays says that each side keeps the other out.
func (g ground) bothWays(key string, java thread) {
	g.Helper()
	java.do("lock", g.java, key, long.Milliseconds())
	g.quorum.refused(key)
	if state := g.quorum.inspect(key); !state.Held {
		g.Errorf("Go sees %+v while Java has all servers", state)
	}
	java.do("unlock", g.java, key)

	lease := g.quorum.acquire(key)
	java.want("false", "trylock", g.java, key)
	g.release(lease)
	g.eventually("all servers are free", func() bool { // a release returns when most have answered
		return java.do("trylock", g.java, key) == "true"
	})
	java.do("unlock", g.java, key)
}

func (g ground) afterJava(key string, java thread) *acquisition {
	java.do("lock", g.java, key, long.Milliseconds())
	return g.quorum.acquiring(key)
}

// quorumWithoutOne: two of three are still most.
func quorumWithoutOne(w world) {
	g := w.ground()
	key, java := w.key(), w.thread("java")
	g.bothWays(key, java) // so that Java is connected
	g.servers[1].Kill()
	g.bothWays(key, java)
}

// minorities: a plain lock on one server is in nobody's way.
func minorities(w world) {
	g := w.ground()
	key, java := w.key(), w.thread("java")
	one := "plain@" + g.servers[0].Addr()
	java.do("lock", one, key, long.Milliseconds())
	lease := g.quorum.acquire(key)
	other := w.thread("other")
	other.want("false", "trylock", g.java, key)
	w.release(lease)
	g.eventually("Java has the others", func() bool { return other.do("trylock", g.java, key) == "true" })
	if _, err := g.quorum.TryAcquire(w.Context(), key); !errors.Is(err, lock.ErrBusy) {
		w.Errorf("TryAcquire: %v, want ErrBusy", err)
	}
	other.do("unlock", g.java, key)
	java.do("unlock", one, key)
}
