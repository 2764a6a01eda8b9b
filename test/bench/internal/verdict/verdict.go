package verdict

import (
	"math"

	"github.com/redlatch/redlatch/test/bench/internal/result"
	"github.com/redlatch/redlatch/test/bench/internal/stat"
)

// Line is one requirement with what was measured.
type Line struct {
	ID, What  string
	Value     stat.Spread
	Must, Aim string
	Missed    bool // the whole spread lies outside of what must be reached
	Aimed     bool // the median is what was aimed at
}

// Judge compares a run with all requirements that it has figures for.
func Judge(table *result.Table) []Line {
	var lines []Line
	for _, r := range rules {
		var values []float64
		for round := range table.Rounds() {
			if value := r.value(view{table, round}); !math.IsNaN(value) { // infinite where a peer does nothing
				values = append(values, value)
			}
		}
		if len(values) == 0 {
			continue
		}
		spread := stat.Of(values)
		lines = append(lines, Line{
			ID: r.id, What: r.what, Value: spread, Must: r.must.String(), Aim: r.aim.String(),
			Missed: r.must.missed(spread), Aimed: r.aim.reached(spread),
		})
	}
	return lines
}

// Missed reports whether a line is missed.
func Missed(lines []Line) bool {
	for _, line := range lines {
		if line.Missed {
			return true
		}
	}
	return false
}
