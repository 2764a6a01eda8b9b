// Package stat has the statistics of repeated measurements.
package stat

import (
	"math"
	"slices"
)

// Spread is a median with its quartiles, and the largest value.
type Spread struct {
	Q1, Median, Q3, Max float64
	N                   int
}

// Of returns the spread of the values, which stay as they are. Without values
// it is zero.
func Of(values []float64) Spread {
	sorted := slices.Sorted(slices.Values(values))
	return Spread{Q1: quantile(sorted, 0.25), Median: quantile(sorted, 0.5), Q3: quantile(sorted, 0.75), Max: quantile(sorted, 1), N: len(sorted)}
}

// quantile interpolates between the two nearest of the sorted values.
func quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	at := q * float64(len(sorted)-1)
	low := int(at)
	part := at - float64(low)
	if part == 0 || sorted[low] == sorted[low+1] { // infinity times 0 is no number
		return sorted[low]
	}
	return sorted[low]*(1-part) + sorted[low+1]*part
}

// Jain is Jain's index of fairness: 1 if all have the same share, 1/n if one of
// n has everything. Of nothing it is 0.
func Jain(shares []int64) float64 {
	var sum, squares float64
	for _, share := range shares {
		sum += float64(share)
		squares += float64(share) * float64(share)
	}
	if squares == 0 {
		return 0
	}
	return sum * sum / (float64(len(shares)) * squares)
}

// Ratio is a/b, and NaN where it means nothing.
func Ratio(a, b float64) float64 {
	if b == 0 {
		return math.NaN()
	}
	return a / b
}
