package subs

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
)

// connection is one for all channels of the common plane, or for those of the
// sharded plane that one master has.
type connection struct {
	*subscriptions
	ctx     context.Context
	end     context.CancelFunc
	node    *redis.Client // nil: the common plane
	plane   plane
	changed chan struct{} // what is wanted is not what was sent

	sent     map[string]*channel // the subscriptions that were sent, guarded by mu
	heard    time.Time           // when the server first acknowledged one; zero: not yet; guarded by mu
	refusals int                 // in a row; the reader's
	stood    time.Time           // when well found it connected; the reader's
	later    *time.Timer         // of again, nil while it isn't due, guarded by mu
}

// newConnection starts that of a master, or of the common plane. It ends with
// the subscriptions, or by its end.
func (all *subscriptions) newConnection(node *redis.Client) *connection {
	c := &connection{
		subscriptions: all, node: node, changed: make(chan struct{}, 1), sent: make(map[string]*channel),
	}
	c.ctx, c.end = context.WithCancel(all.ctx)
	if node != nil {
		c.plane = sharded
	}
	go c.run()
	return c
}

// connect makes a connection for the common plane; mu is held.
func (all *subscriptions) connect() {
	all.common = all.newConnection(nil)
	signal(all.common.changed)
}

// run subscribes to the channels that are wanted, until nobody watches. Whatever
// it waits for, it waits alone.
func (c *connection) run() {
	pubsub := c.open() // without channels it does no I/O
	ping := time.NewTicker(c.Ping)
	var reading sync.WaitGroup
	var begin sync.Once
	for c.ctx.Err() == nil {
		select {
		case <-c.changed:
			if c.update(pubsub) {
				begin.Do(func() { reading.Go(func() { c.read(pubsub) }) })
			}
		case <-ping.C:
			_ = c.ping(pubsub) // without an answer the reader finds out
		case <-c.ctx.Done():
		}
	}
	ping.Stop()
	_ = pubsub.Close() // ends the reader; a connection that fails to close is gone
	reading.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.later != nil {
		c.later.Stop()
	}
}

func (c *connection) open() *redis.PubSub {
	if c.plane == sharded {
		return c.patient(c.node).SSubscribe(c.ctx)
	}
	if one, ok := c.Client.(*redis.Client); ok {
		return c.patient(one).Subscribe(c.ctx)
	}
	return c.Client.Subscribe(c.ctx)
}

// patient returns a client that gives up a handshake on a mute connection, which no
// context ends.
func (c *connection) patient(client *redis.Client) *redis.Client {
	if timeout := client.Options().ReadTimeout; timeout > 0 && timeout <= c.Silence {
		return client
	}
	return client.WithTimeout(c.Silence)
}

// update makes the server's subscriptions the wanted ones. It returns false when nobody
// is to read the connection. The reader of the common one finds out what has failed, and
// connects again.
func (c *connection) update(pubsub *redis.PubSub) bool {
	add, drop := c.difference()
	each, subscribe, unsubscribe := len(add)+len(drop), pubsub.Subscribe, pubsub.Unsubscribe
	if c.plane == sharded {
		each, subscribe, unsubscribe = 1, pubsub.SSubscribe, pubsub.SUnsubscribe // they are in many slots
	}
	// If this fails the connection is lost, and the next one will not have these
	// channels.
	_ = c.send(drop, each, unsubscribe)
	err := c.send(add, each, subscribe)
	if err != nil && c.ctx.Err() == nil {
		c.refuse(c.Failure(err), c.has)
		if _, panicked := errors.AsType[*lock.PanicError](err); panicked && c.plane == common {
			return !c.lost(pubsub, err) // the client does not know of the channels
		}
		if c.plane == sharded {
			c.hangUp()
		}
	}
	return err == nil || c.plane == common
}

// send sends a command for some names at a time.
func (c *connection) send(names []string, each int, command func(context.Context, ...string) error) error {
	for some := range slices.Chunk(names, max(each, 1)) {
		if _, err := guarded(func() (any, error) { return nil, command(c.ctx, some...) }); err != nil {
			return err
		}
	}
	return nil
}

// has says whether a channel is to be heard on the connection; mu is held.
func (c *connection) has(_ string, wanted *channel) bool {
	return c.plane == common || wanted.shard == c
}

// difference is what is wanted and was not sent, and the reverse. A channel that
// was left and joined again in the meantime is subscribed again: its
// acknowledgement is what the new watcher waits for.
func (c *connection) difference() (add, drop []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, wanted := range c.channels {
		if c.has(name, wanted) && c.sent[name] != wanted {
			c.sent[name] = wanted
			add = append(add, name)
		}
	}
	for name := range c.sent {
		if wanted := c.channels[name]; wanted == nil || !c.has(name, wanted) {
			delete(c.sent, name)
			drop = append(drop, name)
		}
	}
	return add, drop
}

// read hands out what the server sends. On the common plane errors do not end
// it: the client connects and subscribes again by itself at the next attempt to
// read. On the sharded plane it cannot, as the channels may have moved.
func (c *connection) read(pubsub *redis.PubSub) {
	for c.ctx.Err() == nil {
		message, err := guarded(func() (any, error) { return c.receive(pubsub) })
		switch {
		case err == nil:
			if _, pong := message.(*redis.Pong); !pong {
				c.refusals = 0
			}
			c.take(message)
		case c.ctx.Err() != nil:
		case c.lost(pubsub, err):
			return
		}
	}
}

// receive gives up on a connection that has been silent for too long. A
// deadline of the context, unlike a timeout, makes the client drop it.
func (c *connection) receive(pubsub *redis.PubSub) (any, error) {
	ctx, cancel := context.WithTimeout(c.ctx, c.Silence)
	defer cancel()
	return pubsub.Receive(ctx)
}

func (c *connection) ping(pubsub *redis.PubSub) error {
	_, err := guarded(func() (any, error) { return nil, pubsub.Ping(c.ctx) })
	return err
}

// well says whether the connection stands, so that the server has refused a channel and
// not the handshake. It does not look again at once: the server may refuse PING, too.
func (c *connection) well(pubsub *redis.PubSub) bool {
	if time.Since(c.stood) < minPause {
		return true
	}
	if c.ping(pubsub) != nil {
		return false
	}
	c.stood = time.Now()
	return true
}

func (c *connection) take(message any) {
	switch m := message.(type) {
	case *redis.Message:
		c.mu.Lock()
		defer c.mu.Unlock()
		if watched := c.channels[m.Channel]; watched != nil {
			watched.deliver(m.Payload)
		}
	case *redis.Subscription:
		switch m.Kind {
		case "subscribe", "ssubscribe":
			c.acknowledged(m.Channel)
		case "sunsubscribe":
			c.moved(m.Channel)
		}
	}
}

// acknowledged makes the pending watchers of a channel live. For watchers that
// already were, this is a new connection, and messages may have been missed.
func (c *connection) acknowledged(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.heard.IsZero() {
		c.heard = time.Now()
	}
	watched := c.channels[name]
	if watched == nil || !c.has(name, watched) {
		return
	}
	watched.wake()
	watched.heard[c.plane] = true
	c.begin(watched)
}

// again subscribes to what is left when the server refused some channels, as it refuses
// all that are in one command with them.
func (c *connection) again() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.later = nil
	if c.ctx.Err() != nil {
		return // the channels are another's
	}
	for name, wanted := range c.channels {
		wanted.heard[common] = false
		delete(c.sent, name) // what nobody wants stays, to be unsubscribed
	}
	signal(c.changed)
}

// againLater has it done after a pause, once for all that is refused until then.
func (c *connection) againLater(failures int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.later == nil {
		c.later = time.AfterFunc(pauseAfter(failures), c.again)
	}
}

// dropped counts the loss of the connection, and returns how many of its node failed right
// before. One that was acknowledged may have failed all the same, by the next channel; what
// counts is that it lasted. mu is held.
func (c *connection) dropped() (before int) {
	if !c.heard.IsZero() && time.Since(c.heard) >= minLife {
		delete(c.drops, c.node)
	}
	c.heard = time.Time{} // on the connection that the client makes next
	before = c.drops[c.node]
	c.drops[c.node]++
	return before
}

// lost follows an error of the connection, and says whether that has ended it.
func (c *connection) lost(pubsub *redis.PubSub, err error) bool {
	if c.abandoned() {
		return true // such as by an application that closes its client
	}
	var panicked *lock.PanicError
	err = c.Failure(err)
	switch class := lock.ClassOf(err); {
	case c.plane == sharded && class == "unknown command": // as it is before Redis 7
		c.commonOnly()
		return true
	case c.plane == sharded && class == "NOPERM":
		c.warn("redis refuses sharded subscriptions, so redlatch does without; see redisstore.WithPublish", err)
		c.commonOnly()
		return true
	case c.plane == common && c.Refused(err):
		c.warn("redis refuses to subscribe, so waiters poll; see redisstore.WithPolling", err)
		c.refuse(err, c.has)
		if c.well(pubsub) {
			c.againLater(c.refusals) // it is read meanwhile
			c.refusals++
			return false
		}
	case c.plane == sharded: // also for what it says when the client subscribes to channels of several slots at once
		c.hangUp()
		return true
	}
	broken := errors.As(err, &panicked)
	c.mu.Lock()
	if c.ctx.Err() != nil { // the channels are another's: this one panicked while it sent
		c.mu.Unlock()
		return true
	}
	drops := c.dropped()
	for _, watched := range c.channels {
		watched.heard[common] = false
	}
	c.mu.Unlock()
	c.pause(drops)
	if !broken {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	// The client would go on in the middle of what made it panic.
	c.end()
	if c.common == c {
		c.connect()
	}
	return true
}
