package lock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
)

// kept fails unless the key is held for nobody, and for that long.
func kept(t *testing.T, store inspected, key string, left time.Duration) {
	t.Helper()
	state, err := store.Inspect(context.Background(), key)
	if err != nil || !state.Held || len(state.Owners) != 1 || !state.Owners[0].Kept || state.TTL != left {
		t.Errorf("%+v, %v; want a hold that is kept for %v", state, err, left)
	}
}

func free(t *testing.T, store inspected, key string) {
	t.Helper()
	if n := holds(t, store, key); n != 0 {
		t.Errorf("%q has %d holds, want none", key, n)
	}
}

var everyMode = map[string][]lock.Option{
	"exclusive": nil,
	"fair":      {lock.WithMode(lock.Fair)},
	"read":      {lock.WithMode(lock.Read)},
	"write":     {lock.WithMode(lock.Write)},
	"semaphore": {lock.WithPermits(1, 1)},
}

func TestAReleasedKeyStaysHeldForItsMinimum(t *testing.T) {
	const d = time.Minute
	for name, mode := range everyMode {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memstore.New()
				rival := mode
				if name == "read" {
					rival = everyMode["write"]
				}
				here, there := newLocker(t, store), newLocker(t, store)
				start := time.Now()
				lease := acquire(t, here, t.Context(), "k", append(mode, lock.WithMinHold(d))...)
				early := []*waiter{await(t.Context(), here, "k", rival...), await(t.Context(), there, "k", rival...)}
				time.Sleep(10 * time.Second)
				release(t, lease)
				wantErr(t, context.Cause(lease.Context()), lock.ErrReleased)
				wantErr(t, lock.AssertHeld(lease.Context(), "k"), lock.ErrReleased)
				release(t, lease) // again: nothing
				kept(t, store, "k", 50*time.Second)
				for _, l := range []*lock.Locker{here, there} {
					_, err := l.TryAcquire(t.Context(), "k", rival...)
					wantErr(t, err, lock.ErrBusy)
				}
				time.Sleep(time.Until(start.Add(d)) - time.Nanosecond)
				synctest.Wait()
				for _, w := range early {
					select {
					case <-w.done:
						t.Fatalf("granted after %v: %v", time.Since(start), w.err)
					default:
					}
				}
				time.Sleep(2 * time.Millisecond)
				synctest.Wait()
				first, second := early[0], early[1]
				select {
				case <-second.done:
					first, second = second, first
				default:
				}
				next := first.got(t)
				if next.Fence() <= lease.Fence() || next.Owner() == lease.Owner() {
					t.Errorf("fence %d after %d, of the same owner: %t", next.Fence(), lease.Fence(), next.Owner() == lease.Owner())
				}
				release(t, next)
				release(t, second.got(t))
				free(t, store, "k")
			})
		})
	}
}

// After its minimum a hold is released as any other.
func TestAfterItsMinimumAKeyIsFreedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newSpaced()
		l := newLocker(t, store, lock.WithHandoff(1, time.Hour))
		lease := acquire(t, l, t.Context(), "k", lock.WithMinHold(time.Second))
		w := await(t.Context(), l, "k")
		time.Sleep(time.Second)
		release(t, lease)
		next := w.got(t)
		if next.Owner() != lease.Owner() {
			t.Error("not handed off")
		}
		release(t, next)
		free(t, store, "k")
		lease = acquire(t, l, t.Context(), "k", lock.WithMinHold(time.Second))
		time.Sleep(2 * time.Second)
		release(t, lease)
		free(t, store, "k")
	})
}

// The minimum counts from the grant of the hold, the longest of its leases counts,
// and only the last release keeps the key.
func TestTheMinimumOfAHoldThatIsReentered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		l := newLocker(t, store)
		outer := acquire(t, l, t.Context(), "k", lock.WithMinHold(10*time.Second))
		time.Sleep(time.Second)
		inner := acquire(t, l, outer.Context(), "k", lock.WithMinHold(20*time.Second))
		again := acquire(t, l, inner.Context(), "k", lock.WithMinHold(time.Second))
		release(t, again)
		release(t, inner)
		if err := lock.AssertHeld(outer.Context(), "k"); err != nil {
			t.Errorf("after the release of the re-entry: %v", err)
		}
		release(t, acquire(t, l, outer.Context(), "k")) // and goes on
		release(t, outer)
		kept(t, store, "k", 19*time.Second)
	})
}

// Neither Close nor the end of the process cuts a minimum short, and a forced
// release does.
func TestWhatEndsAMinimumHold(t *testing.T) {
	const d = 10 * time.Minute // more than an acquire writes
	for name, tt := range map[string]struct {
		end   func(t *testing.T, l *lock.Locker, store *faulty) error
		frees bool
	}{
		"Close": {end: func(t *testing.T, l *lock.Locker, _ *faulty) error { t.Helper(); return l.Close(t.Context()) }},
		"the end of the process": {end: func(_ *testing.T, _ *lock.Locker, store *faulty) error {
			store.set(func(string, lock.Claim) error { return errLineCut }, nil)
			return nil
		}},
		"a forced release": {frees: true, end: func(t *testing.T, l *lock.Locker, _ *faulty) error {
			t.Helper()
			_, err := l.ForceRelease(t.Context(), "k")
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newFaulty()
				l, start := lock.New(port(store), lock.WithWatchdog(time.Second)), time.Now()
				acquire(t, l, t.Context(), "k", lock.WithMinHold(d))
				time.Sleep(time.Second)
				if err := tt.end(t, l, store); err != nil {
					t.Error(err)
				}
				check := func() {
					t.Helper()
					left, want := remains(t, store.Store, "k"), d-time.Since(start)
					if tt.frees {
						want = 0
					}
					if left != want {
						t.Errorf("the key stays held for %v, want %v", left, want)
					}
				}
				check()
				_ = l.Close(t.Context())
				check()
				time.Sleep(d)
				free(t, store.Store, "k")
			})
		})
	}
}

// remains is how long the key stays held.
func remains(t *testing.T, store inspected, key string) time.Duration {
	t.Helper()
	state, err := store.Inspect(context.Background(), key)
	if err != nil {
		t.Fatal(err)
	}
	return state.TTL
}

// However a release is lost or repeated, it keeps the key, and not for longer.
func TestAnUnconfirmedReleaseKeepsTheKey(t *testing.T) {
	const d = time.Minute
	for name, tt := range map[string]struct {
		before, after func(lock.Claim) error
		err           error // of Release
	}{
		"the reply is lost":     {after: times(1, errLineCut)},
		"the request is lost":   {before: times(1, errLineCut)},
		"no reply for a second": {after: times(1000, errLineCut), err: lock.ErrUnavailable},
		"no request arrives":    {before: times(1000, errLineCut), err: lock.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newFaulty()
				l, start := newLocker(t, store), time.Now()
				lease := acquire(t, l, t.Context(), "k", lock.WithMinHold(d))
				op := func(what func(lock.Claim) error) func(string, lock.Claim) error {
					if what == nil {
						return nil
					}
					return only("release", what)
				}
				store.set(op(tt.before), op(tt.after))
				if err := lease.Release(t.Context()); !errors.Is(err, tt.err) {
					t.Errorf("Release: got %v, want %v", err, tt.err)
				}
				store.set(nil, nil)
				for range 9 {
					time.Sleep(time.Second)
					if remains(t, store.Store, "k") <= 0 {
						t.Fatal("the key is free before its minimum hold has ended")
					}
				}
				kept(t, store, "k", time.Until(start.Add(d)))
				time.Sleep(d)
				free(t, store, "k")
			})
		})
	}
}

// An acquisition that fails keeps nothing, whatever it had by then.
func TestWhatNobodyGotKeepsNothing(t *testing.T) {
	long := lock.WithMinHold(time.Hour)
	for name, fail := range map[string]func(t *testing.T, l *lock.Locker, store *faulty) error{
		"an acquire without an answer": func(t *testing.T, l *lock.Locker, store *faulty) error {
			t.Helper()
			store.set(nil, only("acquire", times(1000, errLineCut)))
			_, err := l.TryAcquire(t.Context(), "k", long)
			return err
		},
		"a length that is not granted": func(t *testing.T, l *lock.Locker, store *faulty) error {
			t.Helper()
			store.set(only("renew", times(1000, errLineCut)), nil)
			_, err := l.TryAcquire(t.Context(), "k", long)
			return err
		},
		"one of all keys": func(t *testing.T, l *lock.Locker, _ *faulty) error {
			t.Helper()
			acquire(t, l, t.Context(), "z")
			_, err := lock.AcquireAll(t.Context(), l.Request("k", long), l.Request("k", long), l.Request("z", long, lock.WithWait(0)))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newFaulty()
				l := newLocker(t, store)
				if err := fail(t, l, store); err == nil {
					t.Fatal("granted")
				}
				store.set(nil, nil)
				time.Sleep(10 * time.Second)
				free(t, store, "k")
			})
		})
	}
	t.Run("but what another lease of the hold asked for", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store := newFaulty()
			l := newLocker(t, store)
			outer := acquire(t, l, t.Context(), "k")
			store.set(only("renew", func(lock.Claim) error { time.Sleep(time.Second); return errLineCut }), nil)
			failing := await(context.WithoutCancel(outer.Context()), l, "k", lock.WithLease(time.Minute)) // it is granted, and not its length
			release(t, acquire(t, l, outer.Context(), "k", lock.WithMinHold(20*time.Second)))
			release(t, outer)
			<-failing.done
			wantErr(t, failing.err, lock.ErrUnavailable)
			time.Sleep(15 * time.Second)
			if n := holds(t, store, "k"); n != 1 {
				t.Errorf("%d holds before the minimum has ended, want 1", n)
			}
		})
	})
	t.Run("but what its caller held before", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store := newFaulty()
			l := newLocker(t, store)
			outer := acquire(t, l, t.Context(), "k", lock.WithMinHold(time.Minute))
			blocker := acquire(t, l, t.Context(), "z")
			_, err := lock.AcquireAll(outer.Context(), l.Request("k", long), l.Request("z", lock.WithWait(0)))
			wantErr(t, err, lock.ErrBusy)
			release(t, blocker)
			release(t, outer)
			if remains(t, store, "k") < time.Minute {
				t.Error("free before its minimum hold has ended")
			}
		})
	})
}

func TestMinimumHoldsThatCannotBeKeptAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		l := newLocker(t, store)
		for _, opts := range [][]lock.Option{
			{lock.WithMinHold(-1)},
			{lock.WithMinHold(lock.MinLease - 1)},
			{lock.WithMinHold(lock.MaxDuration + 1)},
			{lock.WithMinHold(time.Minute), lock.WithLease(time.Minute - 1)},
			{lock.WithMinHold(time.Minute), lock.WithMaxHold(time.Minute - 1)},
		} {
			_, err := l.Acquire(t.Context(), "k", opts...)
			wantErr(t, err, lock.ErrInvalid)
		}
		release(t, acquire(t, l, t.Context(), "k", lock.WithMinHold(time.Minute), lock.WithMinHold(0)))
		free(t, store, "k")
		write, read := lock.WithMode(lock.Write), lock.WithMode(lock.Read)
		writer := acquire(t, l, t.Context(), "k", write, lock.WithMinHold(time.Minute))
		_, err := l.Acquire(writer.Context(), "k", read)
		wantErr(t, err, lock.ErrInvalid)
		time.Sleep(time.Minute)
		release(t, acquire(t, l, writer.Context(), "k", read)) // its minimum has passed
		_, err = l.Acquire(writer.Context(), "k", read, lock.WithMinHold(time.Minute))
		wantErr(t, err, lock.ErrInvalid)
		reader := acquire(t, l, writer.Context(), "k", read)
		for _, mode := range []lock.Option{write, read} { // re-entries
			_, err = l.Acquire(reader.Context(), "k", mode, lock.WithMinHold(time.Minute))
			wantErr(t, err, lock.ErrInvalid)
		}
		release(t, reader) // now it may write again under one, which has passed as well
		release(t, acquire(t, l, writer.Context(), "k", write, lock.WithMinHold(time.Minute)))
		release(t, writer)
		free(t, store, "k")
	})
}

// A hold that ends earlier is not re-entered with a minimum: one of the two promises
// would be broken.
func TestAMinimumBeyondTheLimitOfTheHoldIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		l := newLocker(t, store)
		outer := acquire(t, l, t.Context(), "k", lock.WithMaxHold(time.Minute))
		time.Sleep(10 * time.Second)
		_, err := l.Acquire(outer.Context(), "k", lock.WithMinHold(time.Minute+1))
		wantErr(t, err, lock.ErrInvalid)
		inner := acquire(t, l, outer.Context(), "k", lock.WithMinHold(time.Minute)) // which counts from the grant, too
		release(t, inner)
		release(t, outer)
		time.Sleep(50*time.Second - 1)
		if holds(t, store, "k") == 0 {
			t.Error("the minimum was not kept")
		}
		time.Sleep(time.Nanosecond)
		free(t, store, "k")
	})
}

// What Close releases while the rest of its group is waited for was nobody's.
func TestCloseKeepsNothingOfAGroupThatIsNotComplete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		l, other := newLocker(t, store), newLocker(t, store)
		acquire(t, other, t.Context(), "b")
		var err error
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, err = lock.AcquireAll(t.Context(), l.Request("a", lock.WithMinHold(time.Hour)), l.Request("b"))
		}()
		synctest.Wait()
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
		<-done
		wantErr(t, err, lock.ErrClosed)
		if n := holds(t, store, "a"); n != 0 {
			t.Errorf("%d holds are left", n)
		}
	})
}

// A minimum that has yet to begin counts as well.
func TestAWriterThatIsToKeepItsKeyDoesNotRead(t *testing.T) {
	write, read, minimum := lock.WithMode(lock.Write), lock.WithMode(lock.Read), lock.WithMinHold(time.Minute)
	t.Run("in a group", func(t *testing.T) {
		store := memstore.New()
		l := newLocker(t, store)
		_, err := lock.AcquireAll(t.Context(), l.Request("k", write, minimum), l.Request("k", read))
		wantErr(t, err, lock.ErrInvalid)
		if store.Len() != 0 {
			t.Errorf("%d keys are left", store.Len())
		}
	})
}

func TestAWriterUnderAMinimumWritesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		l := newLocker(t, store)
		opts := []lock.Option{lock.WithMode(lock.Write), lock.WithMinHold(time.Minute)}
		outer := acquire(t, l, t.Context(), "k", opts...)
		release(t, acquire(t, l, outer.Context(), "k", opts...))
		release(t, outer)
		kept(t, store, "k", time.Minute)
	})
}

// A group keeps each key for its minimum, as a lease of one key does.
func TestAGroupKeepsItsKeysForTheirMinimum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		l, other := newLocker(t, store), newLocker(t, store)
		all, err := lock.AcquireAll(t.Context(), l.Request("a", lock.WithMinHold(10*time.Second)), l.Request("b"))
		if err != nil {
			t.Fatal(err)
		}
		if err := all.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		release(t, acquire(t, other, t.Context(), "b", lock.WithWait(0)))
		if _, err := other.TryAcquire(t.Context(), "a"); !errors.Is(err, lock.ErrBusy) {
			t.Fatalf("it is not kept: %v", err)
		}
		began := time.Now()
		release(t, acquire(t, other, t.Context(), "a"))
		if waited := time.Since(began); waited < 9*time.Second || waited > 11*time.Second {
			t.Errorf("free after %v, want 10s", waited)
		}
	})
}
