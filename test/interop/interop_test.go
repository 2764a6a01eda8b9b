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
	// since is the first version of Redisson that keeps it; empty: all.
	since string
}

// families are the kinds of locks: what Java calls them and what Go does.
var families = []struct {
	kind     string
	mode     lock.Mode
	promises []promise
}{
	{"plain", lock.Exclusive, slices.Concat(owned, plain, tokens)},
	{"fair", lock.Fair, slices.Concat(owned, fair)},
	{"write", lock.Write, slices.Concat(owned, write)},
	{"read", lock.Read, read},
	{"permits", lock.Semaphore, permits},
	{"latch", lock.Exclusive, latch},
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
	broken   []string // kinds of locks that this Redisson breaks by itself
}

func TestRedissonStandalone(t *testing.T) {
	keep(t, standalone,
		pairing{redisson: newest},
		pairing{redisson: newer},
		pairing{redisson: middle, broken: []string{"read"}}, // it renews one reader of several
		pairing{redisson: oldest})
}

// In a cluster, a Redisson without sharded channels needs messages about releases
// in the old way.
func TestRedissonCluster(t *testing.T) {
	both := []redisstore.Option{redisstore.WithPublish(redisstore.Both)}
	keep(t, cluster,
		pairing{redisson: newest},
		pairing{redisson: newest, java: []string{"sharded=OFF"}, store: both},
		pairing{redisson: middle, broken: []string{"read"}},
		pairing{redisson: oldest, store: both})
}

// keep tests every promise for every pairing.
func keep(t *testing.T, open func(t *testing.T) *site, pairings ...pairing) {
	t.Helper()
	tc := needJava(t)
	s := open(t)
	for _, pair := range pairings {
		t.Run(strings.Join(append([]string{"redisson-" + pair.redisson}, pair.java...), ","), func(t *testing.T) {
			start := func(t *testing.T, options ...string) *agent {
				t.Helper()
				args := slices.Concat(s.args, []string{fmt.Sprintf("watchdog=%d", watchdog.Milliseconds())}, pair.java, options)
				return startAgent(t, tc, pair.redisson, args...)
			}
			java := start(t)
			for _, family := range families {
				if slices.Contains(pair.broken, family.kind) {
					continue
				}
				t.Run(family.kind, func(t *testing.T) {
					t.Parallel()
					w := world{T: t, site: s, redisson: pair.redisson, kind: family.kind, mode: family.mode, java: java, start: start, store: pair.store}
					w.keep(family.promises)
				})
			}
		})
	}
}

// keep runs the promises that this Redisson can keep.
func (w world) keep(promises []promise) {
	for _, p := range promises {
		if w.redisson < p.since {
			continue // it has no such lock, or a defect
		}
		w.Run(p.name, func(t *testing.T) {
			t.Parallel()
			own := w
			own.T = t
			p.test(own)
		})
	}
}
