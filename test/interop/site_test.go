package interop_test

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/test/internal/redistest"
)

const (
	// patience bounds every wait for something that must happen, and no test has
	// another bound: it is only ever spent when something is broken.
	patience = time.Minute
	// long is a lease that nobody waits for. A waiter that gets a key within
	// patience was woken.
	long = 10 * time.Minute
	// watchdog is the lease that both sides renew.
	watchdog = 3 * time.Second
)

// site is a Redis that both sides share.
type site struct {
	rdb   redis.UniversalClient
	addrs []string
	args  []string // how an agent gets there

	master   string             // its name, to sentinels
	failover func(t *testing.T) // to another one
}

func standalone(t *testing.T) *site {
	t.Helper()
	server := redistest.Standalone(t)
	return &site{rdb: server.Client(t), addrs: []string{server.Addr()}, args: []string{"standalone", server.Addr()}}
}

func cluster(t *testing.T) *site {
	t.Helper()
	set := redistest.Cluster(t)
	return &site{rdb: set.Client(t), addrs: set.Addrs(), args: []string{"cluster", strings.Join(set.Addrs(), ",")}}
}

func sentinel(t *testing.T) *site {
	t.Helper()
	set := redistest.Sentinel(t)
	return &site{
		rdb: set.Client(t), addrs: set.Addrs(), master: set.Name,
		args:     []string{"sentinel", set.Name + "," + strings.Join(set.Addrs(), ",")},
		failover: func(t *testing.T) { t.Helper(); set.Failover(t) },
	}
}
