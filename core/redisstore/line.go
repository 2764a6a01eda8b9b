package redisstore

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// line is a subscription connection: one for all channels of the common plane,
// and one for each master that has some of the sharded plane.
type line struct {
	*feed
	ctx     context.Context
	end     context.CancelFunc
	node    *redis.Client // nil: the common plane
	plane   plane
	changed chan struct{} // the topics are not what the server was told

	told map[string]*topic // what the server was told to send, guarded by mu
}

// newLine makes the line of a master, or that of the common plane.
func (f *feed) newLine(node *redis.Client) *line {
	l := &line{feed: f, node: node, changed: make(chan struct{}, 1), told: make(map[string]*topic)}
	l.ctx, l.end = context.WithCancel(f.ctx)
	if node != nil {
		l.plane = sharded
	}
	return l
}

// run tells the server which channels are wanted, until nobody watches.
// Whatever it waits for, it waits alone.
func (l *line) run() {
	pubsub := l.open() // without channels it does no I/O
	ping := time.NewTicker(l.ping)
	var reading sync.WaitGroup
	var begin sync.Once
	for l.ctx.Err() == nil {
		select {
		case <-l.changed:
			if l.tell(pubsub) {
				begin.Do(func() { reading.Go(func() { l.read(pubsub) }) })
			}
		case <-ping.C:
			_ = pubsub.Ping(l.ctx) // without an answer the reader finds out
		case <-l.ctx.Done():
		}
	}
	ping.Stop()
	_ = pubsub.Close() // ends the reader; a connection that fails to close is gone
	reading.Wait()
}

func (l *line) open() *redis.PubSub {
	if l.plane == sharded {
		return l.node.SSubscribe(l.ctx)
	}
	return l.store.rdb.Subscribe(l.ctx)
}

// tell makes the server's subscriptions those that are wanted. It returns
// false when there is no connection.
func (l *line) tell(pubsub *redis.PubSub) bool {
	add, drop := l.news()
	if len(drop) > 0 {
		// If this fails the connection is lost, and the next one will not
		// have these channels.
		_ = l.unsubscribe(pubsub, drop)
	}
	if len(add) == 0 {
		return true
	}
	err := l.subscribe(pubsub, add)
	if err != nil && l.ctx.Err() == nil {
		err = l.store.failure(err)
		l.refuse(err, l.has)
		if l.plane == sharded {
			l.hangUp()
		}
	}
	return err == nil
}

func (l *line) subscribe(pubsub *redis.PubSub, channels []string) error {
	if l.plane == common {
		return pubsub.Subscribe(l.ctx, channels...)
	}
	for _, channel := range channels { // one by one, as they are in many slots
		if err := pubsub.SSubscribe(l.ctx, channel); err != nil {
			return err
		}
	}
	return nil
}

func (l *line) unsubscribe(pubsub *redis.PubSub, channels []string) error {
	if l.plane == common {
		return pubsub.Unsubscribe(l.ctx, channels...)
	}
	for _, channel := range channels {
		if err := pubsub.SUnsubscribe(l.ctx, channel); err != nil {
			return err
		}
	}
	return nil
}

// has says whether a topic is to be heard on the line; mu is held.
func (l *line) has(_ string, t *topic) bool { return l.plane == common || t.shard == l }

// news is the difference to what the server was told. A channel that was left
// and joined again in the meantime is subscribed again: its acknowledgement is
// what the new watcher waits for.
func (l *line) news() (add, drop []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for channel, t := range l.topics {
		if l.has(channel, t) && l.told[channel] != t {
			l.told[channel] = t
			add = append(add, channel)
		}
	}
	for channel := range l.told {
		if t := l.topics[channel]; t == nil || !l.has(channel, t) {
			delete(l.told, channel)
			drop = append(drop, channel)
		}
	}
	return add, drop
}

// read hands out what the server sends. On the common plane errors never end
// it: the client connects and subscribes again by itself at the next attempt to
// read. On the sharded plane it cannot, as the channels may have moved.
func (l *line) read(pubsub *redis.PubSub) {
	failures := 0
	for l.ctx.Err() == nil {
		message, err := l.receive(pubsub)
		switch {
		case err == nil:
			failures = 0
			l.take(message)
		case l.ctx.Err() != nil:
		case l.plane == sharded:
			l.broken(err)
			return
		default:
			l.broken(err)
			l.pause(failures)
			failures++
		}
	}
}

// receive gives up on a connection that has been silent for too long. A
// deadline of the context, unlike a timeout, makes the client drop it.
func (l *line) receive(pubsub *redis.PubSub) (any, error) {
	ctx, cancel := context.WithTimeout(l.ctx, l.silence)
	defer cancel()
	return pubsub.Receive(ctx)
}

func (l *line) take(message any) {
	switch m := message.(type) {
	case *redis.Message:
		l.pass(m.Channel)
	case *redis.Subscription:
		switch m.Kind {
		case "subscribe", "ssubscribe":
			l.acknowledged(m.Channel)
		case "sunsubscribe":
			l.moved(m.Channel)
		}
	}
}

// acknowledged makes the pending watchers of a channel live. For those that
// already were, this is a new connection, and messages may have been missed.
func (l *line) acknowledged(channel string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.topics[channel]
	if t == nil || !l.has(channel, t) {
		return
	}
	if l.plane == sharded {
		l.drops = 0
	}
	t.tell()
	t.heard[l.plane] = true
	l.begin(t)
}

// broken takes in an error of the connection.
func (l *line) broken(err error) {
	err = l.store.failure(err)
	switch {
	case !isRefused(err):
	case l.plane == sharded:
		l.warn("redis refuses sharded subscriptions, so redlatch does without; see redisstore.WithPublish", err)
		l.unsharded()
		return
	default:
		l.warn("redis refuses to subscribe, so waiters poll; see redisstore.WithPolling", err)
		l.refuse(err, l.has)
		return
	}
	if l.plane == sharded {
		l.hangUp()
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range l.topics {
		t.heard[common] = false
	}
}

func (u *wakeups) warn(text string, err error) {
	u.warned.Do(func() { u.store.log.Warn(text, "error", err) })
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
