package redisstore

import (
	"context"
	"fmt"
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

// plane is where a message is heard. The two planes of a cluster do not meet:
// what is published on one is not heard on the other.
type plane int

const (
	common  plane = iota // SUBSCRIBE: on any node
	sharded              // SSUBSCRIBE: on the node that has the slot
	planes
)

// feed is the subscriptions of a store, from the first watch to the last stop.
// Watches that come after that get another feed.
type feed struct {
	*wakeups
	ctx     context.Context // ends with the last watch
	end     context.CancelFunc
	line    *line         // of the common plane
	astray  chan struct{} // topics have no line of the sharded plane
	drops   int           // lines lost since a sharded subscription, guarded by mu
	without [planes]bool  // planes that there are not, guarded by mu

	// Guarded by mu.
	topics map[string]*topic
	shards map[*redis.Client]*line // by master
}

// topic is a channel that is watched.
type topic struct {
	watchers map[*watcher]struct{}
	shard    *line        // where it is, or will be, subscribed on the sharded plane
	heard    [planes]bool // the server has acknowledged it on the present connection
}

// watcher is one watch. It is pending until it is live or has got an error.
type watcher struct {
	wake  func()
	live  bool
	ready chan error
}

// watch returns when the server has acknowledged the subscriptions. wake is
// called for each message, and when messages may have been missed.
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
		signal(f.line.changed)
		signal(f.astray)
	}
	t.watchers[w] = struct{}{}
	f.begin(t)
	return f
}

// start begins a feed; mu is held. Its goroutines end with f.ctx, that is, with
// the last watch.
func (u *wakeups) start() *feed {
	f := &feed{
		wakeups: u, astray: make(chan struct{}, 1),
		topics: make(map[string]*topic), shards: make(map[*redis.Client]*line),
	}
	f.ctx, f.end = context.WithCancel(context.Background())
	f.line = f.newLine(nil)
	go f.line.run()
	if u.store.cluster != nil {
		go f.route()
	} else {
		f.without[sharded] = true
	}
	return f
}

// begin makes the pending watchers of a topic live once it is heard on every
// plane; mu is held.
func (f *feed) begin(t *topic) {
	for p := range planes {
		if !t.heard[p] && !f.without[p] {
			return
		}
	}
	for w := range t.watchers {
		if !w.live {
			w.live = true
			w.ready <- nil
		}
	}
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
	signal(f.line.changed)
	if t.shard != nil {
		signal(t.shard.changed)
	}
	if len(f.topics) == 0 && f.wakeups.feed == f {
		f.wakeups.feed = nil
		f.end()
	}
}

// refuse gives the pending watchers of some topics an error. Those that are
// live stay: they are subscribed again with the next connection.
func (f *feed) refuse(err error, which func(channel string, t *topic) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for channel, t := range f.topics {
		if !which(channel, t) {
			continue
		}
		for w := range t.watchers {
			if !w.live {
				w.ready <- err
				f.remove(channel, w)
			}
		}
	}
}

// pass wakes all who watch the channel.
func (f *feed) pass(channel string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if t := f.topics[channel]; t != nil {
		t.tell()
	}
}

// tell calls the watchers that are live; mu is held.
func (t *topic) tell() {
	for w := range t.watchers {
		if w.live {
			w.wake()
		}
	}
}

// signal asks for something to be looked at.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // it is asked already
	}
}
