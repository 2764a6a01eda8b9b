// Package voucher is the flash sale itself: vouchers, orders, and the rules
// that decide whether an order is placed. It knows neither HTTP nor SQL.
package voucher

import "time"

// Voucher is what is on sale, between BeginAt (included) and EndAt (not).
type Voucher struct {
	ID        string
	Title     string
	Stock     int64
	Remaining int64
	// Orders and Buyers are counted in the transaction of each order.
	Orders    int64
	Buyers    int64
	BeginAt   time.Time
	EndAt     time.Time
	CreatedAt time.Time
}

// Order is one voucher sold to one user.
type Order struct {
	ID        string
	VoucherID string
	UserID    string
	Fence     Fence
	CreatedAt time.Time
}

// Report returns the sale as the counters of v have it.
func (v Voucher) Report() Report {
	return Report{Stock: v.Stock, Sold: v.Stock - v.Remaining, Orders: v.Orders, DistinctUsers: v.Buyers}
}

// Report is the sale as the database has it, by its counters or by its orders.
type Report struct {
	// Stock is how many there were, Sold how many the stock counter says are
	// gone, Orders how many orders exist, DistinctUsers of how many users.
	Stock, Sold, Orders, DistinctUsers int64
}

// Oversold reports whether more was sold than there was.
func (r Report) Oversold() bool { return max(r.Sold, r.Orders) > r.Stock }

// DuplicateOrders is the number of orders beyond one per user.
func (r Report) DuplicateOrders() int64 { return r.Orders - r.DistinctUsers }
