package annotations_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/redlatch/redlatch/core/guard"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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
