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
	if fence := b.acquire(a(1, minute)); fence == 0 || fence >= 1<<63 {
		b.Errorf("fence %d is not within 1..2^63", fence)
	} else if s, ok := b.Store.(lock.SpacedStore); ok && s.Spaced() && fence%lock.FenceStep != 0 {
		b.Errorf("fence %d is no multiple of %d", fence, lock.FenceStep)
	}
	b.counts("k", 1)
}

func saysBusy(_ *testing.T, b *bench) {
	a, other := b.owner("k"), b.owner("k")
	b.acquire(a(1, minute))
	b.busyFor(other(1, 2*minute), minute)
	b.lasts("k", 0, minute)
}

func repeatsAreOneHold(_ *testing.T, b *bench) {
	a, other := b.owner("k"), b.owner("k")
	b.acquire(a(1, minute))
	b.acquire(a(1, minute))
	b.counts("k", 1)
	b.release(a(0, minute), nil)
	b.acquire(other(1, minute))
}

// The engine counts a hold from the call that was answered, which may be the second.
func repeatLengthens(_ *testing.T, b *bench) {
	a := b.owner("k")
	for _, ttl := range []time.Duration{brief, minute, brief} {
		b.acquire(a(1, ttl))
	}
	b.lasts("k", 30*time.Second, minute)
	b.outlive(brief)
	b.renew(a(1, minute), nil)
}

// A hold that is cut to whole seconds ends before its owner thinks so. A machine that is
// too busy to see the difference tries again.
func keepsAllOfTheTTL(_ *testing.T, b *bench) {
	b.eventually("a hold of all of its TTL", func() bool {
		key := newID()
		a := b.owner(key)
		b.acquire(a(1, minute-time.Millisecond))
		ttl := b.state(key).TTL
		b.release(a(0, minute), nil)
		return ttl > minute-time.Second
	})
}

func undoReleases(_ *testing.T, b *bench) {
	a, other := b.owner("k"), b.owner("k")
	undo := a(0, minute)
	undo.Undo = true
	b.release(undo, lock.ErrNotHeld)
	b.acquire(a(1, minute))
	b.release(undo, nil)
	b.isFree("k")
	b.acquire(other(1, minute))
}

func reenters(_ *testing.T, b *bench) {
	a := b.owner("k")
	b.acquire(a(1, minute))
	b.acquire(a(2, time.Second))
	b.lasts("k", 30*time.Second, lock.MaxDuration)
	b.acquire(a(3, 2*minute))
	b.lasts("k", minute, lock.MaxDuration)
	b.acquire(a(3, minute))
	b.counts("k", 3)
}

func refusesReentryWithoutHold(_ *testing.T, b *bench) {
	a, other := b.owner("k"), b.owner("k")
	b.denied(a(2, minute), lock.ErrNotHeld)
	b.isFree("k")
	b.acquire(other(1, minute))
	b.denied(a(2, minute), lock.ErrNotHeld)
}

func releasesToCount(_ *testing.T, b *bench) {
	a, other := b.owner("k"), b.owner("k")
	b.acquire(a(1, minute))
	b.acquire(a(3, minute))
	for range 2 { // a repeat changes nothing
		b.release(a(1, minute), nil)
		b.counts("k", 1)
	}
	b.release(a(2, minute), nil) // never raises
	b.counts("k", 1)
	if b.mode != lock.Read {
		b.busy(other(1, minute))
	}
	b.release(a(0, minute), nil)
	b.isFree("k")
	b.acquire(other(1, minute))
}

func releasesOwnOnly(_ *testing.T, b *bench) {
	a, other := b.owner("k"), b.owner("k")
	b.acquire(a(1, minute))
	b.release(other(0, minute), lock.ErrNotHeld)
	b.release(other(1, minute), lock.ErrNotHeld)
	b.busy(other(1, minute))
	b.counts("k", 1)
}

func releaseSaysGone(_ *testing.T, b *bench) {
	a := b.owner("k")
	b.release(a(0, minute), lock.ErrNotHeld)
	b.acquire(a(1, minute))
	b.release(a(0, minute), nil)
	b.release(a(0, minute), lock.ErrNotHeld)
}

func renewsOwnOnly(_ *testing.T, b *bench) {
	a, other := b.owner("k"), b.owner("k")
	b.acquire(a(1, time.Second))
	b.renew(other(1, time.Hour), lock.ErrNotHeld)
	b.lasts("k", 0, time.Second)
	b.renew(a(1, time.Hour), nil)
	b.lasts("k", minute, time.Hour)
}

// A renewal that was sent first may run last.
func lateRenewalCutsNothing(_ *testing.T, b *bench) {
	a := b.owner("k")
	b.acquire(a(1, minute))
	b.renew(a(1, time.Hour), nil)
	b.renew(a(1, time.Second), nil)
	b.lasts("k", minute, lock.MaxDuration)
}

// So may an acquire: the first of a hold that was re-entered since.
func lateClaimLowersNothing(_ *testing.T, b *bench) {
	a, writer := b.owner("k"), b.in(lock.Exclusive, "k")
	if b.supports(lock.Write) {
		writer = b.in(lock.Write, "k")
	}
	b.acquire(a(1, brief))
	b.acquire(a(3, minute))
	b.acquire(a(1, brief))
	b.acquire(a(2, brief))
	b.lasts("k", 30*time.Second, minute)
	b.counts("k", 3)
	b.outlive(brief)
	b.busy(writer(1, minute))
	b.renew(a(3, minute), nil)
	b.release(a(1, minute), nil) // only the owner's own release does
	b.counts("k", 1)
	b.busy(writer(1, minute))
	b.release(a(0, minute), nil)
	b.acquire(writer(1, minute))
}

func refusesEmptyClaims(_ *testing.T, b *bench) {
	a := b.owner("k")
	for _, spoil := range []func(c *lock.Claim){
		func(c *lock.Claim) { c.Holds = 0 },
		func(c *lock.Claim) { c.Holds = -1 },
		func(c *lock.Claim) { c.Owner = "" },
	} {
		c := a(1, minute)
		spoil(&c)
		b.denied(c, lock.ErrInvalid)
		b.isFree("k")
	}
}

// Beyond what an integer of ms or a script can hold, a TTL would delete the key
// or keep it for ever.
func refusesLongTTLs(_ *testing.T, b *bench) {
	a := b.owner("k")
	for _, ttl := range []time.Duration{math.MaxInt64, 366 * 24 * time.Hour} {
		b.denied(a(1, ttl), lock.ErrInvalid)
		b.isFree("k")
	}
	b.acquire(a(1, minute))
	b.renew(a(1, math.MaxInt64), lock.ErrInvalid)
	b.lasts("k", 0, minute)
	b.release(a(0, math.MaxInt64), nil) // of which the TTL does not matter
	b.acquire(a(1, 364*24*time.Hour))
	b.renew(a(1, 365*24*time.Hour), nil)
	b.lasts("k", 364*24*time.Hour, lock.MaxDuration)
}

func renewalNeverCreates(_ *testing.T, b *bench) {
	a := b.owner("k")
	b.renew(a(1, minute), lock.ErrNotHeld)
	b.isFree("k")
	b.acquire(a(1, minute))
	b.release(a(0, minute), nil)
	b.renew(a(1, minute), lock.ErrNotHeld)
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
		claims[i] = b.owner(names[i])(1, minute)
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
			c := b.in(m, name)(1, minute)
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
	b.acquire(a(1, brief))
	b.busy(other(1, minute))
	b.ends("k")
	b.renew(a(1, minute), lock.ErrNotHeld)
	b.release(a(0, minute), lock.ErrNotHeld)
	b.acquire(other(1, minute))
}

func fencesGrow(_ *testing.T, b *bench) {
	grant := func(ttl time.Duration) lock.Claim {
		c := b.owner("k")(1, ttl)
		b.acquire(c) // looks at its fence
		return c
	}
	c := grant(minute)
	for range 50 {
		b.release(gone(c), nil)
		c = grant(minute)
	}
	b.release(gone(c), nil)
	grant(50 * time.Millisecond)
	b.ends("k")
	grant(minute)
	b.force("k")
	grant(minute)
}

func oneWinner(_ *testing.T, b *bench) {
	var winners atomic.Int32
	together(100, func(int) {
		if _, err := b.Store.Acquire(b.Context(), b.owner("k")(1, minute)); err == nil {
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
	c := b.owner("k")(1, minute)
	b.acquire(c)
	c.Holds = 2
	b.acquire(c)
	state := b.state("k")
	sameMode := state.Mode == b.mode || b.mode == lock.Fair && state.Mode == lock.Exclusive // they hold alike
	if !state.Held || !sameMode || state.TTL <= 0 || state.TTL > minute {
		b.Errorf("a held key: %+v", state)
	}
	if len(state.Owners) != 1 || state.Owners[0] != (lock.OwnerHolds{Owner: c.Owner, Holds: min(2, b.most)}) {
		b.Errorf("owners %+v, want %s twice", state.Owners, c.Owner)
	}
	if freed, err := b.Store.ForceRelease(b.Context(), b.key("free")); err != nil || freed {
		b.Errorf("ForceRelease of a free key: %v, %v", freed, err)
	}
}

func keysAreIndependent(_ *testing.T, b *bench) {
	for _, name := range []string{"a", "a:b", "{t}a", "a{t}b", "a%3Ab", "ä", "a b", "a\x00b"} {
		c := b.owner(name)(1, minute)
		b.acquire(c)
		defer b.release(gone(c), nil)
	}
}
