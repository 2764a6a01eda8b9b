package interop_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/redisstore"
)

// latch is what holds between Latch and getCountDownLatch.
var latch = []promise{
	{"both sides count one latch", countTogether, ""},
	{"the last count in Go opens it for a waiter in Java", goOpensLatch, ""},
	{"the last count in Java opens it for a waiter in Go", func(w world) { javaOpensLatch(w, "latch.down") }, ""},
	{"deleting it in Java opens it for a waiter in Go", func(w world) { javaOpensLatch(w, "latch.delete") }, ""},
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
	w.countDown(latch)
	if got := waiting.result(); got != "true" {
		w.Errorf("await: %s", got)
	}
}

// javaOpensLatch: the waiter in Go also looks by itself, so a machine that is busy
// until then gets another try.
func javaOpensLatch(w world, command string) {
	const looks = 5 * time.Second
	java := w.thread("java")
	for try := range 10 {
		key := fmt.Sprint(w.key(), "/", try)
		java.want("true", "latch.set", key, 1)
		latch := redisstore.NewLatch(redisstore.New(w.rdb, w.store...), key)
		start, done := time.Now(), make(chan error, 1)
		ctx, cancel := context.WithTimeout(w.Context(), patience)
		defer cancel()
		go func() { done <- latch.Await(ctx) }()
		select {
		case err := <-done:
			w.Fatalf("Await of a closed latch: %v", err)
		case <-time.After(time.Second): // it sleeps by now
		}
		java.do(command, key)
		if err := <-done; err != nil {
			w.Fatalf("Await: %v", err)
		}
		if time.Since(start) < looks {
			return
		}
	}
	w.Errorf("Go never went on before its next look")
}
