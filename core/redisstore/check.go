package redisstore

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
)

// Check tells at start-up whether Redis is there; of a cluster, every master
// must be. Its error wraps [lock.ErrUnavailable] and names the address.
//
// It also warns, through the logger, of a server that may evict locks when its
// memory is full, and of a master with replicas, outside a cluster, that would
// go on granting locks when it is none any more. Where INFO is not permitted it
// cannot know, and says nothing.
func (s *Store) Check(ctx context.Context) error {
	if s.unusable != nil {
		return s.unusable
	}
	if s.cluster == nil {
		return s.checkNode(ctx, s.rdb, s.address())
	}
	err := s.cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		return s.checkNode(ctx, node, node.Options().Addr)
	})
	if err != nil && !errors.Is(err, lock.ErrUnavailable) {
		return unreachable(s.address(), s.hint(err)) // not even the topology is known
	}
	return err
}

func (s *Store) checkNode(ctx context.Context, node redis.UniversalClient, address string) error {
	// Sent once: whoever waits for a start-up has the patience to repeat it.
	if err := node.Process(ctx, once{redis.NewCmd(ctx, "ping")}); err != nil {
		return unreachable(address, s.hint(err))
	}
	memory, err := s.info(ctx, node, address, "memory")
	if err != nil && s.quarantine != nil {
		return fmt.Errorf("%w: redis at %s: WithQuarantine needs INFO: %w", lock.ErrUnavailable, address, err)
	}
	if policy := memory["maxmemory_policy"]; policy != "" && policy != "noeviction" {
		s.log.WarnContext(ctx, "redis may evict locks that are held: set maxmemory-policy to noeviction",
			"address", address, "policy", policy)
	}
	if s.cluster != nil || s.replicas != nil {
		return nil // such a master learns of its successor at once, or grants nothing without replicas
	}
	replication, _ := s.info(ctx, node, address, "replication") // nothing is known then
	_, limited := replication["min_slaves_good_slaves"]         // told where both settings are on
	if replicas := replication["connected_slaves"]; replicas != "" && replicas != "0" && !limited {
		s.log.WarnContext(ctx, "after a failover, a master that comes back may grant locks that others hold: set min-replicas-to-write to 1 or more",
			"address", address, "replicas", replicas)
	}
	return nil
}

// info is a section of INFO, empty if that is not permitted.
func (s *Store) info(ctx context.Context, node redis.UniversalClient, address, section string) (map[string]string, error) {
	text, err := node.Info(ctx, section).Result()
	if err != nil {
		s.log.DebugContext(ctx, "redis does not tell about itself", "section", section, "address", address, "error", err)
		return nil, err
	}
	fields := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, found := strings.Cut(strings.TrimSpace(line), ":"); found {
			fields[name] = value
		}
	}
	return fields, nil
}

// hint adds what is to be put right if client and server do not agree on TLS.
func (s *Store) hint(err error) error {
	var authority x509.UnknownAuthorityError
	var name x509.HostnameError
	var certificate x509.CertificateInvalidError
	var network net.Error
	var advice string
	switch encrypted := s.encrypted(); {
	case errors.As(err, &authority):
		advice = "put the CA of the server into RootCAs of the client's TLSConfig"
	case errors.As(err, &name):
		advice = "connect to a name in the certificate, or set ServerName in the client's TLSConfig"
	case errors.As(err, &certificate) && certificate.Reason == x509.Expired:
		advice = "renew the server's certificate, or set the clock"
	// Neither side can say it: a plain server waits for the end of a line that
	// never comes, one with TLS hangs up.
	case encrypted && errors.As(err, &network) && network.Timeout():
		advice = "the client speaks TLS: is this the server's tls-port?"
	case !encrypted && (errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)):
		advice = "the client speaks plain text: does the port want TLS?"
	default:
		return err
	}
	return fmt.Errorf("%w (%s)", err, advice)
}

func (s *Store) encrypted() bool {
	switch rdb := s.rdb.(type) {
	case *redis.Client:
		return rdb.Options().TLSConfig != nil
	case *redis.ClusterClient:
		return rdb.Options().TLSConfig != nil
	default:
		return false
	}
}

func unreachable(address string, err error) error {
	return fmt.Errorf("%w: redis at %s: %w", lock.ErrUnavailable, address, err)
}

// address says where the client looks for Redis.
func (s *Store) address() string {
	switch rdb := s.rdb.(type) {
	case *redis.ClusterClient:
		return strings.Join(rdb.Options().Addrs, ", ")
	case *redis.Client:
		if rdb.Options().Addr != "FailoverClient" { // what go-redis calls it
			return rdb.Options().Addr
		}
		return "the master that the sentinels name"
	default:
		return "the address of the client"
	}
}
