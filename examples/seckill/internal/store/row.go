package store

import (
	"time"

	"github.com/uptrace/bun"

	"github.com/redlatch/redlatch/core/fence"
	"github.com/redlatch/redlatch/examples/seckill/internal/voucher"
)

type voucherRow struct {
	bun.BaseModel `bun:"table:vouchers,alias:v"`

	ID        string `bun:",pk"`
	Title     string
	Stock     int64
	Remaining int64
	Orders    int64
	Buyers    int64
	BeginAt   time.Time
	EndAt     time.Time
	CreatedAt time.Time
}

func (r *voucherRow) voucher() voucher.Voucher {
	return voucher.Voucher{
		ID: r.ID, Title: r.Title, Stock: r.Stock, Remaining: r.Remaining,
		Orders: r.Orders, Buyers: r.Buyers,
		BeginAt: r.BeginAt.UTC(), EndAt: r.EndAt.UTC(), CreatedAt: r.CreatedAt.UTC(),
	}
}

type orderRow struct {
	bun.BaseModel `bun:"table:orders,alias:o"`

	ID        string `bun:",pk"`
	VoucherID string
	UserID    string
	Fence     int64
	CreatedAt time.Time
}

func (r *orderRow) order() voucher.Order {
	return voucher.Order{
		ID: r.ID, VoucherID: r.VoucherID, UserID: r.UserID,
		Fence:     fence.Token{Fence: uint64(r.Fence)},
		CreatedAt: r.CreatedAt.UTC(),
	}
}
