package redisstore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
)

const (
	// pingEvery keeps the connection talking, so that silence means something.
	pingEvery = 3 * time.Second
	// silence is how long the server may say nothing before the connection is
	// taken for dead: two pings, and time to answer.
	silence = 8 * time.Second
	// minPause and maxPause bound the time between two attempts to reconnect.
	minPause = 50 * time.Millisecond
	maxPause = time.Second
)

// wakeups are the watches of a store. Their state is in the feed, under mu;
// nothing that can take time happens under it.
type wakeups struct {
	store         *Store
	ping, silence time.Duration
	warned        sync.Once

	mu   sync.Mutex
	feed *feed // nil while nobody watches
}

func newWakeups(s *Store) *wakeups {
	return &wakeups{store: s, ping: pingEvery, silence: silence}
}

// feed is a subscription connection, from the first watch to the last stop.
// Watches that come after that get another feed.
type feed struct {
	*wakeups
	ctx     context.Context // ends with the last watch
	end     context.CancelFunc
	changed chan struct{} // the topics are not what the server was told

	// Guarded by mu.
	topics map[string]*topic
	told   map[string]*topic // what the server was told to send
}

// topic is a channel that is watched.
type topic struct {
	watchers map[*watcher]struct{}
	live     bool // the server has acknowledged it on the present connection
}

// watcher is one watch. It is pending until it is live or has got an error.
type watcher struct {
	wake  func()
	live  bool
	ready chan error
}

// watch returns when the server has acknowledged the subscriptions.
func (u *wakeups) watch(ctx context.Context, channels []string, wake func()) (stop func(), err error) {
	watchers, leave := make([]*watcher, len(channels)), make([]func(), len(channels))
	for i, channel := range channels {
		w := &watcher{wake: wake, ready: make(chan error, 1)}
		f := u.join(channel, w)
		watchers[i], leave[i] = w, func() { f.leave(channel, w) }
	}
	stop = func() {
		for _, leave := range leave {
			leave()
		}
	}
	for _, w := range watchers {
		select {
		case err = <-w.ready:
		case <-ctx.Done():
			err = &lock.StoreError{Outcome: lock.OutcomeNotExecuted, Err: context.Cause(ctx)}
		}
		if err != nil {
			stop()
			return nil, fmt.Errorf("subscribe: %w", err)
		}
	}
	return stop, nil
}

func (u *wakeups) join(channel string, w *watcher) *feed {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.feed == nil {
		u.feed = u.start()
	}
	f := u.feed
	t := f.topics[channel]
	if t == nil {
		t = &topic{watchers: make(map[*watcher]struct{}, 1)}
		f.topics[channel] = t
		f.change()
	}
	t.watchers[w] = struct{}{}
	if t.live {
		w.begin()
	}
	return f
}

func (u *wakeups) start() *feed {
	f := &feed{
		wakeups: u, changed: make(chan struct{}, 1),
		topics: make(map[string]*topic), told: make(map[string]*topic),
	}
	f.ctx, f.end = context.WithCancel(context.Background())
	go f.run() // ends with f.ctx, that is, with the last watch
	return f
}

// begin ends the watcher's wait for the server; mu is held.
func (w *watcher) begin() {
	w.live = true
	w.ready <- nil
}

// leave ends a watch. It does not wait for the server, and a second call does
// nothing. As wake is called under mu, it is not called again.
func (f *feed) leave(channel string, w *watcher) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.remove(channel, w)
}

// remove takes out a watcher, if it is still there; mu is held.
func (f *feed) remove(channel string, w *watcher) {
	t := f.topics[channel]
	if t == nil {
		return
	}
	delete(t.watchers, w)
	if len(t.watchers) > 0 {
		return
	}
	delete(f.topics, channel)
	f.change()
	if len(f.topics) == 0 && f.wakeups.feed == f {
		f.wakeups.feed = nil
		f.end()
	}
}

// change asks for the server to be told.
func (f *feed) change() {
	select {
	case f.changed <- struct{}{}:
	default: // it is asked already
	}
}

// run tells the server which channels are wanted, until nobody watches.
// Whatever it waits for, it waits alone.
func (f *feed) run() {
	pubsub := f.store.rdb.Subscribe(f.ctx) // without channels it does no I/O
	ping := time.NewTicker(f.ping)
	var reading sync.WaitGroup
	var begin sync.Once
	for f.ctx.Err() == nil {
		select {
		case <-f.changed:
			if f.tell(pubsub) {
				begin.Do(func() { reading.Go(func() { f.read(pubsub) }) })
			}
		case <-ping.C:
			_ = pubsub.Ping(f.ctx) // without an answer the reader finds out
		case <-f.ctx.Done():
		}
	}
	ping.Stop()
	_ = pubsub.Close() // ends the reader; a connection that fails to close is gone
	reading.Wait()
}

// tell makes the server's subscriptions those that are wanted. It returns
// false when there is no connection.
func (f *feed) tell(pubsub *redis.PubSub) bool {
	add, drop := f.news()
	if len(drop) > 0 {
		// If this fails the connection is lost, and the next one will not
		// have these channels.
		_ = pubsub.Unsubscribe(f.ctx, drop...)
	}
	if len(add) == 0 {
		return true
	}
	err := pubsub.Subscribe(f.ctx, add...)
	if err != nil {
		f.refuse(f.store.failure(err))
	}
	return err == nil
}

// news is the difference to what the server was told. A channel that was left
// and joined again in the meantime is subscribed again: its acknowledgement is
// what the new watcher waits for.
func (f *feed) news() (add, drop []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for channel, t := range f.topics {
		if f.told[channel] != t {
			f.told[channel] = t
			add = append(add, channel)
		}
	}
	for channel := range f.told {
		if f.topics[channel] == nil {
			delete(f.told, channel)
			drop = append(drop, channel)
		}
	}
	return add, drop
}

// refuse gives all pending watchers an error. Those that are live stay: they
// are subscribed again with the next connection.
func (f *feed) refuse(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for channel, t := range f.topics {
		for w := range t.watchers {
			if !w.live {
				w.ready <- err
				f.remove(channel, w)
			}
		}
	}
}

// read hands out what the server sends. Errors never end it: the client
// connects and subscribes again by itself at the next attempt to read.
func (f *feed) read(pubsub *redis.PubSub) {
	failures := 0
	for f.ctx.Err() == nil {
		message, err := f.receive(pubsub)
		if err != nil {
			f.broken(err)
			f.pause(failures)
			failures++
			continue
		}
		failures = 0
		switch m := message.(type) {
		case *redis.Message:
			f.wake(m.Channel)
		case *redis.Subscription:
			if m.Kind == "subscribe" {
				f.acknowledged(m.Channel)
			}
		}
	}
}

// receive gives up on a connection that has been silent for too long. A
// deadline of the context, unlike a timeout, makes the client drop it.
func (f *feed) receive(pubsub *redis.PubSub) (any, error) {
	ctx, cancel := context.WithTimeout(f.ctx, f.silence)
	defer cancel()
	return pubsub.Receive(ctx)
}

// broken takes in an error of the connection.
func (f *feed) broken(err error) {
	if f.ctx.Err() != nil {
		return
	}
	err = f.store.failure(err)
	if isRefused(err) {
		f.warned.Do(func() {
			f.store.log.Warn("redis refuses to subscribe, so waiters poll; see redisstore.WithPolling", "error", err)
		})
		f.refuse(err)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, t := range f.topics {
		t.live = false
	}
}

// pause waits before the connection is tried again; the first time not at all.
func (f *feed) pause(failures int) {
	if failures == 0 {
		return
	}
	d := min(minPause<<min(failures, 10), maxPause)
	timer := time.NewTimer(d/2 + rand.N(d/2))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-f.ctx.Done():
	}
}

// wake passes a message on to all who watch the channel.
func (f *feed) wake(channel string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if t := f.topics[channel]; t != nil {
		t.wake()
	}
}

// acknowledged makes the pending watchers of a channel live. For those that
// already were, this is a new connection, and messages may have been missed.
func (f *feed) acknowledged(channel string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.topics[channel]
	if t == nil {
		return
	}
	t.wake()
	t.live = true
	for w := range t.watchers {
		if !w.live {
			w.begin()
		}
	}
}

// wake calls the watchers that are live; mu is held.
func (t *topic) wake() {
	for w := range t.watchers {
		if w.live {
			w.wake()
		}
	}
}
