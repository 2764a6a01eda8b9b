package redisstore

import (
	"log/slog"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// LogValue describes the store in a log: its topology and address.
func (s *Store) LogValue() slog.Value {
	to := s.endpoint()
	return slog.GroupValue(
		slog.String("kind", "redis"),
		slog.String("topology", to.topology),
		slog.String("address", to.address),
	)
}

// sentinelAddr is the address of a client that follows a Sentinel.
const sentinelAddr = "FailoverClient"

// endpoint says where the client looks for Redis, and how.
type endpoint struct {
	topology, address string
	encrypted         bool
	readTimeout       time.Duration // 0 or less: none, or none known
}

func (s *Store) endpoint() endpoint {
	switch rdb := s.rdb.(type) {
	case *redis.ClusterClient:
		o := rdb.Options()
		to := endpoint{"cluster", strings.Join(o.Addrs, ", "), o.TLSConfig != nil, o.ReadTimeout}
		if to.address == "" {
			to.address = "the servers that its ClusterSlots names" // a Sentinel's, or the program's own
		}
		return to
	case *redis.Client:
		o := rdb.Options()
		to := endpoint{"standalone", o.Addr, o.TLSConfig != nil, o.ReadTimeout}
		if o.Addr == sentinelAddr {
			to.topology, to.address = "sentinel", "the master that the sentinels name"
		}
		return to
	default:
		return endpoint{topology: "unknown", address: "the address of the client"}
	}
}
