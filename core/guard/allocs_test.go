package guard_test

import (
	"testing"

	"github.com/redlatch/redlatch/core/guard/guardtest"
)

func TestAGuardedRequestAllocatesLittle(t *testing.T) {
	g := guardtest.Guard(t, orders())
	call := user("42")
	allocs := testing.AllocsPerRun(200, func() {
		_, leave, err := g.Enter(t.Context(), call)
		if err == nil {
			err = leave()
		}
		if err != nil {
			t.Fatal(err)
		}
	})
	if allocs > 8+guardtest.Forgotten {
		t.Errorf("%v allocations", allocs)
	}
}
