package storetest

import (
	"context"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

var semaphoreTests = []test{
	{"as many are granted as there are permits", grantsPermits},
	{"permits are taken all or none", takesAllOrNone},
	{"busy until the first permit may come back", saysNearestExpiry},
	{"a repeated claim takes no further permits", repeatTakesNothing},
	{"permits that are kept come back at their own end", keptPermits},
	{"a renewal keeps each of several permits", renewsEachPermit},
	{"a repeated release gives no permit twice", releaseGivesOnce},
	{"permits of a dead holder come back by themselves", deadPermitsReturn},
	{"permits that came back by themselves cannot be returned", deadPermitsReturnOnce},
	{"a renewal keeps own permits only", renewsOwnPermits},
	{"each claim goes by the size that it names", sizesRoll},
	{"a semaphore nobody uses takes the size of the next claim", freeSizeChanges},
	{"nonsense is refused", refusesNonsense},
	{"a release wakes, however many it returns", permitsWake},
	{"a force release returns all permits and wakes", forcesPermits},
	{"a lock and a semaphore of one name are never held together", lockAndSemaphore},
	{"a semaphore whose permits are back is free for locks", backIsFree},
	{"of many claims at once exactly as many are granted", permitRace},
	{"inspect lists some of many permits and counts the others", listsPermits},
	{"engine: at most three of twenty inside, and three they are", engineFills},
	{"engine: permits of a dead holder admit the next", engineSurvivesDeadPermits},
	{"engine: two of three leave one", engineTakesTwo},
	{"engine: who has a permit is named, until it closes", engineNames},
	{"engine: permits do not re-enter, they add up", engineAddsUp},
	{"engine: closing gives permits back", engineClosesPermits},
}

// permits is a claim of a new owner for n of size permits of k.
func (b *bench) permits(n, size int) lock.Claim {
	c := b.in(lock.Semaphore, "k")(minute)
	c.Permits, c.Size = n, size
	return c
}

func grantsPermits(_ *testing.T, b *bench) {
	var claims []lock.Claim
	for range 3 {
		c := b.permits(1, 3)
		b.acquire(c)
		claims = append(claims, c)
		b.held(lock.Semaphore, claims...)
	}
	late := b.permits(1, 3)
	b.busyFor(late, minute)
	b.held(lock.Semaphore, claims...)
	b.release(claims[1], nil)
	b.acquire(late)
	b.held(lock.Semaphore, claims[0], claims[2], late)
	b.busy(claims[1])
}

func takesAllOrNone(_ *testing.T, b *bench) {
	two := b.permits(2, 3)
	b.acquire(two)
	b.busy(b.permits(2, 3))
	b.busy(b.permits(3, 3))
	b.held(lock.Semaphore, two)
	one := b.permits(1, 3)
	b.acquire(one)
	b.held(lock.Semaphore, two, one)
	b.release(two, nil)
	b.busy(b.permits(3, 3))
	b.acquire(b.permits(2, 3))
}

func saysNearestExpiry(_ *testing.T, b *bench) {
	long, short := b.permits(1, 2), b.permits(1, 2)
	short.TTL = 20 * time.Second
	b.acquire(long)
	b.acquire(short)
	b.busyFor(b.permits(1, 2), 20*time.Second)
	b.lasts("k", 20*time.Second, minute)
	b.release(short, nil)
	b.acquire(b.permits(1, 2))
	if ttl := b.busy(b.permits(1, 2)); ttl <= 20*time.Second || ttl > minute {
		b.Errorf("busy for %v, want what is left of %v", ttl, minute)
	}
}

func repeatTakesNothing(_ *testing.T, b *bench) {
	c := b.permits(2, 3)
	for range 4 {
		b.acquire(c)
		b.held(lock.Semaphore, c)
	}
	b.acquire(b.permits(1, 3))
	b.acquire(c) // also when all are taken
	b.busy(b.permits(1, 3))
	b.release(c, nil)
	b.acquire(b.permits(2, 3))
}

func renewsEachPermit(_ *testing.T, b *bench) {
	c := b.permits(2, 2)
	c.TTL = brief
	b.acquire(c)
	c.TTL = minute
	b.renew(c, nil)
	b.outlive(brief)
	b.busy(b.permits(1, 2))
	b.renew(c, nil)
}

func releaseGivesOnce(_ *testing.T, b *bench) {
	a, other := b.permits(1, 2), b.permits(1, 2)
	b.acquire(a)
	b.acquire(other)
	b.release(a, nil)
	for range 3 {
		b.release(a, lock.ErrNotHeld)
		b.release(b.permits(1, 2), lock.ErrNotHeld)
	}
	next := b.permits(1, 2)
	b.acquire(next)
	b.busy(b.permits(1, 2))
	b.held(lock.Semaphore, other, next)
}

func deadPermitsReturn(_ *testing.T, b *bench) {
	alive, dead := b.permits(1, 3), b.permits(2, 3)
	dead.TTL = brief
	b.acquire(alive)
	b.acquire(dead)
	b.busy(b.permits(1, 3))
	b.outlive(brief)
	b.held(lock.Semaphore, alive)
	b.busy(b.permits(3, 3))
	next := b.permits(2, 3)
	b.acquire(next)
	b.busy(b.permits(1, 3))
	b.held(lock.Semaphore, alive, next)
}

func deadPermitsReturnOnce(_ *testing.T, b *bench) {
	const ttl = 200 * time.Millisecond
	alive, dead := b.permits(1, 2), b.permits(1, 2)
	dead.TTL = ttl
	b.acquire(alive)
	b.acquire(dead)
	b.outlive(ttl)
	dead.TTL = minute
	b.renew(dead, lock.ErrNotHeld)
	b.release(dead, lock.ErrNotHeld)
	b.release(dead, lock.ErrNotHeld)
	b.acquire(b.permits(1, 2))
	b.busy(b.permits(1, 2))
}

func renewsOwnPermits(_ *testing.T, b *bench) {
	alive, dead := b.permits(1, 2), b.permits(1, 2)
	alive.TTL, dead.TTL = brief, brief
	b.acquire(dead)
	b.acquire(alive)
	alive.TTL = minute
	b.renew(alive, nil)
	b.renew(b.permits(1, 2), lock.ErrNotHeld)
	b.outlive(brief)
	b.held(lock.Semaphore, alive)
	b.renew(dead, lock.ErrNotHeld)
	b.renew(alive, nil)
}

// A rolling change of the size: each claim goes by its own.
func sizesRoll(_ *testing.T, b *bench) {
	old := b.permits(2, 3)
	b.acquire(old)
	b.busy(b.permits(1, 2))
	b.busy(b.permits(2, 3))
	b.held(lock.Semaphore, old)
	next := b.permits(3, 5)
	b.acquire(next)
	b.busy(b.permits(1, 5))
	b.busy(b.permits(1, 3))
	b.acquire(old) // a repetition, however small its size is by now
	b.renew(old, nil)
	b.held(lock.Semaphore, old, next)
	b.release(next, nil)
	b.acquire(b.permits(1, 3))
	b.busy(b.permits(1, 3))
	b.acquire(b.permits(2, 5))
}

func freeSizeChanges(_ *testing.T, b *bench) {
	c := b.permits(1, 3)
	b.acquire(c)
	b.release(c, nil)
	b.acquire(b.permits(2, 5))
	b.acquire(b.permits(3, 5))
	b.busy(b.permits(1, 5))
}

func refusesNonsense(_ *testing.T, b *bench) {
	for _, c := range []lock.Claim{
		b.permits(0, 3), b.permits(-1, 3), b.permits(4, 3), b.permits(1, 0),
		b.permits(1, math.MaxInt), b.permits(4097, 4097), b.permits(1, 4097),
	} {
		b.denied(c, lock.ErrInvalid)
	}
	b.isFree("k")
}

func permitsWake(_ *testing.T, b *bench) {
	heard := b.listen(b.permits(1, 3))
	stays := b.permits(1, 3)
	b.acquire(stays)
	for _, n := range []int{1, 2} {
		c := b.permits(n, 3)
		b.acquire(c)
		heard("permits came back", func() { b.release(c, nil) })
	}
	heard("the last permit came back", func() { b.release(stays, nil) })
}

func forcesPermits(_ *testing.T, b *bench) {
	one, two := b.permits(1, 3), b.permits(2, 3)
	b.acquire(one)
	b.acquire(two)
	b.listen(b.permits(1, 3))("force release", func() { b.force("k") })
	b.renew(one, lock.ErrNotHeld)
	b.release(two, lock.ErrNotHeld)
	b.acquire(b.permits(3, 3))
	b.busy(b.permits(1, 3))
}

func lockAndSemaphore(_ *testing.T, b *bench) {
	c := b.permits(1, 3)
	b.acquire(c)
	for _, m := range b.locks() {
		b.busyFor(b.in(m, "k")(minute), minute)
		b.renew(as(m, c), lock.ErrNotHeld)
		b.release(as(m, c), lock.ErrNotHeld)
	}
	b.renew(c, nil)
	b.held(lock.Semaphore, c)

	for _, m := range b.locks() {
		held := b.in(m, m.String())(minute)
		b.acquire(held)
		wrong := b.in(lock.Semaphore, m.String())(minute)
		b.busyFor(wrong, minute)
		b.renew(wrong, lock.ErrNotHeld)
		b.release(wrong, lock.ErrNotHeld)
		b.renew(held, nil)
		b.force(m.String())
		b.acquire(wrong)
	}
}

// backIsFree: at once, however long the permits could have lasted, and whether owners are dead.
func backIsFree(_ *testing.T, b *bench) {
	free := func() {
		b.Helper()
		for _, m := range b.locks() {
			c := b.in(m, "k")(minute)
			b.acquire(c)
			b.release(c, nil)
		}
	}
	one, two := b.permits(1, 3), b.permits(2, 3)
	b.acquire(one)
	b.acquire(two)
	b.release(one, nil)
	b.busyFor(b.in(lock.Exclusive, "k")(minute), minute)
	b.release(two, nil)
	free()

	dead := b.permits(1, 3)
	dead.TTL = brief
	b.acquire(one)
	b.acquire(dead)
	b.outlive(brief)
	b.release(one, nil)
	free()

	dead = b.permits(1, 3)
	dead.TTL = brief
	b.acquire(dead)
	b.acquire(two)
	b.release(two, nil)
	b.busyFor(b.in(lock.Exclusive, "k")(minute), brief)
	b.outlive(brief)
	free()

	dead = b.permits(1, 3)
	dead.TTL = brief
	b.acquire(one)
	b.acquire(dead)
	b.outlive(brief)
	b.force("k")
	free()
}

// locks are the modes of the store that are no semaphore.
func (b *bench) locks() []lock.Mode {
	b.Helper()
	modes := []lock.Mode{lock.Exclusive}
	for _, m := range []lock.Mode{lock.Fair, lock.Read, lock.Write} {
		if b.supports(m) {
			modes = append(modes, m)
		}
	}
	return modes
}

func permitRace(_ *testing.T, b *bench) {
	var taken atomic.Int32
	together(60, func(i int) {
		c := b.permits(1+i%2, 7)
		if _, err := b.BlockingStore.Acquire(b.Context(), c); err == nil {
			taken.Add(int32(c.Permits))
		}
	})
	if n := taken.Load(); n != 7 { // a claim for one was refused, so none is left
		b.Errorf("%d of 7 permits taken", n)
	}
}

// lockers in mode Semaphore, of that size.
func (b *bench) semaphores(n, permits, size int) []*lock.Locker {
	lockers := make([]*lock.Locker, n)
	for i := range lockers {
		lockers[i] = b.locker(lock.WithPermits(permits, size))
	}
	return lockers
}

func engineFills(_ *testing.T, b *bench) {
	const workers, size, rounds = 20, 3, 5
	lockers := b.semaphores(4, 1, size)
	var inside, most atomic.Int32
	full := make(chan struct{})
	together(workers, func(i int) {
		for range rounds {
			b.do(lockers[i%len(lockers)], func(ctx context.Context) {
				n := inside.Add(1)
				defer inside.Add(-1)
				if n > size {
					b.Errorf("%d inside", n)
				}
				if n == size && most.Swap(size) != size {
					close(full)
				}
				select { // until all permits were seen taken at once
				case <-full:
				case <-ctx.Done():
				}
			})
		}
	})
	if n := most.Load(); n != size {
		b.Error("never were all permits taken")
	}
	b.isFree("k")
}

func engineSurvivesDeadPermits(_ *testing.T, b *bench) {
	for range 3 {
		dead := b.permits(1, 3)
		dead.TTL = 300 * time.Millisecond
		b.acquire(dead)
	}
	l := b.semaphores(1, 1, 3)[0]
	for range 3 {
		defer b.free(b.lease(l, "k"))
	}
}

func engineTakesTwo(_ *testing.T, b *bench) {
	lockers := b.semaphores(2, 2, 3)
	two := b.lease(lockers[0], "k")
	b.refuses(b.Context(), lockers[1], lock.ErrBusy)
	one := b.tries(b.Context(), lockers[1], lock.WithPermits(1, 3))
	b.free(two)
	b.free(b.lease(lockers[1], "k"))
	b.free(one)
}

func engineAddsUp(_ *testing.T, b *bench) {
	l := b.semaphores(1, 1, 2)[0]
	first := b.lease(l, "k")
	second := b.tries(first.Context(), l)
	if first.Owner() == second.Owner() {
		b.Error("both permits have one owner")
	}
	b.refuses(second.Context(), l, lock.ErrBusy)
	b.free(first)
	b.held(lock.Semaphore, lock.Claim{Owner: second.Owner(), Permits: 1})
	b.free(second)
}

func engineClosesPermits(_ *testing.T, b *bench) {
	l := lock.New(b.store, lock.WithPermits(2, 3))
	b.lease(l, "k")
	stays := b.lease(b.semaphores(1, 1, 3)[0], "k")
	b.closes(l, "k")
	b.held(lock.Semaphore, lock.Claim{Owner: stays.Owner(), Permits: 1})
	b.free(stays)
}
