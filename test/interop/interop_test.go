package interop_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/redisstore"
)

// promise is one thing that holds between Java and Go. Promises run side by
// side in one world, each with its own names.
type promise struct {
	name string
	test func(w world)
	// since is the first profile whose Redisson keeps it; empty: all.
	since string
}

// families are the kinds of locks: what Java calls them and what Go does.
var families = []struct {
	kind     string
	mode     lock.Mode
	promises []promise
}{
	{"plain", lock.Exclusive, slices.Concat(owned, plain, tokens, kept)},
	{"fair", lock.Fair, slices.Concat(owned, fair, kept)},
	{"write", lock.Write, slices.Concat(owned, write, kept)},
	{"read", lock.Read, read},
	{"permits", lock.Semaphore, slices.Concat(permits, keptPermits)},
	{"latch", lock.Exclusive, latch},
}

// The profiles, whose names sort by version.
const (
	newest = "redisson-4.7"
	middle = "redisson-3.45"
	oldest = "redisson-3.17"
)

// pairing is a Redisson, how it is connected to the Redis, and what Go has to
// know of it.
type pairing struct {
	name    string
	profile string
	java    []string
	store   []redisstore.Option
	broken  []string // kinds of locks that this Redisson breaks by itself
}

func TestRedissonStandalone(t *testing.T) {
	keep(t, standalone,
		pairing{name: newest, profile: newest},
		pairing{name: middle, profile: middle, broken: []string{"read"}}, // it renews one reader of several
		pairing{name: oldest, profile: oldest})
}

// In a cluster, a Redisson without sharded channels needs messages about releases
// in the old way.
func TestRedissonCluster(t *testing.T) {
	both := []redisstore.Option{redisstore.WithPublish(redisstore.Both)}
	keep(t, cluster,
		pairing{name: newest, profile: newest},
		pairing{name: newest + ",sharded=OFF", profile: newest, java: []string{"sharded=OFF"}, store: both},
		pairing{name: oldest, profile: oldest, store: both})
}

// keep tests every promise for every pairing.
func keep(t *testing.T, open func(t *testing.T) *site, pairings ...pairing) {
	t.Helper()
	tc := needJava(t)
	s := open(t)
	for _, pair := range pairings {
		t.Run(pair.name, func(t *testing.T) {
			start := func(t *testing.T, options ...string) *agent {
				t.Helper()
				args := slices.Concat(s.args, []string{fmt.Sprintf("watchdog=%d", watchdog.Milliseconds())}, pair.java, options)
				return startAgent(t, tc, pair.profile, args...)
			}
			java := start(t)
			for _, family := range families {
				if slices.Contains(pair.broken, family.kind) {
					continue
				}
				t.Run(family.kind, func(t *testing.T) {
					t.Parallel()
					w := world{T: t, site: s, kind: family.kind, mode: family.mode, java: java, start: start, store: pair.store}
					w.keep(family.promises, pair.profile)
				})
			}
		})
	}
}

// keep runs the promises that the Redisson of the profile can keep.
func (w world) keep(promises []promise, profile string) {
	for _, p := range promises {
		if profile < p.since {
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
