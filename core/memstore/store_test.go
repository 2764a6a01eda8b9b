package memstore_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
	"github.com/redlatch/redlatch/core/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) {
	storetest.Run(t, func(*testing.T) lock.Store { return memstore.New() },
		storetest.Require(lock.Fair, lock.Read, lock.Write, lock.Semaphore))
}

func TestExpiredHoldsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		for i := range 10_000 {
			claim := lock.Claim{Key: fmt.Sprint("key:", i), Owner: "a:1", Holds: 1, TTL: time.Second}
			if _, err := store.Acquire(t.Context(), claim); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Millisecond)
		}
		if held := store.Len(); held > 500 {
			t.Errorf("%d entries for 100 live holds", held)
		}
	})
}

func TestEndedContextChangesNothing(t *testing.T) {
	store := memstore.New()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := store.Acquire(ctx, lock.Claim{Key: "k", Owner: "a:1", Holds: 1, TTL: time.Second})
	var failed *lock.StoreError
	if !errors.As(err, &failed) || failed.Outcome != lock.OutcomeNotExecuted || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled with OutcomeNotExecuted", err)
	}
	if state, _ := store.Inspect(t.Context(), "k"); state.Held {
		t.Error("the key is held")
	}
}

func ExampleNew() {
	store := memstore.New()
	here, there := lock.New(store), lock.New(store) // two "processes"
	ctx := context.Background()

	lease, _ := here.Acquire(ctx, "order:42")
	_, err := there.TryAcquire(ctx, "order:42")
	fmt.Println(errors.Is(err, lock.ErrBusy))

	_ = lease.Release(ctx)
	_, err = there.TryAcquire(ctx, "order:42")
	fmt.Println(err)

	_ = here.Close(ctx)
	_ = there.Close(ctx)
	// Output:
	// true
	// <nil>
}
