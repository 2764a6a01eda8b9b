package plan

import (
	"fmt"
	"time"

	"github.com/redlatch/redlatch/test/bench/internal/load"
	"github.com/redlatch/redlatch/test/bench/internal/peer"
	"github.com/redlatch/redlatch/test/bench/internal/result"
)

// Series is one kind of load, a row for each size of it.
type Series struct {
	Name    string // in documents, and in the IDs of its scenarios
	Title   string
	Of      string // what the sizes count
	Metrics []string
	Sizes   []Size
}

// Size is one row of a series.
type Size struct {
	N int
	Scenario
}

// Scenarios are the rows.
func (s Series) Scenarios() []Scenario {
	all := make([]Scenario, len(s.Sizes))
	for i, size := range s.Sizes {
		all[i] = size.Scenario
	}
	return all
}

// longHeld is long enough for all locks to be renewed once: a third of the lease.
const longHeld = 12 * time.Second

// Scaling returns the series. Divisor makes windows and numbers of keys smaller: 1
// for figures, more for a look.
func Scaling(divisor int) []Series {
	shorter := func(d time.Duration) time.Duration { return d / time.Duration(divisor) }
	held := func(name string, n int) Scenario {
		return Scenario{
			Peers: []string{name}, Kind: load.Hold, Count: max(n/divisor, 100), Lease: lease, Window: shorter(longHeld),
		}
	}
	cycle := func(processes, goroutines int, hot bool) Scenario {
		return Scenario{
			Peers: []string{peer.Redlatch}, Kind: load.Cycle, Processes: processes, Goroutines: goroutines, Hot: hot, Window: shorter(3 * time.Second),
		}
	}
	costs := []string{result.Rate, result.Calls, result.RedisCPU, result.ClientCPU, result.Allocs}
	waits := []string{result.Rate, result.Calls, result.RedisCPU, result.ClientCPU, result.Jain, result.P50, result.P99, result.Max}
	memory := []string{result.PerLock, result.Goroutines, result.ClientShare, result.P99, result.Max, result.Slowdown}
	holds := append([]string{result.Commands, result.RedisShare}, memory...)
	all := []Series{
		{
			Name: "held", Title: "locks that one process holds in Redis, renewed every 10 s", Of: "locks", Metrics: holds,
			Sizes: sizes([]int{1_000, 10_000, 100_000}, func(n int) Scenario { return held(peer.Redlatch, n) }),
		},
		{
			Name: "memory", Title: "locks that one process holds in memory, renewed every 10 s", Of: "locks", Metrics: memory,
			Sizes: sizes([]int{10_000, 100_000, 1_000_000}, func(n int) Scenario { return held(peer.RedlatchMemory, n) }),
		},
		{
			Name: "keys", Title: "keys that are locked once each, by 128 goroutines", Of: "keys",
			Metrics: []string{result.Rate, result.Calls, result.RedisCPU, result.ClientCPU, result.Allocs, result.KeysLeft, result.Memory},
			Sizes: sizes([]int{1_000, 10_000, 100_000}, func(n int) Scenario {
				return Scenario{Peers: []string{peer.Redlatch}, Kind: load.Keys, Goroutines: 128, Count: max(n/divisor, 100), Window: time.Second}
			}),
		},
		{
			Name: "goroutines", Title: "goroutines of one process with a key each", Of: "goroutines", Metrics: costs,
			Sizes: sizes([]int{1, 10, 100, 1_000, 10_000}, func(n int) Scenario { return cycle(1, n, false) }),
		},
		{
			Name: "processes", Title: "processes with 16 goroutines each, and a key for each goroutine", Of: "processes", Metrics: costs,
			Sizes: sizes([]int{1, 4, 16, 32}, func(n int) Scenario { return cycle(n, 16, false) }),
		},
		{
			Name: "waiters", Title: "goroutines of one process that want one key", Of: "waiters", Metrics: waits,
			Sizes: sizes([]int{10, 100, 1_000, 10_000}, func(n int) Scenario { return cycle(1, n, true) }),
		},
		{
			Name: "contenders", Title: "processes with 4 goroutines each that want one key", Of: "processes", Metrics: waits,
			Sizes: sizes([]int{1, 2, 4, 8, 16, 32}, func(n int) Scenario { return cycle(n, 4, true) }),
		},
		{
			Name: "tries", Title: "goroutines of one process that try to get one key, which another process has", Of: "goroutines", Metrics: costs,
			Sizes: sizes([]int{1, 10, 100, 1_000, 10_000}, func(n int) Scenario {
				s := cycle(1, n, true)
				s.Kind, s.Elsewhere = load.Try, true
				return s
			}),
		},
		{
			Name: "shards", Title: "masters of a Redis Cluster with a replica each (1: a server alone), 128 goroutines with a key each", Of: "masters",
			Metrics: costs,
			Sizes: sizes([]int{1, 3}, func(n int) Scenario {
				s := cycle(1, 128, false)
				s.Cluster = n > 1
				return s
			}),
		},
	}
	for i := range all {
		all[i].number()
	}
	return all
}

func sizes(counts []int, scenario func(n int) Scenario) []Size {
	all := make([]Size, len(counts))
	for i, n := range counts {
		all[i] = Size{N: n, Scenario: scenario(n)}
	}
	return all
}

// number gives the scenarios their IDs, and what all of them have.
func (s *Series) number() {
	for i := range s.Sizes {
		size := &s.Sizes[i]
		size.ID, size.Title = fmt.Sprintf("%s %d", s.Name, size.N), s.Title
		size.Processes = max(size.Processes, 1)
		if size.Lease == 0 {
			size.Lease = lease
		}
	}
}
