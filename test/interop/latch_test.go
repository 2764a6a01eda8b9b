package interop_test

import (
	"context"
	"errors"
	"time"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/redisstore"
)

// latch is what holds between Latch and getCountDownLatch.
var latch = []promise{
	{"both sides count one latch", countTogether, ""},
	{"the last count in Go opens it for a waiter in Java", goOpensLatch, ""},
	{"the last count in Java opens it for a waiter in Go", javaOpensLatch, ""},
	{"deleting it in Java opens it for a waiter in Go", javaDeletesLatch, ""},
}

func (w world) latch() *redisstore.Latch {
	return redisstore.NewLatch(redisstore.New(w.rdb, w.store...), w.key())
}

func (w world) countDown(l *redisstore.Latch) {
	w.Helper()
	if err := l.CountDown(w.Context()); err != nil {
		w.Fatalf("CountDown: %v", err)
	}
}

// counts says how much is left, as Go sees it.
func (w world) counts(l *redisstore.Latch, want int) {
	w.Helper()
	if got, err := l.Count(w.Context()); err != nil || got != want {
		w.Errorf("Go counts %d (%v), want %d", got, err, want)
	}
}

func countTogether(w world) {
	key, java, latch := w.key(), w.thread("java"), w.latch()
	if err := latch.TrySet(w.Context(), 3); err != nil {
		w.Fatal(err)
	}
	java.want("3", "latch.count", key)
	java.want("false", "latch.set", key, 5)
	java.do("latch.down", key)
	w.counts(latch, 2)
	w.countDown(latch)
	java.want("1", "latch.count", key)
	java.do("latch.down", key)
	w.counts(latch, 0)
	java.do("latch.down", key) // an open one stays open
	w.countDown(latch)
	w.counts(latch, 0)

	java.want("true", "latch.set", key, 1)
	if err := latch.TrySet(w.Context(), 2); !errors.Is(err, lock.ErrBusy) {
		w.Errorf("TrySet of what Java has set: %v, want ErrBusy", err)
	}
	w.counts(latch, 1)
}

func goOpensLatch(w world) {
	key, java, latch := w.key(), w.thread("waiter"), w.latch()
	java.want("true", "latch.set", key, 2)
	waiting := java.start("latch.await", key, long.Milliseconds())
	java.awaitParked()
	w.countDown(latch)
	waiting.unanswered()
	start := time.Now()
	w.countDown(latch)
	if got := waiting.result(); got != "true" {
		w.Errorf("await: %s", got)
	}
	w.within(start, "Java went on")
}

// awaiting waits for the latch in Go, and is known to sleep when it returns: it
// has had time enough for that.
func (w world) awaiting(l *redisstore.Latch) (opened func()) {
	w.Helper()
	start := time.Now()
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	w.Cleanup(cancel)
	done := make(chan error, 1)
	go func() { done <- l.Await(ctx) }()
	select {
	case err := <-done:
		w.Fatalf("Await of a closed latch: %v", err)
	case <-time.After(3 * time.Second / 2):
	}
	return func() {
		w.Helper()
		if err := <-done; err != nil {
			w.Errorf("Await: %v", err)
		}
		w.within(start, "Go went on") // it looks by itself every 5 s
	}
}

func javaOpensLatch(w world) {
	key, java, latch := w.key(), w.thread("java"), w.latch()
	java.want("true", "latch.set", key, 1)
	opened := w.awaiting(latch)
	java.do("latch.down", key)
	opened()
}

func javaDeletesLatch(w world) {
	key, java, latch := w.key(), w.thread("java"), w.latch()
	java.want("true", "latch.set", key, 7)
	opened := w.awaiting(latch)
	java.want("true", "latch.delete", key)
	opened()
}
