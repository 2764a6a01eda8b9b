package voucher

import (
	"errors"
	"strings"
)

// Why an order, or a question, was refused.
var (
	ErrVoucherNotFound = errors.New("no such voucher")
	ErrOrderNotFound   = errors.New("no such order")
	ErrNotStarted      = errors.New("the sale has not started")
	ErrEnded           = errors.New("the sale has ended")
	ErrAlreadyOrdered  = errors.New("the user has already ordered this voucher")
	ErrSoldOut         = errors.New("the voucher is sold out")
	// ErrStaleFence: the order came from a holder that lost the lock to a newer
	// one, which has ordered since. Nothing was written.
	ErrStaleFence = errors.New("the lock has a newer holder")
	// ErrNoLock: a call that needs a lock came without one. It is the
	// program's fault, and nothing was done.
	ErrNoLock = errors.New("runs without its lock")
	// ErrCounting: the orders of a sale are being counted, or were a moment ago.
	// Nothing was counted.
	ErrCounting = errors.New("orders are being counted")
	// ErrStoreUnavailable: the database didn't do it, after retries where
	// these could help. An order is then placed or not: placing it again is
	// safe, since a user gets at most one.
	ErrStoreUnavailable = errors.New("the database is unavailable")
	// ErrUnconfirmed: the database didn't confirm a new voucher, which may be on
	// sale or not. Creating it again would put a second one on sale.
	ErrUnconfirmed = errors.New("the voucher may be on sale or not")
)

// Fault is one wrong field of a draft.
type Fault struct {
	Field  string
	Reason string
}

// InvalidError lists everything that is wrong with a draft.
type InvalidError struct{ Faults []Fault }

// Error implements the error interface.
func (e *InvalidError) Error() string {
	texts := make([]string, len(e.Faults))
	for i, f := range e.Faults {
		texts[i] = f.Field + ": " + f.Reason
	}
	return strings.Join(texts, "; ")
}
