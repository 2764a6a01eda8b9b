package storetest

import (
	"slices"
	"testing"

	"github.com/redlatch/redlatch/core/lock"
)

// some is more than a state lists, by few.
const some = lock.MaxListed + 7

// lists fails unless the state lists some of the owners, and counts the others.
func (b *bench) lists(owners []string) {
	b.Helper()
	state := b.state("k")
	if !state.Held || len(state.Owners) != lock.MaxListed || state.MoreOwners != len(owners)-lock.MaxListed {
		b.Fatalf("held %v, %d owners and %d more; want %d of %d", state.Held, len(state.Owners), state.MoreOwners, lock.MaxListed, len(owners))
	}
	listed := make(map[string]bool)
	for _, o := range state.Owners {
		if o.Holds != 1 || listed[o.Owner] || !slices.Contains(owners, o.Owner) {
			b.Errorf("lists %+v", o)
		}
		listed[o.Owner] = true
	}
}

func listsReaders(_ *testing.T, b *bench) {
	var owners []string
	for range some {
		c := b.reader()
		b.acquire(c)
		owners = append(owners, c.Owner)
	}
	b.lists(owners)
}

func listsPermits(_ *testing.T, b *bench) {
	var owners []string
	for range some {
		c := b.permits(1, some)
		b.acquire(c)
		owners = append(owners, c.Owner)
	}
	b.lists(owners)
}

func listsWaiters(_ *testing.T, b *bench) {
	_, places := b.line("k", some)
	state := b.state("k")
	if len(state.Waiters) != lock.MaxListed || state.MoreWaiters != some-lock.MaxListed {
		b.Fatalf("%d waiters and %d more; want %d of %d", len(state.Waiters), state.MoreWaiters, lock.MaxListed, some)
	}
	for i, owner := range state.Waiters {
		if owner != places[i].Owner {
			b.Fatalf("place %d is %s's, want %s's", i, owner, places[i].Owner)
		}
	}
}
