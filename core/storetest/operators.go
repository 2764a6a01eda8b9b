package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

// operatorTests are about what a store offers to operators beside its methods.
var operatorTests = []test{
	{"registry: a locker is who it last said it was", keepsRegistrations},
	{"registry: a forced release is announced", announcesForce},
	{"engine: a locker with an identity is named, until it closes", engineNames},
	{"engine: a forced release ends the lease elsewhere at once", engineHearsForce},
	{"list: each held key that matches", listsKeys},
	{"list: many keys in pages", listsPages},
}

// port is what the store offers besides, or skips the test.
func port[T any](b *bench) T {
	b.Helper()
	offered, ok := b.BlockingStore.(T)
	if !ok {
		offered, ok = b.store.(T)
	}
	if !ok {
		b.Skipf("the store is no %T", *new(T))
	}
	return offered
}

func newLockerID() string { return fmt.Sprintf("5f0c0e1a-9d5a-8c9e-8f57-%012x", ids.Add(1)) }

func keepsRegistrations(_ *testing.T, b *bench) {
	registry := port[lock.Registry](b)
	ctx := b.Context()
	since := time.Now().Round(0).UTC()
	r := lock.Registration{
		Locker: newLockerID(), Since: since, Identity: lock.Identity{Service: "shop \"ä\"", Host: "web-1", PID: 7, Version: "v1"},
		Holds: []lock.Held{{Owner: "o:1", Fence: 1<<62 + 1, Since: since}},
	}
	other := lock.Registration{Locker: newLockerID(), Since: since}
	registered := func() map[string]lock.Registration {
		b.Helper()
		known, err := registry.Registered(ctx, []string{r.Locker, newLockerID(), other.Locker})
		if err != nil {
			b.Fatal(err)
		}
		return known
	}
	register := func(r lock.Registration, ttl time.Duration) {
		b.Helper()
		if err := registry.Register(ctx, r, ttl); err != nil {
			b.Fatal(err)
		}
	}
	register(r, minute)
	register(other, brief)
	known := registered()
	got := known[r.Locker]
	if got.Identity != r.Identity || !got.Since.Equal(since) || len(got.Holds) != 1 || got.Holds[0].Fence != r.Holds[0].Fence || !got.Holds[0].Since.Equal(since) {
		b.Errorf("registered %+v, want %+v", got, r)
	}
	b.eventually("the other's end", func() bool { known := registered(); return len(known) == 1 && known[r.Locker].PID == 7 })
	r.Version, r.Holds = "v2", nil
	register(r, minute)
	if got := registered()[r.Locker]; got.Version != "v2" || got.Holds != nil {
		b.Errorf("registered %+v, want %+v", got, r)
	}
	for range 2 {
		if err := registry.Unregister(ctx, r.Locker); err != nil {
			b.Fatal(err)
		}
		if known := registered(); len(known) != 0 {
			b.Errorf("registered: %v, want nobody", known)
		}
	}
}

// announcements are what is heard.
type announcements struct {
	mu   sync.Mutex
	seen []string
}

func (a *announcements) hear(locker, name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.seen = append(a.seen, locker+" "+name)
}

// has says whether it was heard that a locker, or one that can't be told, has lost a name.
func (a *announcements) has(locker, name string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Contains(a.seen, locker+" "+name) || slices.Contains(a.seen, " "+name)
}

func (a *announcements) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.seen)
}

// hears listens, or skips the test.
func hears(b *bench, registry lock.Registry, a *announcements) (stop func()) {
	b.Helper()
	stop, err := registry.Announced(b.Context(), a.hear)
	if errors.Is(err, lock.ErrUnsupported) {
		b.Skip("the store announces nothing")
	}
	if err != nil {
		b.Fatal(err)
	}
	return stop
}

func announcesForce(_ *testing.T, b *bench) {
	registry := port[lock.Registry](b)
	var first, second announcements
	stop := hears(b, registry, &first)
	b.Cleanup(hears(b, registry, &second))
	for _, m := range b.modes() {
		key := m.String()
		c := b.in(m, key)(minute)
		b.acquire(c)
		b.force(key)
		for _, a := range []*announcements{&first, &second} {
			b.eventually("an announcement of "+key, func() bool { return a.has(c.Locker(), registry.NameOf(c.Key)) })
		}
	}
	stop()
	heard := first.count()
	c := b.owner("later")(minute)
	b.acquire(c)
	b.force("later")
	b.eventually("an announcement", func() bool { return second.has(c.Locker(), registry.NameOf(c.Key)) })
	if first.count() != heard {
		b.Error("heard something after stop")
	}
}

// modes are those of the store.
func (b *bench) modes() (modes []lock.Mode) {
	b.Helper()
	for _, m := range []lock.Mode{lock.Exclusive, lock.Fair, lock.Read, lock.Write, lock.Semaphore} {
		if b.supports(m) {
			modes = append(modes, m)
		}
	}
	return modes
}

func engineNames(_ *testing.T, b *bench) {
	port[lock.Registry](b)
	me := lock.WithIdentity(lock.Identity{Service: "shop", Host: "web-1", PID: 7})
	holder, operator := b.locker(me), b.locker(me)
	lease := b.lease(holder, "k")
	owner := ""
	holderOf := func() (lock.Registration, bool) {
		state, err := operator.Inspect(b.Context(), b.key("k"))
		if err != nil || len(state.Owners) != 1 {
			b.Fatalf("%+v, %v", state, err)
		}
		owner = state.Owners[0].Owner
		who, known := state.Holder(owner)
		if state.Zombie(owner) == known {
			b.Errorf("zombie and known: %v", known)
		}
		return who, known
	}
	b.eventually("a name", func() bool { _, known := holderOf(); return known })
	if who, _ := holderOf(); who.Locker != holder.ID() || who.Identity != (lock.Identity{Service: "shop", Host: "web-1", PID: 7}) {
		b.Errorf("held by %+v", who)
	}
	if err := holder.Close(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.isFree("k")
	known, err := port[lock.Registry](b).Registered(b.Context(), []string{holder.ID()})
	if err != nil || len(known) > 0 {
		b.Errorf("after Close: %v, %v", known, err)
	}
	if err := lease.Release(b.Context()); err == nil {
		b.Error("released after Close")
	}
}

func engineHearsForce(_ *testing.T, b *bench) {
	registry := port[lock.Registry](b)
	var heard announcements
	b.Cleanup(hears(b, registry, &heard))
	me := lock.WithIdentity(lock.Identity{Service: "shop"})
	hourly := lock.WithWatchdog(time.Hour)
	holder, operator := b.locker(me, hourly), b.locker(me)
	b.eventually("the holder hears", func() bool { // its first lease may be taken before it listens
		lease := b.lease(holder, "first")
		b.force("first")
		select {
		case <-lease.Context().Done():
			return true
		case <-time.After(200 * time.Millisecond):
			_ = lease.Release(b.Context())
			return false
		}
	})
	for i := range 10 {
		lease := b.lease(holder, "k")
		next := make(chan struct{})
		b.aside(func() { // a waiter in the process of the holder, and one elsewhere
			defer close(next)
			b.do([]*lock.Locker{holder, operator}[i%2], nothing)
		})
		if freed, err := operator.ForceRelease(b.Context(), b.key("k")); err != nil || !freed {
			b.Fatalf("freed %v, %v", freed, err)
		}
		b.await("the end of the lease", lease.Context().Done())
		if err := context.Cause(lease.Context()); !errors.Is(err, lock.ErrTaken) {
			b.Errorf("lost by %v, want ErrTaken", err)
		}
		b.await("the waiter's turn", next)
	}
}

// listed are the keys of the test that a list has.
func (b *bench) listed(l *lock.Locker, pattern string, page int) map[string]lock.Listed {
	b.Helper()
	found := make(map[string]lock.Listed)
	for key, err := range l.List(b.Context(), pattern, page) {
		if err != nil {
			b.Fatalf("list: %v", err)
		}
		if _, twice := found[key.Key]; twice {
			b.Errorf("%q is listed twice", key.Key)
		}
		found[key.Key] = key
	}
	return found
}

func (b *bench) finds(pattern string, want ...string) map[string]lock.Listed {
	b.Helper()
	found := b.listed(b.locker(), b.prefix+pattern, 100)
	var got []string
	for key := range found {
		got = append(got, key[len(b.prefix):])
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		b.Errorf("%q lists %q, want %q", pattern, got, want)
	}
	return found
}

func listsKeys(_ *testing.T, b *bench) {
	lister := port[lock.Lister](b)
	for _, err := range lister.List(b.Context(), b.prefix+"*", 10) {
		if errors.Is(err, lock.ErrUnsupported) {
			b.Skip(err)
		}
	}
	b.finds("*")
	held := make(map[lock.Mode]lock.Claim)
	var names []string
	for _, m := range b.modes() {
		held[m] = b.in(m, m.String())(minute)
		b.acquire(held[m])
		names = append(names, m.String())
	}
	b.acquire(b.owner("{x}:a*b")(minute))
	b.acquire(b.owner("{x}:a-b")(minute))
	b.visit("gone")
	found := b.finds("*", append(names, "{x}:a*b", "{x}:a-b")...)
	for m, c := range held {
		got := found[c.Key].State
		if !got.Held || got.TTL <= 0 || len(got.Owners) != 1 || m != lock.Fair && got.Mode != m || m != lock.Semaphore && got.Owners[0].Owner != c.Owner {
			b.Errorf("%s: %+v", m, got)
		}
	}
	b.finds("{x}:*", "{x}:a*b", "{x}:a-b")
	b.finds("{x}:a?b", "{x}:a*b", "{x}:a-b")
	b.finds(`{x}:a\*b`, "{x}:a*b")
	b.finds("{x}:a[+-.]b", "{x}:a-b")
	b.finds("{x}:a[^*]b", "{x}:a-b")
	b.finds("exclusiv[e]", "exclusive")
	b.release(held[lock.Exclusive], nil)
	b.finds("exclusiv[e]")
}

func listsPages(_ *testing.T, b *bench) {
	lister := port[lock.Lister](b)
	const keys = 120
	for i := range keys {
		b.acquire(b.owner(fmt.Sprint("many:", i))(minute))
	}
	for _, err := range lister.List(b.Context(), b.prefix+"*", 10) {
		if errors.Is(err, lock.ErrUnsupported) {
			b.Skip(err)
		}
		break
	}
	l := b.locker()
	if found := b.listed(l, b.prefix+"many:*", 7); len(found) != keys {
		b.Errorf("%d keys are listed, want %d", len(found), keys)
	}
	for _, err := range l.List(b.Context(), b.prefix+"*", 1) {
		if err != nil {
			b.Error(err)
		}
		break // enough was seen
	}
	for _, page := range []int{0, lock.MaxPage + 1} {
		for _, err := range l.List(b.Context(), "*", page) {
			if !errors.Is(err, lock.ErrInvalid) {
				b.Errorf("a page of %d: %v, want ErrInvalid", page, err)
			}
		}
	}
}
