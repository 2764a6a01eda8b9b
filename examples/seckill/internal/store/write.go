package store

import (
	"context"
	"database/sql"
	"errors"

	"github.com/uptrace/bun"

	"github.com/redlatch/redlatch/examples/seckill/internal/voucher"
)

// errPlaced: the order exists already, placed by an earlier attempt whose
// answer was lost.
var errPlaced = errors.New("order is already placed")

// CreateVoucher implements [voucher.Store].
func (s *Store) CreateVoucher(ctx context.Context, v voucher.Voucher) error {
	row := voucherRow{
		ID: v.ID, Title: v.Title, Stock: v.Stock, Remaining: v.Remaining,
		BeginAt: v.BeginAt, EndAt: v.EndAt, CreatedAt: v.CreatedAt,
	}
	attempts := 0
	err := retry(ctx, func() error {
		attempts++
		_, err := s.write.NewInsert().Model(&row).Exec(ctx)
		if attempts > 1 && duplicate(err) {
			return nil // the attempt whose answer was lost
		}
		return err
	})
	return answer(ctx, "create voucher", err)
}

// PlaceOrder implements [voucher.Store].
func (s *Store) PlaceOrder(ctx context.Context, o voucher.Order) error {
	// Most answers of a flash sale are refusals. They need no write lock.
	if err := retry(ctx, func() error { return refusal(ctx, s.read, o) }); err != nil {
		return placed(ctx, err)
	}
	return s.WriteOrder(ctx, o)
}

// WriteOrder is PlaceOrder for a caller that has looked before: the transaction alone.
func (s *Store) WriteOrder(ctx context.Context, o voucher.Order) error {
	return placed(ctx, retryClaim(ctx, func() error {
		return s.write.RunInTx(ctx, s.isolation(), func(ctx context.Context, tx bun.Tx) error {
			if err := s.guards.Claim(ctx, tx.Tx, o.UserID, o.Fence); err != nil {
				return err
			}
			if err := refusal(ctx, tx, o); err != nil {
				return err
			}
			if err := takeOne(ctx, tx, o); err != nil {
				return err
			}
			return insertOrder(ctx, tx, o)
		})
	}))
}

// placed is the answer to an attempt to place an order.
func placed(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, errPlaced):
		return nil
	case duplicate(err):
		return voucher.ErrAlreadyOrdered
	default:
		return answer(ctx, "place order", err)
	}
}

// isolation is READ COMMITTED where there is a choice: every statement that
// decides is conditional, and MySQL's default locks the gaps between users.
func (s *Store) isolation() *sql.TxOptions {
	if s.engine == engineSQLite {
		return nil
	}
	return &sql.TxOptions{Isolation: sql.LevelReadCommitted}
}

// refusal says why the order can't be placed as things are, or nil.
func refusal(ctx context.Context, db bun.IDB, o voucher.Order) error {
	var row struct {
		Remaining int64
		Ordered   string
	}
	err := db.NewSelect().TableExpr("vouchers AS v").
		ColumnExpr("v.remaining").
		ColumnExpr("COALESCE((SELECT MIN(o.id) FROM orders AS o WHERE o.user_id = ? AND o.voucher_id = v.id), '') AS ordered", o.UserID).
		Where("v.id = ?", o.VoucherID).
		Scan(ctx, &row)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return voucher.ErrVoucherNotFound
	case err != nil:
		return err
	case row.Ordered == o.ID:
		return errPlaced
	case row.Ordered != "":
		return voucher.ErrAlreadyOrdered
	case row.Remaining < 1:
		return voucher.ErrSoldOut
	default:
		return nil
	}
}

// takeOne takes one from the stock, if there is one, and counts the order and its buyer.
// refusal has seen in the same transaction that the user has no order yet.
func takeOne(ctx context.Context, tx bun.Tx, o voucher.Order) error {
	taken, err := tx.NewUpdate().Model((*voucherRow)(nil)).
		Set("remaining = remaining - 1").Set("orders = orders + 1").Set("buyers = buyers + 1").
		Where("id = ?", o.VoucherID).Where("remaining > 0").
		Exec(ctx)
	return expectRow(taken, err, voucher.ErrSoldOut)
}

func insertOrder(ctx context.Context, db bun.IDB, o voucher.Order) error {
	row := orderRow{
		ID: o.ID, VoucherID: o.VoucherID, UserID: o.UserID,
		Fence: int64(o.Fence.Fence), CreatedAt: o.CreatedAt,
	}
	_, err := db.NewInsert().Model(&row).Exec(ctx)
	return err
}

// expectRow returns none if the statement matched no row.
func expectRow(result sql.Result, err, none error) error {
	if err != nil {
		return err
	}
	rows, err := result.RowsAffected()
	if err == nil && rows == 0 {
		return none
	}
	return err
}
