// Package shop is an application as lockgen meets them: its interfaces use all
// that Go allows, and its decorators are generated, compiled and run by tests.
package shop

import (
	"context"
	"fmt"
	"net/netip"
)

//go:generate go run github.com/redlatch/redlatch/annotations/cmd/lockgen

// OrderService is what most services look like.
type OrderService interface {
	// Place places an order for a user, who can have one at a time.
	//
	//redlatch:lock lock:order:<req.User.ID> wait=200ms name=place
	Place(ctx context.Context, req *PlaceRequest) (*Order, error)

	// Cancel needs the order and the stock that it returns.
	//
	//redlatch:lock lock:order:<id|int> wait=1s
	//redlatch:lock lock:stock:<voucher|lower>
	Cancel(ctx context.Context, id OrderID, voucher string) error

	// Sweep runs on one instance only.
	//
	//redlatch:lock lock:sweep onBusy=skip lease=10s
	Sweep(ctx context.Context) (swept int, err error)

	// Get locks nothing.
	Get(ctx context.Context, id OrderID) (*Order, error)

	// Close has neither a context nor an error.
	Close()
}

// OrderID counts by what it holds, and not by its String.
type OrderID uint64

// String is for people.
func (OrderID) String() string { return "an order" }

// PlaceRequest is a request with parts that may be missing.
type PlaceRequest struct {
	User    *User
	Voucher string `lock:"voucherId"`
	Client  Client
}

// User is a part of a request.
type User struct{ ID int64 }

// Client is a part of a request with its own tag.
type Client struct {
	Address *netip.Addr `lock:"client"`
}

// Order is what a user gets.
type Order struct {
	ID     OrderID
	UserID int64
}

// Transfers moves money, and has variables of every kind.
type Transfers interface {
	//redlatch:lock lock:account:<from> wait=10s
	//redlatch:lock lock:account:<to>
	Move(ctx context.Context, from, to string, amount float64) error

	//redlatch:lock lock:client:<client>:<voucherId>
	Claim(_ context.Context, req *PlaceRequest, more ...string) (a, b string, err error)

	//redlatch:lock lock:<req.Tenant>:<cmd.GetUser.Number>:<cmd.Deep.Flag> mode=read
	Nest(ctx context.Context, cmd *Command, req struct{ Tenant *string }) error

	//redlatch:lock lock:permits:<who.Name> mode=semaphore permits=1/2
	Limit(ctx context.Context, who Named, _ int, _ ...int) error
}

// Command has getters and embedded parts.
type Command struct {
	*Base
	user *Account
}

// Base is embedded behind a pointer.
type Base struct{ Deep *struct{ Flag bool } }

// GetUser may return nil.
func (c *Command) GetUser() *Account { return c.user }

// WithUser returns a command whose getter returns u.
func WithUser(base *Base, u *Account) *Command { return &Command{Base: base, user: u} }

// Account has a getter.
type Account struct{ N uint8 }

// Number needs an account.
func (a *Account) Number() uint8 { return a.N }

// Named is a parameter that is an interface.
type Named interface{ Name() fmt.Stringer }

// Shop embeds an interface with directives.
type Shop interface {
	OrderService
	fmt.Stringer

	//redlatch:lock lock:shop mode=write
	Open(ctx context.Context) error
}

// Repository is generic.
type Repository[K ~int64 | ~int32, V any] interface {
	//redlatch:lock lock:item:<key>
	Update(ctx context.Context, key K, change func(V) V) (V, error)

	All(ctx context.Context) ([]V, error)
}

// Users is a repository with one of its parameters fixed.
type Users[V fmt.Stringer] interface {
	Repository[int64, map[string]V]

	//redlatch:lock lock:user:<user>
	Greet(ctx context.Context, user V) error
}

// clashes uses names that generated code might want for itself.
type clashes interface {
	//redlatch:lock lock:a:<l>:<v>:<x.Get>:<annotations>
	Do(guard context.Context, l, v, annotations string, x getter, err error, r0 int, context int) (next, ctx string, _ error)

	//redlatch:lock lock:b:<Order>
	next(ctx context.Context, Order string, guard *Order) (*Order, error)

	//redlatch:lock lock:c
	lockDo(ctx context.Context) error

	//redlatch:lock lock:d
	Nothing(context.Context, map[string]getter, <-chan func(...int) error) error
}

type getter interface{ Get() string }
