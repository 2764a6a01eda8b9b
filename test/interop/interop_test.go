package interop_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/redisstore"
)

// promise is one thing that holds between Java and Go. Promises run side by
// side in one world, each with its own names.
type promise struct {
	name string
	test func(w world)
	// since is the first version of Redisson that keeps it, as earlier ones have no
	// such lock, or a defect; empty: all.
	since string
}

// families are the kinds of locks: what Java calls them and what Go does.
var families = []struct {
	kind     string
	mode     lock.Mode
	promises []promise
}{
	{"plain", lock.Exclusive, slices.Concat(owned, plain, tokens, operators)},
	{"fair", lock.Fair, slices.Concat(owned, fair, operators)},
	{"write", lock.Write, slices.Concat(owned, write, operators)},
	{"read", lock.Read, slices.Concat(read, operators)},
	{"permits", lock.Semaphore, slices.Concat(permits, operators)},
	{"latch", lock.Exclusive, latch},
	{"redlock", lock.Exclusive, redlock},
}

// The versions of Redisson: they sort as strings.
const (
	newest = "4.7.0"
	newer  = "4.3.1"
	middle = "3.45.1"
	oldest = "3.17.7"
)

// pairing is a Redisson, how it is connected to the Redis, and what Go has to
// know of it.
type pairing struct {
	redisson string // its version
	java     []string
	store    []redisstore.Option
	only     string // what the names of promises contain, if not all are tested
}

func TestRedissonStandalone(t *testing.T) {
	keep(t, standalone,
		pairing{redisson: newest},
		pairing{redisson: newer},
		pairing{redisson: middle},
		pairing{redisson: oldest})
}

// In a cluster, a Redisson without sharded channels needs messages about releases
// in the old way.
func TestRedissonCluster(t *testing.T) {
	both := []redisstore.Option{redisstore.WithPublish(redisstore.Both)}
	keep(t, cluster,
		pairing{redisson: newest},
		pairing{redisson: newest, java: []string{"sharded=OFF"}, store: both, only: "wakes"},
		pairing{redisson: middle},
		pairing{redisson: oldest, store: both})
}

// TestRedissonSentinel runs on the master that is left after a failover.
func TestRedissonSentinel(t *testing.T) {
	keep(t, sentinel, pairing{redisson: newest})
}

// keep tests every promise for every pairing.
func keep(t *testing.T, open func(t *testing.T) *site, pairings ...pairing) {
	t.Helper()
	tc := needJava(t)
	s, command := open(t), buildCommand(t)
	for _, pair := range pairings {
		t.Run(strings.Join(append([]string{"redisson-" + pair.redisson}, pair.java...), ","), func(t *testing.T) {
			start := func(t *testing.T, options ...string) *agent {
				t.Helper()
				args := slices.Concat(s.args, []string{fmt.Sprintf("watchdog=%d", watchdog.Milliseconds())}, pair.java, options)
				return startAgent(t, tc, pair.redisson, args...)
			}
			java := start(t)
			if s.failover != nil {
				t.Run("failover", func(t *testing.T) {
					failover(world{T: t, site: s, kind: "plain", mode: lock.Exclusive, java: java, store: pair.store})
				})
			}
			for _, family := range families {
				if family.kind == "redlock" && s.args[0] != "standalone" {
					continue // it brings its servers
				}
				t.Run(family.kind, func(t *testing.T) {
					t.Parallel()
					w := world{T: t, site: s, only: pair.only, redisson: pair.redisson, kind: family.kind, mode: family.mode, java: java, command: command, start: start, store: pair.store}
					w.keep(family.promises)
				})
			}
		})
	}
}

// keep runs the promises that this Redisson can keep.
func (w world) keep(promises []promise) {
	for _, p := range promises {
		if w.redisson < p.since || !strings.Contains(p.name, w.only) {
			continue
		}
		w.Run(p.name, func(t *testing.T) {
			t.Parallel()
			own := w
			own.T = t
			p.test(own)
		})
	}
}
