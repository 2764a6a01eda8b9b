package shop

import (
	"context"
	"fmt"

	"github.com/redlatch/redlatch/core/lock"
)

// PlaceRequest is what a user orders.
type PlaceRequest struct {
	User    User
	Voucher int64
}

// User is who orders.
type User struct{ ID int64 }

// Order is what a user gets.
type Order struct{ ID, User int64 }

var _ = (*service).Cancel

// service relies on the lock of its callers.
type service struct{ orders map[int64]*Order }

func (s *service) Cancel(ctx context.Context, id int64) error {
	if err := lock.AssertHeld(ctx, fmt.Sprint("lock:order:", id)); err != nil {
		return err
	}
	return s.cancel(ctx, id)
}

func (s *service) cancel(_ context.Context, id int64) error {
	delete(s.orders, id)
	return nil
}
