package lock_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

// A machine that wakes up has the monotonic clock of the moment in which it was
// suspended. Its leases are doubted until the store has confirmed them.
func TestASuspendedProcessRenewsAtOnceAndLosesWhatIsNotConfirmed(t *testing.T) {
	gone := func(t *testing.T, store *faulty) {
		t.Helper()
		if _, err := store.ForceRelease(t.Context(), "k"); err != nil {
			t.Error(err)
		}
	}
	away := func(_ *testing.T, store *faulty) {
		store.set(only("renew", func(lock.Claim) error { return errLineCut }), nil)
	}
	for name, c := range map[string]struct {
		opt  lock.Option
		what func(t *testing.T, store *faulty)
		want error
	}{
		"and the key is taken":            {lock.WithWatchdog(30 * time.Second), gone, lock.ErrTaken},
		"and the key of a lease is taken": {lock.WithLease(time.Hour), gone, lock.ErrTaken},
		"and the store is away":           {lock.WithWatchdog(30 * time.Second), away, lock.ErrNotRenewed},
		"and the store of a lease is":     {lock.WithLease(time.Hour), away, lock.ErrNotRenewed},
		"and the store, before the limit": {lock.WithMaxHold(20 * time.Second), away, lock.ErrNotRenewed},
		"and all is well":                 {lock.WithWatchdog(30 * time.Second), nil, nil},
		"and a lease is well":             {lock.WithLease(time.Hour), nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newFaulty()
				l := newLocker(t, store)
				lease := acquire(t, l, t.Context(), "k", c.opt)
				if c.what != nil {
					c.what(t, store)
				}
				l.Suspend(10 * time.Minute)
				before := store.count("renew")
				_ = lease.Context().Err() // looks at the lease
				synctest.Wait()
				if store.count("renew") == before {
					t.Error("nothing was renewed")
				}
				time.Sleep(lock.DefaultCallTimeout)
				synctest.Wait()
				if c.want == nil {
					if err := lock.AssertHeld(lease.Context(), "k"); err != nil {
						t.Error(err)
					}
					store.set(nil, nil)
					release(t, lease)
					return
				}
				wantErr(t, context.Cause(lease.Context()), lock.ErrLost, c.want)
				store.set(nil, nil)
			})
		})
	}
}

// An assertion finds it, too: the lease is renewed at once.
func TestAnAssertionAfterASuspensionRenews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		l := newLocker(t, store)
		lease := acquire(t, l, t.Context(), "k")
		l.Suspend(time.Hour)
		wantErr(t, lock.AssertHeld(lease.Context(), "k"), nil)
		time.Sleep(time.Millisecond)
		if n := store.count("renew"); n != 1 {
			t.Errorf("renewed %d times", n)
		}
		release(t, lease)
	})
}

// A short lease is doubted after a pause that is nothing to the locker's watchdog, and
// after many that are short.
func TestASuspensionIsMeasuredByNoWatchdog(t *testing.T) {
	for name, pauses := range map[string]struct {
		n int
		d time.Duration
	}{"long": {1, 5 * time.Second}, "short": {20, 10 * time.Millisecond}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newFaulty()
				l := newLocker(t, store, lock.WithWatchdog(time.Hour))
				lease := acquire(t, l, t.Context(), "k", lock.WithLease(10*time.Second))
				if _, err := store.ForceRelease(t.Context(), "k"); err != nil {
					t.Fatal(err)
				}
				for range pauses.n {
					l.Suspend(pauses.d)
					_ = lease.Context().Err() // looks at the lease
					synctest.Wait()
				}
				wantErr(t, context.Cause(lease.Context()), lock.ErrLost, lock.ErrTaken)
			})
		})
	}
}

// A lease of its holder's length is renewed until it is confirmed, and no faster than others.
func TestASuspendedLeaseThatIsNotConfirmedIsRenewedNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		l := newLocker(t, store)
		lease := acquire(t, l, t.Context(), "k", lock.WithLease(time.Hour))
		store.set(only("renew", func(lock.Claim) error {
			return &lock.StoreError{Outcome: lock.OutcomeNotExecuted, Class: "test", Err: errLineCut}
		}), nil)
		before := store.count("renew")
		l.Suspend(10 * time.Minute)
		_ = lease.Context().Err() // looks at the lease
		time.Sleep(lock.DefaultCallTimeout)
		synctest.Wait()
		if n := store.count("renew") - before; n < 3 || n > 50 {
			t.Errorf("renewed %d times", n)
		}
		wantErr(t, context.Cause(lease.Context()), lock.ErrNotRenewed)
		store.set(nil, nil)
	})
}

// Who looks first may be a release of one of several leases.
func TestAReleaseAfterASuspensionLeavesTheOthersTheirRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		l := newLocker(t, store)
		outer := acquire(t, l, t.Context(), "k", lock.WithLease(time.Hour))
		inner := acquire(t, l, outer.Context(), "k", lock.WithLease(time.Hour))
		before := store.count("renew")
		l.Suspend(10 * time.Minute)
		release(t, inner)
		time.Sleep(lock.DefaultCallTimeout + time.Second)
		synctest.Wait()
		if err := lock.AssertHeld(outer.Context(), "k"); err != nil {
			t.Error(err)
		}
		if n := store.count("renew") - before; n != 1 {
			t.Errorf("renewed %d times", n)
		}
		release(t, outer)
	})
}

func TestAWallClockThatIsSetBackChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		l := newLocker(t, store)
		lease := acquire(t, l, t.Context(), "k")
		for range 3 {
			l.Suspend(-time.Hour)
			l.Suspend(time.Millisecond) // and slews
			if err := lease.Context().Err(); err != nil {
				t.Error(err)
			}
			synctest.Wait()
		}
		if n := store.count("renew"); n != 0 {
			t.Errorf("%d renewals", n)
		}
		release(t, lease)
	})
}

// An answer that comes after the suspension, to a call that was sent before, proves
// nothing: the key may have expired since. Nor does it put off the renewal that does.
func TestAnAnswerFromBeforeASuspensionConfirmsNothing(t *testing.T) {
	for name, c := range map[string]struct {
		away   time.Duration
		looked bool
	}{
		"and the store stays away":                   {time.Minute, true},
		"and the store stays away, and nobody looks": {time.Minute, false},
		"and the store comes back":                   {lock.DefaultCallTimeout / 2, true},
		"and the store comes back, and nobody looks": {lock.DefaultCallTimeout / 2, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, answer := newFaulty(), make(chan struct{})
				l := newLocker(t, store)
				lease := acquire(t, l, t.Context(), "k")
				store.set(nil, only("renew", func(lock.Claim) error { <-answer; return nil }))
				time.Sleep(lock.DefaultWatchdog/3 + time.Second)
				if n := store.count("renew"); n != 1 {
					t.Fatalf("%d renewals", n)
				}
				back := time.Now().Add(c.away)
				store.set(only("renew", func(lock.Claim) error {
					if time.Now().Before(back) {
						return errLineCut
					}
					return nil
				}), nil)
				l.Suspend(10 * time.Minute)
				if c.looked {
					_ = lease.Context().Err()
				}
				synctest.Wait()
				close(answer)
				time.Sleep(lock.DefaultCallTimeout)
				synctest.Wait()
				if c.away < lock.DefaultCallTimeout {
					time.Sleep(time.Hour) // it is renewed as ever
					release(t, lease)
					return
				}
				wantErr(t, context.Cause(lease.Context()), lock.ErrLost, lock.ErrNotRenewed)
			})
		})
	}
}

// A grant that was on its way is none, and undone, whether or not somebody looked at a
// lease before it came.
func TestAGrantFromBeforeASuspensionIsNotTrusted(t *testing.T) {
	for _, looked := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			store, answer := newFaulty(), make(chan struct{})
			l := newLocker(t, store)
			other := acquire(t, l, t.Context(), "other")
			store.set(nil, only("acquire", func(lock.Claim) error { <-answer; return nil }))
			try := await(t.Context(), l, "k")
			time.Sleep(time.Second)
			l.Suspend(10 * time.Minute)
			if looked {
				_ = other.Context().Err()
			}
			close(answer)
			<-try.done
			wantErr(t, try.err, lock.ErrUnavailable)
			time.Sleep(10 * time.Second) // all passes of an undo
			if n := holds(t, store.Store, "k"); n != 0 {
				t.Errorf("looked %v: %d holds are left", looked, n)
			}
		})
	}
}

func TestAnExtensionFromBeforeASuspensionIsNoSuccess(t *testing.T) {
	for _, looked := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			store, answer, done := newFaulty(), make(chan struct{}), make(chan error)
			l := newLocker(t, store)
			lease := acquire(t, l, t.Context(), "k", lock.WithLease(20*time.Second))
			store.set(nil, only("renew", func(lock.Claim) error { <-answer; return nil }))
			go func() { done <- lease.Extend(t.Context(), time.Minute) }()
			time.Sleep(time.Second)
			synctest.Wait()
			l.Suspend(10 * time.Minute)
			if looked {
				_ = lease.Context().Err()
			}
			if _, err := store.Store.ForceRelease(t.Context(), "k"); err != nil { // it has expired
				t.Fatal(err)
			}
			close(answer)
			if err := <-done; !errors.Is(err, lock.ErrUnavailable) && !errors.Is(err, lock.ErrLost) {
				t.Errorf("looked %v: got %v", looked, err)
			}
			time.Sleep(lock.DefaultCallTimeout)
			synctest.Wait()
			wantErr(t, context.Cause(lease.Context()), lock.ErrLost)
		})
	}
}

// A reading of before the suspension that is looked at after it moves nothing back.
func TestASuspensionIsFoundOnce(t *testing.T) {
	got := lock.Looks(0, 10*time.Minute, 0, 10*time.Minute)
	if want := []bool{false, true, false, false}; !slices.Equal(got, want) {
		t.Errorf("found %v, want %v", got, want)
	}
}

// The next renewal finds it, also when the store does not answer that.
func TestASuspensionIsFoundThoughNobodyLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		l := newLocker(t, store)
		lease := acquire(t, l, t.Context(), "k")
		ends := lease.Context().Done()
		var suspended sync.Once
		store.set(only("renew", func(lock.Claim) error {
			suspended.Do(func() { l.Suspend(10 * time.Minute) })
			return errLineCut
		}), nil)
		time.Sleep(lock.DefaultWatchdog/3 + lock.DefaultCallTimeout + 2*time.Second)
		synctest.Wait()
		select {
		case <-ends:
		default:
			t.Error("it is trusted")
		}
		wantErr(t, context.Cause(lease.Context()), lock.ErrNotRenewed)
		store.set(nil, nil)
	})
}

func TestASuspensionIsFoundAfterTheWallClockWasSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		l := newLocker(t, store)
		lease := acquire(t, l, t.Context(), "k")
		if _, err := store.ForceRelease(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
		for _, d := range []time.Duration{-time.Hour, 10 * time.Minute} {
			l.Suspend(d)
			_ = lease.Context().Err() // looks at the lease
		}
		synctest.Wait()
		wantErr(t, context.Cause(lease.Context()), lock.ErrTaken)
	})
}

func TestASuspendedHoldThatReachesItsLimitSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		l := newLocker(t, store)
		lease := acquire(t, l, t.Context(), "k", lock.WithMaxHold(10*time.Second))
		time.Sleep(9 * time.Second)
		store.set(only("renew", func(lock.Claim) error { return errLineCut }), nil)
		l.Suspend(10 * time.Minute)
		_ = lease.Context().Err() // looks at the lease
		time.Sleep(time.Second)
		wantErr(t, context.Cause(lease.Context()), lock.ErrHeldTooLong)
		store.set(nil, nil)
	})
}

// A grant that is not trusted, as the process was suspended, says nothing to those behind.
func TestAGrantFromBeforeASuspensionEndsNoWaitOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, answer := newFaulty(), make(chan struct{})
		l := newLocker(t, store)
		store.set(nil, only("acquire", func(lock.Claim) error { <-answer; return nil }))
		head, behind := start(t, l, t.Context()), start(t, l, t.Context())
		time.Sleep(time.Millisecond)
		l.Suspend(10 * time.Minute)
		close(answer)
		wantErr(t, (<-head).err, lock.ErrUnavailable)
		release(t, granted(t, "the one behind", behind))
	})
}
