package redisstore

import (
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/redisstore/internal/subs"
)

// Publishing says how a release is published. See [WithPublish].
type Publishing int

const (
	// Auto is Sharded in a cluster, Both for a client of a cluster whose ClusterSlots are
	// set, such as one that may read replicas behind a Sentinel, and Plain elsewhere, or
	// where the servers refuse sharded subscriptions.
	Auto Publishing = iota
	// Sharded is SPUBLISH: the message stays on the shard of the lock.
	// Redisson 3.22 and later does the same by default. Servers that refuse SPUBLISH,
	// as those before Redis 7 do, get PUBLISH.
	Sharded
	// Plain is PUBLISH: the message goes to every node of the cluster.
	Plain
	// Both is for a cluster in which some waiters subscribe to one kind of channel
	// only: Redisson before 3.22 or with shardedSubscriptionMode OFF, next to later
	// ones.
	Both
)

// publishing is how scripts publish; see publish.lua.
func (s *Store) publishing() any {
	switch {
	case s.cluster == nil, s.publish == Plain, s.publish == Auto && s.wakeups != nil && s.wakeups.Unsharded():
		return "publish"
	case s.publish == Both, s.publish == Auto && !s.clustered():
		return "both"
	case s.quiet && s.publish == Auto: // only a script finds out that SPUBLISH is refused
		return "both"
	}
	return "spublish"
}

// subscriptions are those of the store. They start nothing until the first watch.
func (s *Store) subscriptions() *subs.Set {
	return subs.New(subs.Config{
		Client:  s.rdb,
		Cluster: s.cluster,
		Failure: s.failure,
		Refused: isRefused,
		Warn:    func(message string, err error) { s.log.Warn(message, "cause", lock.ClassOf(err)) },
	})
}

// announcements are a connection apart: where an ACL refuses their channel, waiters don't
// notice.
func (s *Store) announcements() *subs.Set {
	return subs.New(subs.Config{Client: s.rdb, Failure: s.failure, Refused: isRefused, Warn: func(string, error) {}})
}
