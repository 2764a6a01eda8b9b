// Package subs shares subscription connections among all who watch channels: one
// for the whole client, and in a cluster with sharded channels one for each master
// that has some. A connection that is lost is replaced, and then everybody who
// watches it is woken once, as messages may have been missed.
//
// Every goroutine ends with the last channel that is watched. A panic of the client on
// one of them is an error of that connection.
package subs

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"sync/atomic"
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
	// minLife is how long a connection must last after its first acknowledgement, or it
	// has failed.
	minLife = minPause / 2
)

// Config is what a [Set] needs of its owner. All but Cluster, Ping and Silence
// must be set.
type Config struct {
	Client  redis.UniversalClient
	Cluster *redis.ClusterClient // Client if it is one, or nil
	// Failure classifies an error of the client. Refused says of the result
	// whether trying again is of no use.
	Failure func(error) error
	Refused func(error) bool
	// Warn is called at most once.
	Warn func(message string, err error)

	Ping, Silence time.Duration // default 3 s and 8 s
}

// Set is the subscriptions of one client. Nothing that can take time happens
// under mu.
type Set struct {
	Config
	warned    sync.Once
	unsharded atomic.Bool // the servers refuse the sharded plane

	mu      sync.Mutex
	current *subscriptions // nil while nobody watches
}

// New returns a set without subscriptions. It does no I/O.
func New(c Config) *Set {
	if c.Ping == 0 {
		c.Ping, c.Silence = pingEvery, silence
	}
	return &Set{Config: c}
}

// Unsharded says that there is no sharded plane, as far as is known.
func (s *Set) Unsharded() bool { return s.Cluster == nil || s.unsharded.Load() }

// plane is where a message is heard. The two planes of a cluster do not meet:
// what is published on one is not heard on the other.
type plane int

const (
	common  plane = iota // SUBSCRIBE: on any node
	sharded              // SSUBSCRIBE: on the node that has the slot
	planes
)

// subscriptions are those from the first watch until no channel is left. Watches that
// come after that get others.
type subscriptions struct {
	*Set
	ctx        context.Context // ends with the last channel
	end        context.CancelFunc
	unassigned chan struct{} // some channels have no connection of the sharded plane

	// Guarded by mu.

	common   *connection
	shards   map[*redis.Client]*connection // by master
	channels map[string]*channel           // that are watched
	drops    map[*redis.Client]int         // connections of a node that failed in a row; see dropped
	without  [planes]bool                  // planes that there are not
}

// channel is one that is subscribed, or will be.
type channel struct {
	watchers map[*watcher]struct{}
	shard    *connection  // where it is, or will be, subscribed on the sharded plane
	heard    [planes]bool // the server has acknowledged it on the present connection
}

// watcher is one watch. It is pending until it is live or has got an error.
type watcher struct {
	wake  func()
	hear  func(message string) // nil: wake
	live  bool
	ready chan error
}

// Watch returns when the server has acknowledged the subscriptions. wake is
// called for each message, and when messages may have been missed; not after
// stop has returned. It must not block. stop does not wait for the server, and a
// second call does nothing.
func (s *Set) Watch(ctx context.Context, names []string, wake func()) (stop func(), err error) {
	return s.watch(ctx, names, watcher{wake: wake})
}

// Listen is Watch of one channel, for what its messages say. Some may be missed.
func (s *Set) Listen(ctx context.Context, name string, hear func(message string)) (stop func(), err error) {
	return s.watch(ctx, []string{name}, watcher{wake: func() {}, hear: hear})
}

// Reached returns how many watches a message has reached that has reached so many
// connections, of this set and of others. Those of others are taken for one watch each.
func (s *Set) Reached(name string, connections int64) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == nil {
		return connections
	}
	c := s.current.channels[name]
	if c == nil || !s.current.live(c) {
		return connections
	}
	return connections - 1 + int64(len(c.watchers))
}

func (s *Set) watch(ctx context.Context, names []string, what watcher) (stop func(), err error) {
	var watchers []*watcher
	var leave []func()
	stop = func() {
		for _, leave := range leave {
			leave()
		}
	}
	for _, name := range names {
		w := &watcher{wake: what.wake, hear: what.hear, ready: make(chan error, 1)}
		all := s.join(name, w)
		watchers, leave = append(watchers, w), append(leave, func() { all.leave(name, w) })
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

func (s *Set) join(name string, w *watcher) *subscriptions {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == nil {
		s.current = s.start()
	}
	all := s.current
	c := all.channels[name]
	if c == nil {
		c = &channel{watchers: make(map[*watcher]struct{}, 1)}
		all.channels[name] = c
		signal(all.common.changed)
		signal(all.unassigned)
	}
	c.watchers[w] = struct{}{}
	all.begin(c)
	return all
}

// start begins subscriptions; mu is held. Their goroutines end with their
// context, that is, with the last channel.
func (s *Set) start() *subscriptions {
	all := &subscriptions{
		Set: s, unassigned: make(chan struct{}, 1),
		channels: make(map[string]*channel), shards: make(map[*redis.Client]*connection), drops: make(map[*redis.Client]int),
	}
	all.ctx, all.end = context.WithCancel(context.Background())
	all.connect()
	if all.without[sharded] = s.Unsharded(); !all.without[sharded] {
		go all.route()
	}
	return all
}

// begin makes the pending watchers of a channel live once it is heard on every
// plane; mu is held.
func (all *subscriptions) begin(c *channel) {
	if !all.live(c) {
		return
	}
	for w := range c.watchers {
		if !w.live {
			w.live = true
			w.ready <- nil
		}
	}
}

// live says whether a channel is heard on every plane that there is; mu is held.
func (all *subscriptions) live(c *channel) bool {
	for p := range planes {
		if !c.heard[p] && !all.without[p] {
			return false
		}
	}
	return true
}

// leave ends a watch. As wake is called under mu, it is not called again.
func (all *subscriptions) leave(name string, w *watcher) {
	all.mu.Lock()
	defer all.mu.Unlock()
	c := all.channels[name]
	if c == nil {
		return
	}
	delete(c.watchers, w)
	all.drop(name, c)
}

// drop ends a channel, unless somebody watches it; mu is held.
func (all *subscriptions) drop(name string, c *channel) {
	if len(c.watchers) > 0 || all.channels[name] != c {
		return
	}
	delete(all.channels, name)
	signal(all.common.changed)
	if c.shard != nil {
		signal(c.shard.changed)
	}
	if len(all.channels) == 0 && all.current == all {
		all.current = nil
		all.end()
	}
}

// abandoned drops the channels that nobody watches, and says whether these were all.
func (all *subscriptions) abandoned() bool {
	all.mu.Lock()
	defer all.mu.Unlock()
	for name, c := range all.channels {
		all.drop(name, c)
	}
	return len(all.channels) == 0
}

// refuse gives the pending watchers of some channels an error. Live
// ones stay: they are subscribed again with the next connection.
func (all *subscriptions) refuse(err error, which func(name string, c *channel) bool) {
	all.mu.Lock()
	defer all.mu.Unlock()
	for name, c := range all.channels {
		if !which(name, c) {
			continue
		}
		for w := range c.watchers {
			if !w.live {
				w.ready <- err
				delete(c.watchers, w)
			}
		}
		all.drop(name, c)
	}
}

// wake calls the watchers that are live; mu is held.
func (c *channel) wake() {
	for w := range c.watchers {
		if w.live {
			w.wake()
		}
	}
}

// deliver calls them for a message; mu is held.
func (c *channel) deliver(message string) {
	for w := range c.watchers {
		switch {
		case !w.live:
		case w.hear != nil:
			w.hear(message)
		default:
			w.wake()
		}
	}
}

func (s *Set) warn(message string, err error) {
	s.warned.Do(func() { s.Warn(message, err) })
}

// pauseAfter is how long to wait before the next attempt; after the first failure not at all.
func pauseAfter(failures int) time.Duration {
	if failures == 0 {
		return 0
	}
	d := min(minPause<<min(failures, 10), maxPause)
	return d/2 + rand.N(d/2)
}

// pause waits before the next attempt.
func (all *subscriptions) pause(failures int) {
	timer := time.NewTimer(pauseAfter(failures))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-all.ctx.Done():
	}
}

// signal wakes the goroutine that receives from c, or leaves the signal for it.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // one is waiting there
	}
}

// guarded makes an error of a panic of the client.
func guarded[T any](call func() (T, error)) (value T, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &lock.PanicError{Value: p, Stack: debug.Stack()}
		}
	}()
	return call()
}
