package guardtest

import (
	"context"
	"testing"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/lock"
)

// Lose takes the key away from its owner. When Lose returns, the contexts of its
// leases have ended with [lock.ErrLost], as they do when a lease can't be renewed.
// It fails the test if nobody holds the key.
func Lose(t testing.TB, g *guard.Guard, key string) {
	t.Helper()
	freed, err := g.Locker().ForceRelease(context.Background(), key)
	if err != nil {
		t.Fatal(err)
	}
	if !freed {
		t.Fatalf("nobody has %q", key)
	}
}

// AssertHeld fails the test unless ctx carries a trusted lease of the key. Call it
// in the handler or method under test, where the work is done.
func AssertHeld(t testing.TB, ctx context.Context, key string) {
	t.Helper()
	if err := lock.AssertHeld(ctx, key); err != nil {
		t.Errorf("the work runs without its lock: %v", err)
	}
}

// AssertFree fails the test if anybody holds the key. Call it when the work is done
// and its lock should be released.
func AssertFree(t testing.TB, g *guard.Guard, key string) {
	t.Helper()
	if IsHeld(t, g, key) {
		t.Errorf("%q is still held", key)
	}
}
