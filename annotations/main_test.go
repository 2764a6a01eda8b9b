package annotations_test

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
	"github.com/redlatch/redlatch/core/rule"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newLocker returns a locker that is closed with the test.
func newLocker(t testing.TB, store lock.Store, opts ...lock.Option) *lock.Locker {
	t.Helper()
	locker := lock.New(store, opts...)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := locker.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return locker
}

func newGuard(t testing.TB, rules ...rule.Rule) *guard.Guard {
	t.Helper()
	g, err := guard.New(newLocker(t, memstore.New()), rules...)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// hold takes keys in the name of another owner until the test ends.
func hold(t testing.TB, g *guard.Guard, keys ...string) {
	t.Helper()
	for _, k := range keys {
		if _, err := g.Locker().TryAcquire(t.Context(), k); err != nil {
			t.Fatal(err)
		}
	}
}

func wantFree(t *testing.T, g *guard.Guard, keys ...string) {
	t.Helper()
	for _, k := range keys {
		if state, err := g.Locker().Inspect(t.Context(), k); err != nil || state.Held {
			t.Errorf("%s: held %v, %v: want free", k, state.Held, err)
		}
	}
}
