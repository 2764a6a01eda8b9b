// Package guardtest helps to test code that takes its locks from a guard: handlers
// behind a middleware, annotated methods, and the integrations themselves. Its
// guard keeps locks in memory. Tests can make other owners hold keys ([Hold]), take
// keys away ([Lose]) and make the store unreachable ([GuardWithOutage]), also
// inside testing/synctest.
package guardtest

import (
	"context"
	"testing"
	"time"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
	"github.com/redlatch/redlatch/core/rule"
)

// Timeout is how long a test waits for an event before it fails.
const Timeout = 20 * time.Second

// Locker returns a locker that is closed when the test ends. The test fails if
// Close returns an error.
func Locker(t testing.TB, store lock.Store, opts ...lock.Option) *lock.Locker {
	t.Helper()
	locker := lock.New(store, opts...)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), Timeout)
		defer cancel()
		if err := locker.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return locker
}

// Guard returns a guard in memory, which lets calls in: every rule counts as
// served.
func Guard(t testing.TB, rules ...rule.Rule) *guard.Guard {
	t.Helper()
	g, err := guard.New(Locker(t, memstore.New()), rules...)
	if err != nil {
		t.Fatal(err)
	}
	return Served(g)
}

// Served declares to g that all its rules are served, for tests that wire only a part of
// an application.
func Served(g *guard.Guard) *guard.Guard {
	for _, r := range g.Rules() {
		g.Serve("a test", r.Operation)
	}
	return g
}

// Hold acquires a key as another owner. It is held until the lease is released or
// the guard's locker is closed, which [Guard] does when the test ends.
func Hold(t testing.TB, g *guard.Guard, key string) *lock.Lease {
	t.Helper()
	lease, err := g.Locker().TryAcquire(context.Background(), key)
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

// IsHeld reports whether anybody holds the key.
func IsHeld(t testing.TB, g *guard.Guard, key string) bool {
	t.Helper()
	state, err := g.Locker().Inspect(context.Background(), key)
	if err != nil {
		t.Fatal(err)
	}
	return state.Held
}

// Receive returns the next value of ch, and fails the test if none comes within
// [Timeout]. what names the value in the message.
func Receive[T any](t testing.TB, ch <-chan T, what string) T {
	t.Helper()
	var v T
	select {
	case v = <-ch:
	case <-time.After(Timeout):
		t.Fatalf("%s did not happen", what)
	}
	return v
}
