package lock_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

func TestTurnsComeInTheOrderOfAsking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var turn lock.Turn
		_ = turn.Take(t.Context())
		var came []int
		var all sync.WaitGroup
		defer all.Wait()
		for i := range 5 {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			all.Go(func() {
				if err := turn.Take(ctx); err != nil {
					if !errors.Is(err, context.Canceled) {
						t.Error(err)
					}
					return
				}
				came = append(came, i)
				turn.Give()
			})
			synctest.Wait()
			if i == 0 || i == 2 { // the head, and one in the middle, leave
				cancel()
				synctest.Wait()
			}
		}
		turn.Give()
		synctest.Wait()
		if !slices.Equal(came, []int{1, 3, 4}) {
			t.Errorf("the turns came to %v", came)
		}
	})
}

func TestATurnOfOneWhoLeavesIsNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		left := 0
		for i := range 100 {
			var turn lock.Turn
			_ = turn.Take(t.Context())
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				if err := turn.Take(ctx); err != nil {
					left++
					return
				}
				turn.Give()
			}()
			synctest.Wait()
			if i%2 == 0 { // either comes before the other, and before the goroutine runs
				turn.Give()
				cancel()
			} else {
				cancel()
				turn.Give()
			}
			synctest.Wait()
			ctx, cancel = context.WithTimeout(t.Context(), time.Second)
			if err := turn.Take(ctx); err != nil {
				t.Fatalf("nobody has the turn, and nobody gets it: %v", err)
			}
			cancel()
		}
		if left == 0 || left == 100 {
			t.Errorf("%d of 100 left: not both ways are tested", left)
		}
	})
}

func TestTheTurnIsHadByOne(t *testing.T) {
	const crowd, turns = 8, 300
	var turn lock.Turn
	var inside atomic.Int32
	var all sync.WaitGroup
	for range crowd {
		all.Go(func() {
			for i := range turns {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%7)*10*time.Microsecond)
				if turn.Take(ctx) == nil {
					if inside.Add(1) != 1 {
						t.Error("two at once")
					}
					inside.Add(-1)
					turn.Give()
				}
				cancel()
			}
		})
	}
	all.Wait()
}

// A caller that was to join the hold of its owner, and found it released, waits in its
// place again: others of the process came first.
func TestWhoJoinsTooLateKeepsItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		l := newLocker(t, store)
		other := acquire(t, newLocker(t, store), t.Context(), "k")
		var mu sync.Mutex
		var order []string
		var running sync.WaitGroup
		wait := func(name, owner string, held time.Duration) {
			running.Go(func() {
				lease := acquire(t, l, t.Context(), "k", lock.WithOwner(owner))
				mu.Lock()
				order = append(order, name)
				mu.Unlock()
				time.Sleep(held)
				release(t, lease)
			})
			synctest.Wait()
		}
		wait("first", "a", 10*time.Millisecond)
		wait("second", "b", time.Second)
		wait("third", "a", time.Second)
		wait("fourth", "a", time.Second)
		store.set(func(_ string, c lock.Claim) error {
			if c.Holds > 1 { // reaches the store when the first has released
				time.Sleep(50 * time.Millisecond)
			}
			return nil
		}, only("release", func(lock.Claim) error { // is answered when the third has called again
			time.Sleep(100 * time.Millisecond)
			return nil
		}))
		release(t, other)
		running.Wait()
		// The last two share a hold.
		if got := strings.Join(order, " "); got != "first second third fourth" && got != "first second fourth third" {
			t.Errorf("served in the order %s", got)
		}
		store.set(nil, nil)
	})
}

// The store answers the releases, so it is well.
func TestAReentryOutwaitsReleasesThatAreAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		l := newLocker(t, store, lock.WithCallTimeout(3*time.Second))
		outer := acquire(t, l, t.Context(), "k")
		inner := []*lock.Lease{acquire(t, l, outer.Context(), "k"), acquire(t, l, outer.Context(), "k")}
		store.set(only("release", func(lock.Claim) error { time.Sleep(2 * time.Second); return nil }), nil)
		released := make(chan error, 2)
		go func() { released <- inner[0].Release(t.Context()) }()
		synctest.Wait() // it has the turn
		again := await(outer.Context(), l, "k")
		time.Sleep(1500 * time.Millisecond)
		go func() { released <- inner[1].Release(t.Context()) }()
		for range 2 {
			wantErr(t, <-released, nil)
		}
		release(t, again.got(t))
		release(t, outer)
	})
}

// The counts of calls are absolute, so that two at once would undo each other.
func TestAnAcquisitionThatLeavesItsTurnGivesNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		l := newLocker(t, store)
		me := lock.WithOwner("me")
		lease := acquire(t, l, t.Context(), "k", lock.WithMode(lock.Write), me)
		var calls, most atomic.Int32
		store.set(only("acquire", func(lock.Claim) error {
			most.Store(max(most.Load(), calls.Add(1)))
			time.Sleep(time.Second)
			calls.Add(-1)
			return nil
		}), nil)
		first := await(t.Context(), l, "k", lock.WithMode(lock.Read), me)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		second := await(ctx, l, "k", lock.WithMode(lock.Read), me)
		third := await(t.Context(), l, "k", lock.WithMode(lock.Read), me)
		<-second.done
		wantErr(t, second.err, context.DeadlineExceeded)
		time.Sleep(time.Minute)
		for _, w := range []*waiter{first, third} {
			release(t, w.got(t))
		}
		release(t, lease)
		if n := most.Load(); n != 1 {
			t.Errorf("%d calls at once", n)
		}
	})
}

// A re-entry that gives up while another is under way leaves that one its turn.
func TestAReentryThatGivesUpLeavesOthersTheirTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, hung := newFaulty(), make(chan struct{})
		l := newLocker(t, store)
		outer := acquire(t, l, t.Context(), "k")
		store.set(only("acquire", func(lock.Claim) error { <-hung; return nil }), nil)
		first := await(outer.Context(), l, "k")
		ctx, cancel := context.WithTimeout(outer.Context(), 100*time.Millisecond)
		defer cancel()
		_, err := l.Acquire(ctx, "k")
		wantErr(t, err, context.DeadlineExceeded)
		third := await(outer.Context(), l, "k")
		if n := store.count("acquire"); n != 2 {
			t.Errorf("%d calls, and the second has no answer", n)
		}
		close(hung)
		release(t, first.got(t))
		release(t, third.got(t))
		release(t, outer)
	})
}
