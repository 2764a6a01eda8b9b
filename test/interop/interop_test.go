package interop_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// promise is one thing that holds between Java and Go. Promises run side by
// side in one world, each with names of its own.
type promise struct {
	name string
	test func(w world)
	// since is the first dialect of Redisson that knows it; empty: all.
	since string
}

var promises = slices.Concat(exclusive)

const (
	newest = "redisson-4.7"
	oldest = "redisson-3.17"
)

// pairing is a Redisson, and how it is connected to the Redis.
type pairing struct {
	profile string
	options []string
}

func TestRedissonStandalone(t *testing.T) {
	keep(t, standalone, pairing{newest, nil}, pairing{oldest, nil})
}

func TestRedissonCluster(t *testing.T) {
	keep(t, cluster, pairing{newest, []string{"sharded=OFF"}}, pairing{oldest, nil})
}

// keep tests every promise for every pairing.
func keep(t *testing.T, open func(t *testing.T) *site, pairings ...pairing) {
	t.Helper()
	tc := needJava(t)
	s := open(t)
	for _, pair := range pairings {
		t.Run(strings.Join(append([]string{pair.profile}, pair.options...), ","), func(t *testing.T) {
			start := func(t *testing.T, options ...string) *agent {
				t.Helper()
				args := slices.Concat(s.args, []string{fmt.Sprintf("watchdog=%d", watchdog.Milliseconds())}, pair.options, options)
				return startAgent(t, tc, pair.profile, args...)
			}
			java := start(t)
			for _, p := range promises {
				if p.since == newest && pair.profile == oldest {
					continue // that Redisson has no such lock
				}
				t.Run(p.name, func(t *testing.T) {
					t.Parallel()
					p.test(world{T: t, site: s, java: java, start: start})
				})
			}
		})
	}
}
