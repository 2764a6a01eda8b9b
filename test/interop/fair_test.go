package interop_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

// fair is what holds for Fair and getFairLock besides.
var fair = []promise{
	{"a minimum hold in Go keeps Java out until its end", goKeeps, middle}, // 3.17 sleeps for the TTL that it saw when it queued
	{"a NameMapper is a key prefix", namePrefix, newer},                    // 3.17 does not map the name of the queue, and 3.45 loses wake-ups
	{"both sides take turns in the order in which they came", inOrder, ""},
	{"what Go gives to Go stays in order, and leaves Java alone", givenInOrder, ""},
	{"Java wakes a waiter in Go that could be given the lock", javaWakesHeir, ""},
	{"a waiter in Java that gives up leaves the queue", javaGivesUp, ""},
	{"a waiter in Go that gives up leaves the queue", goGivesUp, ""},
	{"a waiter in Java that is killed is passed", deadJavaIsPassed, ""},
	{"waiters in Java that time out and are interrupted leave the rest in order", someGiveUp, ""},
	// Before 3.32, a waiter whose timer fires while the lock is still held, be
	// it for a millisecond, sets no other: it waits for a message, which the
	// dead don't send.
	{"a killed Go frees its lock", goIsKilled, middle},
	{"a late release in Go leaves Java alone", lateReleaseInGo, middle},
	{"a waiter in Go that is killed is passed when its patience ends", deadGoIsPassed, middle},
	{"plain locks of the name are the same lock", fairIsPlain, ""},
	{"100 turns of each side, one after another", func(w world) { alternate(w, 200) }, ""},
	{"subscriptions that are cut are made again", subscriptionsCut, ""},
	{"Go wakes a head in Java whose message was lost", lostMessageToJava, ""},
	{"a head in Go whose message was lost looks again", lostMessageToGo, ""},
}

func inOrder(w world) {
	const each = 4
	key, list, locker := w.key(), w.key()+"/list", w.locker()
	start := locker.acquire(key, lock.WithLease(long))
	var want, queue []string
	var java []*call
	done := make(chan error, each)
	for i := range each {
		label := fmt.Sprint("java-", i)
		thread := w.thread(label)
		queue = append(queue, thread.do("owner"))
		java = append(java, thread.start("turn", w.kind, key, list, label))
		thread.awaitParked()

		want = append(want, label, fmt.Sprint("go-", i))
		waiting := locker.acquiring(key, lock.WithLease(long))
		go func() { done <- waiting.turn(w, list, fmt.Sprint("go-", i)) }()
		locker.awaitParked()
		queue = append(queue, "")
		w.queued(locker, key, len(queue))
	}
	waiters := locker.inspect(key).Waiters
	if len(waiters) != len(queue) {
		w.Errorf("Go sees %d in the queue, want %d", len(waiters), len(queue))
	} else {
		for i := 0; i < len(queue); i += 2 { // owners in Go are not known before they own
			if waiters[i] != queue[i] {
				w.Errorf("at place %d Go sees %s, want the thread in Java, %s", i, waiters[i], queue[i])
			}
		}
	}

	w.release(start)
	for range each {
		if err := <-done; err != nil {
			w.Error(err)
		}
	}
	for _, c := range java {
		c.result()
	}
	got, err := w.rdb.LRange(w.Context(), list, 0, -1).Result()
	if err != nil || !slices.Equal(got, want) {
		w.Errorf("they had their turns as\n%v (%v), want\n%v", got, err, want)
	}
}

// givenInOrder: a release in Go gives the lock to the waiter in Go that is next,
// and wakes the one in Java. Neither side's hold may be counted twice, and Java's
// places must not take over what marks those in Go.
func givenInOrder(w world) {
	key, list, locker := w.key(), w.key()+"/list", w.locker()
	kept := lock.WithWatchdog(lock.DefaultWatchdog) // else nothing is given
	recent := lock.WithPoll(lock.DefaultPoll)       // one that has not asked for long asks again
	start := locker.acquire(key, kept)
	var want []string
	var java []*call
	done := make(chan error, 100)
	sides := []string{"go", "go", "java", "java", "go", "java", "go", "go", "go", "java"}
	for i, side := range sides {
		label := fmt.Sprint(side, "-", i)
		want = append(want, label)
		if side == "java" {
			thread := w.thread(label)
			java = append(java, thread.start("turn", w.kind, key, list, label))
			thread.awaitParked()
		} else {
			waiting := locker.acquiring(key, kept, recent)
			go func() { done <- waiting.turn(w, list, label) }()
			locker.awaitParked()
			w.queued(locker, key, i+1)
		}
	}
	names, err := w.rdb.LRange(w.Context(), "redisson_lock_queue:{"+key+"}", 0, -1).Result()
	if err != nil || len(names) != len(sides) {
		w.Fatalf("queue %v, %v", names, err)
	}
	for i, side := range sides {
		if strings.HasSuffix(names[i], ":redlatch") != (side == "go") {
			w.Errorf("at place %d is %s, which is of %s", i, names[i], side)
		}
	}
	waiters := locker.inspect(key).Waiters
	if len(waiters) != len(sides) || strings.Contains(strings.Join(waiters, " "), "redlatch") {
		w.Errorf("Go sees %v in the queue", waiters)
	}

	w.release(start)
	for range len(sides) - len(java) {
		if err := <-done; err != nil {
			w.Error(err)
		}
	}
	for _, c := range java {
		c.result()
	}
	got, err := w.rdb.LRange(w.Context(), list, 0, -1).Result()
	if err != nil || !slices.Equal(got, want) {
		w.Errorf("they had their turns as\n%v (%v), want\n%v", got, err, want)
	}
	if state := locker.inspect(key); state.Held || len(state.Waiters) > 0 {
		w.Errorf("left: %+v", state)
	}
}

// javaWakesHeir: Java's message is a wake-up, whatever the waiter would accept.
func javaWakesHeir(w world) {
	key, java, locker := w.key(), w.thread("holder"), w.locker()
	java.do("lock", w.kind, key, long.Milliseconds())
	waiting := locker.acquiring(key, lock.WithWatchdog(lock.DefaultWatchdog))
	locker.awaitParked()
	java.do("unlock", w.kind, key)
	lease := waiting.lease()
	locker.held(key, lease.Owner(), 1)
	w.release(lease)
	java.want("true", "trylock", w.kind, key)
	java.do("unlock", w.kind, key)
}

// queued waits until n places are taken. A waiter in Go sleeps before that, if
// another of its process asks for it.
func (w world) queued(locker *locker, key string, n int) {
	w.Helper()
	w.eventually("a place is taken", func() bool { return len(locker.inspect(key).Waiters) == n })
}

// turn is what "turn" does in Java.
func (a *acquisition) turn(w world, list, label string) error {
	select {
	case lease := <-a.got:
		if err := w.rdb.RPush(context.Background(), list, label).Err(); err != nil {
			return err
		}
		return lease.Release(context.Background())
	case err := <-a.err:
		return err
	}
}

// queues is how long a waiter in Java stays in the queue, in which another one takes its
// place meanwhile.
const queues = 10 * time.Second

func javaGivesUp(w world) {
	key, java, locker := w.key(), w.thread("impatient"), w.locker()
	lease := locker.acquire(key, lock.WithLease(long))
	leaving := java.start("trylock", w.kind, key, queues.Milliseconds(), 1000)
	java.awaitParked()
	waiting := locker.acquiring(key)
	locker.awaitParked()
	if got := locker.inspect(key).Waiters; len(got) != 2 {
		w.Errorf("the queue is %v, want both", got)
	}
	if got := leaving.result(); got != "false" {
		w.Errorf("tryLock: %s", got)
	}
	w.release(lease)
	w.release(waiting.lease())
}

func goGivesUp(w world) {
	key, java, locker := w.key(), w.thread("behind"), w.locker()
	lease := locker.acquire(key, lock.WithLease(long))
	ctx, cancel := context.WithCancel(w.Context())
	defer cancel()
	left := make(chan error, 1)
	go func() {
		_, err := locker.Acquire(ctx, key)
		left <- err
	}()
	locker.awaitParked()
	waiting := java.start("lock", w.kind, key, long.Milliseconds())
	java.awaitParked()
	cancel()
	if err := <-left; !errors.Is(err, context.Canceled) {
		w.Errorf("Acquire: %v", err)
	}
	w.eventually("the queue is the one in Java alone", func() bool { return len(locker.inspect(key).Waiters) == 1 })
	w.release(lease)
	waiting.result()
	java.do("unlock", w.kind, key)
}

// deadJavaIsPassed: the dead one is woken, by Go and by Java.
func deadJavaIsPassed(w world) {
	doomed := w.newAgent()
	byGo, byJava := w.key()+"/go", w.key()+"/java"
	holder, locker := w.thread("holder"), w.locker()
	lease := locker.acquire(byGo, lock.WithLease(long))
	holder.do("lock", w.kind, byJava, long.Milliseconds())
	var waiting []*acquisition
	for _, key := range []string{byGo, byJava} {
		dead := doomed.thread(w.T, key)
		dead.start("lock", w.kind, key, long.Milliseconds())
		dead.awaitParked()
		waiting = append(waiting, locker.acquiring(key, lock.WithPoll(lock.DefaultPoll))) // nobody wakes it: the dead one was
		locker.awaitParked()
	}
	doomed.kill()
	w.release(lease)
	holder.do("unlock", w.kind, byJava)
	for _, behind := range waiting {
		w.release(behind.lease())
	}
}

// someGiveUp: Redisson leaves the place of a waiter that is interrupted in the
// queue.
func someGiveUp(w world) {
	key, list, locker := w.key(), w.key()+"/list", w.locker()
	timed, interrupted, last := w.thread("timed"), w.thread("interrupted"), w.thread("last")
	start := locker.acquire(key, lock.WithLease(long))
	late := timed.start("trylock", w.kind, key, queues.Milliseconds(), long.Milliseconds())
	timed.awaitParked()
	leaving := interrupted.start("lock", w.kind, key, long.Milliseconds())
	interrupted.awaitParked()
	waiting := locker.acquiring(key, lock.WithPoll(lock.DefaultPoll)) // nobody wakes it: the interrupted one was
	done := make(chan error, 1)
	go func() { done <- waiting.turn(w, list, "go") }()
	locker.awaitParked()
	behind := last.start("turn", w.kind, key, list, "java")
	last.awaitParked()

	interrupted.do("interrupt")
	leaving.fails("InterruptedException")
	if got := late.result(); got != "false" {
		w.Errorf("tryLock: %s", got)
	}
	w.release(start)
	if err := <-done; err != nil {
		w.Fatal(err)
	}
	behind.result()
	if got, err := w.rdb.LRange(w.Context(), list, 0, -1).Result(); err != nil || !slices.Equal(got, []string{"go", "java"}) {
		w.Errorf("they had their turns as %v (%v), want Go first", got, err)
	}
}

// deadGoIsPassed: its place is short, and so is a hold that it was given.
func deadGoIsPassed(w world) {
	key, java := w.key(), w.thread("behind")
	lease := w.locker().acquire(key)
	dead := w.startWaiter(key)
	waiting := java.start("lock", w.kind, key, long.Milliseconds())
	java.awaitParked()
	dead.kill()
	w.release(lease)
	waiting.result()
	java.do("unlock", w.kind, key)
}

func fairIsPlain(w world) {
	key, java, locker := w.key(), w.thread("java"), w.locker()
	java.do("lock", "plain", key, long.Milliseconds())
	locker.refused(key)
	java.do("unlock", "plain", key)
	java.do("lock", "fair", key, long.Milliseconds())
	locker.refused(key, lock.WithMode(lock.Exclusive))
	java.do("unlock", "fair", key)
	lease := locker.acquire(key)
	java.want("false", "trylock", "plain", key)
	w.release(lease)
	lease = locker.acquire(key, lock.WithMode(lock.Exclusive))
	java.want("false", "trylock", "fair", key)
	w.release(lease)
}

// lostMessageToJava: the one behind finds the lock free, and wakes the head. That one has
// 5 s to come, so a machine that is busy until then gets another try.
func lostMessageToJava(w world) {
	locker := w.locker()
	for try := range 5 {
		key, java := fmt.Sprint(w.key(), "/", try), w.thread(fmt.Sprint("head-", try))
		list := key + "/list"
		locker.acquire(key, lock.WithLease(long))
		head := java.start("turn", w.kind, key, list, "java")
		java.awaitParked()
		waiting := locker.acquiring(key, lock.WithPoll(lock.DefaultPoll))
		locker.awaitParked()
		w.queued(locker, key, 2)
		w.freeSilently(key)
		if err := waiting.turn(w, list, "go"); err != nil {
			w.Fatal(err)
		}
		got, err := w.rdb.LRange(w.Context(), list, 0, -1).Result()
		if err != nil {
			w.Fatal(err)
		}
		if slices.Equal(got, []string{"java", "go"}) {
			head.result()
			return
		}
	}
	w.Error("the head was passed")
}

func lostMessageToGo(w world) {
	key, locker, java := w.key(), w.locker(), w.thread("behind")
	locker.acquire(key, lock.WithLease(long))
	waiting := locker.acquiring(key, lock.WithPoll(lock.DefaultPoll), lock.WithLease(long))
	locker.awaitParked()
	behind := java.start("lock", w.kind, key, long.Milliseconds())
	java.awaitParked()
	w.freeSilently(key)
	lease := waiting.lease()
	behind.unanswered()
	w.release(lease)
	behind.result()
	java.do("unlock", w.kind, key)
}

// freeSilently is a release whose message nobody gets.
func (w world) freeSilently(key string) {
	w.Helper()
	if n, err := w.rdb.Del(w.Context(), key).Result(); err != nil || n != 1 {
		w.Fatalf("DEL: %d, %v", n, err)
	}
}
