package load

import (
	"fmt"
	"time"
)

// Result is what became of a sale.
type Result struct {
	Config    Config
	VoucherID string
	Elapsed   time.Duration

	// Clicks each had one final answer, after one request or more.
	Clicks, Requests int64
	// Orders were confirmed to the crowd.
	Orders          int64
	OrdersPerSecond float64
	// Refused are the final answers that were no orders, Retried the ones
	// that weren't final, both by code.
	Refused, Retried map[string]int64
	// Failures are requests without an answer, by target.
	Failures map[string]int64
	// P50, P95 and P99 are how long answers took, by request.
	P50, P95, P99 time.Duration
	// Report is the service's own, by its counters, and Counted by its orders, nil if it
	// counts none.
	Report     Report
	Counted    *Report
	Invariants []Invariant
}

// Invariant is a promise of the sale.
type Invariant struct {
	Name   string
	Holds  bool
	Detail string
}

// Holds reports whether every promise was kept.
func (r *Result) Holds() bool {
	for _, i := range r.Invariants {
		if !i.Holds {
			return false
		}
	}
	return true
}

func (r *run) result(seen *tally, report Report, counted *Report, start time.Time, elapsed time.Duration) *Result {
	quantile := func(q float64) time.Duration {
		return time.Duration(seen.latency.ValueAtQuantile(q)) * time.Microsecond
	}
	result := &Result{
		Config: r.Config, VoucherID: r.voucherID, Elapsed: elapsed,
		Clicks: int64(r.Users) * int64(r.Clicks), Requests: seen.requests,
		Orders: seen.confirmed(), Refused: seen.refused, Retried: seen.retried, Failures: r.targets.failures(),
		P50: quantile(50), P95: quantile(95), P99: quantile(99),
		Report: report, Counted: counted,
		Invariants: invariants(r.Config, seen, report),
	}
	if counted != nil {
		result.Invariants = append(result.Invariants, Invariant{
			Name: "counters = orders", Holds: *counted == report,
			Detail: fmt.Sprintf("counters %+v, orders %+v", report, *counted),
		})
	}
	if selling := seen.lastOrder.Sub(start); result.Orders > 0 && selling > 0 {
		result.OrdersPerSecond = float64(result.Orders) / selling.Seconds()
	}
	return result
}

// invariants judges by the database's own numbers and, where the crowd knows
// better, by the answers that it got.
func invariants(c Config, seen *tally, r Report) []Invariant {
	sold := max(r.Sold, r.Orders)
	want := min(c.Stock, int64(c.Users))
	twice := int64(0)
	for _, orders := range seen.placed {
		if orders > 1 {
			twice++
		}
	}
	confirmed := seen.confirmed()
	return []Invariant{
		{
			Name: "sold ≤ stock", Holds: sold <= c.Stock && !r.Oversold,
			Detail: fmt.Sprintf("%d of %d", sold, c.Stock),
		},
		{
			Name: "one order per user", Holds: r.DuplicateOrders == 0 && r.Orders == r.DistinctUsers && twice == 0,
			Detail: fmt.Sprintf("%d orders of %d users, %d users confirmed twice", r.Orders, r.DistinctUsers, twice),
		},
		{
			Name: "sold = min(stock, users)", Holds: r.Sold == want && r.Orders == want,
			Detail: fmt.Sprintf("%d sold, %d orders, min(%d, %d) = %d", r.Sold, r.Orders, c.Stock, c.Users, want),
		},
		{
			// A lost answer may hide an order that was placed.
			Name: "report = answers", Holds: confirmed <= r.Orders && r.Orders <= confirmed+seen.unknown,
			Detail: fmt.Sprintf("%d in the report, %d confirmed, %d unknown", r.Orders, confirmed, seen.unknown),
		},
	}
}
