package verdict

import (
	"math"

	"github.com/redlatch/redlatch/test/bench/internal/load"
	"github.com/redlatch/redlatch/test/bench/internal/peer"
	"github.com/redlatch/redlatch/test/bench/internal/plan"
	"github.com/redlatch/redlatch/test/bench/internal/result"
)

// rule is one requirement.
type rule struct {
	id, what  string
	value     figure
	must, aim bound
}

// edges is what counters may differ by because work goes on while they are
// read: a limit of 2 commands is one of 2.02.
const edges = 1.01

// rules is the one place for what must be reached, and what is aimed at.
var rules = []rule{
	{"R1", "× floor", against("R1", peer.Floor), atLeast(0.8), atLeast(0.95)},
	{"R1", "× floor, by CPU", ratio(cost("R1", peer.Floor), cost("R1", peer.Redlatch)), atLeast(0.75), bound{}},
	{"R1", "commands per cycle", ours("R1", result.Calls), atMost(2 * edges), bound{}},

	{"R2", "× floor", against("R2", peer.Floor), atLeast(1), atLeast(1.1)},
	{"R2", "× redsync", against("R2", peer.Redsync), atLeast(1.5), atLeast(1.8)},
	{"R2", "× rueidislock KM=1", against("R2", peer.Rueidis1), atLeast(1), atLeast(1.1)},

	{"R3", "× floor", against("R3", peer.Floor), atLeast(1.5), atLeast(1.8)},
	{"R3", "× redsync", against("R3", peer.Redsync), atLeast(2.5), atLeast(2.9)},
	{"R3", "× bsm/redislock", against("R3", peer.Bsm), atLeast(1.6), atLeast(1.8)},
	{"R3", "× rueidislock KM=1", against("R3", peer.Rueidis1), atLeast(1.2), atLeast(1.4)},

	{"R4", "× floor", against("R4", peer.Floor), atLeast(1.7), atLeast(2.3)},
	{"R4", "× redsync", against("R4", peer.Redsync), atLeast(2.5), atLeast(3.5)},
	{"R4", "× bsm/redislock", against("R4", peer.Bsm), atLeast(1.6), atLeast(2.4)},
	{"R4", "× rueidislock KM=1", against("R4", peer.Rueidis1), atLeast(1), atLeast(1.5)},

	{"R1", "SETNX format: × floor", setnx("R1", peer.Floor), atLeast(0.9), atLeast(0.95)},
	{"R2", "SETNX format: × redsync", setnx("R2", peer.Redsync), atLeast(1), bound{}},
	{"R2", "SETNX format: × bsm/redislock", setnx("R2", peer.Bsm), atLeast(1), bound{}},
	{"R3", "SETNX format: × redsync", setnx("R3", peer.Redsync), atLeast(1), bound{}},
	{"R3", "SETNX format: × bsm/redislock", setnx("R3", peer.Bsm), atLeast(1), bound{}},
	{"R4", "SETNX format: × redsync", setnx("R4", peer.Redsync), atLeast(1), bound{}},
	{"R4", "SETNX format: × bsm/redislock", setnx("R4", peer.Bsm), atLeast(1), bound{}},

	{"R5", "128: × redsync", against(plan.Far128, peer.Redsync), atLeast(3.5), atLeast(4)},
	{"R5", "128: × bsm/redislock", against(plan.Far128, peer.Bsm), atLeast(3.5), atLeast(4)},
	{"R5", "128: × rueidislock KM=1", against(plan.Far128, peer.Rueidis1), atLeast(0.75), atLeast(1)},
	{"R5", "1024: × redsync", against(plan.Far1024, peer.Redsync), atLeast(9), atLeast(9)},
	{"R5", "1024: × bsm/redislock", against(plan.Far1024, peer.Bsm), atLeast(9), atLeast(9)},
	{"R5", "1024: × rueidislock KM=1", against(plan.Far1024, peer.Rueidis1), atLeast(1), atLeast(1)},

	{"R6", "× fastest that serves all", againstFastest(plan.HotOne, servesAll), atLeast(10), atLeast(20)},
	{"R6", "× fastest", againstFastest(plan.HotOne, 0), atLeast(3), atLeast(3)},
	{"R6", "Jain", ours(plan.HotOne, result.Jain), atLeast(0.98), atLeast(0.98)},
	{"R6", "commands per grant", ours(plan.HotOne, result.Calls), atMost(0.15 * edges), bound{}},

	{"R7", "× fastest that serves all", againstFastest(plan.HotFour, servesAll), atLeast(8), atLeast(8)},
	{"R7", "× fastest", againstFastest(plan.HotFour, 0), atLeast(2), atLeast(2)},
	{"R7", "Jain", ours(plan.HotFour, result.Jain), atLeast(0.95), atLeast(0.97)},
	{"R7", "worst / best served", ratio(ours(plan.HotFour, result.Worst), ours(plan.HotFour, result.Best)), atLeast(0.5), atLeast(0.5)},
	{"R7", "commands per grant", ours(plan.HotFour, result.Calls), atMost(0.3 * edges), bound{}},
	{"R7", "p99 wait × rueidislock's", ratio(ours(plan.HotFour, result.P99), of(plan.HotFour, peer.Rueidis1, result.P99)), atMost(0.15), atMost(0.15)},

	{"R8", "× fastest that serves all", againstFastest(plan.HotSection, servesAll), atLeast(1.05), atLeast(1.1)},
	{"R8", "commands per grant", ours(plan.HotSection, result.Calls), atMost(1 * edges), atMost(0.6)},
	{"R8", "Jain", ours(plan.HotSection, result.Jain), bound{}, atLeast(0.97)},
	{"R8", "p99 wait × median", ratio(ours(plan.HotSection, result.P99), ours(plan.HotSection, result.P50)), bound{}, atMost(2)},

	{"R9", "commands per grant", of(plan.Fair128, peer.RedlatchFair, result.Calls), atMost(3.3), atMost(3)},
	{"R9", "inversions", of(plan.Fair128, peer.RedlatchFair, result.Inversions), never, never},
	{
		"R9", "× rueidislock KM=1",
		ratio(of(plan.Fair128, peer.RedlatchFair, result.Rate), of(plan.Fair128, peer.Rueidis1, result.Rate)), atLeast(1), atLeast(1.5),
	},
	{
		"R9", "Redis time per grant, 1000 × 16 waiters",
		ratio(of(plan.Fair1000, peer.RedlatchFair, result.RedisTime), of(plan.Fair16, peer.RedlatchFair, result.RedisTime)), atMost(1.25), atMost(1.1),
	},

	{"R10", "held elsewhere: × fastest", againstFastest(plan.Elsewhere, 0), atLeast(4), atLeast(8)},
	{"R10", "held elsewhere: commands per refusal", ours(plan.Elsewhere, result.Calls), atMost(0.1), bound{}},
	{"R10", "held here: × fastest", againstFastest(plan.Here, 0), atLeast(15), atLeast(15)},
	{"R10", "held here: commands per refusal", ours(plan.Here, result.Calls), atMost(0.001), bound{}}, // the holder's renewal

	{"R11", "goroutines", ours(plan.Held, result.Goroutines), atMost(8), atMost(8)}, // for all locks together
	{"R11", "bytes per lock", ours(plan.Held, result.PerLock), atMost(512), atMost(410)},
	{"R11", "renewal commands/s", ours(plan.Held, result.Commands), atMost(150), atMost(150)},
	{"R11", "foreground p99 × idle", ours(plan.Held, result.Slowdown), atMost(1.5), atMost(1.5)},

	{"R12", "p50 × rueidislock's", ratio(ours(plan.HandOff, result.P50), of(plan.HandOff, peer.Rueidis1, result.P50)), atMost(1.1), atMost(1)},
	{"R12", "commands per hand-off", ours(plan.HandOff, result.Calls), atMost(4 * edges), atMost(3 * edges)},

	{"R13", "overlaps", ours(plan.Killed, result.Overlaps), never, never},
	{"R13", "lost unlocks and other failures", ours(plan.Killed, result.Failures), never, never},
	{"R13", "longest wait, ms", ours(plan.Killed, result.Max), atMost(100), atMost(100)},
	{"R13", "× R7", ratio(ours(plan.Killed, result.Rate), ours(plan.HotFour, result.Rate)), atLeast(0.5), atLeast(1)},

	{"R14", "goroutines stuck in R4", ours("R4", result.Stuck), never, never},

	{"R15", "keys left", ours(plan.Keys, result.KeysLeft), never, never},
	{"R15", "goroutines left", ours(plan.Keys, result.Goroutines), never, never},
	{"R15", "subscriptions left", ours(plan.Keys, result.SubsLeft), never, never},
	{"R15", "heap left, bytes", ours(plan.Keys, result.Memory), atMost(1 << 20), atMost(1 << 18)},

	{"R16", "Gin: µs of CPU added", added(load.GinLock, load.BareGin, result.ClientCPU), atMost(3.5), atMost(3)},
	{"R16", "Gin: allocations added", added(load.GinLock, load.BareGin, result.Allocs), atMost(15 * edges), bound{}},
	{"R16", "gRPC: µs of CPU added", added(load.GRPCLock, load.BareGRPC, result.ClientCPU), atMost(3.5), atMost(3)},
	{"R16", "gRPC: allocations added", added(load.GRPCLock, load.BareGRPC, result.Allocs), atMost(15 * edges), bound{}},

	{"R17", "5 ms, 0.3 ms of work: far × without hand-off", farther(plan.Far5Short), atLeast(0.5), bound{}},
	{"R17", "5 ms, 2 ms of work: far × without hand-off", farther(plan.Far5Long), atLeast(0.5), bound{}},
	{"R17", "5 ms, 0.3 ms of work: longest wait, ms", ours(plan.Far5Short, result.FarMax), bound{}, atMost(1000)},
	{"R17", "5 ms, 2 ms of work: longest wait, ms", ours(plan.Far5Long, result.FarMax), bound{}, atMost(1000)},
	{"R17", "20 ms, 0.3 ms of work: far × without hand-off", farther(plan.Far20Short), bound{}, atLeast(0.5)},
	{"R17", "20 ms, 2 ms of work: far × without hand-off", farther(plan.Far20Long), bound{}, atLeast(0.5)},

	{"R18", "commands per re-entry", ours(plan.Reentry, result.Calls), atMost(0.001), atMost(0.001)}, // the holder's renewal
	{"R18", "µs of CPU per re-entry", ours(plan.Reentry, result.ClientCPU), bound{}, atMost(1)},
	{"R18", "allocations per re-entry", ours(plan.Reentry, result.Allocs), bound{}, atMost(1)},

	{"D2", "PostgreSQL: × pglock", onPostgres(plan.DatabaseOwn16, peer.Pglock), bound{}, atLeast(1.5)},
	{"D4", "PostgreSQL: × advisory locks", onPostgres(plan.DatabaseHot, peer.Session), atLeast(2), bound{}},
	{"D4", "PostgreSQL: × FOR UPDATE", onPostgres(plan.DatabaseHot, peer.ForUpdate), atLeast(10), bound{}},
	{"D6", "PostgreSQL: statements per second", of(plan.DatabaseHeld, peer.OnPostgres, result.Commands), atMost(20), bound{}},

	{"all", "two holders at once", overlaps, never, never},
}

// added is what an integration adds to the bare handler.
func added(guarded, bare, metric string) figure {
	return func(v view) float64 {
		return v.get(plan.Handlers, guarded, metric) - v.get(plan.Handlers, bare, metric)
	}
}

// farther is what the process that is farther away gets, compared with what it gets where no
// process keeps the lock for its own callers.
func farther(id string) figure {
	return ratio(of(id, peer.Redlatch, result.FarRate), of(id, peer.RedlatchNoHandoff, result.FarRate))
}

// onPostgres is our throughput on PostgreSQL in that of another peer.
func onPostgres(scenario, other string) figure {
	return ratio(of(scenario, peer.OnPostgres, result.Rate), of(scenario, other, result.Rate))
}

// overlaps are those of redlatch in all scenarios of a round.
func overlaps(v view) float64 {
	sum := math.NaN()
	for _, row := range v.table.Rows {
		if row.Round == v.round && row.Metric == result.Overlaps && peer.Ours(row.Peer) {
			if math.IsNaN(sum) {
				sum = 0
			}
			sum += row.Value
		}
	}
	return sum
}
