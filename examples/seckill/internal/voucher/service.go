package voucher

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/redlatch/redlatch/examples/seckill/internal/shared"
)

// Reader answers questions. Errors: [ErrVoucherNotFound], [ErrOrderNotFound],
// [ErrStoreUnavailable], or the context's.
type Reader interface {
	Voucher(ctx context.Context, id string) (Voucher, error)
	// Vouchers returns the newest, newest first.
	Vouchers(ctx context.Context, limit int) ([]Voucher, error)
	Order(ctx context.Context, id string) (Order, error)
	// Orders returns a voucher's newest orders, newest first.
	Orders(ctx context.Context, voucherID string, limit int) ([]Order, error)
	// Count counts the orders one by one, which takes longer the more there are. The
	// counters of [Voucher] say the same at once.
	Count(ctx context.Context, voucherID string) (Report, error)
}

// Store keeps vouchers and orders.
type Store interface {
	Reader
	CreateVoucher(ctx context.Context, v Voucher) error
	// Ordered reports whether a user has an order of a voucher. Errors: those of Reader.
	Ordered(ctx context.Context, voucherID, userID string) (bool, error)
	// PlaceOrder takes one from the stock and records the order, both or
	// neither. Placing the order with the same ID again changes nothing and
	// says nil again. Errors: those of Reader, [ErrAlreadyOrdered],
	// [ErrSoldOut], [ErrStaleFence].
	PlaceOrder(ctx context.Context, o Order) error
	// CancelOrder removes a user's order and returns what it took to the
	// stock, both or neither. Errors: those of Reader, [ErrStaleFence]; another
	// user's order isn't found.
	CancelOrder(ctx context.Context, orderID, userID string, fence Fence) error
}

// Sale is what the service does, over HTTP and gRPC alike. A list has 1 to [MaxLimit]
// entries; another limit is an [*InvalidError]. [NewSaleLock] makes one
// whose methods take the locks of their directives.
type Sale interface {
	Reader
	// Look returns a voucher with its counters, and when it was read: no longer than
	// old before the call. Calls that come together share one read, and the reads of one
	// voucher are at least [LookEvery] apart. Errors: those of Voucher.
	Look(ctx context.Context, voucherID string, old time.Duration) (Voucher, time.Time, error)
	// Newest returns the [Newest] newest vouchers, as Look does.
	Newest(ctx context.Context, old time.Duration) ([]Voucher, time.Time, error)
	// Create puts a voucher on sale. Errors: [*InvalidError],
	// [ErrUnconfirmed], or the context's.
	Create(ctx context.Context, d Draft) (Voucher, error)
	// Place orders one voucher for a user, who must hold the lock that fence
	// belongs to: the integrations take it, as most requests of a flash sale end
	// there. Errors: [ErrVoucherNotFound], [ErrNotStarted], [ErrEnded],
	// [ErrAlreadyOrdered], [ErrSoldOut], [ErrStaleFence],
	// [ErrStoreUnavailable], or the context's.
	Place(ctx context.Context, voucherID, userID string, fence Fence) (Order, error)
	// Cancel gives an order back: one of the user's, at any time. It takes the
	// lock under which the user orders, so that a user never orders and
	// cancels at once. Errors: [ErrOrderNotFound], [ErrNoLock],
	// [ErrStaleFence], [ErrStoreUnavailable], those of the lock, or the
	// context's.
	//
	//redlatch:lock lock:order:<userID> wait=1s name=cancel
	Cancel(ctx context.Context, orderID, userID string) error
}

//go:generate go run github.com/redlatch/redlatch/annotations/cmd/lockgen

// Service is the [Sale] on a store. It is safe for concurrent use.
type Service struct {
	store    Store
	limit    time.Duration
	now      func() time.Time
	looks    *shared.Looks[Voucher]
	newest   *shared.Looks[[]Voucher]
	counting counting
}

// LookEvery is how far apart the reads of one voucher are that [Sale.Look] makes.
const LookEvery = 100 * time.Millisecond

// Newest is how many vouchers [Sale.Newest] returns.
const Newest = 20

// NewService returns a service on store. Each of its calls ends after limit: one
// that the store hasn't answered by then is [ErrStoreUnavailable]. The wait for a
// lock comes before the call and isn't part of it.
func NewService(store Store, limit time.Duration) *Service {
	return NewServiceAt(store, limit, time.Now)
}

// NewServiceAt is [NewService] with a clock of the caller's.
func NewServiceAt(store Store, limit time.Duration, now func() time.Time) *Service {
	s := &Service{store: store, limit: limit, now: now}
	s.looks = shared.NewLooks(LookEvery, s.Voucher)
	s.newest = shared.NewLooks(LookEvery, func(ctx context.Context, _ string) ([]Voucher, error) { return s.Vouchers(ctx, Newest) })
	return s
}

// errTooSlow is why a call ended that took as long as it may.
var errTooSlow = errors.New("the call took too long")

// bounded ends do after the limit of s, and then blames the store: there is nothing
// else to wait for.
func bounded[T any](ctx context.Context, s *Service, do func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.limit, errTooSlow)
	defer cancel()
	result, err := do(ctx)
	if err != nil && errors.Is(context.Cause(ctx), errTooSlow) {
		err = fmt.Errorf("%w: %w", ErrStoreUnavailable, err)
	}
	return result, err
}

// Limits of a list.
const (
	DefaultLimit = 100
	MaxLimit     = 1000
)

func checkLimit(limit int) error {
	if limit < 1 || limit > MaxLimit {
		return &InvalidError{[]Fault{{"limit", fmt.Sprintf("must be a whole number from 1 to %d", MaxLimit)}}}
	}
	return nil
}

// Voucher implements [Reader].
func (s *Service) Voucher(ctx context.Context, id string) (Voucher, error) {
	return bounded(ctx, s, func(ctx context.Context) (Voucher, error) { return s.store.Voucher(ctx, id) })
}

// Vouchers implements [Reader].
func (s *Service) Vouchers(ctx context.Context, limit int) ([]Voucher, error) {
	if err := checkLimit(limit); err != nil {
		return nil, err
	}
	return bounded(ctx, s, func(ctx context.Context) ([]Voucher, error) { return s.store.Vouchers(ctx, limit) })
}

// Order implements [Reader].
func (s *Service) Order(ctx context.Context, id string) (Order, error) {
	return bounded(ctx, s, func(ctx context.Context) (Order, error) { return s.store.Order(ctx, id) })
}

// Orders implements [Reader].
func (s *Service) Orders(ctx context.Context, voucherID string, limit int) ([]Order, error) {
	if err := checkLimit(limit); err != nil {
		return nil, err
	}
	return bounded(ctx, s, func(ctx context.Context) ([]Order, error) { return s.store.Orders(ctx, voucherID, limit) })
}

// Look implements [Sale].
func (s *Service) Look(ctx context.Context, voucherID string, old time.Duration) (Voucher, time.Time, error) {
	return s.looks.Get(ctx, voucherID, old)
}

// Newest implements [Sale].
func (s *Service) Newest(ctx context.Context, old time.Duration) ([]Voucher, time.Time, error) {
	return s.newest.Get(ctx, "", old)
}

// Count implements [Reader]. One count is under way at a time, and takes at most a tenth of
// the time: others are [ErrCounting].
func (s *Service) Count(ctx context.Context, voucherID string) (Report, error) {
	done, err := s.counting.begin()
	if err != nil {
		return Report{}, err
	}
	defer done()
	return bounded(ctx, s, func(ctx context.Context) (Report, error) { return s.store.Count(ctx, voucherID) })
}

// Create implements [Sale].
func (s *Service) Create(ctx context.Context, d Draft) (Voucher, error) {
	if err := d.check(); err != nil {
		return Voucher{}, err
	}
	id, err := newID()
	if err != nil {
		return Voucher{}, err
	}
	v := Voucher{
		ID: id, Title: d.Title, Stock: d.Stock, Remaining: d.Stock,
		BeginAt: stamp(d.BeginAt), EndAt: stamp(d.EndAt), CreatedAt: stamp(s.now()),
	}
	v, err = bounded(ctx, s, func(ctx context.Context) (Voucher, error) { return v, s.store.CreateVoucher(ctx, v) })
	if errors.Is(err, ErrStoreUnavailable) {
		err = fmt.Errorf("%w: %w", ErrUnconfirmed, err)
	}
	return v, err
}

// Place implements [Sale].
func (s *Service) Place(ctx context.Context, voucherID, userID string, fence Fence) (Order, error) {
	return bounded(ctx, s, func(ctx context.Context) (Order, error) { return s.place(ctx, voucherID, userID, fence) })
}

func (s *Service) place(ctx context.Context, voucherID, userID string, fence Fence) (Order, error) {
	v, err := s.store.Voucher(ctx, voucherID)
	if err != nil {
		return Order{}, err
	}
	now := s.now()
	switch {
	case now.Before(v.BeginAt):
		return Order{}, ErrNotStarted
	case !now.Before(v.EndAt):
		return Order{}, s.ended(ctx, voucherID, userID)
	}
	o, err := NewOrder(voucherID, userID, fence, now)
	if err != nil {
		return Order{}, err
	}
	if err := s.store.PlaceOrder(ctx, o); err != nil {
		return Order{}, err
	}
	return o, nil
}

// NewOrder returns an order that is not placed yet, with a new id.
func NewOrder(voucherID, userID string, fence Fence, at time.Time) (Order, error) {
	id, err := newID()
	if err != nil {
		return Order{}, err
	}
	return Order{ID: id, VoucherID: voucherID, UserID: userID, Fence: fence, CreatedAt: stamp(at)}, nil
}

// ended returns why an order comes too late. A user whose order wasn't confirmed sends it
// again, and has one.
func (s *Service) ended(ctx context.Context, voucherID, userID string) error {
	ordered, err := s.store.Ordered(ctx, voucherID, userID)
	if err == nil && ordered {
		err = ErrAlreadyOrdered
	}
	return cmp.Or(err, ErrEnded)
}

// Cancel implements [Sale]. It takes no lock itself: it must run under that of
// the user.
func (s *Service) Cancel(ctx context.Context, orderID, userID string) error {
	fence, err := FenceOf(ctx)
	if err != nil {
		return err
	}
	_, err = bounded(ctx, s, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, s.store.CancelOrder(ctx, orderID, userID, fence)
	})
	return err
}

// newID returns an id that is unique across instances and sorts by time.
func newID() (string, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return "", fmt.Errorf("new id: %w", err)
	}
	return id.String(), nil
}

// stamp cuts a time to what every database keeps, so that it reads the same
// before and after it is stored.
func stamp(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }
