package storetest

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

var fairTests = []test{
	{"places are served in the order in which they were taken", fairServesInOrder},
	{"a repeated claim keeps its place", fairKeepsPlaces},
	{"without patience no place is taken and none is passed", fairTriesPolitely},
	{"who waits for ever is queued", fairWaitsForEver},
	{"a place is not a hold", fairPlaceIsNoHold},
	{"the holder re-enters past the queue", fairReentersPastQueue},
	{"a release wakes the first of the queue and not all of it", fairWakesHead},
	{"nothing is called after stop", fairSilentAfterStop},
	{"a place can be given up", fairGivesUp},
	{"the first that gives up its turn wakes the next", fairPassesTurnOn},
	{"a dead first of the queue is passed over, but not at once", fairPassesTheDead},
	{"a hold that expires leaves the key to the queue", fairSurvivesDeadHolder},
	{"an exclusive claim passes the queue and wakes it", fairIsBargedPast},
	{"a force release wakes the first and keeps the queue", fairForced},
	{"engine: 64 waiters of two lockers, no inversion", engineFairOrder},
	{"engine: those who leave or die delay nobody for long", engineFairLeavers},
	{"engine: closing gives places up", engineFairCloses},
	{"a release gives the key to the first that accepts it", transferGives},
	{"who does not accept is woken", transferAsksFirst},
	{"a place keeps that it accepts", transferKeepsPlaces},
	{"a hold that was given is like any other", transferIsAHold},
	{"a hold that was given to the dead does not last", transferPassesTheDead},
	{"nothing is told after stop", transferSilentAfterStop},
	{"engine: a crowd that comes back", engineTransfersToACrowd},
}

// queued takes a place for a new owner behind the hold of another.
func (b *bench) queued(key string) lock.Claim {
	b.Helper()
	c := b.in(lock.Fair, key)(1, minute)
	c.Patience = 5 * minute
	b.busy(c)
	return c
}

// line is a held key with n places behind it.
func (b *bench) line(key string, n int) (holder lock.Claim, places []lock.Claim) {
	b.Helper()
	holder = b.in(lock.Fair, key)(1, minute)
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
	for i, c := range places {
		if ttl := b.busy(c); ttl <= 0 || ttl > minute {
			b.Errorf("place %d: busy for %v, want what is left of %v", i, ttl, minute)
		}
	}
	b.waiters("k", places...)
	var fence uint64
	for i, c := range places {
		b.release(gone(holder), nil)
		for _, later := range places[i+1:] {
			b.notYet(later)
		}
		next := b.acquire(c)
		if next <= fence {
			b.Errorf("fence %d after %d", next, fence)
		}
		b.waiters("k", places[i+1:]...)
		holder, fence = c, next
	}
	b.release(gone(holder), nil)
	b.acquire(b.owner("k")(1, minute))
}

func fairKeepsPlaces(_ *testing.T, b *bench) {
	holder, places := b.line("k", 3)
	for _, i := range []int{2, 0, 0, 1} {
		b.busy(places[i])
		b.waiters("k", places...)
	}
	b.release(gone(holder), nil)
	b.acquire(places[0])
	b.acquire(places[0]) // its answer was lost
	b.waiters("k", places[1:]...)
}

func fairTriesPolitely(_ *testing.T, b *bench) {
	holder, places := b.line("k", 1)
	hasty := b.owner("k")(1, minute)
	b.busy(hasty)
	b.waiters("k", places...)
	b.release(gone(holder), nil)
	b.notYet(hasty)
	places[0].Patience = 0 // has a place, and it is its turn
	b.acquire(places[0])
	b.waiters("k")
}

func fairWaitsForEver(_ *testing.T, b *bench) {
	holder, places := b.line("k", 1)
	for _, patience := range []time.Duration{math.MaxInt64, math.MaxInt64 - time.Hour} {
		c := b.owner("k")(1, minute)
		c.Patience = patience
		b.busy(c)
		places = append(places, c)
		b.waiters("k", places...)
	}
	b.release(gone(holder), nil)
	b.acquire(places[0])
}

func fairPlaceIsNoHold(_ *testing.T, b *bench) {
	holder, places := b.line("k", 1)
	b.renew(places[0], lock.ErrNotHeld)
	again := places[0]
	again.Holds = 2
	if _, err := b.Store.Acquire(b.Context(), again); !errors.Is(err, lock.ErrNotHeld) {
		b.Errorf("re-entry of a waiter: got %v, want ErrNotHeld", err)
	}
	b.renew(holder, nil)
	b.waiters("k", places...)
	if holds := b.holds("k"); holds != 1 {
		b.Errorf("%d holds, want 1", holds)
	}
}

func fairReentersPastQueue(_ *testing.T, b *bench) {
	holder, places := b.line("k", 2)
	again := holder
	again.Holds = 2
	b.acquire(again)
	b.release(holder, nil) // one remains
	b.busy(places[0])
	b.waiters("k", places...)
	b.release(gone(holder), nil)
	b.acquire(places[0])
}

// counted watches for the owner of c.
func (b *bench) counted(c lock.Claim) (hints *atomic.Int32, stop func()) {
	b.Helper()
	hints = new(atomic.Int32)
	stop, err := b.Store.Watch(b.Context(), c, func() { hints.Add(1) })
	if err != nil {
		b.Fatalf("Watch: %v", err)
	}
	return hints, stop
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
		b.release(gone(holder), nil)
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
	other, stopOther := b.counted(places[1])
	defer stopOther()
	stop()
	silent := stopped.Load()
	b.release(gone(holder), nil)
	b.acquire(places[0])
	before := other.Load()
	b.release(gone(places[0]), nil)
	b.eventually("the other is woken", func() bool { return other.Load() > before })
	if stopped.Load() != silent {
		b.Error("wake was called after stop had returned")
	}
}

func fairGivesUp(_ *testing.T, b *bench) {
	holder, places := b.line("k", 4)
	b.release(gone(places[1]), lock.ErrNotHeld)
	b.waiters("k", places[0], places[2], places[3])
	b.release(gone(places[1]), lock.ErrNotHeld) // again
	b.release(gone(places[3]), lock.ErrNotHeld)
	b.waiters("k", places[0], places[2])
	b.busy(places[1]) // starts anew
	b.waiters("k", places[0], places[2], places[1])
	if holds := b.holds("k"); holds != 1 {
		b.Errorf("%d holds, want 1", holds)
	}
	b.release(gone(holder), nil)
	b.acquire(places[0])
	b.release(gone(places[0]), nil)
	b.acquire(places[2])
}

func fairPassesTurnOn(_ *testing.T, b *bench) {
	holder, places := b.line("k", 3)
	hints, stop := b.counted(places[1])
	defer stop()
	b.release(gone(holder), nil)
	b.notYet(places[1])
	before := hints.Load()
	b.release(gone(places[0]), lock.ErrNotHeld)
	b.eventually("the next is woken", func() bool { return hints.Load() > before })
	b.notYet(places[2])
	b.acquire(places[1])
}

func fairPassesTheDead(_ *testing.T, b *bench) {
	holder, places := b.line("k", 3)
	b.release(gone(holder), nil)
	b.notYet(places[2]) // nobody comes for places[0]
	start := time.Now()
	b.eventually("the dead is passed over", func() bool {
		_, err := b.Store.Acquire(b.Context(), places[1])
		return err == nil
	})
	if took := time.Since(start); took < time.Second {
		b.Errorf("the first had only %v to come", took)
	}
	b.waiters("k", places[2])
	b.release(gone(places[1]), nil)
	b.acquire(places[2])
}

func fairSurvivesDeadHolder(_ *testing.T, b *bench) {
	const ttl = 200 * time.Millisecond
	b.acquire(b.owner("k")(1, ttl))
	first, second := b.queued("k"), b.queued("k")
	b.outlive(ttl)
	b.notYet(second)
	b.acquire(first)
	b.waiters("k", second)
}

func fairIsBargedPast(_ *testing.T, b *bench) {
	holder, places := b.line("k", 1)
	hints, stop := b.counted(places[0])
	defer stop()
	barger := b.in(lock.Exclusive, "k")(1, minute)
	b.busy(barger)
	b.release(gone(holder), nil)
	b.acquire(barger)
	b.busy(places[0])
	b.waiters("k", places...)
	before := hints.Load()
	b.release(gone(barger), nil)
	b.eventually("the queue is woken", func() bool { return hints.Load() > before })
	b.acquire(places[0])
}

func fairForced(_ *testing.T, b *bench) {
	holder, places := b.line("k", 2)
	hints, stop := b.counted(places[0])
	defer stop()
	before := hints.Load()
	b.force("k")
	b.eventually("the first is woken", func() bool { return hints.Load() > before })
	b.renew(holder, lock.ErrNotHeld)
	b.release(gone(holder), lock.ErrNotHeld)
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
	ctx, cancel := context.WithTimeout(b.Context(), 3*patience)
	defer cancel()
	holder := b.lease(b.locker(), "k")
	order := make(chan int, n)
	for i := range n {
		b.queues("k", i+1, func() {
			err := lockers[i%2].Do(ctx, b.key("k"), func(context.Context) error {
				order <- i
				return nil
			})
			if err != nil {
				b.Errorf("waiter %d: %v", i, err)
				order <- -1
			}
		})
	}
	b.free(holder)
	for i := range n {
		if got := <-order; got != i {
			b.Errorf("grant %d went to waiter %d", i, got)
		}
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
		_, err := l.Acquire(b.Context(), b.key("k"), lock.WithWait(300*time.Millisecond), slow)
		failed <- err
	})
	if err := <-failed; !errors.Is(err, lock.ErrBusy) || !errors.Is(err, context.DeadlineExceeded) {
		b.Errorf("the one whose wait is over: got %v, want ErrBusy and DeadlineExceeded", err)
	}
	b.eventually("its place is given up", func() bool { return len(b.state("k").Waiters) == 1 })
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		b.Errorf("the cancelled one: %v", err)
	}
	b.eventually("its place is given up", func() bool { return len(b.state("k").Waiters) == 0 })
	b.queued("k") // dies
	got := make(chan error, 1)
	b.queues("k", 2, func() {
		ctx, cancel := context.WithTimeout(b.Context(), patience)
		defer cancel()
		got <- l.Do(ctx, b.key("k"), func(context.Context) error { return nil })
	})
	b.free(holder)
	if err := <-got; err != nil {
		b.Errorf("the one behind the dead: %v", err)
	}
}

func engineFairCloses(_ *testing.T, b *bench) {
	l := lock.New(b.Store, b.options(nil)...)
	holder := b.lease(b.locker(), "k")
	const n = 8
	waiting := make(chan error, n)
	for i := range n {
		b.queues("k", i+1, func() {
			_, err := l.Acquire(b.Context(), b.key("k"))
			waiting <- err
		})
	}
	ctx, cancel := context.WithTimeout(b.Context(), patience)
	defer cancel()
	if err := l.Close(ctx); err != nil {
		b.Fatalf("Close: %v", err)
	}
	for range n {
		if err := <-waiting; !errors.Is(err, lock.ErrClosed) {
			b.Errorf("a waiter: got %v, want ErrClosed", err)
		}
	}
	b.waiters("k")
	b.free(holder)
}

// transferring returns the store of b if it transfers.
func (b *bench) transferring() lock.TransferStore {
	b.Helper()
	store, ok := b.Store.(lock.TransferStore)
	if !ok || store.TransferTTL() <= 0 {
		b.Skip("not a TransferStore, or one that is set up not to transfer")
	}
	return store
}

// accepting takes a place for a new owner that accepts a transfer.
func (b *bench) accepting(key string) lock.Claim {
	b.Helper()
	c := b.in(lock.Fair, key)(1, minute)
	c.Patience, c.Transfer = 5*minute, true
	b.clock(c)
	return c
}

// clock is that of the answer to a claim that finds the key busy.
func (b *bench) clock(c lock.Claim) uint64 {
	b.Helper()
	_, err := b.Store.Acquire(b.Context(), c)
	var busy *lock.BusyError
	if !errors.As(err, &busy) {
		b.Fatalf("Acquire(%+v): got %v, want a BusyError", c, err)
	}
	if busy.Clock == 0 {
		b.Fatalf("Acquire(%+v): the answer has no clock", c)
	}
	return busy.Clock
}

// heard listens for the owner of c.
func (b *bench) heard(store lock.TransferStore, c lock.Claim) (fences chan uint64, stop func()) {
	b.Helper()
	fences = make(chan uint64, 100)
	stop, err := store.WatchTransfer(b.Context(), c, func(fence uint64) { fences <- fence })
	if err != nil {
		b.Fatalf("WatchTransfer: %v", err)
	}
	return fences, stop
}

// told waits for the message of a transfer; other wake-ups may come before.
func (b *bench) told(fences <-chan uint64) uint64 {
	b.Helper()
	for deadline := time.After(patience); ; {
		select {
		case fence := <-fences:
			if fence > 0 {
				return fence
			}
		case <-deadline:
			b.Fatal("nobody said that the key was given")
		}
	}
}

// holder fails unless c alone has the key.
func (b *bench) holder(key string, c lock.Claim) {
	b.Helper()
	state := b.state(key)
	if !state.Held || len(state.Owners) != 1 || state.Owners[0] != (lock.OwnerHolds{Owner: c.Owner, Holds: 1}) {
		b.Fatalf("state %+v, want a hold of %s", state, c.Owner)
	}
}

func transferGives(_ *testing.T, b *bench) {
	store := b.transferring()
	holder := b.in(lock.Fair, "k")(1, minute)
	fence := b.acquire(holder)
	var places []lock.Claim
	for range 5 {
		places = append(places, b.accepting("k"))
	}
	b.waiters("k", places...)
	for i, c := range places {
		fences, stop := b.heard(store, c)
		clock := b.clock(c)
		if clock < fence {
			b.Errorf("clock %d after a grant with fence %d", clock, fence)
		}
		b.release(gone(holder), nil)
		given := b.told(fences)
		stop()
		if given <= clock {
			b.Errorf("given with fence %d after an answer with clock %d", given, clock)
		}
		b.holder("k", c)
		if ttl := b.state("k").TTL; ttl <= 0 || ttl > store.TransferTTL() {
			b.Errorf("given for %v, want %v at most", ttl, store.TransferTTL())
		}
		if len(places) > i+1 {
			b.waiters("k", places[i+1:]...)
			if later := b.clock(places[i+1]); later < given {
				b.Errorf("clock %d after a grant with fence %d", later, given)
			}
		}
		holder, fence = c, given
	}
	b.release(gone(holder), nil)
	if last := b.acquire(b.owner("k")(1, minute)); last <= fence {
		b.Errorf("fence %d after %d", last, fence)
	}
}

func transferAsksFirst(_ *testing.T, b *bench) {
	store := b.transferring()
	holder, places := b.line("k", 1) // does not accept
	places = append(places, b.accepting("k"))
	hints, stop := b.counted(places[0])
	defer stop()
	fences, stopSecond := b.heard(store, places[1])
	defer stopSecond()
	before := hints.Load()
	b.release(gone(holder), nil)
	b.eventually("the first is woken", func() bool { return hints.Load() > before })
	if state := b.state("k"); state.Held {
		b.Fatalf("state %+v, want that nobody has it yet", state)
	}
	b.clock(places[1])
	b.acquire(places[0])
	b.release(gone(places[0]), nil)
	b.told(fences)
	b.holder("k", places[1])
}

func transferKeepsPlaces(_ *testing.T, b *bench) {
	b.transferring()
	holder := b.in(lock.Fair, "k")(1, minute)
	b.acquire(holder)
	first, second, third := b.accepting("k"), b.accepting("k"), b.accepting("k")
	b.clock(second)
	b.clock(first)
	b.waiters("k", first, second, third)
	b.release(gone(first), lock.ErrNotHeld) // gives up
	b.release(gone(first), lock.ErrNotHeld)
	b.waiters("k", second, third)
	b.force("k") // wakes: who was forced out is not asked to decide
	if state := b.state("k"); state.Held {
		b.Fatalf("state %+v after a force release", state)
	}
	b.clock(third)
	b.acquire(second)
	b.waiters("k", third)
	b.release(gone(second), nil)
	b.holder("k", third)
}

func transferIsAHold(_ *testing.T, b *bench) {
	store := b.transferring()
	holder := b.in(lock.Fair, "k")(1, minute)
	b.acquire(holder)
	first, second := b.accepting("k"), b.accepting("k")
	fences, stop := b.heard(store, first)
	defer stop()
	b.release(gone(holder), nil)
	b.release(gone(holder), lock.ErrNotHeld) // repeated
	given := b.told(fences)
	b.busy(b.in(lock.Exclusive, "k")(1, minute))
	b.renew(second, lock.ErrNotHeld)
	b.renew(first, nil)
	if ttl := b.state("k").TTL; ttl <= store.TransferTTL() || ttl > minute {
		b.Errorf("renewed to %v, want %v", ttl, minute)
	}
	if fence := b.acquire(first); fence < given { // its message was lost
		b.Errorf("asked for: fence %d, given with %d", fence, given)
	}
	b.holder("k", first)
	again := first
	again.Holds, again.Transfer = 2, false
	b.acquire(again)
	again.Holds = 1
	b.release(again, nil)
	b.holder("k", first)
	b.waiters("k", second)
	b.release(gone(first), nil) // as by one that was cancelled: passed on
	b.holder("k", second)
	b.release(gone(second), nil)
	if state := b.state("k"); state.Held || len(state.Waiters) > 0 {
		b.Errorf("left: %+v", state)
	}
}

func transferPassesTheDead(_ *testing.T, b *bench) {
	store := b.transferring()
	holder := b.in(lock.Fair, "k")(1, minute)
	b.acquire(holder)
	dead, next := b.accepting("k"), b.accepting("k")
	b.release(gone(holder), nil)
	b.holder("k", dead)
	start := time.Now()
	b.eventually("the dead is passed over", func() bool {
		_, err := b.Store.Acquire(b.Context(), next)
		return err == nil
	})
	if took := time.Since(start); took < store.TransferTTL()/2 {
		b.Errorf("the first had only %v", took)
	}
	b.renew(dead, lock.ErrNotHeld)
	b.holder("k", next)
}

func transferSilentAfterStop(_ *testing.T, b *bench) {
	store := b.transferring()
	holder := b.in(lock.Fair, "k")(1, minute)
	b.acquire(holder)
	first, second := b.accepting("k"), b.accepting("k")
	var stopped, late atomic.Bool
	stop, err := store.WatchTransfer(b.Context(), first, func(uint64) { late.Store(late.Load() || stopped.Load()) })
	if err != nil {
		b.Fatal(err)
	}
	fences, stopSecond := b.heard(store, second)
	defer stopSecond()
	stop()
	stopped.Store(true)
	b.release(gone(holder), nil) // it is given all the same
	b.holder("k", first)
	b.release(gone(first), nil)
	b.told(fences)
	if late.Load() {
		b.Error("wake was called after stop had returned")
	}
}

// Only messages can bring this to its end in time.
func engineTransfersToACrowd(_ *testing.T, b *bench) {
	b.transferring()
	slow := lock.WithPoll(2 * patience)
	lockers := []*lock.Locker{b.locker(slow), b.locker(slow), b.locker(slow)}
	ctx, cancel := context.WithTimeout(b.Context(), patience)
	defer cancel()
	const workers, rounds = 24, 20
	var fences []uint64 // unsafe on purpose
	together(workers, func(i int) {
		for range rounds {
			err := lockers[i%len(lockers)].Do(ctx, b.key("k"), func(ctx context.Context) error {
				lease, _ := lock.FromContext(ctx)
				fences = append(fences, lease.Fence())
				return nil
			})
			if err != nil {
				b.Errorf("Do: %v", err)
			}
		}
	})
	if len(fences) != workers*rounds || !slices.IsSorted(fences) || len(slices.Compact(fences)) != workers*rounds {
		b.Errorf("%d fences, want %d that rise", len(fences), workers*rounds)
	}
	if state := b.state("k"); state.Held || len(state.Waiters) > 0 {
		b.Errorf("left: %+v", state)
	}
}
