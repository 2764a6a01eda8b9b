package shop_test

import (
	"context"
	"testing"

	"go.uber.org/fx"

	"github.com/redlatch/redlatch/annotations"
	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
	"github.com/redlatch/redlatch/fxmodule"
	"github.com/redlatch/redlatch/test/internal/leak"
	"github.com/redlatch/redlatch/test/readme/shop"
)

func TestMain(m *testing.M) { leak.Main(m) }

// orders is an OrderService whose Place calls a func.
type orders struct{ place func() error }

func (o orders) Place(_ context.Context, req *shop.PlaceRequest) (*shop.Order, error) {
	return &shop.Order{User: req.User.ID}, o.place()
}

func (orders) Get(context.Context, int64) (*shop.Order, error) { return &shop.Order{}, nil }

func TestTheServiceOfTheManualIsLocked(t *testing.T) {
	locker := lock.New(memstore.New())
	defer locker.Close(context.Background())
	var locked shop.OrderService
	req := &shop.PlaceRequest{User: shop.User{ID: 42}}
	var refused error
	second := func() error { // of the same user, and not from within the first
		_, refused = locked.Place(t.Context(), req)
		return nil
	}
	locked, err := shop.NewOrderServiceLock(orders{place: second}, guard.Must(guard.New(locker)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := locked.Place(t.Context(), req); err != nil || guard.KindOf(refused) != guard.Contended {
		t.Errorf("the first order: %v; the second: %v, want Contended", err, refused)
	}
	if _, err := locked.Get(t.Context(), 1); err != nil {
		t.Error(err)
	}
}

// For docs/annotations.md.
var _ = func(orders shop.OrderService, g *guard.Guard) (shop.OrderService, error) {
	orders, err := shop.NewOrderServiceLock(orders, g) // g is a *guard.Guard
	return orders, err
}

var _ = func(newOrders func() shop.OrderService) {
	fx.New(
		fxmodule.Module,
		fx.Provide(newOrders), // returns an OrderService
		fx.Decorate(shop.NewOrderServiceLock),
	)
}

var _ = func(ctx context.Context, g *guard.Guard, work func(context.Context, any) error) error {
	type Transfer struct {
		From string  `lock:"from"`
		To   *string `lock:"to"` // nil: no value, the call fails
	}

	move, err := annotations.Compile(g, "move", "lock:account:<from> wait=1s", "lock:account:<to>")
	if err != nil {
		return err
	}
	err = move.Check(Transfer{}) // at start-up: every variable has a tag
	if err != nil {
		return err
	}

	req := Transfer{From: "a"}
	err = annotations.Do(ctx, move, annotations.VarsOf(req), func(ctx context.Context) error {
		return work(ctx, req)
	})
	return err
}

var _ = func(g *guard.Guard) (*annotations.Method, error) {
	type Transfer struct {
		_    struct{} `lock:"lock:account:<from> wait=1s"`
		_    struct{} `lock:"lock:account:<to>"`
		From string   `lock:"from"`
		To   *string  `lock:"to"`
	}

	move, err := annotations.CompileFor[Transfer](g, "move")
	return move, err
}
