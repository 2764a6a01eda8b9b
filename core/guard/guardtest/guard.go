// Package guardtest helps to test code that takes its locks from a guard: handlers
// behind a middleware, annotated methods, and the integrations themselves. Its
// guard keeps locks in memory. Tests take the part of other owners ([Hold]), of
// operators ([Lose]) and of outages ([GuardWithOutage]), also inside
// testing/synctest.
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

// Timeout is how long a test waits for what must happen.
const Timeout = 20 * time.Second

// Locker returns a locker that is closed with the test, which fails if that does
// not work.
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

// Hold takes a key in the name of another owner. It is held until it is
// released, or the test ends.
func Hold(t testing.TB, g *guard.Guard, key string) *lock.Lease {
	t.Helper()
	lease, err := g.Locker().TryAcquire(context.Background(), key)
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

// IsHeld reports whether anybody has the key.
func IsHeld(t testing.TB, g *guard.Guard, key string) bool {
	t.Helper()
	state, err := g.Locker().Inspect(context.Background(), key)
	if err != nil {
		t.Fatal(err)
	}
	return state.Held
}

// Receive waits for what must come.
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
