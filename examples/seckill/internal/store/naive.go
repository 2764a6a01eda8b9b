//go:build seckill_unguarded

package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/redlatch/redlatch/examples/seckill/internal/voucher"
)

// Naive places orders as beginners do: look, and then write, in separate
// statements and without a unique index. It trusts that its caller is alone
// with the user. It is only there to show what happens otherwise.
type Naive struct {
	*Store
	// Pause is between the look and the write.
	Pause time.Duration
}

// NewNaive drops the unique index of s for good, and returns s without any
// other guard.
func NewNaive(ctx context.Context, s *Store, pause time.Duration) (*Naive, error) {
	statement := "DROP INDEX IF EXISTS orders_one_per_user"
	if s.engine == engineMySQL {
		statement = "DROP INDEX orders_one_per_user ON orders" // MySQL has no IF EXISTS here
	}
	err := retry(ctx, func() error {
		_, err := s.write.ExecContext(ctx, statement)
		return err
	})
	var my *mysql.MySQLError
	if errors.As(err, &my) && my.Number == 1091 {
		err = nil // another instance was first
	}
	if err != nil {
		return nil, fmt.Errorf("drop the unique index: %w", err)
	}
	return &Naive{s, pause}, nil
}

// PlaceOrder implements [voucher.Store].
func (n *Naive) PlaceOrder(ctx context.Context, o voucher.Order) error {
	return answer(ctx, "place order", n.placeOrder(ctx, o))
}

func (n *Naive) placeOrder(ctx context.Context, o voucher.Order) error {
	ordered, err := n.read.NewSelect().Model((*orderRow)(nil)).
		Where("user_id = ?", o.UserID).Where("voucher_id = ?", o.VoucherID).Exists(ctx)
	if err != nil {
		return err
	}
	if ordered {
		return voucher.ErrAlreadyOrdered
	}
	v, err := n.Voucher(ctx, o.VoucherID)
	if err != nil {
		return err
	}
	if v.Remaining < 1 {
		return voucher.ErrSoldOut
	}
	if err := sleep(ctx, n.Pause); err != nil {
		return err
	}
	if _, err := n.write.NewUpdate().Model((*voucherRow)(nil)).
		Set("remaining = ?", v.Remaining-1).Where("id = ?", o.VoucherID).Exec(ctx); err != nil {
		return err
	}
	return insertOrder(ctx, n.write, o)
}

// Slow is a guarded store that takes its time before it writes, so that a
// test can catch the holder of a lock at work.
type Slow struct {
	*Store
	Pause time.Duration
}

// PlaceOrder implements [voucher.Store].
func (s Slow) PlaceOrder(ctx context.Context, o voucher.Order) error {
	if err := sleep(ctx, s.Pause); err != nil {
		return answer(ctx, "place order", err)
	}
	return s.Store.PlaceOrder(ctx, o)
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
