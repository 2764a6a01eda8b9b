// Package verdict holds what must be reached and what is aimed at, and judges a
// run by it.
package verdict

import (
	"fmt"

	"github.com/redlatch/redlatch/test/bench/internal/stat"
)

// bound is a limit from one side. The zero value is no limit.
type bound struct {
	kind  kind
	limit float64
}

type kind int

const (
	none kind = iota
	least
	most
	zero
)

func atLeast(limit float64) bound { return bound{least, limit} }
func atMost(limit float64) bound  { return bound{most, limit} }

// never is for what may not happen in any round.
var never = bound{kind: zero}

// missed reports whether the whole spread, from quartile to quartile, lies on
// the wrong side.
func (b bound) missed(s stat.Spread) bool {
	switch b.kind {
	case least:
		return s.Q3 < b.limit
	case most:
		return s.Q1 > b.limit
	case zero:
		return s.Max > 0
	default:
		return false
	}
}

// reached reports whether the median is on the right side.
func (b bound) reached(s stat.Spread) bool {
	switch b.kind {
	case least:
		return s.Median >= b.limit
	case most:
		return s.Median <= b.limit
	case zero:
		return s.Max <= 0
	default:
		return true
	}
}

func (b bound) String() string {
	switch b.kind {
	case least:
		return fmt.Sprintf("≥ %g", b.limit)
	case most:
		return fmt.Sprintf("≤ %g", b.limit)
	case zero:
		return "never"
	default:
		return ""
	}
}
