package redisstore_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/redisstore"
)

// patience bounds waits for what must happen.
const patience = 20 * time.Second

func TestAConnectionThatFallsSilentIsReplaced(t *testing.T) {
	var connections atomic.Int32
	f, rdb := newFake(t, func(c []string) string {
		if c[0] == "subscribe" {
			connections.Add(1)
			return push("subscribe", c[1], 1)
		}
		if c[0] == "ping" && connections.Load() > 1 {
			return "*2\r\n$4\r\npong\r\n$0\r\n\r\n"
		}
		return "" // the first connection swallows everything
	})
	store := redisstore.New(rdb)
	store.SetSilence(20*time.Millisecond, 100*time.Millisecond)
	woken := make(chan struct{}, 100)
	stop, err := store.Watch(t.Context(), claim, func() { woken <- struct{}{} })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	select {
	case <-woken: // by the acknowledgement of the second connection
	case <-time.After(patience):
		t.Fatal("not woken")
	}
	if n := f.connections(); n < 2 {
		t.Errorf("%d connections, want another one", n)
	}
}

func TestAConnectionThatAnswersPingsIsKept(t *testing.T) {
	pings := make(chan struct{}, 1000)
	f, rdb := newFake(t, func(c []string) string {
		if c[0] == "ping" {
			pings <- struct{}{}
			return "*2\r\n$4\r\npong\r\n$0\r\n\r\n"
		}
		return push(c[0], c[1], 1)
	})
	store := redisstore.New(rdb)
	store.SetSilence(20*time.Millisecond, patience)
	stop, err := store.Watch(t.Context(), claim, func() {})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	for range 5 {
		<-pings
	}
	if n := f.connections(); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
}

func TestARefusedSubscriptionIsAnErrorAndWarnedAboutOnce(t *testing.T) {
	for class, refusal := range map[string]string{
		"NOPERM":          "NOPERM this user has no permissions to access one of the channels used as arguments",
		"unknown command": "ERR unknown command 'subscribe', with args beginning with: '%s' ",
	} {
		_, rdb := newFake(t, func(command []string) string {
			if command[0] == "ping" {
				return "*2\r\n$4\r\npong\r\n$0\r\n\r\n"
			}
			return failed(strings.ReplaceAll(refusal, "%s", command[1]))
		})
		var log bytes.Buffer
		store := redisstore.New(rdb, redisstore.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		for range 3 {
			_, err := store.Watch(t.Context(), claim, func() {})
			var failed *lock.StoreError
			if !errors.As(err, &failed) || failed.Outcome != lock.OutcomeRefused {
				t.Errorf("got %v, want refused", err)
			}
		}
		if n := strings.Count(log.String(), "level=WARN"); n != 1 || !strings.Contains(log.String(), class) {
			t.Errorf("%d warnings:\n%s", n, log.String())
		}
		if strings.Contains(log.String(), claim.Key) || strings.Contains(log.String(), "args") {
			t.Errorf("the log has the key, or what Redis said: %s", log.String())
		}
	}
}

func TestAWatchThatIsNotAcknowledgedEndsWithItsContext(t *testing.T) {
	acknowledge := make(chan struct{})
	_, rdb := newFake(t, func(c []string) string {
		<-acknowledge
		return push(c[0], c[1], 1)
	})
	store := redisstore.New(rdb)
	patient := make(chan error, 1)
	go func() {
		stop, err := store.Watch(t.Context(), claim, func() {})
		if err == nil {
			defer stop()
		}
		patient <- err
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	if _, err := store.Watch(ctx, claim, func() {}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want DeadlineExceeded", err)
	}
	close(acknowledge) // the other one goes on
	if err := <-patient; err != nil {
		t.Errorf("the patient watch: %v", err)
	}
}

func TestMessagesOfOtherChannelsWakeNobody(t *testing.T) {
	_, rdb := newFake(t, func(c []string) string {
		if c[0] != "subscribe" {
			return ""
		}
		message := func(channel string) string {
			return strings.Replace(push("message", channel, 0), ":0\r\n", "$1\r\n0\r\n", 1)
		}
		return push("subscribe", "else", 1) + push("subscribe", c[1], 2) + message("else") + message(c[1])
	})
	store := redisstore.New(rdb)
	woken := make(chan struct{}, 100)
	stop, err := store.Watch(t.Context(), claim, func() { woken <- struct{}{} })
	if err != nil {
		t.Fatal(err)
	}
	<-woken
	stop()
	stop() // a second call does nothing
	if n := len(woken); n != 0 {
		t.Errorf("woken %d times too often", n)
	}
}
