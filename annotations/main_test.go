package annotations_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/guard/guardtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func wantFree(t *testing.T, g *guard.Guard, keys ...string) {
	t.Helper()
	for _, k := range keys {
		if guardtest.IsHeld(t, g, k) {
			t.Errorf("%s is held, want free", k)
		}
	}
}
