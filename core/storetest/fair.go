package storetest

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

var fairTests = []test{
	{"places are served in the order in which they were taken", fairServesInOrder},
	{"a repeated claim keeps its place", fairKeepsPlaces},
	{"a claim takes the places that it names, in order", fairNamesPlaces},
	{"a claim that names no place takes none and passes none", fairTriesPolitely},
	{"a place is not a hold", fairPlaceIsNoHold},
	{"a release wakes the first of the queue and not all of it", fairWakesHead},
	{"a watch hears the turn of each owner of its locker", fairWakesLocker},
	{"nothing is called after stop", fairSilentAfterStop},
	{"a place can be given up", fairGivesUp},
	{"the first that gives up its turn wakes the next", fairPassesTurnOn},
	{"a dead first of the queue is passed over, but not at once", fairPassesTheDead},
	{"a hold that expires leaves the key to the queue", fairSurvivesDeadHolder},
	{"an exclusive claim passes the queue and wakes it", fairIsBargedPast},
	{"a release that nobody queues behind wakes exclusive claims", fairWakesOthers},
	{"a force release wakes the first and keeps the queue", fairForced},
	{"the first finds its hold after a release", fairHandsOver},
	{"a renewal has no part of a turn", fairRenewsNoTurn},
	{"a hold that its release keeps is not handed over", fairKeeps},
	{"a turn is its locker's", fairServesLockers},
	{"inspect lists the first of many waiters and counts the others", listsWaiters},
	{"engine: 64 waiters of two lockers, no inversion", engineFairOrder},
	{"engine: waiters that leave or die delay nobody for long", engineFairLeavers},
	{"engine: closing gives places up", engineFairCloses},
	{"engine: a crowd that comes back", engineTransfersToACrowd},
}

// queued takes a place for a new owner behind the hold of another.
func (b *bench) queued(key string) lock.Claim {
	b.Helper()
	c := b.in(lock.Fair, key)(minute)
	c.Places = []string{c.Owner}
	b.busy(c)
	return c
}

// line is a held key with n places behind it.
func (b *bench) line(key string, n int) (holder lock.Claim, places []lock.Claim) {
	b.Helper()
	holder = b.in(lock.Fair, key)(minute)
	b.acquire(holder)
	for range n {
		places = append(places, b.queued(key))
	}
	return holder, places
}

// waiters fails unless the key is held and exactly these queue for it.
func (b *bench) waiters(key string, want ...lock.Claim) {
	b.Helper()
	owners := make([]string, len(want))
	for i, c := range want {
		owners[i] = c.Owner
	}
	if state := b.state(key); !state.Held || !slices.Equal(state.Waiters, owners) {
		b.Fatalf("held %v, waiters %v; want held by another and %v", state.Held, state.Waiters, owners)
	}
}

// notYet fails unless the key is free but it is another's turn. A store may
// tell for how long at most; no hold is in the way.
func (b *bench) notYet(c lock.Claim) {
	b.Helper()
	if ttl := b.busy(c); ttl < 0 || ttl > patience {
		b.Fatalf("Acquire(%+v) of a free key out of turn: busy for %v, want a turn's length at most", c, ttl)
	}
}

func fairServesInOrder(_ *testing.T, b *bench) {
	holder, places := b.line("k", 5)
	for _, c := range places {
		b.busyFor(c, minute)
	}
	b.waiters("k", places...)
	for i, c := range places {
		b.release(holder, nil)
		for _, later := range places[i+1:] {
			b.notYet(later)
		}
		b.acquire(c)
		b.waiters("k", places[i+1:]...)
		holder = c
	}
	b.release(holder, nil)
	b.acquire(b.owner("k")(minute))
}

func fairKeepsPlaces(_ *testing.T, b *bench) {
	holder, places := b.line("k", 3)
	for _, i := range []int{2, 0, 0, 1} {
		b.busy(places[i])
		b.waiters("k", places...)
	}
	b.release(holder, nil)
	b.acquire(places[0])
	b.acquire(places[0]) // its answer was lost
	b.waiters("k", places[1:]...)
}

func fairTriesPolitely(_ *testing.T, b *bench) {
	holder, places := b.line("k", 1)
	hasty := b.owner("k")(minute)
	b.busy(hasty)
	b.waiters("k", places...)
	b.release(holder, nil)
	b.notYet(hasty)
	places[0].Places = nil // has a place, and it is its turn
	b.acquire(places[0])
	b.waiters("k")
}

// siblings are n claims of one locker.
func (b *bench) siblings(key string, n int) (claims []lock.Claim, owners []string) {
	b.Helper()
	first := b.in(lock.Fair, key)(minute)
	for range n {
		c := first
		c.Owner = first.Locker() + ":" + newID()
		claims, owners = append(claims, c), append(owners, c.Owner)
	}
	return claims, owners
}

// One caller of a process calls the store for all of its waiters.
func fairNamesPlaces(_ *testing.T, b *bench) {
	holder, others := b.line("k", 1)
	mine, owners := b.siblings("k", 5)
	named := func(i int, places ...string) lock.Claim {
		c := mine[i]
		c.Places = places
		return c
	}
	b.busy(named(0, owners[:3]...))
	b.waiters("k", others[0], mine[0], mine[1], mine[2])
	b.busy(named(0, owners[3], owners[0], owners[1])) // one is new
	b.waiters("k", others[0], mine[0], mine[1], mine[2], mine[3])
	b.release(holder, nil)
	b.acquire(others[0])
	b.release(others[0], nil)
	b.acquire(named(0, owners...)) // a grant takes them, too
	b.waiters("k", mine[1], mine[2], mine[3], mine[4])
	b.acquire(named(0, owners[1:]...)) // and so does its repetition
	b.waiters("k", mine[1], mine[2], mine[3], mine[4])
	b.release(mine[0], nil)
	b.acquire(named(1))
	b.waiters("k", mine[2], mine[3], mine[4])
	b.release(mine[2], lock.ErrNotHeld)
	b.waiters("k", mine[3], mine[4])
}

// One subscription of a process is enough for all of its waiters.
func fairWakesLocker(_ *testing.T, b *bench) {
	holder := b.in(lock.Fair, "k")(minute)
	b.acquire(holder)
	mine, owners := b.siblings("k", 3)
	mine[0].Places = owners
	if b.refused(mine[0]).WatchPerOwner {
		b.Skip("wake-ups of others are not delivered: the engine watches each by itself")
	}
	heard := b.listen(mine[0])
	for _, c := range mine {
		heard("the turn of "+c.Owner, func() { b.release(holder, nil) })
		b.acquire(c)
		holder = c
	}
}

func fairPlaceIsNoHold(_ *testing.T, b *bench) {
	holder, places := b.line("k", 1)
	b.renew(places[0], lock.ErrNotHeld)
	b.renew(holder, nil)
	b.waiters("k", places...)
	b.once("k")
}

func fairWakesHead(_ *testing.T, b *bench) {
	const n = 12
	holder, places := b.line("k", n)
	hints := make([]*atomic.Int32, n)
	for i, c := range places {
		var stop func()
		hints[i], stop = b.counted(c)
		defer stop()
	}
	for i, c := range places {
		before := hints[i].Load()
		b.release(holder, nil)
		b.eventually("the first is woken", func() bool { return hints[i].Load() > before })
		b.acquire(c)
		holder = c
	}
	// A hint too many is allowed, as after a gap. One for each release would
	// be a herd.
	if last := hints[n-1].Load(); last > n/2 {
		b.Errorf("the last of %d was woken %d times", n, last)
	}
}

func fairSilentAfterStop(_ *testing.T, b *bench) {
	holder, places := b.line("k", 2)
	stopped, stop := b.counted(places[0])
	other := b.listen(places[1])
	stop()
	silent := stopped.Load()
	b.release(holder, nil)
	b.acquire(places[0])
	other("its turn", func() { b.release(places[0], nil) })
	if stopped.Load() != silent {
		b.Error("wake was called after stop had returned")
	}
}

func fairGivesUp(_ *testing.T, b *bench) {
	holder, places := b.line("k", 4)
	b.release(places[1], lock.ErrNotHeld)
	b.waiters("k", places[0], places[2], places[3])
	b.release(places[1], lock.ErrNotHeld) // again
	b.release(places[3], lock.ErrNotHeld)
	b.waiters("k", places[0], places[2])
	b.busy(places[1]) // starts anew
	b.waiters("k", places[0], places[2], places[1])
	b.once("k")
	b.release(holder, nil)
	b.acquire(places[0])
	b.release(places[0], nil)
	b.acquire(places[2])
}

func fairPassesTurnOn(_ *testing.T, b *bench) {
	holder, places := b.line("k", 3)
	next := b.listen(places[1])
	b.release(holder, nil)
	b.notYet(places[1])
	next("its turn", func() { b.leaves(places[0]) })
	b.notYet(places[2])
	b.acquire(places[1])
}

func fairPassesTheDead(_ *testing.T, b *bench) {
	holder, places := b.line("k", 3)
	b.release(holder, nil)
	b.notYet(places[2]) // nobody comes for places[0]
	start := time.Now()
	b.eventually("the dead is passed over", func() bool {
		_, err := b.BlockingStore.Acquire(b.Context(), places[1])
		return err == nil
	})
	if took := time.Since(start); took < time.Second {
		b.Errorf("the first had only %v to come", took)
	}
	b.waiters("k", places[2])
	b.release(places[1], nil)
	b.acquire(places[2])
}

func fairSurvivesDeadHolder(_ *testing.T, b *bench) {
	b.acquire(b.owner("k")(brief))
	first, second := b.queued("k"), b.queued("k")
	b.outlive(brief)
	b.notYet(second)
	b.acquire(first)
	b.waiters("k", second)
}

func fairIsBargedPast(_ *testing.T, b *bench) {
	holder, places := b.line("k", 1)
	first := b.listen(places[0])
	barger := b.in(lock.Exclusive, "k")(minute)
	b.busy(barger)
	b.force("k")
	b.release(holder, lock.ErrNotHeld)
	b.acquire(barger)
	b.busy(places[0])
	b.waiters("k", places...)
	first("its turn", func() { b.release(barger, nil) })
	b.acquire(places[0])
}

func fairWakesOthers(_ *testing.T, b *bench) {
	exclusive := b.in(lock.Exclusive, "k")(minute)
	freed := b.listen(exclusive)
	holder, places := b.line("k", 1)
	b.release(holder, nil)
	b.acquire(places[0])
	freed("nobody queues", func() { b.release(places[0], nil) })
	b.acquire(exclusive)
}

func fairForced(_ *testing.T, b *bench) {
	holder, places := b.line("k", 2)
	first := b.listen(places[0])
	first("its turn", func() { b.force("k") })
	b.renew(holder, lock.ErrNotHeld)
	b.release(holder, lock.ErrNotHeld)
	b.notYet(places[1])
	b.acquire(places[0])
	b.waiters("k", places[1])
}

// queues starts an acquisition and returns once the store has its place, the
// n-th.
func (b *bench) queues(key string, n int, acquisition func()) {
	b.Helper()
	b.aside(acquisition)
	b.eventually("a place is taken", func() bool { return len(b.state(key).Waiters) == n })
}

func engineFairOrder(_ *testing.T, b *bench) {
	const n = 64
	lockers := []*lock.Locker{b.locker(), b.locker()}
	holder := b.lease(b.locker(), "k")
	var order []int // guarded by the lock
	for i := range n {
		b.queues("k", i+1, func() {
			b.do(lockers[i%2], func(context.Context) { order = append(order, i) })
		})
	}
	b.free(holder)
	b.asides.Wait() // for the last release, before the lockers close
	if len(order) != n || !slices.IsSorted(order) {
		b.Errorf("the waiters were served in the order %v", order)
	}
}

func engineFairLeavers(_ *testing.T, b *bench) {
	slow := lock.WithPoll(2 * patience)
	l := b.locker()
	holder := b.lease(b.locker(), "k")
	failed := make(chan error, 2)
	cancelled, cancel := context.WithCancel(b.Context())
	defer cancel()
	b.queues("k", 1, func() {
		_, err := l.Acquire(cancelled, b.key("k"), slow)
		failed <- err
	})
	b.queues("k", 2, func() {
		_, err := l.Acquire(b.Context(), b.key("k"), lock.WithWait(2*time.Second), slow)
		failed <- err
	})
	if err := <-failed; !errors.Is(err, lock.ErrBusy) || !errors.Is(err, context.DeadlineExceeded) {
		b.Errorf("the one whose wait has ended: got %v, want ErrBusy and DeadlineExceeded", err)
	}
	b.eventually("its place is given up", func() bool { return len(b.state("k").Waiters) == 1 })
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		b.Errorf("the cancelled one: %v", err)
	}
	b.eventually("its place is given up", func() bool { return len(b.state("k").Waiters) == 0 })
	b.queued("k")                                 // dies
	b.queues("k", 2, func() { b.do(l, nothing) }) // behind the dead
	b.free(holder)
	b.asides.Wait()
}

func engineFairCloses(_ *testing.T, b *bench) {
	l := lock.New(b.store, b.options(nil)...)
	holder := b.lease(b.locker(), "k")
	const n = 8
	waiting := make(chan error, n)
	for i := range n {
		b.queues("k", i+1, func() {
			_, err := l.Acquire(b.Context(), b.key("k"))
			waiting <- err
		})
	}
	b.close(l)
	for range n {
		if err := <-waiting; !errors.Is(err, lock.ErrClosed) {
			b.Errorf("a waiter: got %v, want ErrClosed", err)
		}
	}
	b.waiters("k")
	b.free(holder)
}

// leaves releases a place, which the store may have given the key meanwhile.
func (b *bench) leaves(c lock.Claim) {
	b.Helper()
	if err := b.BlockingStore.Release(b.Context(), c); err != nil && !errors.Is(err, lock.ErrNotHeld) {
		b.Fatalf("Release(%+v): %v", c, err)
	}
}

// A release may give the key to the first of the queue, which finds its hold by
// the claim that it repeats. Until then it is short.
func fairHandsOver(_ *testing.T, b *bench) {
	holder, places := b.line("k", 3)
	for i, c := range places {
		b.release(holder, nil)
		if state := b.state("k"); state.Held && (state.TTL > 10*time.Second || state.Owners[0].Owner != c.Owner) {
			b.Errorf("given to %v for %v, want %s for some seconds", state.Owners, state.TTL, c.Owner)
		}
		b.acquire(c)
		b.waiters("k", places[i+1:]...)
		b.lasts("k", 30*time.Second, minute)
		b.once("k")
		b.renew(c, nil)
		holder = c
	}
	b.release(holder, nil)
	b.release(holder, lock.ErrNotHeld)
	b.acquire(b.owner("k")(minute))
}

// The next in line has no hold before it calls, and a renewal of its owner, which can only
// be a late one, gives it none.
func fairRenewsNoTurn(_ *testing.T, b *bench) {
	holder, places := b.line("k", 1)
	b.release(holder, nil)
	late := places[0]
	late.TTL = 10 * minute
	b.renew(late, lock.ErrNotHeld)
	if state := b.state("k"); state.Held && state.TTL > 10*time.Second {
		b.Errorf("given to %v for %v, want for some seconds", state.Owners, state.TTL)
	}
	b.acquire(places[0])
}

// The order of places is not always that of the locker's waiters: one may have
// lost its place and got another. The turn is had by the one that calls.
func fairServesLockers(_ *testing.T, b *bench) {
	holder := b.in(lock.Fair, "k")(minute)
	b.acquire(holder)
	mine, owners := b.siblings("k", 3)
	place := func(i int) {
		mine[i].Places = owners[i : i+1]
		b.busy(mine[i])
	}
	place(2)
	place(0)
	other := b.queued("k")
	b.release(holder, nil)
	b.notYet(other)
	b.acquire(mine[0]) // leaves its place, and the first to its sibling
	b.waiters("k", mine[2], other)
	b.once("k")
	b.renew(mine[2], lock.ErrNotHeld)
	b.release(mine[0], nil)
	mine[1].Places = nil // has no place, and serves itself with its sibling's
	b.acquire(mine[1])
	b.waiters("k", other)
	b.busy(mine[2]) // a call that comes late takes nothing
	b.renew(mine[1], nil)
	b.release(mine[2], lock.ErrNotHeld)
	b.release(mine[1], nil)
	b.acquire(other)
}

// Only messages can bring this to its end in time.
func engineTransfersToACrowd(_ *testing.T, b *bench) {
	lockers := b.slow(3)
	const workers, rounds = 24, 8
	var fences []uint64 // guarded by the lock
	together(workers, func(i int) {
		for range rounds {
			b.do(lockers[i%len(lockers)], func(ctx context.Context) {
				lease, _ := lock.FromContext(ctx)
				fences = append(fences, lease.Fence())
			})
		}
	})
	if len(fences) != workers*rounds || !slices.IsSorted(fences) || len(slices.Compact(fences)) != workers*rounds {
		b.Errorf("%d fences, want %d that rise", len(fences), workers*rounds)
	}
	if state := b.state("k"); state.Held || len(state.Waiters) > 0 {
		b.Errorf("left: %+v", state)
	}
}
