package interop_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/test/internal/process"
)

// listener receives what is published about a lock in Java's channels, next to Java.
type listener struct {
	world
	subscriptions []*redis.PubSub
	last          chan func() // publishes the last message again; holds one
}

// listen finds the channels that a waiter in Java has subscribed to.
func (w world) listen(key string) *listener {
	w.Helper()
	l := &listener{world: w, last: make(chan func(), 1)}
	var reading sync.WaitGroup
	var seen []string
	err := process.Poll(patience, func() error { // a connection may have gone since it subscribed
		seen = nil
		for _, node := range w.nodes() {
			channels, sharded := node.PubSubChannels(w.Context(), "*"), node.PubSubShardChannels(w.Context(), "*")
			l.join(&reading, key, channels, node.Subscribe, node.Publish)
			l.join(&reading, key, sharded, node.SSubscribe, node.SPublish)
			seen = append(seen, channels.String(), sharded.String())
		}
		if len(l.subscriptions) == 0 {
			return errors.New("no channel")
		}
		return nil
	})
	if err != nil {
		w.Fatalf("Java waits for %q, and the servers say %q: %v", key, seen, err)
	}
	w.Cleanup(func() {
		for _, s := range l.subscriptions {
			_ = s.Close()
		}
		reading.Wait()
	})
	return l
}

// nodes are the servers that may have subscribers.
func (w world) nodes() (all []*redis.Client) {
	w.Helper()
	cluster, ok := w.rdb.(*redis.ClusterClient)
	if !ok {
		return []*redis.Client{w.rdb.(*redis.Client)}
	}
	var mu sync.Mutex
	err := cluster.ForEachShard(w.Context(), func(_ context.Context, node *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, node)
		return nil
	})
	if err != nil {
		w.Fatal(err)
	}
	return all
}

// join subscribes to the channels of key.
func (l *listener) join(
	reading *sync.WaitGroup, key string, channels *redis.StringSliceCmd,
	subscribe func(context.Context, ...string) *redis.PubSub, publish func(context.Context, string, any) *redis.IntCmd,
) {
	l.Helper()
	for _, channel := range channels.Val() {
		if !strings.Contains(channel, key) {
			continue
		}
		s := subscribe(l.Context(), channel)
		if _, err := s.Receive(l.Context()); err != nil { // until it has subscribed
			l.Fatal(err)
		}
		l.subscriptions = append(l.subscriptions, s)
		messages := s.Channel()
		reading.Go(func() {
			for message := range messages {
				select {
				case <-l.last:
				default:
				}
				select {
				case l.last <- func() { publish(context.Background(), message.Channel, message.Payload) }:
				default: // that of another channel
				}
			}
		})
	}
}

// wakes returns what the call returns. Redisson now and then loses a message in a
// cluster (https://github.com/redisson/redisson/issues/5116), and then waits for the
// end of the lease. What it lost is published again, if it was published at all.
func (l *listener) wakes(waiting *call) string {
	l.Helper()
	if waiting.ends(patience / 4) {
		return waiting.result()
	}
	select {
	case again := <-l.last:
		l.Log("Redisson has lost a message: it's published again")
		again()
	case <-time.After(patience / 4):
		l.Fatal("Java still waits, and nothing was published that it could have lost")
	}
	return waiting.result()
}

func TestWhatAWaiterLosesIsPublishedAgain(t *testing.T) {
	t.Parallel()
	w := world{T: t, site: standalone(t)}
	const channel = "redisson_lock__channel:{k}"
	waiter := w.rdb.Subscribe(t.Context(), channel)
	defer waiter.Close()
	if _, err := waiter.Receive(t.Context()); err != nil {
		t.Fatal(err)
	}
	l := w.listen("k")
	waiting := &call{t: t, answer: make(chan string, 1), patience: patience}
	go func() {
		messages := waiter.Channel()
		<-messages // lost
		message := <-messages
		waiting.answer <- "ok " + message.Payload
	}()
	if err := w.rdb.Publish(t.Context(), channel, "0").Err(); err != nil {
		t.Fatal(err)
	}
	if got := l.wakes(waiting); got != "0" {
		t.Errorf("got %q", got)
	}
}
