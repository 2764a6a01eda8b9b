// Package storetest holds implementations of [lock.Store] to their contract,
// alone and under the engine, blocking behaviour included.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

// patience bounds every wait for something that must happen.
const patience = 20 * time.Second

// Run tests the stores that open makes. Each subtest opens one and uses keys
// of its own, so that open may return the same store again. open registers
// its own clean-up.
func Run(t *testing.T, open func(t *testing.T) lock.Store) {
	t.Helper()
	tests := []struct {
		name string
		run  func(*testing.T, *bench)
	}{
		{"a free key is granted with a fence", grantsFreeKey},
		{"a held key is busy and says for how long", saysBusy},
		{"the same claim twice is one hold", repeatsAreOneHold},
		{"re-entry writes the absolute count and keeps the longer TTL", reenters},
		{"re-entry without a hold is not granted", refusesReentryWithoutHold},
		{"release lowers to the count it names", releasesToCount},
		{"release never touches another owner's hold", releasesOwnOnly},
		{"release of what is gone says so", releaseSaysGone},
		{"renewal sets the TTL of own holds only", renewsOwnOnly},
		{"renewal never creates a hold", renewalNeverCreates},
		{"renewal of many reports each claim once", renewsMany},
		{"a hold that is not renewed expires", expires},
		{"fences grow over release, expiry and force", fencesGrow},
		{"of many claims at once exactly one is granted", oneWinner},
		{"a release wakes who watches", releaseWakes},
		{"a force release wakes and frees", forceWakes},
		{"nothing is called after stop", silentAfterStop},
		{"many watch and stop at once", watchStorm},
		{"inspect tells the truth", inspects},
		{"keys are independent", keysAreIndependent},
		{"engine: a waiter elsewhere gets a released key", engineHandsOver},
		{"engine: a waiter gets an abandoned key", engineSurvivesDeath},
		{"engine: a counter under contention is exact", engineExcludes},
		{"engine: a cancelled waiter strands nobody", engineCancels},
		{"engine: the watchdog keeps a key", engineRenews},
		{"engine: closing leaves nothing", engineCloses},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.run(t, &bench{T: t, Store: open(t), prefix: fmt.Sprintf("storetest:%d:%s:", time.Now().UnixNano(), newID())})
		})
	}
}

var ids atomic.Int64

func newID() string { return fmt.Sprint(ids.Add(1)) }

// bench is a store under test, with what tests do to it all the time.
type bench struct {
	*testing.T
	lock.Store
	prefix string
}

func (b *bench) key(name string) string { return b.prefix + name }

// owner returns claims of one owner on one key.
func (b *bench) owner(key string) func(holds int, ttl time.Duration) lock.Claim {
	owner := "5f0c0e1a-9d5a-4c9e-8f57-0d9a3c1f7b11:" + newID()
	return func(holds int, ttl time.Duration) lock.Claim {
		return lock.Claim{Key: b.key(key), Owner: owner, Holds: holds, TTL: ttl}
	}
}

func (b *bench) acquire(c lock.Claim) uint64 {
	b.Helper()
	fence, err := b.Store.Acquire(b.Context(), c)
	if err != nil {
		b.Fatalf("Acquire(%+v): %v", c, err)
	}
	return fence
}

func (b *bench) busy(c lock.Claim) time.Duration {
	b.Helper()
	_, err := b.Store.Acquire(b.Context(), c)
	var busy *lock.BusyError
	if !errors.As(err, &busy) || !errors.Is(err, lock.ErrBusy) {
		b.Fatalf("Acquire(%+v): got %v, want a BusyError", c, err)
	}
	return busy.TTL
}

func (b *bench) release(c lock.Claim, want error) {
	b.Helper()
	if err := b.Store.Release(b.Context(), c); !errors.Is(err, want) {
		b.Fatalf("Release(%+v): got %v, want %v", c, err, want)
	}
}

func (b *bench) renew(c lock.Claim, want error) {
	b.Helper()
	reported := 0
	b.Store.Renew(b.Context(), []lock.Claim{c}, func(_ int, err error) {
		reported++
		if !errors.Is(err, want) {
			b.Errorf("Renew(%+v): got %v, want %v", c, err, want)
		}
	})
	if reported != 1 {
		b.Fatalf("Renew(%+v) reported %d times", c, reported)
	}
}

func (b *bench) state(key string) lock.State {
	b.Helper()
	state, err := b.Store.Inspect(b.Context(), b.key(key))
	if err != nil {
		b.Fatalf("Inspect: %v", err)
	}
	return state
}

// holds is the hold count of the only owner, 0 if the key is free.
func (b *bench) holds(key string) int {
	b.Helper()
	state := b.state(key)
	switch {
	case !state.Held:
		return 0
	case len(state.Owners) != 1:
		b.Fatalf("%d owners: %+v", len(state.Owners), state)
	}
	return state.Owners[0].Holds
}

// eventually polls until ok holds.
func (b *bench) eventually(what string, ok func() bool) {
	b.Helper()
	deadline := time.Now().Add(patience)
	for tick := time.NewTicker(2 * time.Millisecond); !ok(); <-tick.C {
		if time.Now().After(deadline) {
			b.Fatalf("never happened: %s", what)
		}
	}
}

func (b *bench) locker(opts ...lock.Option) *lock.Locker {
	l := lock.New(b.Store, opts...)
	b.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := l.Close(ctx); err != nil {
			b.Errorf("Close: %v", err)
		}
	})
	return l
}

func (b *bench) lease(l *lock.Locker, key string, opts ...lock.Option) *lock.Lease {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), patience)
	b.Cleanup(cancel)
	lease, err := l.Acquire(ctx, b.key(key), opts...)
	if err != nil {
		b.Fatal(err)
	}
	return lease
}

// together runs n copies of fn at once and waits for them.
func together(n int, fn func(i int)) {
	var start, done sync.WaitGroup
	start.Add(1)
	for i := range n {
		done.Go(func() {
			start.Wait()
			fn(i)
		})
	}
	start.Done()
	done.Wait()
}
