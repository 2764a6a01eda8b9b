package guard_test

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/key"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
	"github.com/redlatch/redlatch/core/rule"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const operation = "POST /orders"

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

// newGuard returns a guard on a store of its own.
func newGuard(t testing.TB, rules ...rule.Rule) *guard.Guard {
	t.Helper()
	g, err := guard.New(newLocker(t, memstore.New()), rules...)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// orders is a rule for one key per user.
func orders(change ...func(*rule.Rule)) rule.Rule {
	r := rule.Rule{Operation: operation, Key: "lock:order:<userId>", Name: "orders"}
	for _, c := range change {
		c(&r)
	}
	return r
}

func user(id string) guard.Call {
	return guard.Call{Operation: operation, Vars: func(key.Var) (string, error) { return id, nil }}
}

// hold takes a key in the name of another owner until the test ends.
func hold(t testing.TB, l *lock.Locker, key string) *lock.Lease {
	t.Helper()
	lease, err := l.TryAcquire(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	return lease
}
