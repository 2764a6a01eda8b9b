package verdict

import (
	"math"

	"github.com/redlatch/redlatch/test/bench/internal/peer"
	"github.com/redlatch/redlatch/test/bench/internal/result"
)

// servesAll is the Jain index from which a library serves all callers alike.
const servesAll = 0.9

// view is one round of a table. What wasn't measured is NaN, and so is all
// that comes of it.
type view struct {
	table *result.Table
	round int
}

// figure computes one value from a round.
type figure func(view) float64

func (v view) get(scenario, name, metric string) float64 {
	value, ok := v.table.Get(v.round, scenario, name, metric)
	if !ok {
		return math.NaN()
	}
	return value
}

// of is a metric of one peer.
func of(scenario, name, metric string) figure {
	return func(v view) float64 { return v.get(scenario, name, metric) }
}

// ours is a metric of redlatch.
func ours(scenario, metric string) figure { return of(scenario, peer.Redlatch, metric) }

// against is our throughput in that of another peer.
func against(scenario, other string) figure {
	return ratio(ours(scenario, result.Rate), of(scenario, other, result.Rate))
}

// setnx is our throughput in the format of the floor, in that of another peer.
func setnx(scenario, other string) figure {
	return ratio(of(scenario, peer.RedlatchSETNX, result.Rate), of(scenario, other, result.Rate))
}

func ratio(a, b figure) figure { return func(v view) float64 { return a(v) / b(v) } }

// againstFastest is our throughput in that of the fastest other library, of
// the ones that reach the index of fairness, if one is given. The index is the
// median of all rounds, so that the same libraries count in each.
func againstFastest(scenario string, fairness float64) figure {
	return func(v view) float64 {
		fastest := math.NaN()
		for _, p := range peer.All {
			if !p.Library || p.Ours {
				continue
			}
			if fairness > 0 && v.table.Spread(scenario, p.Name, result.Jain).Median < fairness {
				continue
			}
			if rate := v.get(scenario, p.Name, result.Rate); !(rate <= fastest) && !math.IsNaN(rate) {
				fastest = rate
			}
		}
		return v.get(scenario, peer.Redlatch, result.Rate) / fastest
	}
}

// cost is the CPU time of an operation, of client and server together.
func cost(scenario, name string) figure {
	return func(v view) float64 {
		return v.get(scenario, name, result.ClientCPU) + v.get(scenario, name, result.RedisCPU)
	}
}
