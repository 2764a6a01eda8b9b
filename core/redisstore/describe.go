package redisstore

import (
	"log/slog"

	"github.com/redis/go-redis/v9"
)

// LogValue describes the store in a log: its topology and address.
func (s *Store) LogValue() slog.Value {
	return slog.GroupValue(
		slog.String("kind", "redis"),
		slog.String("topology", s.topologyName()),
		slog.String("address", s.address()),
	)
}

func (s *Store) topologyName() string {
	switch rdb := s.rdb.(type) {
	case *redis.ClusterClient:
		return "cluster"
	case *redis.Client:
		if rdb.Options().Addr == sentinelAddr {
			return "sentinel"
		}
		return "standalone"
	default:
		return "unknown"
	}
}
