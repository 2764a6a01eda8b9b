package redisstore

import (
	"context"
	"errors"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
)

// server is what a server says about itself.
type server struct {
	address string
	info    map[string]string
	err     error // why it says nothing
}

// inspectServer reads INFO. Where that is not permitted nothing is known.
func (s *Store) inspectServer(ctx context.Context, node redis.UniversalClient, address string) *server {
	about := &server{address: address, info: make(map[string]string)}
	for _, section := range []string{"server", "memory", "persistence", "replication"} {
		text, err := node.Info(ctx, section).Result()
		if err != nil {
			about.err = err
			s.log.InfoContext(ctx, "redis may not be asked for its role, eviction policy, persistence and replicas: permit INFO",
				"address", address, "class", lock.ClassOf(s.failure(err)))
			return about
		}
		for line := range strings.Lines(text) {
			if name, value, found := strings.Cut(strings.TrimSpace(line), ":"); found {
				about.info[name] = value
			}
		}
	}
	return about
}

// misplaced says which server the client should have been connected to.
func (a *server) misplaced(s *Store) error {
	switch mode := a.info["redis_mode"] + a.info["server_mode"]; { // Redis has the one, Valkey the other
	case mode == "sentinel":
		return errors.New("this is a Sentinel, which keeps no locks: connect with redis.NewFailoverClient")
	case mode == "cluster" && s.cluster == nil:
		return errors.New("this is a node of a cluster: connect with redis.NewClusterClient")
	case mode == "standalone" && s.clustered():
		return errors.New("this server is not a cluster: connect with redis.NewClient")
	case a.info["role"] == "slave":
		return errors.New("this is a replica: connect to its master, with redis.NewFailoverClient if there is a Sentinel")
	}
	return nil
}

// clustered says that the servers must be a cluster. They need not be where somebody
// else names the slots: for a client that may read from replicas behind a Sentinel,
// go-redis gives the master all of them.
func (s *Store) clustered() bool { return s.cluster != nil && s.cluster.Options().ClusterSlots == nil }

// warn names settings that lose locks.
func (a *server) warn(ctx context.Context, s *Store) {
	if policy := a.info["maxmemory_policy"]; policy != "" && policy != "noeviction" {
		s.log.WarnContext(ctx, "redis may evict locks that are held: set maxmemory-policy to noeviction",
			"address", a.address, "policy", policy)
	}
	if a.info["aof_enabled"] == "0" && s.quarantine == nil {
		s.log.WarnContext(ctx, "after a restart, redis may grant locks that others hold: set appendonly to yes, or use WithQuarantine",
			"address", a.address)
	}
	if s.clustered() || s.replicas != nil {
		return // such a master notices its successor at once, or grants nothing without replicas
	}
	_, limited := a.info["min_slaves_good_slaves"] // present where both settings are on
	switch replicas := a.info["connected_slaves"]; {
	case replicas == "", replicas == "0":
	case limited && strings.HasPrefix(a.info["redis_version"], "6."):
		s.log.WarnContext(ctx, "after a failover, a master that comes back may grant locks that others hold: before Redis 7, scripts write whatever min-replicas-to-write says, so use Redis 7 or WithReplicas",
			"address", a.address, "replicas", replicas)
	case !limited:
		s.log.WarnContext(ctx, "after a failover, a master that comes back may grant locks that others hold: set min-replicas-to-write to 1 or more",
			"address", a.address, "replicas", replicas)
	}
}

// slots is how many slots a cluster has.
const slots = 16384

// checkCoverage warns of a cluster that does not serve all slots, or will not
// when one of its masters fails.
func (s *Store) checkCoverage(ctx context.Context) {
	if !s.clustered() {
		return
	}
	if ranges, err := s.cluster.ClusterSlots(ctx).Result(); err == nil { //nolint:staticcheck // Redis 6.2 has no CLUSTER SHARDS
		covered := 0
		for _, r := range ranges {
			covered += r.End - r.Start + 1
		}
		if covered < slots {
			s.log.WarnContext(ctx, "the cluster does not serve all slots: locks in the others cannot be had",
				"address", s.endpoint().address, "missing", slots-covered)
		}
	}
	const setting = "cluster-require-full-coverage"
	got, err := s.cluster.ConfigGet(ctx, setting).Result()
	switch {
	case err != nil:
		s.log.InfoContext(ctx, "redis may not be asked for "+setting+": see that it is no", "address", s.endpoint().address, "class", lock.ClassOf(s.failure(err)))
	case got[setting] == "yes":
		s.log.WarnContext(ctx, "while one master of the cluster is away, all others refuse locks as well: set "+setting+" to no",
			"address", s.endpoint().address)
	}
}
