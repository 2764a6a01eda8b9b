package redisstore

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
)

// Check tests at start-up whether locks of the given modes can be taken: by default
// exclusive ones. On every master it takes a lock on a key that nobody else uses
// (redlatch:check:<random>, expiring within seconds), renews it, releases it to an
// owner that came meanwhile and under a minimum hold, and subscribes to its channel,
// with the scripts and the user that real locks have.
//
// Its error wraps [lock.ErrUnavailable], names the address, and says what to put
// right: a user without a permission, a replica, a Sentinel or a node of a
// cluster behind a client of another kind, a server that is full. The error is
// for operators.
//
// It warns, through the logger, of settings that lose locks: an eviction policy,
// no append-only file, masters that accept writes without their replicas, a
// cluster that stops as a whole when one master fails. It logs which of them it
// was not permitted to read, at level INFO. It needs no permission that locks do
// not need, except INFO.
//
// It returns when ctx ends, with its cause. What has been sent by then ends with the
// client's own timeout, or when the client is closed.
func (s *Store) Check(ctx context.Context, modes ...lock.Mode) error {
	if s.unusable != nil {
		return s.unusable
	}
	if len(modes) == 0 {
		modes = []lock.Mode{lock.Exclusive}
	}
	checked := make(chan error, 1)
	go func() { checked <- guarded(func() error { return s.check(ctx, modes) }) }()
	select {
	case err := <-checked:
		return err
	case <-ctx.Done(): // which clients don't look at while they read a reply
		return unreachable(s.endpoint().address, s.advised(context.Cause(ctx)))
	}
}

func (s *Store) check(ctx context.Context, modes []lock.Mode) error {
	nodes, err := s.checkNodes(ctx)
	if err != nil {
		return err
	}
	for _, n := range nodes {
		if err := s.probe(ctx, n, modes); err != nil {
			return err
		}
	}
	return nil
}

// checkNodes looks at every master, and returns their addresses.
func (s *Store) checkNodes(ctx context.Context) (addresses []string, err error) {
	if s.cluster == nil {
		return []string{s.endpoint().address}, s.checkNode(ctx, s.rdb, s.endpoint().address)
	}
	var mu sync.Mutex
	err = s.cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		mu.Lock()
		addresses = append(addresses, node.Options().Addr)
		mu.Unlock()
		return guarded(func() error { return s.checkNode(ctx, node, node.Options().Addr) })
	})
	if err != nil {
		if errors.Is(err, lock.ErrUnavailable) {
			return nil, err
		}
		return nil, unreachable(s.endpoint().address, s.advised(err)) // not even the topology is known
	}
	s.checkCoverage(ctx)
	return addresses, nil
}

func (s *Store) checkNode(ctx context.Context, node redis.UniversalClient, address string) error {
	// Sent once: who waits for a start-up has the patience to repeat it.
	if err := node.Process(ctx, once{redis.NewCmd(ctx, "ping")}); err != nil {
		return unreachable(address, s.advised(err))
	}
	about := s.inspectServer(ctx, node, address)
	if about.err != nil && s.quarantine != nil {
		return fmt.Errorf("%w: redis at %s: WithQuarantine needs INFO: %w", lock.ErrUnavailable, address, about.err)
	}
	if err := about.misplaced(s); err != nil {
		return unreachable(address, err)
	}
	about.warn(ctx, s)
	return nil
}

// advised adds what is to be put right.
func (s *Store) advised(err error) error {
	return fmt.Errorf("%w%s", s.hint(err), cure(s.failure(err)))
}

// hint adds what is to be put right if client and server do not agree on TLS.
func (s *Store) hint(err error) error {
	var authority x509.UnknownAuthorityError
	var name x509.HostnameError
	var certificate x509.CertificateInvalidError
	var network net.Error
	var advice string
	switch encrypted := s.endpoint().encrypted; {
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

func unreachable(address string, err error) error {
	return fmt.Errorf("%w: redis at %s: %w", lock.ErrUnavailable, address, err)
}
