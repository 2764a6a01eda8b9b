package storetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

// groups returns the store's side of AcquireGroup; a store without it has
// nothing to show here.
func (b *bench) groups() lock.GroupStore {
	b.Helper()
	store, ok := b.Store.(lock.GroupStore)
	if !ok {
		b.Skip("the store grants keys one by one")
	}
	return store
}

// cart names keys that a cluster can grant together.
func cart(name string) string { return "{cart}:" + name }

func grantsGroups(_ *testing.T, b *bench) {
	store := b.groups()
	x, y, z := b.owner(cart("x")), b.owner(cart("y")), b.owner(cart("z"))
	claims := []lock.Claim{x(1, minute), y(1, minute)}
	for range 2 { // a repeat changes nothing
		fences, err := store.AcquireGroup(b.Context(), claims)
		if errors.Is(err, lock.ErrUnsupported) {
			b.Skip("the store, as it is set up, grants keys one by one")
		}
		if err != nil || len(fences) != 2 || fences[0] == 0 || fences[1] == 0 {
			b.Fatalf("AcquireGroup: %v, %v", fences, err)
		}
		for _, name := range []string{"x", "y"} {
			if holds := b.holds(cart(name)); holds != 1 {
				b.Errorf("%s: %d holds, want 1", name, holds)
			}
		}
	}
	other := b.owner(cart("y"))
	_, err := store.AcquireGroup(b.Context(), []lock.Claim{z(1, minute), other(1, minute)})
	var busy *lock.BusyError
	if !errors.As(err, &busy) || busy.TTL <= 0 || busy.TTL > minute {
		b.Errorf("with one key taken: %v, want a BusyError with its TTL", err)
	}
	if b.state(cart("z")).Held {
		b.Error("a part of a group was granted")
	}
	b.release(x(0, minute), nil)
	b.release(y(0, minute), nil)
	if _, err := store.AcquireGroup(b.Context(), []lock.Claim{z(1, minute), other(1, minute)}); err != nil {
		b.Errorf("all free again: %v", err)
	}
}

func engineAcquiresAll(_ *testing.T, b *bench) {
	here, there := b.locker(), b.locker()
	request := func(l *lock.Locker, name string) lock.Request { return l.Request(b.key(name)) }
	for _, names := range [][]string{{cart("1"), cart("2"), cart("3")}, {"p", "q", "r"}} {
		all, err := lock.AcquireAll(b.Context(), request(here, names[0]), request(here, names[1]), request(here, names[2]))
		if err != nil {
			b.Fatal(err)
		}
		_, err = lock.AcquireAll(b.Context(), request(there, "free"), there.Request(b.key(names[2]), lock.WithWait(20*time.Millisecond)))
		if !errors.Is(err, lock.ErrBusy) {
			b.Errorf("with one key taken: got %v, want ErrBusy", err)
		}
		if b.state("free").Held {
			b.Error("a part of what failed is still held")
		}
		if err := all.Release(b.Context()); err != nil {
			b.Error(err)
		}
		for _, name := range names {
			if b.state(name).Held {
				b.Errorf("%s is still held", name)
			}
		}
	}
	counters := make([]int, 3) // unsafe on purpose
	together(12, func(i int) {
		l := []*lock.Locker{here, there}[i%2]
		for round := range 5 {
			first, second := (i+round)%3, (i+round+1)%3
			all, err := lock.AcquireAll(b.Context(),
				request(l, cart(fmt.Sprint("n", first))), request(l, cart(fmt.Sprint("n", second))))
			if err != nil {
				b.Errorf("AcquireAll: %v", err)
				return
			}
			counters[first]++
			counters[second]++
			if err := all.Release(b.Context()); err != nil {
				b.Errorf("Release: %v", err)
			}
		}
	})
	if sum := counters[0] + counters[1] + counters[2]; sum != 12*5*2 {
		b.Errorf("counted %d, want %d", sum, 12*5*2)
	}
}
