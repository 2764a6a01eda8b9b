package rpc

import (
	"cmp"
	"context"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/redlatch/redlatch/examples/seckill/internal/seckillpb"
	"github.com/redlatch/redlatch/examples/seckill/internal/voucher"
)

// service translates. What it returns as an error, [answer] makes a status.
type service struct {
	seckillpb.UnimplementedSeckillServiceServer
	sale voucher.Sale
}

func (s *service) CreateVoucher(ctx context.Context, r *seckillpb.CreateVoucherRequest) (*seckillpb.CreateVoucherResponse, error) {
	d := voucher.Draft{Title: r.GetTitle(), Stock: r.GetStock()}
	// What is no time stays zero, which the sale refuses by name, together
	// with everything else that is wrong.
	if r.GetBeginAt().IsValid() {
		d.BeginAt = r.GetBeginAt().AsTime()
	}
	if r.GetEndAt().IsValid() {
		d.EndAt = r.GetEndAt().AsTime()
	}
	v, err := s.sale.Create(ctx, d)
	if err != nil {
		return nil, err
	}
	return &seckillpb.CreateVoucherResponse{Voucher: voucherOf(v)}, nil
}

func (s *service) GetVoucher(ctx context.Context, r *seckillpb.GetVoucherRequest) (*seckillpb.GetVoucherResponse, error) {
	v, err := s.sale.Voucher(ctx, r.GetVoucherId())
	if err != nil {
		return nil, err
	}
	return &seckillpb.GetVoucherResponse{Voucher: voucherOf(v)}, nil
}

func (s *service) PlaceOrder(ctx context.Context, r *seckillpb.PlaceOrderRequest) (*seckillpb.PlaceOrderResponse, error) {
	fence, err := voucher.FenceOf(ctx)
	if err != nil {
		return nil, err
	}
	o, err := s.sale.Place(ctx, r.GetVoucherId(), r.GetUserId(), fence)
	if err != nil {
		return nil, err
	}
	return &seckillpb.PlaceOrderResponse{Order: orderOf(o)}, nil
}

func (s *service) CancelOrder(ctx context.Context, r *seckillpb.CancelOrderRequest) (*seckillpb.CancelOrderResponse, error) {
	if err := s.sale.Cancel(ctx, r.GetOrderId(), r.GetUserId()); err != nil {
		return nil, err
	}
	return &seckillpb.CancelOrderResponse{}, nil
}

func (s *service) GetOrder(ctx context.Context, r *seckillpb.GetOrderRequest) (*seckillpb.GetOrderResponse, error) {
	o, err := s.sale.Order(ctx, r.GetOrderId())
	if err != nil {
		return nil, err
	}
	return &seckillpb.GetOrderResponse{Order: orderOf(o)}, nil
}

func (s *service) ListOrders(ctx context.Context, r *seckillpb.ListOrdersRequest) (*seckillpb.ListOrdersResponse, error) {
	limit := cmp.Or(int(r.GetLimit()), voucher.DefaultLimit)
	list, err := s.sale.Orders(ctx, r.GetVoucherId(), limit)
	if err != nil {
		return nil, err
	}
	orders := make([]*seckillpb.Order, len(list))
	for i, o := range list {
		orders[i] = orderOf(o)
	}
	return &seckillpb.ListOrdersResponse{Orders: orders}, nil
}

func (s *service) GetReport(ctx context.Context, r *seckillpb.GetReportRequest) (*seckillpb.GetReportResponse, error) {
	report, at, err := s.report(ctx, r)
	if err != nil {
		return nil, err
	}
	return &seckillpb.GetReportResponse{
		Stock: report.Stock, Sold: report.Sold, Orders: report.Orders, DistinctUsers: report.DistinctUsers,
		Oversold: report.Oversold(), DuplicateOrders: report.DuplicateOrders(),
		ReadAt: timestamppb.New(at),
	}, nil
}

// report returns the counters of a sale, or counts its orders, and when.
func (s *service) report(ctx context.Context, r *seckillpb.GetReportRequest) (voucher.Report, time.Time, error) {
	if r.GetCounted() {
		at := time.Now()
		report, err := s.sale.Count(ctx, r.GetVoucherId())
		return report, at, err
	}
	v, at, err := s.sale.Look(ctx, r.GetVoucherId(), 0)
	return v.Report(), at, err
}

func voucherOf(v voucher.Voucher) *seckillpb.Voucher {
	return &seckillpb.Voucher{
		Id: v.ID, Title: v.Title, Stock: v.Stock, Remaining: v.Remaining,
		BeginAt: timestamppb.New(v.BeginAt), EndAt: timestamppb.New(v.EndAt),
	}
}

func orderOf(o voucher.Order) *seckillpb.Order {
	return &seckillpb.Order{
		OrderId: o.ID, VoucherId: o.VoucherID, UserId: o.UserID,
		Fence: o.Fence.Fence, CreatedAt: timestamppb.New(o.CreatedAt),
	}
}
