package grpclock_test

import (
	"testing"

	"google.golang.org/grpc"

	"github.com/redlatch/redlatch/core/guard/guardtest"
	"github.com/redlatch/redlatch/core/rule"
	"github.com/redlatch/redlatch/grpclock/internal/testpb"
)

// Besides those of the locker: the key.
func TestAGuardedCallAllocatesLittle(t *testing.T) {
	intercept, _ := locksOf(t, guardtest.Guard(t, rule.Rule{Operation: place, Key: "lock:order:<user_id>"}), registered(ordersService))
	req, info := &testpb.PlaceRequest{UserId: "42"}, &grpc.UnaryServerInfo{FullMethod: place}
	allocs := testing.AllocsPerRun(200, func() {
		if _, err := intercept(t.Context(), req, info, pass); err != nil {
			t.Fatal(err)
		}
	})
	if allocs > 6+guardtest.Forgotten {
		t.Errorf("%v allocations", allocs)
	}
}
