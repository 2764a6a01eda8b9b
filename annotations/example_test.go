package annotations_test

import (
	"context"
	"fmt"

	"github.com/redlatch/redlatch/annotations"
	"github.com/redlatch/redlatch/annotations/internal/shop"
	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
)

// A decorator that lockgen wrote for an interface with directives.
func Example() {
	ctx := context.Background()
	locker := lock.New(memstore.New())
	defer locker.Close(ctx)
	g := guard.Must(guard.New(locker))

	service, err := shop.NewOrderServiceLock(orders{}, g)
	if err != nil {
		fmt.Println(err)
		return
	}
	order, err := service.Place(ctx, &shop.PlaceRequest{User: &shop.User{ID: 42}})
	fmt.Println(order.UserID, err)
	_, err = service.Place(ctx, &shop.PlaceRequest{})
	fmt.Println(guard.KindOf(err).Code())
	// Output:
	// lock:order:42 is held
	// 42 <nil>
	// LOCK_KEY_INVALID
}

// orders is the implementation. It relies on the lock, and says so.
type orders struct{ shop.OrderService }

func (orders) Place(ctx context.Context, req *shop.PlaceRequest) (*shop.Order, error) {
	key := fmt.Sprint("lock:order:", req.User.ID)
	if err := lock.AssertHeld(ctx, key); err != nil {
		return nil, err // called past the decorator
	}
	fmt.Println(key, "is held")
	return &shop.Order{UserID: req.User.ID}, nil
}

// Without a generator: the tags of a request are the variables.
func ExampleDo() {
	ctx := context.Background()
	locker := lock.New(memstore.New())
	defer locker.Close(ctx)
	g := guard.Must(guard.New(locker))

	type Transfer struct {
		From string `lock:"from"`
		To   string `lock:"to"`
	}
	move := annotations.Must(annotations.Compile(g, "move", "lock:account:<from> wait=1s", "lock:account:<to>"))
	fmt.Println(move.Check(Transfer{}))

	err := annotations.Do(ctx, move, annotations.VarsOf(Transfer{"b", "a"}), func(ctx context.Context) error {
		fmt.Println(lock.AssertHeld(ctx, "lock:account:a"), lock.AssertHeld(ctx, "lock:account:b"))
		return nil
	})
	fmt.Println(err)
	// Output:
	// <nil>
	// <nil> <nil>
	// <nil>
}

// Every fault has its place.
func ExampleCompile() {
	locker := lock.New(memstore.New())
	defer locker.Close(context.Background())
	g := guard.Must(guard.New(locker))

	_, err := annotations.Compile(g, "place", "lock:<a>-<b> wiat=1s")
	fmt.Println(err)
	// Output:
	// annotations: place: invalid rule: "lock:<a>-<b> wiat=1s", column 10: "-" does not separate <b> from <a> because values may contain it, put ":" between them
	// annotations: place: invalid rule: "lock:<a>-<b> wiat=1s", column 14: unknown field "wiat", did you mean "wait"?; known are mode, permits, wait, timeout, maxWaiters, lease, minHold, maxHold, onBusy, name, overlaps, also, optional
}
