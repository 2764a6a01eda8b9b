package redisstore

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
)

// Publishing says how a release is told. See [WithPublish].
type Publishing int

const (
	// Auto is Sharded in a cluster whose servers can, which is from Redis 7
	// on, and Plain elsewhere.
	Auto Publishing = iota
	// Sharded is SPUBLISH: the message stays on the shard of the lock.
	// Redisson 3.22 and later does the same by default.
	Sharded
	// Plain is PUBLISH: the message goes to every node of the cluster.
	Plain
	// Both is for a cluster in which some listen on one plane only: Redisson
	// before 3.22 or with shardedSubscriptionMode OFF, beside later ones.
	Both
)

// shardSupport is what is known of the servers of a cluster.
type shardSupport int32

const (
	unknown shardSupport = iota
	supported
	unsupported
)

// knowsShards asks a cluster, once it has answered, whether it has sharded
// channels.
func (s *Store) knowsShards(ctx context.Context) shardSupport {
	if s.cluster == nil {
		return unsupported
	}
	if known := shardSupport(s.shards.Load()); known != unknown {
		return known
	}
	cmd := redis.NewCmd(ctx, "pubsub", "shardnumsub")
	err := s.rdb.Process(ctx, once{cmd})
	if err == nil {
		s.shards.Store(int32(supported))
	} else if reply, ok := errorReply(err); ok && outcomeOfReply(reply) != lock.OutcomeNotExecuted {
		s.shards.Store(int32(unsupported)) // an older server, or no permission
	}
	return shardSupport(s.shards.Load())
}

// publishing is the commands that scripts publish with, separated by spaces.
func (s *Store) publishing(ctx context.Context) string {
	const plain, shard = "publish", "spublish"
	switch {
	case s.cluster == nil, s.publish == Plain:
		return plain
	case s.publish == Both:
		return "both"
	case s.publish == Sharded, s.knowsShards(ctx) == supported:
		return shard
	default:
		return plain
	}
}

// route finds the lines of the sharded plane for topics that have none.
func (f *feed) route() {
	for failures := 0; ; failures++ {
		known := f.store.knowsShards(f.ctx)
		if known == unsupported {
			f.unsharded()
			return
		}
		if known == supported {
			break
		}
		f.pause(failures + 1)
		if f.ctx.Err() != nil {
			return
		}
	}
	for failures := 0; ; {
		select {
		case <-f.astray:
			if f.assignStrays() {
				failures = 0
				continue
			}
			failures++
			f.pause(failures)
			signal(f.astray)
		case <-f.ctx.Done():
			return
		}
	}
}

// unsharded does without the sharded plane.
func (f *feed) unsharded() {
	f.store.shards.Store(int32(unsupported))
	f.mu.Lock()
	defer f.mu.Unlock()
	f.without[sharded] = true
	for _, l := range f.shards {
		l.end()
	}
	for _, t := range f.topics {
		f.begin(t)
	}
}

// assignStrays gives lines to the channels without one. It returns false if
// that failed for some.
func (f *feed) assignStrays() bool {
	f.mu.Lock()
	var strays []string
	for channel, t := range f.topics {
		if t.shard == nil && !f.without[sharded] {
			strays = append(strays, channel)
		}
	}
	f.mu.Unlock()
	assigned := true
	for _, channel := range strays {
		node, err := f.store.cluster.MasterForKey(f.ctx, channel)
		if err == nil {
			f.assign(channel, node)
			continue
		}
		assigned = false // the topology is not known
		f.refuse(f.store.failure(err), func(c string, _ *topic) bool { return c == channel })
	}
	return assigned
}

// assign gives a channel the line of the master that has its slot.
func (f *feed) assign(channel string, node *redis.Client) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.topics[channel]
	if t == nil || t.shard != nil || f.without[sharded] {
		return
	}
	l := f.shards[node]
	if l == nil {
		l = f.newLine(node)
		f.shards[node] = l
		go l.run() // ends with the feed, or with its connection
	}
	t.shard = l
	signal(l.changed)
}

// moved takes in that the server has ended a subscription: its slot has gone
// to another node. For one that we have ended, there is nothing to do.
func (l *line) moved(channel string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.topics[channel]
	if t == nil || t.shard != l || l.told[channel] != t {
		return
	}
	l.store.cluster.ReloadState(l.ctx)
	delete(l.told, channel)
	l.stray(t)
}

// stray makes a topic look for another line; mu is held.
func (f *feed) stray(t *topic) {
	t.shard, t.heard[sharded] = nil, false
	signal(f.astray)
}

// hangUp ends a line that has lost its connection, or is that of a node which
// has not all the slots that it was thought to have.
func (l *line) hangUp() {
	l.mu.Lock()
	if l.shards[l.node] != l {
		l.mu.Unlock()
		return // it is done
	}
	delete(l.shards, l.node)
	l.eachTopic(func(t *topic) { t.heard[sharded] = false })
	drops := l.drops
	l.drops++
	l.mu.Unlock()
	l.store.cluster.ReloadState(l.ctx)
	l.pause(drops)
	l.end()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.eachTopic(l.stray)
}

// eachTopic visits those of a line of the sharded plane; mu is held.
func (l *line) eachTopic(visit func(t *topic)) {
	for _, t := range l.topics {
		if t.shard == l {
			visit(t)
		}
	}
}
