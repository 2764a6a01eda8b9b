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
