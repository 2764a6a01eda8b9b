package integration_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/redisstore"
	"github.com/redlatch/redlatch/test/internal/redistest"
)

// The cells of the second table of docs/locks.md, "Who calls and who hears": what a
// waiter hears of.
var (
	waitersAndHolders = map[string]lock.Option{
		"exclusive": lock.WithMode(lock.Exclusive), "fair": lock.WithMode(lock.Fair),
		"read": lock.WithMode(lock.Read), "write": lock.WithMode(lock.Write), "permits": lock.WithPermits(1, 1),
	}
	hearsReleasesOf = map[string][]string{
		"exclusive": {"exclusive", "fair"}, "fair": {"exclusive", "fair"},
		"read": {"read", "write"}, "write": {"read", "write"}, "permits": {"permits"},
	}
)

// The holder is in another process, and polls are an hour apart.
func TestWhoHearsOfARelease(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	rdb := server.Admin(t)
	far := newLocker(t, server.Client(t))
	near, refusals := newPatientLocker(t, server.Client(t))
	for waiter, w := range waitersAndHolders {
		for holder, h := range waitersAndHolders {
			if holder == "read" && waiter == "read" {
				continue // they share
			}
			t.Run(waiter+" waits for "+holder, func(t *testing.T) {
				t.Parallel()
				key := strings.NewReplacer("/", ":", " ", "-").Replace(t.Name())
				held := acquire(t, far, key, h, lock.WithLease(time.Hour))
				granted := awaitRefused(t, near, refusals, key, w)
				hears := overhear(t, rdb, channelsOf(t, rdb, key)...)
				release(t, held)
				want := slices.Contains(hearsReleasesOf[waiter], holder)
				if got := hears(); got != want {
					t.Errorf("it hears of the release: %v, want %v", got, want)
				}
				if !want && waiter != "fair" { // which looks after its place
					wantWaiting(t, granted)
					publish(t, rdb, "0", channelsOf(t, rdb, key)...)
				}
				release(t, <-granted)
			})
		}
	}
}

// A release that gives the lock to the next in the queue of a fair lock is no business of
// waiters that don't queue there. They hear of the last.
func TestAPlainWaiterHearsOfTheLastReleaseOfAFairLock(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	rdb := server.Admin(t)
	const key, channel = "orders", "redisson_lock__channel:{orders}"
	far := newLocker(t, server.Client(t), lock.WithMode(lock.Fair), lock.WithLease(time.Hour))
	next, refused := newPatientLocker(t, server.Client(t), lock.WithMode(lock.Fair), lock.WithLease(time.Hour))
	near, refusals := newPatientLocker(t, server.Client(t))
	held := acquire(t, far, key)
	queued := awaitRefused(t, next, refused, key)
	granted := awaitRefused(t, near, refusals, key)
	hears := overhear(t, rdb, channel)
	release(t, held)
	last := <-queued
	if hears() {
		t.Error("it hears of a release that gave the lock to another")
	}
	wantWaiting(t, granted)
	release(t, last)
	release(t, <-granted)
}

// In the process of the holder no message is needed, but by a fair waiter, which has a place
// in the queue.
func TestTheEndOfAHoldWakesItsProcessWithoutAMessage(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	var waiting sync.Map // key: closed when somebody waits
	l := newLocker(t, server.Client(t), lock.WithPoll(time.Hour), lock.WithHooks(lock.Hooks{
		Waiting: func(_ context.Context, e lock.Event) func() {
			if begun, ok := waiting.Load(e.Key); ok {
				close(begun.(chan struct{}))
			}
			return nil
		},
	}))
	for waiter, w := range waitersAndHolders {
		for holder, h := range waitersAndHolders {
			if waiter == "fair" || holder == "read" || holder == "permits" {
				continue
			}
			t.Run(waiter+" waits for "+holder, func(t *testing.T) {
				t.Parallel()
				key := strings.NewReplacer("/", ":", " ", "-").Replace(t.Name())
				held := acquire(t, l, key, h, lock.WithLease(time.Hour))
				begun := make(chan struct{})
				waiting.Store(key, begun)
				granted := awaitLease(t, l, key, w)
				<-begun
				release(t, held)
				release(t, <-granted)
			})
		}
	}
}

// newPatientLocker polls every hour. The second result counts the acquires of each key that
// were refused.
func newPatientLocker(t *testing.T, rdb redis.UniversalClient, opts ...lock.Option) (*lock.Locker, *refusals) {
	t.Helper()
	store := &refusals{Store: redisstore.New(rdb), of: make(map[string]int)}
	l := lock.New(store, append(opts, lock.WithPoll(time.Hour))...)
	t.Cleanup(func() {
		if err := l.Close(context.Background()); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return l, store
}

type refusals struct {
	lock.Store

	mu sync.Mutex
	of map[string]int
}

func (r *refusals) Acquire(ctx context.Context, c lock.Claim, by time.Time, answer lock.Answer) {
	r.Store.Acquire(ctx, c, by, lock.AnswerFunc(func(fence uint64, err error) {
		if errors.Is(err, lock.ErrBusy) {
			r.mu.Lock()
			r.of[c.Key]++
			r.mu.Unlock()
		}
		answer.Answered(fence, err)
	}))
}

// awaitRefused starts an acquire, and returns when it has been refused a second time: it
// listens since before that, and sleeps.
func awaitRefused(t *testing.T, l *lock.Locker, r *refusals, key string, opts ...lock.Option) <-chan *lock.Lease {
	t.Helper()
	granted := awaitLease(t, l, key, opts...)
	eventually(t, func() error {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.of[key] < 2 {
			return fmt.Errorf("%d refusals", r.of[key])
		}
		return nil
	})
	return granted
}

// awaitLease starts an acquire.
func awaitLease(t *testing.T, l *lock.Locker, key string, opts ...lock.Option) <-chan *lock.Lease {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	granted := make(chan *lock.Lease, 1)
	var waiting sync.WaitGroup
	waiting.Go(func() {
		lease, err := l.Acquire(ctx, key, opts...)
		if err != nil {
			t.Errorf("Acquire(%q): %v", key, err)
		}
		granted <- lease
	})
	t.Cleanup(func() {
		cancel()
		waiting.Wait()
	})
	return granted
}

func wantWaiting(t *testing.T, granted <-chan *lock.Lease) {
	t.Helper()
	if len(granted) > 0 {
		t.Error("it has the lock, and heard nothing")
	}
}

// channelsOf are the channels of a key that somebody listens to.
func channelsOf(t *testing.T, rdb *redis.Client, key string) []string {
	t.Helper()
	var channels []string
	eventually(t, func() (err error) {
		channels, err = rdb.PubSubChannels(t.Context(), "*"+key+"*").Result()
		if err == nil && len(channels) == 0 {
			err = errors.New("nobody listens")
		}
		return err
	})
	return channels
}

func publish(t *testing.T, rdb *redis.Client, message string, channels ...string) {
	t.Helper()
	for _, channel := range channels {
		if err := rdb.Publish(t.Context(), channel, message).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// overhear listens to channels. The result reports whether anything was published there up
// to its call.
func overhear(t *testing.T, rdb *redis.Client, channels ...string) (heard func() bool) {
	t.Helper()
	end := t.Name() // where nobody else listens
	channels = append(channels, end)
	overheard := rdb.Subscribe(t.Context(), channels...)
	t.Cleanup(func() { _ = overheard.Close() })
	for range channels { // the answers to the subscriptions
		if _, err := overheard.Receive(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return func() bool {
		publish(t, rdb, "", end)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		message, err := overheard.ReceiveMessage(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return message.Channel != end
	}
}
