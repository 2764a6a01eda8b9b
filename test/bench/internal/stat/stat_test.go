package stat_test

import (
	"math"
	"testing"

	"github.com/redlatch/redlatch/test/bench/internal/stat"
)

func TestOfIsMedianAndQuartiles(t *testing.T) {
	for name, test := range map[string]struct {
		values []float64
		want   stat.Spread
	}{
		"nothing":      {nil, stat.Spread{}},
		"one":          {[]float64{3}, stat.Spread{Q1: 3, Median: 3, Q3: 3, Max: 3, N: 1}},
		"two":          {[]float64{3, 1}, stat.Spread{Q1: 1.5, Median: 2, Q3: 2.5, Max: 3, N: 2}},
		"five":         {[]float64{5, 1, 4, 2, 3}, stat.Spread{Q1: 2, Median: 3, Q3: 4, Max: 5, N: 5}},
		"infinity":     {[]float64{1, 2, math.Inf(1)}, stat.Spread{Q1: 1.5, Median: 2, Q3: math.Inf(1), Max: math.Inf(1), N: 3}},
		"all infinite": {[]float64{math.Inf(1), math.Inf(1)}, stat.Spread{Q1: math.Inf(1), Median: math.Inf(1), Q3: math.Inf(1), Max: math.Inf(1), N: 2}},
	} {
		if got := stat.Of(test.values); got != test.want {
			t.Errorf("%s: got %+v, want %+v", name, got, test.want)
		}
	}
}

func TestOfLeavesItsArgument(t *testing.T) {
	values := []float64{3, 1, 2}
	stat.Of(values)
	if values[0] != 3 || values[1] != 1 {
		t.Errorf("sorted in place: %v", values)
	}
}

func TestJain(t *testing.T) {
	for name, test := range map[string]struct {
		shares []int64
		want   float64
	}{
		"nobody":        {nil, 0},
		"nothing":       {[]int64{0, 0}, 0},
		"all alike":     {[]int64{7, 7, 7, 7}, 1},
		"one has all":   {[]int64{0, 9, 0, 0}, 0.25},
		"half have all": {[]int64{5, 5, 0, 0}, 0.5},
	} {
		if got := stat.Jain(test.shares); math.Abs(got-test.want) > 1e-9 {
			t.Errorf("%s: got %v, want %v", name, got, test.want)
		}
	}
}

func TestRatioOfNothingIsNoNumber(t *testing.T) {
	if got := stat.Ratio(1, 0); !math.IsNaN(got) {
		t.Errorf("got %v", got)
	}
	if got := stat.Ratio(1, 4); got != 0.25 {
		t.Errorf("got %v, want 0.25", got)
	}
}
