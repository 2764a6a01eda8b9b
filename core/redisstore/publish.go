package redisstore

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/redisstore/internal/subs"
)

// Publishing says how a release is published. See [WithPublish].
type Publishing int

const (
	// Auto is Sharded in a cluster of servers that support it (Redis 7 or later),
	// and Plain elsewhere.
	Auto Publishing = iota
	// Sharded is SPUBLISH: the message stays on the shard of the lock.
	// Redisson 3.22 and later does the same by default.
	Sharded
	// Plain is PUBLISH: the message goes to every node of the cluster.
	Plain
	// Both is for a cluster in which some waiters subscribe to one kind of channel
	// only: Redisson before 3.22 or with shardedSubscriptionMode OFF, next to later
	// ones.
	Both
)

// shardSupport is what is known of the servers of a cluster.
type shardSupport int32

const (
	unknown shardSupport = iota
	supported
	unsupported
)

// knowsShards finds out, once a cluster has answered, whether it has sharded
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
	outcome, _ := meaningOf(err)
	if _, refused := errorReply(err); err == nil {
		s.shards.Store(int32(supported))
	} else if refused && outcome != lock.OutcomeNotExecuted {
		s.shards.Store(int32(unsupported)) // an older server, or no permission
	}
	return shardSupport(s.shards.Load())
}

// publishing is the commands that scripts publish with, separated by spaces.
func (s *Store) publishing(ctx context.Context) any {
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

// subscriptions are those of the store. They start nothing until the first watch.
func (s *Store) subscriptions() *subs.Set {
	return subs.New(subs.Config{
		Client:  s.rdb,
		Cluster: s.cluster,
		Sharded: func(ctx context.Context) (has, known bool) {
			support := s.knowsShards(ctx)
			return support == supported, support != unknown
		},
		Unsharded: func() { s.shards.Store(int32(unsupported)) },
		Failure:   s.failure,
		Refused:   isRefused,
		Warn:      func(message string, err error) { s.log.Warn(message, "error", err) },
	})
}
