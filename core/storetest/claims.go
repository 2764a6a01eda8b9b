package storetest

import (
	"errors"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

const minute = time.Minute

func grantsFreeKey(_ *testing.T, b *bench) {
	a := b.owner("k")
	if fence := b.acquire(a(minute)); fence == 0 || fence >= 1<<63 {
		b.Errorf("fence %d is not within 1..2^63", fence)
	} else if b.Traits().Spaced && fence%lock.FenceStep != 0 {
		b.Errorf("fence %d is no multiple of %d", fence, lock.FenceStep)
	}
	b.once("k")
}

func saysBusy(_ *testing.T, b *bench) {
	a, other := b.owner("k"), b.owner("k")
	b.acquire(a(minute))
	b.busyFor(other(2*minute), minute)
	b.lasts("k", 0, minute)
}

func repeatsAreOneHold(_ *testing.T, b *bench) {
	a, other := b.owner("k"), b.owner("k")
	b.acquire(a(minute))
	b.acquire(a(minute))
	b.once("k")
	b.release(a(minute), nil)
	b.acquire(other(minute))
}

// The engine counts a hold from the call that was answered, which may be the second.
func repeatLengthens(_ *testing.T, b *bench) {
	a := b.owner("k")
	for _, ttl := range []time.Duration{brief, minute, brief} {
		b.acquire(a(ttl))
	}
	b.lasts("k", 30*time.Second, minute)
	b.outlive(brief)
	b.renew(a(minute), nil)
}

// A hold that is cut to whole seconds ends before its owner thinks so. A machine that is
// too busy to see the difference tries again.
func keepsAllOfTheTTL(_ *testing.T, b *bench) {
	b.eventually("a hold of all of its TTL", func() bool {
		key := newID()
		a := b.owner(key)
		b.acquire(a(minute - time.Millisecond))
		ttl := b.state(key).TTL
		b.release(a(minute), nil)
		return ttl > minute-time.Second
	})
}

func undoReleases(_ *testing.T, b *bench) {
	a, other := b.owner("k"), b.owner("k")
	undo := a(minute)
	undo.Undo = true
	b.release(undo, lock.ErrNotHeld)
	b.acquire(a(minute))
	b.release(undo, nil)
	b.isFree("k")
	b.acquire(other(minute))
}

func releasesOwnOnly(_ *testing.T, b *bench) {
	a, other := b.owner("k"), b.owner("k")
	b.acquire(a(minute))
	b.release(other(minute), lock.ErrNotHeld)
	b.busy(other(minute))
	b.once("k")
}

func releaseSaysGone(_ *testing.T, b *bench) {
	a := b.owner("k")
	b.release(a(minute), lock.ErrNotHeld)
	b.acquire(a(minute))
	b.release(a(minute), nil)
	b.release(a(minute), lock.ErrNotHeld)
}

func renewsOwnOnly(_ *testing.T, b *bench) {
	a, other := b.owner("k"), b.owner("k")
	b.acquire(a(time.Second))
	b.renew(other(time.Hour), lock.ErrNotHeld)
	b.lasts("k", 0, time.Second)
	b.renew(a(time.Hour), nil)
	b.lasts("k", minute, time.Hour)
}

// A renewal that was sent first may run last.
func lateRenewalCutsNothing(_ *testing.T, b *bench) {
	a := b.owner("k")
	b.acquire(a(minute))
	b.renew(a(time.Hour), nil)
	b.renew(a(time.Second), nil)
	b.lasts("k", minute, lock.MaxDuration)
}

func refusesEmptyClaims(_ *testing.T, b *bench) {
	a := b.owner("k")
	c := a(minute)
	c.Owner = ""
	b.denied(c, lock.ErrInvalid)
	b.isFree("k")
}

// Beyond what an integer of ms or a script can hold, a TTL would delete the key
// or keep it for ever.
func refusesLongTTLs(_ *testing.T, b *bench) {
	a := b.owner("k")
	for _, ttl := range []time.Duration{math.MaxInt64, 366 * 24 * time.Hour} {
		b.denied(a(ttl), lock.ErrInvalid)
		b.isFree("k")
	}
	b.acquire(a(minute))
	b.renew(a(math.MaxInt64), lock.ErrInvalid)
	b.lasts("k", 0, minute)
	b.release(a(math.MaxInt64), nil) // of which the TTL does not matter
	b.acquire(a(364 * 24 * time.Hour))
	b.renew(a(365*24*time.Hour), nil)
	b.lasts("k", 364*24*time.Hour, lock.MaxDuration)
}

func renewalNeverCreates(_ *testing.T, b *bench) {
	a := b.owner("k")
	b.renew(a(minute), lock.ErrNotHeld)
	b.isFree("k")
	b.acquire(a(minute))
	b.release(a(minute), nil)
	b.renew(a(minute), lock.ErrNotHeld)
	b.isFree("k")
}

// renewed are what a renewal with that TTL makes of a hold of a minute: bounds that
// no other row fits.
var renewed = []struct{ ttl, least, most time.Duration }{
	{2 * minute, minute, 2 * minute},
	{time.Hour, 30 * minute, time.Hour},
	{time.Second, 0, minute}, // a shorter one cuts nothing
	{10 * minute, 5 * minute, 10 * minute},
}

// The engine puts the holds of all its leases into one call, whatever their TTLs.
func renewsMany(_ *testing.T, b *bench) {
	const n = 217 // not a multiple of any batch size
	names, claims := make([]string, n), make([]lock.Claim, n)
	for i := range claims {
		names[i] = "k" + newID()
		claims[i] = b.owner(names[i])(minute)
		if i%3 != 0 {
			b.acquire(claims[i])
		}
		claims[i].TTL = renewed[i%len(renewed)].ttl
	}
	for i, err := range b.renewAll(claims) {
		if i%3 == 0 {
			if !errors.Is(err, lock.ErrNotHeld) {
				b.Errorf("claim %d: got %v, want ErrNotHeld", i, err)
			}
			b.isFree(names[i])
			continue
		}
		if err != nil {
			b.Errorf("claim %d: %v", i, err)
		}
		want := renewed[i%len(renewed)]
		b.lasts(names[i], want.least, want.most)
	}
}

// Holds of several modes are in such a call as well.
func renewsModes(_ *testing.T, b *bench) {
	var modes []lock.Mode
	for _, m := range []lock.Mode{lock.Exclusive, lock.Fair, lock.Read, lock.Write, lock.Semaphore} {
		if b.supports(m) {
			modes = append(modes, m)
		}
	}
	var names []string
	var claims []lock.Claim
	for _, want := range renewed {
		for _, m := range modes {
			name := "k" + newID()
			c := b.in(m, name)(minute)
			b.acquire(c)
			c.TTL = want.ttl
			names, claims = append(names, name), append(claims, c)
		}
	}
	for i, err := range b.renewAll(claims) {
		if err != nil {
			b.Errorf("%s: %v", claims[i].Mode, err)
		}
		want := renewed[i/len(modes)]
		b.lasts(names[i], want.least, want.most)
	}
}

func expires(_ *testing.T, b *bench) {
	a, other := b.owner("k"), b.owner("k")
	b.acquire(a(brief))
	b.busy(other(minute))
	b.ends("k")
	b.renew(a(minute), lock.ErrNotHeld)
	b.release(a(minute), lock.ErrNotHeld)
	b.acquire(other(minute))
}

func fencesGrow(_ *testing.T, b *bench) {
	grant := func(ttl time.Duration) lock.Claim {
		c := b.owner("k")(ttl)
		b.acquire(c) // looks at its fence
		return c
	}
	c := grant(minute)
	for range 50 {
		b.release(c, nil)
		c = grant(minute)
	}
	b.release(c, nil)
	grant(50 * time.Millisecond)
	b.ends("k")
	grant(minute)
	b.force("k")
	grant(minute)
}

func oneWinner(_ *testing.T, b *bench) {
	var winners atomic.Int32
	together(100, func(int) {
		if _, err := b.BlockingStore.Acquire(b.Context(), b.owner("k")(minute)); err == nil {
			winners.Add(1)
		}
	})
	if n := winners.Load(); n != 1 {
		b.Errorf("%d winners", n)
	}
}

func inspects(_ *testing.T, b *bench) {
	if state := b.state("k"); state.Held || len(state.Owners) != 0 {
		b.Errorf("a free key: %+v", state)
	}
	c := b.owner("k")(minute)
	fence := b.acquire(c)
	state := b.state("k")
	sameMode := state.Mode == b.mode || b.mode == lock.Fair && state.Mode == lock.Exclusive // they hold alike
	if !state.Held || !sameMode || state.TTL <= 0 || state.TTL > minute {
		b.Errorf("a held key: %+v", state)
	}
	want := lock.OwnerHolds{Owner: c.Owner, Holds: 1}
	if len(state.Owners) == 1 && state.Owners[0].Fence != 0 { // not every store knows it
		want.Fence, want.Since = fence, state.Owners[0].Since
		if age := time.Since(want.Since); age < -minute || age > minute {
			b.Errorf("held for %v", age)
		}
	}
	if len(state.Owners) != 1 || state.Owners[0] != want {
		b.Errorf("owners %+v, want %s once, fence %d", state.Owners, c.Owner, fence)
	}
	if freed, err := b.BlockingStore.ForceRelease(b.Context(), b.key("free")); err != nil || freed {
		b.Errorf("ForceRelease of a free key: %v, %v", freed, err)
	}
}

func keysAreIndependent(_ *testing.T, b *bench) {
	for _, name := range []string{"a", "a:b", "{t}a", "a{t}b", "a%3Ab", "ä", "a b", "a\x00b"} {
		c := b.owner(name)(minute)
		b.acquire(c)
		defer b.release(c, nil)
	}
}
