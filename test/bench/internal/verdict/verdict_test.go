package verdict

import (
	"math"
	"slices"
	"testing"

	"github.com/redlatch/redlatch/test/bench/internal/peer"
	"github.com/redlatch/redlatch/test/bench/internal/plan"
	"github.com/redlatch/redlatch/test/bench/internal/result"
	"github.com/redlatch/redlatch/test/bench/internal/stat"
)

var metrics = []string{
	result.Rate, result.Calls, result.Commands, result.RedisCPU, result.RedisTime, result.ClientCPU, result.Allocs, result.Jain,
	result.Worst, result.Best, result.P50, result.P99, result.Max, result.Overlaps, result.Inversions, result.Stuck, result.Failures,
	result.Goroutines, result.Memory, result.PerLock, result.Slowdown, result.KeysLeft, result.SubsLeft,
	result.FarRate, result.FarShare, result.FarMax,
}

// measured is a table in which every peer has the same figures.
func measured(rounds int, value float64) *result.Table {
	table := &result.Table{}
	for round := range rounds {
		for _, step := range plan.Steps(append(plan.Scenarios(plan.Quick), plan.DatabaseScenarios(plan.Quick)...)) {
			all := make(map[string]float64)
			for _, metric := range metrics {
				all[metric] = value
			}
			table.Add(round, step.Scenario.ID, step.Peer, all)
		}
	}
	return table
}

// set changes one figure in all rounds.
func set(table *result.Table, scenario, name, metric string, values ...float64) {
	for i, row := range table.Rows {
		if row.Scenario == scenario && row.Peer == name && row.Metric == metric {
			table.Rows[i].Value = values[row.Round%len(values)]
		}
	}
}

func find(t *testing.T, lines []Line, id, what string) Line {
	t.Helper()
	i := slices.IndexFunc(lines, func(l Line) bool { return l.ID == id && l.What == what })
	if i < 0 {
		t.Fatalf("no line %s %s", id, what)
	}
	return lines[i]
}

// A misspelt scenario, peer or metric would leave a requirement without a
// figure, and a requirement without a figure is never missed.
func TestEveryRequirementHasAFigure(t *testing.T) {
	lines := Judge(measured(2, 1))
	if len(lines) != len(rules) {
		for _, r := range rules {
			if !slices.ContainsFunc(lines, func(l Line) bool { return l.ID == r.id && l.What == r.what }) {
				t.Errorf("%s %s has no figure", r.id, r.what)
			}
		}
	}
	for _, id := range []string{"R1", "R2", "R3", "R4", "R5", "R6", "R7", "R8", "R9", "R10", "R11", "R12", "R13", "R14", "R15", "R16", "R17", "R18", "D4", "D6"} {
		if !slices.ContainsFunc(lines, func(l Line) bool { return l.ID == id && l.Must != "" }) {
			t.Errorf("%s demands nothing", id)
		}
	}
}

func TestARequirementIsMissedOnlyByTheWholeSpread(t *testing.T) {
	table := measured(5, 1)
	for name, test := range map[string]struct {
		rates  []float64
		missed bool
		aimed  bool
	}{
		"all below":          {[]float64{0.5, 0.6, 0.7, 0.7, 0.7}, true, false},
		"the quartile above": {[]float64{0.5, 0.6, 0.7, 0.9, 0.9}, false, false},
		"as aimed":           {[]float64{0.5, 0.94, 0.96, 1, 1}, false, true},
	} {
		set(table, "R1", peer.Redlatch, result.Rate, test.rates...)
		line := find(t, Judge(table), "R1", "× floor")
		if line.Missed != test.missed || line.Aimed != test.aimed {
			t.Errorf("%s: %+v", name, line)
		}
	}
}

func TestTwoHoldersAreNeverForgiven(t *testing.T) {
	table := measured(5, 0)
	set(table, plan.HotFour, peer.Redlatch, result.Overlaps, 0, 0, 0, 0, 1)
	if line := find(t, Judge(table), "all", "two holders at once"); !line.Missed {
		t.Errorf("once in five rounds passes: %+v", line)
	}
	set(table, plan.HotFour, peer.Redlatch, result.Overlaps, 0)
	set(table, plan.HotFour, peer.Redsync, result.Overlaps, 1)
	if line := find(t, Judge(table), "all", "two holders at once"); line.Missed {
		t.Errorf("those of others are ours: %+v", line)
	}
}

func TestOnlyTheFairAreRivalsWhereAllAreServed(t *testing.T) {
	table := measured(3, 1)
	for _, name := range []string{peer.Redsync, peer.Bsm, peer.Rueidis} {
		set(table, plan.HotOne, name, result.Jain, 0.5)
	}
	set(table, plan.HotOne, peer.Redlatch, result.Rate, 100)
	set(table, plan.HotOne, peer.Bsm, result.Rate, 50)
	set(table, plan.HotOne, peer.Rueidis1, result.Rate, 4)
	lines := Judge(table)
	if got := find(t, lines, "R6", "× fastest that serves all").Value.Median; got != 25 {
		t.Errorf("against peers that serve all: %v, want 25", got)
	}
	if got := find(t, lines, "R6", "× fastest").Value.Median; got != 2 {
		t.Errorf("against all: %v, want 2", got)
	}
}

// A peer that does nothing at all doesn't make a requirement disappear.
func TestAPeerThatIsStuckIsInfinitelySlow(t *testing.T) {
	table := measured(3, 1)
	set(table, "R4", peer.Rueidis1, result.Rate, 0)
	if got := find(t, Judge(table), "R4", "× rueidislock KM=1"); !math.IsInf(got.Value.Median, 1) || got.Missed {
		t.Errorf("%+v", got)
	}
}

func TestBounds(t *testing.T) {
	s := stat.Spread{Q1: 1, Median: 2, Q3: 3, Max: 4, N: 4}
	for _, test := range []struct {
		bound           bound
		missed, reached bool
		text            string
	}{
		{atLeast(3), false, false, "≥ 3"},
		{atLeast(3.1), true, false, "≥ 3.1"},
		{atMost(1), false, false, "≤ 1"},
		{atMost(0.9), true, false, "≤ 0.9"},
		{atMost(2), false, true, "≤ 2"},
		{never, true, false, "never"},
		{bound{}, false, true, ""},
	} {
		if test.bound.missed(s) != test.missed || test.bound.reached(s) != test.reached || test.bound.String() != test.text {
			t.Errorf("%q: missed %v, reached %v", test.bound, test.bound.missed(s), test.bound.reached(s))
		}
	}
}
