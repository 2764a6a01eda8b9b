package load

import (
	"context"
	"errors"
	"net"
	"strings"
	"syscall"
	"time"
)

// requestTimeout bounds one request.
const requestTimeout = 30 * time.Second

// client is an instance as the crowd sees it.
type client interface {
	// createVoucher puts vouchers on sale and returns their id.
	createVoucher(ctx context.Context, o offer) (string, error)
	// order clicks once. The error means that there was no answer.
	order(ctx context.Context, voucherID, user string) (answer, error)
	report(ctx context.Context, voucherID string) (Report, error)
	// count is the report by the orders, counted one by one. It is errNoCount for a service
	// that doesn't count, and errCounting while it counts for others.
	count(ctx context.Context, voucherID string) (Report, error)
	close() error
}

// grpcScheme marks a target that is spoken to over gRPC.
const grpcScheme = "grpc://"

func newClient(target string, connections int) (client, error) {
	if address, ok := strings.CutPrefix(target, grpcScheme); ok {
		return newGRPCClient(address)
	}
	return newHTTPClient(target, connections), nil
}

// offer is what is put on sale.
type offer struct {
	title          string
	stock          int64
	beginAt, endAt time.Time
}

func newOffer(stock int64) offer {
	now := time.Now()
	// The clocks of the targets may differ.
	return offer{"Load " + now.Format(time.DateTime), stock, now.Add(-time.Hour), now.Add(24 * time.Hour)}
}

// answer is the answer to a click.
type answer struct {
	placed bool
	final  bool   // the same click would get the same answer again
	reason string // the code of a refusal
}

// ambiguous reports whether a refusal leaves open whether there is an order now: one
// that isn't final, or the failure of a service or a proxy, unless it says that nothing
// was done.
func (a answer) ambiguous() bool {
	switch a.reason {
	case "LOCK_CONTENDED", "LOCK_OVERLOADED", "LOCK_UNAVAILABLE", "LOCK_CANCELED":
		return false
	case "INTERNAL", "GRPC_Internal", "GRPC_Unknown":
		return true
	}
	return !a.final || strings.HasPrefix(a.reason, "HTTP_5")
}

// Report is what the service says about the sale.
type Report struct {
	Stock           int64 `json:"stock"`
	Sold            int64 `json:"sold"`
	Orders          int64 `json:"orders"`
	DistinctUsers   int64 `json:"distinctUsers"`
	Oversold        bool  `json:"oversold"`
	DuplicateOrders int64 `json:"duplicateOrders"`
}

var (
	errNoCount  = errors.New("the service counts no orders")
	errCounting = errors.New("the service counts for others")
)

// neverSent reports whether the service certainly hasn't seen the request.
func neverSent(err error) bool {
	var op *net.OpError
	return errors.Is(err, syscall.ECONNREFUSED) || errors.As(err, &op) && op.Op == "dial"
}
