package shop_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/redlatch/redlatch/annotations/internal/shop"
	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/guard/guardtest"
	"github.com/redlatch/redlatch/core/key"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
	"github.com/redlatch/redlatch/core/rule"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newGuard(t testing.TB, store lock.Store, opts ...lock.Option) *guard.Guard {
	t.Helper()
	return guard.Must(guard.New(guardtest.Locker(t, store, opts...)))
}

// must is for constructors whose error is another test's.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// held lists the keys that the context holds, out of those given.
func held(ctx context.Context, keys ...string) []string {
	return slices.DeleteFunc(keys, func(k string) bool { return lock.AssertHeld(ctx, k) != nil })
}

// orders is an OrderService whose methods do what the test wants.
type orders struct {
	shop.OrderService

	place  func(ctx context.Context, req *shop.PlaceRequest) (*shop.Order, error)
	cancel func(ctx context.Context, id shop.OrderID, voucher string) error
	sweep  func(ctx context.Context) (int, error)
	closed bool
}

func (o *orders) Place(ctx context.Context, req *shop.PlaceRequest) (*shop.Order, error) {
	return o.place(ctx, req)
}

func (o *orders) Cancel(ctx context.Context, id shop.OrderID, voucher string) error {
	return o.cancel(ctx, id, voucher)
}
func (o *orders) Sweep(ctx context.Context) (int, error) { return o.sweep(ctx) }

func (o *orders) Get(ctx context.Context, id shop.OrderID) (*shop.Order, error) {
	if _, ok := lock.FromContext(ctx); ok {
		return nil, errors.New("a method without a directive runs under a lock")
	}
	return &shop.Order{ID: id}, nil
}
func (o *orders) Close() { o.closed = true }

func TestADecoratorRunsCallsOfOneKeyOneByOne(t *testing.T) {
	store := memstore.New()
	running, most, placed := 0, 0, 0 // the lock guards them
	impl := &orders{place: func(ctx context.Context, req *shop.PlaceRequest) (*shop.Order, error) {
		if got := held(ctx, "lock:order:42"); len(got) != 1 {
			return nil, errors.New("not held")
		}
		running++
		most = max(most, running)
		time.Sleep(time.Millisecond)
		running--
		placed++
		return &shop.Order{UserID: req.User.ID}, nil
	}}
	var callers sync.WaitGroup
	for range 2 { // two instances of the service
		service := must(shop.NewOrderServiceLock(impl, newGuard(t, store)))
		for range 4 {
			callers.Go(func() {
				for range 5 {
					order, err := service.Place(t.Context(), &shop.PlaceRequest{User: &shop.User{ID: 42}})
					if guard.KindOf(err) == guard.Contended {
						continue // on a slow machine, 200 ms are not always enough
					}
					if err != nil || order.UserID != 42 {
						t.Errorf("got %v, %v", order, err)
					}
				}
			})
		}
	}
	callers.Wait()
	if most != 1 || placed == 0 {
		t.Errorf("%d ran at once and %d in all, want 1 at once", most, placed)
	}
}

func TestADecoratorTellsWhatIsMissing(t *testing.T) {
	impl := &orders{place: func(context.Context, *shop.PlaceRequest) (*shop.Order, error) {
		t.Error("the work ran")
		return nil, nil
	}}
	service := must(shop.NewOrderServiceLock(impl, newGuard(t, memstore.New())))
	for _, req := range []*shop.PlaceRequest{nil, {}} {
		_, err := service.Place(t.Context(), req)
		if guard.KindOf(err) != guard.BadKey || !errors.Is(err, key.ErrMissing) {
			t.Errorf("%v: got %v, want BadKey", req, err)
		}
	}
}

func TestADecoratorTakesAllLocksOrNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // its clock waits for the calls
		store := memstore.New()
		other := newGuard(t, store).Locker()
		g := newGuard(t, store)
		ran := 0
		impl := &orders{cancel: func(ctx context.Context, _ shop.OrderID, _ string) error {
			ran++
			if got := held(ctx, "lock:order:7", "lock:stock:abc"); len(got) != 2 {
				t.Errorf("holds %v, want both", got)
			}
			return nil
		}}
		service := must(shop.NewOrderServiceLock(impl, g))
		if err := service.Cancel(t.Context(), 7, "ABC"); err != nil || ran != 1 {
			t.Fatalf("ran %d times, %v", ran, err)
		}
		for _, taken := range []string{"lock:order:7", "lock:stock:abc"} {
			lease := must(other.TryAcquire(t.Context(), taken))
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			err := service.Cancel(ctx, 7, "abc")
			cancel()
			if !errors.Is(err, lock.ErrBusy) || ran != 1 {
				t.Errorf("%s is taken: ran %d times, %v", taken, ran, err)
			}
			if err := lease.Release(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if err := service.Cancel(t.Context(), 7, "abc"); err != nil {
			t.Errorf("something was left behind: %v", err)
		}
	})
}

func TestADecoratorReentersThroughTheContext(t *testing.T) {
	g := newGuard(t, memstore.New())
	impl := &orders{}
	service := must(shop.NewOrderServiceLock(impl, g))
	impl.cancel = func(ctx context.Context, _ shop.OrderID, _ string) error {
		return lock.AssertHeld(ctx, "lock:order:42")
	}
	impl.place = func(ctx context.Context, _ *shop.PlaceRequest) (*shop.Order, error) {
		return nil, service.Cancel(ctx, 42, "v") // the same key, and one more
	}
	if _, err := service.Place(t.Context(), &shop.PlaceRequest{User: &shop.User{ID: 42}}); err != nil {
		t.Error(err)
	}
}

func TestADecoratorSkipsWhatAnotherDoes(t *testing.T) {
	store := memstore.New()
	first := must(shop.NewOrderServiceLock(&orders{sweep: func(ctx context.Context) (int, error) {
		second := must(shop.NewOrderServiceLock(&orders{sweep: func(context.Context) (int, error) {
			return 0, errors.New("the work ran twice at once")
		}}, newGuard(t, store)))
		if swept, err := second.Sweep(t.Context()); swept != 0 || err != nil {
			t.Errorf("the second got %d, %v, want 0 and no error", swept, err)
		}
		return 3, lock.AssertHeld(ctx, "lock:sweep")
	}}, newGuard(t, store)))
	if swept, err := first.Sweep(t.Context()); swept != 3 || err != nil {
		t.Errorf("the first got %d, %v", swept, err)
	}
}

func TestADecoratorReportsALostLease(t *testing.T) {
	store := memstore.New()
	admin := newGuard(t, store).Locker()
	impl := &orders{place: func(ctx context.Context, _ *shop.PlaceRequest) (*shop.Order, error) {
		if _, err := admin.ForceRelease(ctx, "lock:order:42"); err != nil {
			t.Error(err)
		}
		<-ctx.Done()
		return &shop.Order{ID: 1}, nil
	}}
	service := must(shop.NewOrderServiceLock(impl, newGuard(t, store, lock.WithWatchdog(600*time.Millisecond))))
	order, err := service.Place(t.Context(), &shop.PlaceRequest{User: &shop.User{ID: 42}})
	if guard.KindOf(err) != guard.Lost || order == nil {
		t.Errorf("got %v, %v, want the order, and kind Lost", order, err)
	}
}

func TestADecoratorDelegatesTheRest(t *testing.T) {
	impl := &orders{}
	service := must(shop.NewOrderServiceLock(impl, newGuard(t, memstore.New())))
	if order, err := service.Get(t.Context(), 5); err != nil || order.ID != 5 {
		t.Errorf("got %v, %v", order, err)
	}
	if service.Close(); !impl.closed {
		t.Error("Close was not delegated")
	}
}

// transfers notes the locks that each call holds.
type transfers struct{ held []string }

// bank is Transfers with a referee in it.
type bank struct {
	shop.Transfers
	guardtest.Accounts
}

func (b *bank) Move(_ context.Context, from, to string, _ float64) error {
	b.Transfer(from, to)
	return nil
}

func TestADecoratorTakesCrossingCallsOneByOne(t *testing.T) {
	impl := &bank{}
	service := must(shop.NewTransfersLock(impl, newGuard(t, memstore.New())))
	impl.Crossing(t, 10_000, func(from, to string) error { return service.Move(t.Context(), from, to, 1) })
}

func (s *transfers) Move(ctx context.Context, from, to string, _ float64) error {
	s.held = held(ctx, "lock:account:"+from, "lock:account:"+to)
	return nil
}

func (s *transfers) Claim(ctx context.Context, _ *shop.PlaceRequest, more ...string) (a, b string, err error) {
	s.held = held(ctx, "lock:client:10.0.0.1:v")
	return more[0], more[1], nil
}

func (s *transfers) Nest(ctx context.Context, _ *shop.Command, _ struct{ Tenant *string }) error {
	s.held = held(ctx, "lock:acme:9:true")
	return nil
}

func (s *transfers) Limit(ctx context.Context, _ shop.Named, _ int, _ ...int) error {
	s.held = held(ctx, "lock:permits:1")
	return nil
}

type named struct{}

func (named) Name() fmt.Stringer { return shop.OrderID(1) }

type nameless struct{}

func (nameless) Name() fmt.Stringer { return nil }

func TestADecoratorRendersEveryKindOfVariable(t *testing.T) {
	impl := &transfers{}
	service := must(shop.NewTransfersLock(impl, newGuard(t, memstore.New())))
	address, tenant := netip.MustParseAddr("10.0.0.1"), "acme"
	deep := &shop.Base{Deep: &struct{ Flag bool }{true}}
	type nest = struct{ Tenant *string }
	ctx := t.Context()
	for name, test := range map[string]struct {
		call func() error
		held int // -1: the key lacks a value
	}{
		"two parameters":         {func() error { return service.Move(ctx, "a", "b", 1) }, 2},
		"both the same":          {func() error { return service.Move(ctx, "a", "a", 1) }, 2},
		"one empty":              {func() error { return service.Move(ctx, "a", "", 1) }, -1},
		"getters and embedded":   {func() error { return service.Nest(ctx, shop.WithUser(deep, &shop.Account{N: 9}), nest{&tenant}) }, 1},
		"nil command":            {func() error { return service.Nest(ctx, nil, nest{&tenant}) }, -1},
		"nil from a getter":      {func() error { return service.Nest(ctx, shop.WithUser(deep, nil), nest{&tenant}) }, -1},
		"nil embedded":           {func() error { return service.Nest(ctx, shop.WithUser(nil, &shop.Account{}), nest{&tenant}) }, -1},
		"nil in embedded":        {func() error { return service.Nest(ctx, shop.WithUser(&shop.Base{}, &shop.Account{}), nest{&tenant}) }, -1},
		"nil value":              {func() error { return service.Nest(ctx, shop.WithUser(deep, &shop.Account{}), nest{}) }, -1},
		"interface":              {func() error { return service.Limit(ctx, named{}, 1, 2, 3) }, 1},
		"nil interface":          {func() error { return service.Limit(ctx, nil, 1) }, -1},
		"nil behind a getter":    {func() error { return service.Limit(ctx, nameless{}, 1) }, -1},
		"nil pointer in request": {func() error { _, _, err := service.Claim(ctx, &shop.PlaceRequest{Voucher: "v"}); return err }, -1},
	} {
		impl.held = nil
		err := test.call()
		switch {
		case test.held < 0 && guard.KindOf(err) != guard.BadKey:
			t.Errorf("%s: got %v, want BadKey", name, err)
		case test.held >= 0 && (err != nil || len(impl.held) != test.held):
			t.Errorf("%s: %v, and holds %q, want %d", name, err, impl.held, test.held)
		}
	}
	req := &shop.PlaceRequest{Voucher: "v", Client: shop.Client{Address: &address}}
	if a, b, err := service.Claim(ctx, req, "x", "y"); a != "x" || b != "y" || err != nil || len(impl.held) != 1 {
		t.Errorf("got %q, %q, %v, and holds %q", a, b, err, impl.held)
	}
}

// items is a repository of strings.
type items struct{}

func (items) Update(ctx context.Context, id int64, change func(string) string) (string, error) {
	return change("old"), lock.AssertHeld(ctx, fmt.Sprint("lock:item:", id))
}
func (items) All(context.Context) ([]string, error) { return []string{"a"}, nil }

func TestADecoratorOfAGenericInterface(t *testing.T) {
	repo := must(shop.NewRepositoryLock[int64, string](items{}, newGuard(t, memstore.New())))
	if got, err := repo.Update(t.Context(), -5, func(s string) string { return s + "er" }); got != "older" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if all, err := repo.All(t.Context()); len(all) != 1 || err != nil {
		t.Errorf("got %q, %v", all, err)
	}
}

// front is a shop whose orders are those of another service.
type front struct {
	orders
	held []string
}

func (*front) String() string { return "front" }
func (f *front) Open(ctx context.Context) error {
	f.held = held(ctx, "lock:shop")
	return nil
}

func TestADecoratorLocksTheMethodsOfEmbeddedInterfaces(t *testing.T) {
	impl := &front{}
	impl.cancel = func(ctx context.Context, _ shop.OrderID, _ string) error {
		impl.held = held(ctx, "lock:order:1", "lock:stock:v")
		return nil
	}
	service := must(shop.NewShopLock(impl, newGuard(t, memstore.New())))
	if err := service.Open(t.Context()); err != nil || len(impl.held) != 1 {
		t.Errorf("%v, and holds %q", err, impl.held)
	}
	if err := service.Cancel(t.Context(), 1, "v"); err != nil || len(impl.held) != 2 {
		t.Errorf("%v, and holds %q", err, impl.held)
	}
	if service.String() != "front" {
		t.Errorf("String is %q", service)
	}
}

func TestAConstructorRefusesWhatDoesNotFit(t *testing.T) {
	if service, err := shop.NewOrderServiceLock(&orders{}, nil); service != nil || !errors.Is(err, rule.ErrInvalid) {
		t.Errorf("without a guard: %v, %v", service, err)
	}
}

func TestADecoratorRefusesRulesThatItHasNoValuesFor(t *testing.T) {
	store := memstore.New()
	g := newGuard(t, store)
	service := must(shop.NewOrderServiceLock(&orders{sweep: func(context.Context) (int, error) { return 1, nil }}, g))
	for name, r := range map[string]rule.Rule{
		"another variable":        {Operation: "OrderService.Place", Key: "lock:<tenant>"},
		"a method without a lock": {Operation: "OrderService.Get", Key: "lock:x"},
		"a misspelled method":     {Operation: "OrderService.Plcae", Key: "lock:<req.User.ID>"},
		"a misspelled service":    {Operation: "OrdersService.Place", Key: "lock:<req.User.ID>"},
	} {
		t.Run(name, func(t *testing.T) {
			closed := guard.Must(guard.New(guardtest.Locker(t, memstore.New()), r))
			impl := &orders{}
			refusing := must(shop.NewOrderServiceLock(impl, closed))
			if err := closed.Validate(); !errors.Is(err, rule.ErrInvalid) || !strings.Contains(err.Error(), r.Operation) {
				t.Errorf("Validate: %v", err)
			}
			if err := refusing.Cancel(t.Context(), 1, "v"); guard.KindOf(err) != guard.Invalid {
				t.Errorf("a call: %v", err)
			}
			if _, err := service.Sweep(t.Context()); err != nil {
				t.Error(err)
			}
			if err := g.Replace([]rule.Rule{r}); !errors.Is(err, rule.ErrInvalid) {
				t.Errorf("Replace: %v", err)
			}
		})
	}
}
