package interop_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
)

// alternate hands the lock to and fro for turns turns. A turn ends when the other side
// is about to take the lock, at another moment of that each time: before its first try,
// while it subscribes, or when it sleeps. Leases are long and nobody polls, so a wake-up
// that is lost stops the game. Java does the same in Commands.java.
func alternate(w world, turns int) {
	key, locker := w.key(), w.locker()
	turn := key + "/turn"
	next := turn + "/next"
	w.set(turn, 0)
	w.set(next, 0)
	java := w.thread("java").start("alternate", w.kind, key, turn, turns, long.Milliseconds())
	java.patience = 10 * patience
	for n := 0; n < turns; n += 2 {
		w.reaches(turn, n)
		w.set(next, n)
		lease := locker.acquire(key, lock.WithLease(long))
		if got, err := w.rdb.Get(w.Context(), turn).Int(); err != nil || got != n {
			w.Fatalf("in turn %d somebody else has counted to %d (%v)", n, got, err)
		}
		w.set(turn, n+1)
		w.reaches(next, n+1)
		time.Sleep(time.Duration(n%16) * 100 * time.Microsecond) // the work, which decides how far Java gets
		w.release(lease)
	}
	java.result()
	w.reaches(turn, turns)
}

func (w world) set(key string, n int) {
	w.Helper()
	if err := w.rdb.Set(w.Context(), key, n, 0).Err(); err != nil {
		w.Fatal(err)
	}
}

// reaches waits until the counter is n.
func (w world) reaches(key string, n int) {
	w.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(100 * time.Microsecond) {
		got, err := w.rdb.Get(w.Context(), key).Result()
		switch {
		case err == nil && got == strconv.Itoa(n):
			return
		case err != nil && !errors.Is(err, redis.Nil):
			w.Fatal(err)
		case time.Now().After(end):
			w.Fatalf("%s is %q, and not %d within %v", key, got, n, patience)
		}
	}
}

// spinCrowd is a crowd of one in Go that polls, and of spin locks in Java, whose unlock
// wakes nobody. Go leaves every second turn to Java.
func spinCrowd(w world) {
	const members, turns = 4, 20
	key, locker := w.key(), w.locker()
	c := counter{rdb: w.rdb, key: key + "/counter", until: time.Now().Add(crowdTime)}
	if err := w.rdb.Set(w.Context(), c.key, "0 go", 0).Err(); err != nil {
		w.Fatal(err)
	}
	var java []*call
	for i := range members {
		call := w.thread(strconv.Itoa(i)).start("count", "spin", key, c.key)
		call.patience = 2 * crowdTime
		java = append(java, call)
	}
	for ended := false; !ended; {
		w.eventually("Java has a turn", func() bool {
			got, err := w.rdb.Get(w.Context(), c.key).Result()
			return err == nil && strings.HasSuffix(got, "java")
		})
		err := locker.Do(w.Context(), key, func(ctx context.Context) (err error) {
			ended, err = c.countUntil(ctx, turns, turns)
			return err
		}, lock.WithPoll(10*time.Millisecond), lock.WithWait(crowdTime))
		if err != nil {
			w.Fatalf("Go: %v", err)
		}
	}
	c.judge(w, java, turns)
}
