package store

import (
	"context"
	"database/sql"
	"errors"

	"github.com/google/uuid"

	"github.com/redlatch/redlatch/examples/seckill/internal/voucher"
)

// Voucher implements [voucher.Reader].
func (s *Store) Voucher(ctx context.Context, id string) (voucher.Voucher, error) {
	var row voucherRow
	err := s.one(ctx, id, &row, voucher.ErrVoucherNotFound)
	if err != nil {
		return voucher.Voucher{}, answer(ctx, "read voucher", err)
	}
	return row.voucher(), nil
}

// Order implements [voucher.Reader].
func (s *Store) Order(ctx context.Context, id string) (voucher.Order, error) {
	var row orderRow
	err := s.one(ctx, id, &row, voucher.ErrOrderNotFound)
	if err != nil {
		return voucher.Order{}, answer(ctx, "read order", err)
	}
	return row.order(), nil
}

// one reads the row with the given id, or says missing.
func (s *Store) one(ctx context.Context, id string, row any, missing error) error {
	if !isID(id) {
		return missing
	}
	err := retry(ctx, func() error { return s.read.NewSelect().Model(row).Where("id = ?", id).Scan(ctx) })
	if errors.Is(err, sql.ErrNoRows) {
		return missing
	}
	return err
}

// isID reports whether id can be one of ours. Others aren't shown to the
// database: they need not even be text to it.
func isID(id string) bool {
	parsed, err := uuid.Parse(id)
	return err == nil && parsed.String() == id
}

// Vouchers implements [voucher.Reader].
func (s *Store) Vouchers(ctx context.Context, limit int) ([]voucher.Voucher, error) {
	var rows []voucherRow
	err := retry(ctx, func() error {
		rows = nil
		return s.read.NewSelect().Model(&rows).OrderExpr("id DESC").Limit(int64(limit)).Scan(ctx)
	})
	if err != nil {
		return nil, answer(ctx, "list vouchers", err)
	}
	list := make([]voucher.Voucher, len(rows))
	for i := range rows {
		list[i] = rows[i].voucher()
	}
	return list, nil
}

// Orders implements [voucher.Reader].
func (s *Store) Orders(ctx context.Context, voucherID string, limit int) ([]voucher.Order, error) {
	if _, err := s.Voucher(ctx, voucherID); err != nil {
		return nil, err
	}
	var rows []orderRow
	err := retry(ctx, func() error {
		rows = nil
		return s.read.NewSelect().Model(&rows).
			Where("voucher_id = ?", voucherID).OrderExpr("id DESC").Limit(int64(limit)).Scan(ctx)
	})
	if err != nil {
		return nil, answer(ctx, "list orders", err)
	}
	list := make([]voucher.Order, len(rows))
	for i := range rows {
		list[i] = rows[i].order()
	}
	return list, nil
}

// Ordered implements [voucher.Store].
func (s *Store) Ordered(ctx context.Context, voucherID, userID string) (ordered bool, err error) {
	err = retry(ctx, func() (err error) {
		ordered, err = s.read.NewSelect().Model((*orderRow)(nil)).
			Where("user_id = ?", userID).Where("voucher_id = ?", voucherID).Exists(ctx)
		return err
	})
	return ordered, answer(ctx, "look for an order", err)
}

// Count implements [voucher.Reader]. One statement reads all of it, so that
// the numbers belong together while the sale goes on.
func (s *Store) Count(ctx context.Context, voucherID string) (voucher.Report, error) {
	if !isID(voucherID) {
		return voucher.Report{}, voucher.ErrVoucherNotFound
	}
	var row struct{ Stock, Remaining, Orders, Users int64 }
	err := retry(ctx, func() error {
		return s.read.NewSelect().TableExpr("vouchers AS v").
			Join("LEFT JOIN orders AS o ON o.voucher_id = v.id").
			ColumnExpr("v.stock, v.remaining, COUNT(o.id) AS orders, COUNT(DISTINCT o.user_id) AS users").
			Where("v.id = ?", voucherID).
			GroupExpr("v.stock, v.remaining").
			Scan(ctx, &row)
	})
	if errors.Is(err, sql.ErrNoRows) {
		err = voucher.ErrVoucherNotFound
	}
	if err != nil {
		return voucher.Report{}, answer(ctx, "count the orders", err)
	}
	return voucher.Report{
		Stock: row.Stock, Sold: row.Stock - row.Remaining, Orders: row.Orders, DistinctUsers: row.Users,
	}, nil
}
