package guard_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/key"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/rule"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const operation = "POST /orders"

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

// served is a guard whose rules are all served.
func served(g *guard.Guard, err error) *guard.Guard {
	guard.Must(g, err)
	for _, r := range g.Rules() {
		g.Serve("a test", r.Operation)
	}
	return g
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
