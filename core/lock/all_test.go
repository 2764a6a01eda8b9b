package lock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
)

func TestAcquireAllIsAllOrNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		east, west := memstore.New(), memstore.New()
		l, far, other := newLocker(t, east), newLocker(t, west), newLocker(t, east)

		all, err := lock.AcquireAll(t.Context(), far.Request("b"), l.Request("c"), l.Request("a"))
		if err != nil {
			t.Fatal(err)
		}
		for i, lease := range all.Each() {
			if want := string("abc"[i]); lease.Key() != want {
				t.Errorf("place %d has key %q, want %q", i, lease.Key(), want)
			}
			if err := lock.AssertHeld(all.Context(), lease.Key()); err != nil {
				t.Error(err)
			}
		}
		start := time.Now()
		_, err = lock.AcquireAll(t.Context(),
			other.Request("0"), other.Request("a", lock.WithWait(time.Second)), other.Request("z", lock.WithWait(time.Hour)))
		wantErr(t, err, lock.ErrBusy, context.DeadlineExceeded)
		if waited := time.Since(start); waited != time.Second {
			t.Errorf("waited %v, want the shortest limit", waited)
		}
		if holds(t, east, "0") != 0 || holds(t, east, "z") != 0 {
			t.Error("a part of what failed is still held")
		}
		if err := all.Release(t.Context()); err != nil {
			t.Error(err)
		}
		if east.Len()+west.Len() != 0 {
			t.Error("not all released")
		}
	})
}

// Keys that cannot be released keep the caller for one call, not for one each.
func TestAcquireAllOnAStoreThatFallsSilentReturnsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		l := newLocker(t, store)
		silent := make(chan struct{})
		store.set(func(op string, c lock.Claim) error {
			if op == "release" || c.Key == "z" {
				<-silent
			}
			return nil
		}, nil)
		requests := []lock.Request{l.Request("z")}
		for i := range 20 {
			requests = append(requests, l.Request(fmt.Sprint("a:", i)))
		}
		start := time.Now()
		_, err := lock.AcquireAll(t.Context(), requests...)
		wantErr(t, err, lock.ErrUnavailable)
		if took := time.Since(start); took > 3*lock.DefaultCallTimeout {
			t.Errorf("it took %v", took)
		}
		close(silent)
		time.Sleep(10 * time.Second) // all passes of an undo
		if n := store.Store.(*memstore.Store).Len(); n != 0 {
			t.Errorf("%d keys are left", n)
		}
	})
}

func TestALostPartEndsTheWhole(t *testing.T) {
	store := memstore.New()
	l := newLocker(t, store)
	all, err := lock.AcquireAll(t.Context(), l.Request("a"), l.Request("b"), l.Request("c"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.ForceRelease(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	<-all.Context().Done()
	if cause := context.Cause(all.Context()); !errors.Is(cause, lock.ErrLost) {
		t.Errorf("cause %v, want ErrLost", cause)
	}
	if _, err := store.ForceRelease(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	wantErr(t, all.Release(t.Context()), lock.ErrLost, lock.ErrNotHeld)
	if holds(t, store, "c") != 0 {
		t.Error("release stopped at the first error")
	}
}

func TestAKeyNamedTwiceIsReentered(t *testing.T) {
	store := memstore.New()
	l := newLocker(t, store)
	all, err := lock.AcquireAll(t.Context(), l.Request("a"), l.Request("a"))
	if err != nil {
		t.Fatal(err)
	}
	if n := holds(t, store, "a"); n != 1 {
		t.Errorf("the store knows %d holds", n)
	}
	if err := all.Release(t.Context()); err != nil || holds(t, store, "a") != 0 {
		t.Errorf("release: %v, %d holds", err, holds(t, store, "a"))
	}
}

func TestFixedLeasesOfAnAcquireAllEndTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		l, other := newLocker(t, store), newLocker(t, store)
		taken := acquire(t, other, t.Context(), "b")
		time.AfterFunc(8*time.Second, func() { _ = taken.Release(context.Background()) })
		fixed := lock.WithLease(10 * time.Second)
		all, err := lock.AcquireAll(t.Context(), l.Request("a", fixed), l.Request("b", fixed))
		if err != nil {
			t.Fatal(err)
		}
		got := time.Now()
		<-all.Context().Done()
		if held := time.Since(got); held != trustOf(10*time.Second) {
			t.Errorf("all held for %v", held)
		}
		wantErr(t, all.Release(t.Context()), lock.ErrLost)
	})
}

func TestCallersWithOverlappingKeysDoNotBlockEachOther(t *testing.T) {
	store := memstore.New()
	lockers := []*lock.Locker{newLocker(t, store), newLocker(t, store)}
	var wg sync.WaitGroup
	for i := range 60 {
		wg.Go(func() {
			l := lockers[i%2]
			keys := []string{fmt.Sprint(i % 3), fmt.Sprint((i + 1) % 3)} // in any order
			all, err := lock.AcquireAll(t.Context(), l.Request(keys[0]), l.Request(keys[1]))
			if err != nil {
				t.Error(err)
				return
			}
			if err := all.Release(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func TestAcquireAllRefusesNonsense(t *testing.T) {
	l := newLocker(t, memstore.New())
	_, err := lock.AcquireAll(t.Context())
	wantErr(t, err, lock.ErrInvalid)
	_, err = lock.AcquireAll(t.Context(), lock.Request{})
	wantErr(t, err, lock.ErrInvalid)
	_, err = lock.AcquireAll(t.Context(), l.Request("a"), l.Request("b", lock.WithWait(-1)))
	wantErr(t, err, lock.ErrInvalid)
	if n, _ := l.Inspect(t.Context(), "a"); n.Held {
		t.Error("the first key is held")
	}
}

func ExampleAcquireAll() {
	ctx := context.Background()
	locker := lock.New(memstore.New())
	defer func() { _ = locker.Close(ctx) }()

	all, err := lock.AcquireAll(ctx, locker.Request("account:7"), locker.Request("account:3"))
	if err != nil {
		return
	}
	defer func() { _ = all.Release(ctx) }()
	for _, lease := range all.Each() {
		fmt.Println(lease.Key())
	}
	// Output:
	// account:3
	// account:7
}

func TestAcquireAllThatFailsReturnsNoLeases(t *testing.T) {
	l := lock.New(memstore.New())
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	all, err := lock.AcquireAll(t.Context(), l.Request("a"), l.Request("b"))
	wantErr(t, err, lock.ErrClosed)
	if all != nil {
		t.Error("leases and an error")
	}
}

// Each lease's context is the child of the one before. Looking at the last must look
// once at each: in a store in memory nobody waits for their ends, so none has a
// signal that would answer for all before it.
func TestLeasesNestDeeply(t *testing.T) {
	const depth = 200
	l := newLocker(t, memstore.New())
	requests := make([]lock.Request, depth)
	for i := range requests {
		requests[i] = l.Request(fmt.Sprintf("%03d", i))
	}
	done := make(chan error, 1)
	go func() {
		all, err := lock.AcquireAll(context.Background(), requests...)
		if err == nil {
			err = errors.Join(all.Context().Err(), all.Release(context.Background()))
		}
		done <- err
	}()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Fatalf("%d keys take more than 20 s", depth)
	}
}

// A look at a group costs in proportion to its keys: 30 times as many must not take
// 900 times as long.
func TestALookAtALargeGroupCostsInProportion(t *testing.T) {
	cost := func(keys int) time.Duration {
		l := newLocker(t, memstore.New())
		requests := make([]lock.Request, keys)
		for i := range requests {
			requests[i] = l.Request(fmt.Sprintf("%03d", i), lock.WithLease(time.Hour))
		}
		all, err := lock.AcquireAll(t.Context(), requests...)
		if err != nil {
			t.Fatal(err)
		}
		least := time.Hour
		for range 20 {
			began := time.Now()
			if err := all.Context().Err(); err != nil {
				t.Error(err)
			}
			least = min(least, time.Since(began))
		}
		return least
	}
	if few, many := cost(10), cost(300); many > 180*few+50*time.Microsecond {
		t.Errorf("a look at 10 keys takes %v, and one at 300 keys %v", few, many)
	}
}

// The first key takes a call that is longer than the wait. The second is waited for
// no longer, and its error says that a limit was reached.
func TestAGroupThatRanOutOfTimeSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		store.set(nil, only("acquire", func(lock.Claim) error { time.Sleep(time.Second); return nil }))
		l, other := newLocker(t, store), newLocker(t, store.Store)
		acquire(t, other, t.Context(), "b")
		_, err := lock.AcquireAll(t.Context(), l.Request("a", lock.WithWait(time.Second/2)), l.Request("b"))
		wantErr(t, err, lock.ErrBusy, context.DeadlineExceeded)
		_, err = lock.AcquireAll(t.Context(), l.Request("a", lock.WithWait(0)), l.Request("b"))
		wantErr(t, err, lock.ErrBusy)
		if errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a try reached a limit: %v", err)
		}
	})
}

// A group that waited for a lease that it has would wait for ever: nobody else can
// release it.
func TestAGroupDoesNotWaitForItself(t *testing.T) {
	for name, second := range map[string][2][]lock.Option{
		"no re-entry":      {nil, {lock.WithoutReentry()}},
		"no read either":   {{writing}, {reading, lock.WithoutReentry()}},
		"too many permits": {{lock.WithPermits(2, 3)}, {lock.WithPermits(2, 3)}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memstore.New()
				l := newLocker(t, store)
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				_, err := lock.AcquireAll(ctx, l.Request("k", second[0]...), l.Request("k", second[1]...))
				wantErr(t, err, lock.ErrOwnHold)
				if ctx.Err() != nil || store.Len() != 0 {
					t.Errorf("context: %v, keys left: %d", ctx.Err(), store.Len())
				}
			})
		})
	}
	l := newLocker(t, memstore.New())
	for name, opts := range map[string][2][]lock.Option{
		"a lock":         {nil, nil},
		"a writer reads": {{writing}, {reading}},
		"enough permits": {{lock.WithPermits(2, 3)}, {lock.WithPermits(1, 3)}},
	} {
		all, err := lock.AcquireAll(t.Context(), l.Request(name, opts[0]...), l.Request(name, opts[1]...))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if err := all.Release(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A writer who reads has two leases of one hold, in the order of the requests.
func TestAGroupMayWriteAndReadOneKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		l := newLocker(t, store)
		all, err := lock.AcquireAll(t.Context(), l.Request("k", writing), l.Request("k", reading))
		if err != nil {
			t.Fatal(err)
		}
		if n := store.count("acquire"); n != 1 || holds(t, store, "k") != 1 {
			t.Errorf("%d calls for %d holds", n, holds(t, store, "k"))
		}
		wantErr(t, all.Release(t.Context()), nil)
		if n := store.count("lower"); n != 0 || holds(t, store, "k") != 0 {
			t.Errorf("lowered %d times, and %d holds are left", n, holds(t, store, "k"))
		}
		all, err = lock.AcquireAll(t.Context(), l.Request("k", writing), l.Request("k", reading))
		if err != nil {
			t.Fatal(err)
		}
		release(t, all.Each()[0]) // it goes on reading
		release(t, acquire(t, newLocker(t, store.Store), t.Context(), "k", reading, lock.WithWait(0)))
		wantErr(t, all.Release(t.Context()), nil)

		_, err = lock.AcquireAll(t.Context(), l.Request("k", reading), l.Request("k", writing))
		wantErr(t, err, lock.ErrInvalid)
		if n := holds(t, store, "k"); n != 0 {
			t.Errorf("%d holds are left", n)
		}
	})
}

func TestAGroupWaitsForItsPermitsNoLongerThanTheShortestWait(t *testing.T) {
	for name, waits := range map[string][2]time.Duration{"first": {time.Second, time.Minute}, "second": {time.Minute, time.Second}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLocker(t, memstore.New())
				other := acquire(t, l, t.Context(), "k", lock.WithPermits(2, 3))
				began := time.Now()
				_, err := lock.AcquireAll(t.Context(), l.Request("k", lock.WithPermits(1, 3), lock.WithWait(waits[0])),
					l.Request("k", lock.WithPermits(1, 3), lock.WithWait(waits[1])))
				wantErr(t, err, lock.ErrBusy)
				if waited := time.Since(began); waited != time.Second {
					t.Errorf("waited %v", waited)
				}
				release(t, other)
			})
		})
	}
}

// One after the other, each group would get the first and wait for the second of the other.
func TestGroupsTakeTheirPermitsOfOneKeyTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		store.set(only("acquire", func(lock.Claim) error { time.Sleep(time.Millisecond); return nil }), nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		var groups sync.WaitGroup
		for own := range 2 {
			l := newLocker(t, store)
			groups.Go(func() {
				all, err := lock.AcquireAll(ctx, l.Request("k", lock.WithPermits(1, 3), lock.WithName("one")),
					l.Request(fmt.Sprint(own)), l.Request("k", lock.WithPermits(1, 3)), l.Request("k", lock.WithPermits(1, 3)))
				if err != nil {
					t.Error(err)
					return
				}
				if state, err := l.Inspect(ctx, "k"); err != nil || len(all.Each()) != 2 {
					t.Errorf("%d leases, and the key has %+v, %v", len(all.Each()), state, err)
				}
				if err := all.Release(ctx); err != nil {
					t.Error(err)
				}
			})
		}
		groups.Wait()
	})
}

// A lock keeps permits of its key out, and they keep it out: the owner of one would wait
// for itself with the other.
func TestALockAndPermitsOfOneKeyAreRefused(t *testing.T) {
	permits := []lock.Option{lock.WithPermits(1, 3)}
	for name, first := range map[string][]lock.Option{
		"exclusive": nil,
		"fair":      {lock.WithMode(lock.Fair)},
		"read":      {lock.WithMode(lock.Read)},
		"write":     {lock.WithMode(lock.Write)},
	} {
		for order, opts := range map[string][2][]lock.Option{"permits second": {first, permits}, "permits first": {permits, first}} {
			t.Run(name+", "+order, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					store := memstore.New()
					l := newLocker(t, store)
					ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
					defer cancel()
					_, group := lock.AcquireAll(ctx, l.Request("k", opts[0]...), l.Request("k", opts[1]...))
					lease := acquire(t, l, ctx, "k", opts[0]...)
					_, wait := l.Acquire(lease.Context(), "k", opts[1]...)
					_, try := l.TryAcquire(lease.Context(), "k", opts[1]...)
					for _, err := range []error{group, wait, try} {
						wantErr(t, err, lock.ErrInvalid)
					}
					release(t, lease)
					if ctx.Err() != nil || store.Len() != 0 {
						t.Errorf("context: %v, keys left: %d", ctx.Err(), store.Len())
					}
				})
			})
		}
	}
}

// The timer of a part is late, as after a pause of the process, or its locker has been
// suspended: who looks finds the end of the whole, also while somebody waits for it.
func TestTheEndOfAPartIsSeenByWhoLooksAtTheWhole(t *testing.T) {
	for name, end := range map[string]func(part *lock.Locker, store *faulty){
		"late timer": func(part *lock.Locker, _ *faulty) {
			part.DelayTrusts()
			time.Sleep(lock.DefaultWatchdog)
		},
		"suspended": func(part *lock.Locker, _ *faulty) { part.Suspend(time.Hour) },
	} {
		for _, awaited := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, awaited: %v", name, awaited), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					store := newFaulty()
					part, other := newLocker(t, store), newLocker(t, memstore.New())
					all, err := lock.AcquireAll(t.Context(), part.Request("a"), other.Request("b"))
					if err != nil {
						t.Fatal(err)
					}
					if awaited {
						_ = all.Context().Done()
					}
					store.set(only("renew", func(lock.Claim) error { return errLineCut }), nil)
					end(part, store)
					_ = all.Context().Err() // looks at the clocks
					time.Sleep(lock.DefaultCallTimeout)
					if all.Context().Err() == nil {
						t.Error("a part is not trusted, and Err of the whole is nil")
					}
					wantErr(t, context.Cause(all.Context()), lock.ErrLost)
					store.set(nil, nil)
					_ = all.Release(t.Context()) // which finds the loss
				})
			})
		}
	}
}

// So it is where a context lies between the two.
func TestTheEndOfAnOuterLeaseIsSeenThroughAContext(t *testing.T) {
	for _, awaited := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			l, other := newLocker(t, newFaulty()), newLocker(t, newFaulty())
			outer := acquire(t, other, t.Context(), "outer", lock.WithLease(time.Second))
			ctx, cancel := context.WithCancel(outer.Context())
			defer cancel()
			inner := acquire(t, l, ctx, "inner")
			if awaited {
				_ = inner.Context().Done()
			}
			other.DelayTrusts()
			time.Sleep(2 * time.Second)
			if inner.Context().Err() == nil {
				t.Errorf("awaited %v: the outer lease has ended, and Err is nil", awaited)
			}
			release(t, inner)
			_ = outer.Release(t.Context()) // which finds its end
		})
	}
}

func TestADeadlineWhileAGroupGetsItsLengthIsUnavailability(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		l := newLocker(t, store)
		store.set(only("renew", func(lock.Claim) error { time.Sleep(time.Minute); return nil }), nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		fixed := lock.WithLease(20 * time.Second)
		_, err := lock.AcquireAll(ctx, l.Request("a", fixed), l.Request("b", fixed))
		wantErr(t, err, context.DeadlineExceeded, lock.ErrUnavailable)
	})
}

func TestAReleaseOfAllTellsOfEachThatFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		l := newLocker(t, store)
		all, err := lock.AcquireAll(t.Context(), l.Request("a"), l.Request("b"), l.Request("c"))
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"a", "c"} {
			if _, err := store.ForceRelease(t.Context(), key); err != nil {
				t.Fatal(err)
			}
		}
		err = all.Release(t.Context())
		wantErr(t, err, lock.ErrTaken)
		for _, want := range []string{`release "a"`, `release "c"`} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%v does not tell of %s", err, want)
			}
		}
		if strings.Contains(err.Error(), "%!") {
			t.Error(err)
		}
	})
}

func TestPartsOfALockerThatIsClosedMeanwhileAreLeftToClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		l, closes, other := newLocker(t, store), newLocker(t, store), newLocker(t, store)
		held := acquire(t, other, t.Context(), "c")
		store.set(only("release", func(c lock.Claim) error {
			if c.Key == "b" {
				return errLineCut
			}
			return nil
		}), nil)
		failed := make(chan error, 1)
		go func() {
			_, err := lock.AcquireAll(t.Context(), closes.Request("a"), l.Request("b"), l.Request("c"))
			failed <- err
		}()
		synctest.Wait()
		wantErr(t, closes.Close(t.Context()), nil)
		wantErr(t, <-failed, lock.ErrClosed)
		store.set(nil, nil)
		release(t, held)
	})
}
