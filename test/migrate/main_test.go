package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/redlatch/redlatch/test/internal/redistest"
)

// TestMain lets this binary be a worker, as the program itself is one.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == workerCommand {
		main()
	}
	redis.SetLogger(silent{})
	goleak.VerifyTestMain(m)
}

// TestAFleetIsReplacedWithoutAnOverlap is a short version of make migrate.
func TestAFleetIsReplacedWithoutAnOverlap(t *testing.T) {
	var out strings.Builder
	migrateAll(t, []route{{byHand, []kind{oursAsSETNX, oursAsHash}, 2}}, 400, &out)
	t.Log(out.String())
}

// The referee finds what it is for.
func TestTheRefereeSeesAnOverlap(t *testing.T) {
	server := redistest.Standalone(t)
	r := &referee{rdb: server.Client(t), kind: byHand, process: "p"}
	ctx := t.Context()
	enter := func(worker string, fence uint64) *visit {
		t.Helper()
		v, err := r.enter(ctx, "k", worker, fence)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	leave := func(v *visit) {
		t.Helper()
		if err := v.leave(ctx); err != nil {
			t.Fatal(err)
		}
	}
	judged := func(want ...string) {
		t.Helper()
		faults, err := r.judge(ctx, []string{"k"})
		if err != nil || len(faults) != len(want) {
			t.Fatalf("%q, %v; want %q", faults, err, want)
		}
		for i, fault := range faults {
			if !strings.Contains(fault, want[i]) {
				t.Errorf("%q, want %q", fault, want[i])
			}
		}
	}
	leave(enter("p/1", 7))
	leave(enter("p/2", 8))
	judged()
	first := enter("p/1", 9)
	second := enter("p/2", 9)
	judged("inside are p/", "fence 9 after 9")
	leave(first)
	leave(second)
	judged("inside are p/", "fence 9 after 9", "the counters are at 3 after 4 grants")
	_ = enter("p/3", 0)
	if err := r.bury(context.WithoutCancel(ctx), []string{"k"}, "p"); err != nil {
		t.Fatal(err)
	}
	leave(enter("q/1", 0))
	judged("inside are p/", "fence 9 after 9", fmt.Sprintf("the counters are at %d after %d grants", 4, 5))
}
