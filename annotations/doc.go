// Package annotations takes locks around methods, as comments above the methods
// declare.
//
// A directive on a method of an interface names the lock:
//
//	//go:generate go tool lockgen
//
//	type OrderService interface {
//		// Place places one order.
//		//
//		//redlatch:lock lock:order:<req.UserID> wait=200ms
//		Place(ctx context.Context, req *PlaceRequest) (*Order, error)
//	}
//
// The command lockgen checks it against the method's parameters and writes
// OrderServiceLock, which takes the lock around each call and otherwise is
// the OrderService that it was made of:
//
//	orders, err := NewOrderServiceLock(orders, g) // g is a *guard.Guard
//
// Without a generator, [Do] and [Call] do the same by hand, with values from the
// struct tags of a request ([VarsOf]):
//
//	place, err := annotations.Compile(g, "place", "lock:order:<userId> wait=200ms")
//	err = annotations.Do(ctx, place, annotations.VarsOf(req), func(ctx context.Context) error {
//		return work(ctx, req)
//	})
//
// # What a call does
//
// It takes all locks of the method or none, in an order in which callers
// can't block each other, runs the work with a context that ends with the
// first of the leases, and releases them, also when the work panics. A call
// whose context holds a key already re-enters it.
//
// The constructor declares to the guard which operations have a lock. A rule for
// any other method, such as OrderService.Plcae, is a fault of
// [guard.Guard.Validate], and the guard lets nobody in until it is gone.
//
// A call that doesn't get its locks returns a [*guard.Error], and the work
// didn't run; [guard.KindOf] sorts it. With onBusy=skip it returns zero
// values and no error instead. A call whose lease was lost before the work was
// done returns what the work did, and an error of kind [guard.Lost] although
// the work returned none.
//
// # What it doesn't do
//
// A decorator locks calls that go through it. A method that calls another
// method of the same receiver doesn't, so that method runs without its lock.
// Work that relies on a lock says so with [lock.AssertHeld], which fails the
// first test that comes another way.
//
// [lock.AssertHeld]: https://pkg.go.dev/github.com/redlatch/redlatch/core/lock#AssertHeld
package annotations
