// Package worker is one of the processes that use the locks while things
// break.
package worker

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/quorum"
	"github.com/redlatch/redlatch/core/redisstore"
	"github.com/redlatch/redlatch/test/chaos/internal/bug"
	"github.com/redlatch/redlatch/test/chaos/internal/history"
)

// Config is all that a worker knows.
type Config struct {
	Worker  int           `json:"worker"`
	Life    int           `json:"life"`
	Clients int           `json:"clients"`
	Seed    uint64        `json:"seed"`
	Clock   history.Clock `json:"clock"`
	Record  string        `json:"record"`   // file for the events
	Counter string        `json:"resource"` // unix socket of the resource
	Bug     string        `json:"bug,omitempty"`

	Redis Redis    `json:"redis"`
	Load  Load     `json:"load"`
	Modes []string `json:"modes"`
}

// Redis is where the locks are. Addresses are the ones that servers know of each
// other; Via maps them to the proxies of this worker.
type Redis struct {
	Topology string            `json:"topology"`
	Addrs    []string          `json:"addrs"`
	Master   string            `json:"master,omitempty"` // name, with sentinels
	Via      map[string]string `json:"via"`
	Database string            `json:"database,omitempty"` // the URL of one instead of Redis
	Listens  bool              `json:"listens,omitempty"`  // to notifications of PostgreSQL
}

// Load is what clients do.
type Load struct {
	Lease time.Duration `json:"lease"`
	Keys  int           `json:"keys"` // of each mode at a time
	// Generation is how long a key is used. After that it gets another name, so
	// that histories stay short.
	Generation time.Duration `json:"generation"`
	// Long is how many percent of the leases are kept for longer than they last
	// without renewal, half of them by the watchdog, half of them by Extend.
	Long int `json:"long"`
	// Leave is how many percent of the acquisitions have a context that ends soon.
	Leave int `json:"leave"`
	// Keep is how many percent of the acquisitions have a minimum hold.
	Keep int `json:"keep,omitempty"`
	// Offices is for how many keys each process campaigns, and Term how long such a
	// key is used.
	Offices int           `json:"offices,omitempty"`
	Term    time.Duration `json:"term,omitempty"`
	// Forgotten is the lease of acquisitions that are given up: so long that it
	// shows if nobody releases what they were granted.
	Forgotten time.Duration `json:"forgotten"`
	// Handoff says whether holds are handed on inside a process.
	Handoff bool `json:"handoff"`
	// SETNX says whether locks are strings.
	SETNX bool `json:"setnx,omitempty"`
	// Think is how long a client rests after each turn, at most twice that, and
	// how it waits is short then; 0: the usual mixture.
	Think time.Duration `json:"think,omitempty"`
}

func (r Redis) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if proxy, ok := r.Via[addr]; ok {
		addr = proxy
	}
	dialer := net.Dialer{Timeout: time.Second}
	return dialer.DialContext(ctx, network, addr)
}

// Topologies.
const (
	Standalone = "standalone"
	Sentinel   = "sentinel"
	Cluster    = "cluster"
	Quorum     = "quorum"
	PostgreSQL = "postgresql"
	MariaDB    = "mariadb"
)

// open returns a store with a bug in it, and how to close what it needs.
func (r Redis) open(planted *bug.Bug, opts []redisstore.Option) (lock.Store, func() error, error) {
	const timeout = time.Second
	var rdb redis.UniversalClient
	switch r.Topology {
	case Standalone:
		rdb = r.single(r.Addrs[0])
	case Sentinel:
		rdb = redis.NewFailoverClient(&redis.FailoverOptions{
			MasterName: r.Master, SentinelAddrs: r.Addrs, Dialer: r.dial, DialerRetries: 1, PoolSize: poolSize,
			DialTimeout: timeout, ReadTimeout: timeout, WriteTimeout: timeout, ContextTimeoutEnabled: true, DisableIdentity: true,
		})
	case Cluster:
		rdb = redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: r.Addrs, Dialer: r.dial, DialerRetries: 1, PoolSize: poolSize, ClusterStateReloadInterval: timeout,
			DialTimeout: timeout, ReadTimeout: timeout, WriteTimeout: timeout, ContextTimeoutEnabled: true, DisableIdentity: true,
		})
	case Quorum:
		return r.quorum(planted, opts)
	case PostgreSQL, MariaDB:
		return r.database(planted)
	default:
		return nil, nil, errors.New("there is no topology " + r.Topology)
	}
	return planted.In(redisstore.New(rdb, opts...), rdb), rdb.Close, nil
}

const poolSize = 16

func (r Redis) single(addr string) *redis.Client {
	const timeout = time.Second
	return redis.NewClient(&redis.Options{
		Addr: addr, Dialer: r.dial, DialerRetries: 1, PoolSize: poolSize,
		DialTimeout: timeout, ReadTimeout: timeout, WriteTimeout: timeout, ContextTimeoutEnabled: true, DisableIdentity: true,
	})
}

func (r Redis) quorum(planted *bug.Bug, opts []redisstore.Option) (lock.Store, func() error, error) {
	var stores []lock.Store
	var clients []*redis.Client
	for _, addr := range r.Addrs {
		rdb := r.single(addr)
		clients = append(clients, rdb)
		stores = append(stores, planted.In(redisstore.New(rdb, opts...), rdb))
	}
	q, err := quorum.New(stores...)
	if err != nil {
		return nil, nil, err
	}
	q.SetNodeTimeout(100 * time.Millisecond)
	return q, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		failed := []error{q.Close(ctx)}
		for _, rdb := range clients {
			failed = append(failed, rdb.Close())
		}
		return errors.Join(failed...)
	}, nil
}
