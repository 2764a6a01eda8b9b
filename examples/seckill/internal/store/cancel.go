package store

import (
	"context"
	"errors"

	"github.com/uptrace/bun"

	"github.com/redlatch/redlatch/examples/seckill/internal/voucher"
)

// CancelOrder implements [voucher.Store].
func (s *Store) CancelOrder(ctx context.Context, orderID, userID string, fence voucher.Fence) error {
	return answer(ctx, "cancel order", s.cancelOrder(ctx, orderID, userID, fence))
}

func (s *Store) cancelOrder(ctx context.Context, orderID, userID string, fence voucher.Fence) error {
	o, err := s.Order(ctx, orderID)
	switch {
	case err != nil:
		return err
	case o.UserID != userID:
		return voucher.ErrOrderNotFound
	}
	o.Fence = fence
	return retryClaim(ctx, func() error {
		return s.write.RunInTx(ctx, s.isolation(), func(ctx context.Context, tx bun.Tx) error {
			if err := s.guards.Claim(ctx, tx.Tx, o.UserID, o.Fence); err != nil {
				return err
			}
			// Seen a moment ago, under the user's lock: if it is gone, an earlier
			// attempt removed it whose answer was lost.
			err := deleteOrder(ctx, tx, o)
			if errors.Is(err, errCancelled) {
				return nil
			}
			if err != nil {
				return err
			}
			return putBack(ctx, tx, o.VoucherID)
		})
	})
}

// errCancelled: the order is gone already.
var errCancelled = errors.New("order is already cancelled")

func deleteOrder(ctx context.Context, tx bun.Tx, o voucher.Order) error {
	deleted, err := tx.NewDelete().Model((*orderRow)(nil)).
		Where("id = ?", o.ID).Where("user_id = ?", o.UserID).Exec(ctx)
	return expectRow(deleted, err, errCancelled)
}

// putBack returns one to the stock, and counts the order and its buyer no more.
func putBack(ctx context.Context, tx bun.Tx, voucherID string) error {
	_, err := tx.NewUpdate().Model((*voucherRow)(nil)).
		Set("remaining = remaining + 1").Set("orders = orders - 1").Set("buyers = buyers - 1").Where("id = ?", voucherID).Exec(ctx)
	return err
}
