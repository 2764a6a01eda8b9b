// Package shop is what docs/annotations.md shows.
package shop

import "context"

//go:generate go run github.com/redlatch/redlatch/annotations/cmd/lockgen

type OrderService interface { //nolint:revive // its methods say it
	// Place places one order of a user.
	//
	//redlatch:lock lock:order:<req.User.ID> wait=200ms
	Place(ctx context.Context, req *PlaceRequest) (*Order, error)

	Get(ctx context.Context, id int64) (*Order, error)
}
