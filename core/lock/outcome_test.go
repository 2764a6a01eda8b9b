package lock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
)

func TestALostReplyIsNoError(t *testing.T) {
	for _, op := range []string{"acquire", "release", "renew"} {
		for n := 1; n <= 2; n++ {
			t.Run(fmt.Sprintf("%s lost %d times", op, n), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					store := newFaulty()
					l := newLocker(t, store)
					store.set(nil, only(op, times(n, errLineCut)))
					lease := acquire(t, l, t.Context(), "k")
					if got := holds(t, store, "k"); got != 1 {
						t.Errorf("hold count %d, want 1", got)
					}
					time.Sleep(time.Minute)
					if lease.Context().Err() != nil {
						t.Errorf("lost: %v", context.Cause(lease.Context()))
					}
					release(t, lease)
					time.Sleep(time.Minute)
					if holds(t, store, "k") != 0 {
						t.Error("the key is still held")
					}
				})
			})
		}
	}
}

// Callers for permits call side by side. The first is refused for the permits that the
// second one has without knowing so.
func TestALostCallIsRepeatedBehindACallerThatRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		lost := make(chan struct{})
		var once sync.Once
		store.set(func(op string, c lock.Claim) error {
			if op == "acquire" && c.Permits == 1 {
				<-lost
			}
			return nil
		}, func(op string, c lock.Claim) (err error) {
			if op == "acquire" && c.Permits == 2 {
				once.Do(func() { close(lost); err = errLineCut })
			}
			return err
		})
		l := newLocker(t, store)
		var wg sync.WaitGroup
		start := time.Now()
		for _, n := range []int{1, 2} {
			wg.Go(func() { release(t, acquire(t, l, t.Context(), "k", lock.WithPermits(n, 2))) })
			synctest.Wait()
		}
		wg.Wait()
		if took := time.Since(start); took > 100*time.Millisecond {
			t.Errorf("took %v", took)
		}
	})
}

func TestADeadStoreIsUnavailableSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		store.set(func(string, lock.Claim) error { return errLineCut }, nil)
		l := newLocker(t, store)
		start := time.Now()
		_, err := l.Acquire(t.Context(), "k")
		wantErr(t, err, lock.ErrUnavailable, errLineCut)
		_, err = l.TryAcquire(t.Context(), "k")
		wantErr(t, err, lock.ErrUnavailable, errLineCut)
		if took := time.Since(start); took > 100*time.Millisecond {
			t.Errorf("took %v", took)
		}
		store.set(nil, nil)
		release(t, acquire(t, l, t.Context(), "k"))
	})
}

func TestAHangingStoreCostsOneCallTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		heal := make(chan struct{})
		store.set(only("acquire", func(lock.Claim) error { <-heal; return nil }), nil)
		l := newLocker(t, store)
		start := time.Now()
		_, err := l.Acquire(t.Context(), "k")
		wantErr(t, err, lock.ErrUnavailable)
		if took := time.Since(start); took != lock.DefaultCallTimeout {
			t.Errorf("took %v, want %v", took, lock.DefaultCallTimeout)
		}
		time.Sleep(10 * time.Second)
		close(heal) // the request runs after all, long after it was undone
		synctest.Wait()
		time.Sleep(2 * time.Second)
		if holds(t, store, "k") != 0 {
			t.Error("an orphan hold is left")
		}
	})
}

func TestAnUnansweredAcquireThatRanIsUndone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		store.set(nil, only("acquire", func(lock.Claim) error { return errLineCut }))
		l := newLocker(t, store)
		for _, call := range []func(context.Context, string, ...lock.Option) (*lock.Lease, error){l.Acquire, l.TryAcquire} {
			_, err := call(t.Context(), "k")
			wantErr(t, err, lock.ErrUnavailable)
			time.Sleep(50 * time.Millisecond)
			if holds(t, store, "k") != 0 {
				t.Error("the hold that nobody knows of is still there")
			}
		}
	})
}

func TestNoLeaseIsOverWhenItIsGranted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		l := newLocker(t, store)
		const lease = 100 * time.Millisecond
		// The answer comes in the very moment in which trust ends.
		store.set(nil, only("acquire", func(lock.Claim) error { time.Sleep(trustOf(lease)); return nil }))
		for range 300 {
			got, err := l.TryAcquire(t.Context(), "k", lock.WithLease(lease))
			if err == nil {
				t.Fatalf("granted until %v, and it is %v", got.Deadline(), time.Now())
			}
			wantErr(t, err, lock.ErrUnavailable)
			time.Sleep(5 * time.Second)
		}
		if holds(t, store, "k") != 0 {
			t.Error("an orphan hold is left")
		}
	})
}

func TestCallersBehindAHangingStoreDoNotWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		heal := make(chan struct{})
		store.set(only("acquire", func(lock.Claim) error { <-heal; return errLineCut }), nil)
		l := newLocker(t, store)
		start := time.Now()
		errs := make(chan error)
		for range 100 {
			go func() {
				_, err := l.Acquire(t.Context(), "k")
				errs <- err
			}()
		}
		for range 100 {
			wantErr(t, <-errs, lock.ErrUnavailable)
		}
		if took := time.Since(start); took > 2*lock.DefaultCallTimeout {
			t.Errorf("the last of 100 callers got the error after %v", took)
		}
		close(heal)
	})
}

func TestAWaiterRidesOutARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		l, other := newLocker(t, store), newLocker(t, store.Store)
		lease := acquire(t, other, t.Context(), "k")
		got := make(chan error, 1)
		go func() {
			next, err := l.Acquire(t.Context(), "k")
			if err == nil {
				err = next.Release(t.Context())
			}
			got <- err
		}()
		synctest.Wait()
		store.set(func(string, lock.Claim) error { return errLineCut }, nil)
		time.Sleep(25 * time.Second) // a failover with the defaults of Sentinel
		release(t, lease)
		time.Sleep(time.Second)
		store.set(nil, nil)
		if err := <-got; err != nil {
			t.Errorf("the waiter: %v", err)
		}
	})
}

// So does one that came before anybody had the key, and saw another of its process get it.
func TestAWaiterBehindAHolderOfItsProcessRidesOutARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := far(30 * time.Millisecond)
		l := newLocker(t, store)
		first, second := start(t, l, t.Context()), start(t, l, t.Context())
		time.Sleep(time.Second)
		store.set(func(string, lock.Claim) error { return errLineCut }, nil)
		wantErr(t, granted(t, "the first", first).Release(t.Context()), lock.ErrUnavailable)
		time.Sleep(20 * time.Second)
		waits(t, "the second", second)
		store.set(nil, nil)
		time.Sleep(10 * time.Second)
		release(t, granted(t, "the second", second))
	})
}

func TestGivingUpLeavesNoOrphan(t *testing.T) {
	tests := []struct {
		name string
		call func(l *lock.Locker) error
	}{
		{"cancelled", func(l *lock.Locker) error {
			ctx, cancel := context.WithCancel(context.Background())
			time.AfterFunc(50*time.Millisecond, cancel)
			_, err := l.Acquire(ctx, "k")
			return err
		}},
		{"deadline", func(l *lock.Locker) error {
			ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
			defer cancel()
			_, err := l.TryAcquire(ctx, "k")
			return err
		}},
		{"call timeout", func(l *lock.Locker) error {
			_, err := l.TryAcquire(context.Background(), "k", lock.WithCallTimeout(50*time.Millisecond))
			return err
		}},
	}
	for _, tt := range tests {
		for _, when := range []string{"before it runs", "after it ran"} {
			t.Run(tt.name+" "+when, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					store := newFaulty()
					slow := only("acquire", func(lock.Claim) error { time.Sleep(time.Second); return nil })
					if when == "before it runs" {
						store.set(slow, nil)
					} else {
						store.set(nil, slow)
					}
					l := newLocker(t, store)
					start := time.Now()
					if err := tt.call(l); err == nil {
						t.Fatal("granted")
					}
					if took := time.Since(start); took != 50*time.Millisecond {
						t.Errorf("returned after %v, want at once", took)
					}
					time.Sleep(1500 * time.Millisecond)
					if holds(t, store, "k") != 0 {
						t.Error("an orphan hold is left")
					}
				})
			})
		}
	}
}

// The first request of an acquisition gets stuck, as in a socket buffer, and
// runs after the second was granted and released.
func TestADelayedDuplicateOfTheAcquireDoesNotOutliveTheRelease(t *testing.T) {
	tests := []struct {
		name  string
		stick func(store *faulty, c lock.Claim) error
	}{
		{"the client still waits for the answer", func(*faulty, lock.Claim) error {
			time.Sleep(3 * time.Second)
			return nil
		}},
		{"the client was cut off", func(store *faulty, c lock.Claim) error {
			time.AfterFunc(500*time.Millisecond, func() { _, _ = store.BlockingStore.Acquire(context.Background(), c) })
			return errLineCut
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newFaulty()
				var calls atomic.Int32
				store.set(only("acquire", func(c lock.Claim) error {
					if calls.Add(1) == 1 {
						return tt.stick(store, c)
					}
					return nil
				}), nil)
				l := newLocker(t, store, lock.WithCallTimeout(time.Second), lock.WithLease(time.Hour))
				lease, err := l.Acquire(t.Context(), "k")
				if err != nil { // the first answer took the whole call timeout
					wantErr(t, err, lock.ErrUnavailable)
				} else {
					release(t, lease)
				}
				time.Sleep(5 * time.Second) // the stuck one has run by now
				if holds(t, store, "k") != 0 {
					t.Error("the delayed request made an orphan hold")
				}
			})
		})
	}
}

func TestAReleaseThatTheStoreDoesNotConfirm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		l := newLocker(t, store)
		lease := acquire(t, l, t.Context(), "k")
		store.set(only("release", func(lock.Claim) error { return errLineCut }), nil)
		start := time.Now()
		wantErr(t, lease.Release(t.Context()), lock.ErrUnavailable, errLineCut)
		if took := time.Since(start); took > lock.DefaultCallTimeout {
			t.Errorf("took %v", took)
		}
		time.Sleep(5 * time.Second)
		store.set(nil, nil)
		time.Sleep(time.Second)
		if holds(t, store, "k") != 0 {
			t.Error("the release was not repeated in the background")
		}
	})
}

func TestReleaseWorksWhenTheRequestIsOver(t *testing.T) {
	store := memstore.New()
	l := newLocker(t, store)
	ctx, cancel := context.WithCancel(t.Context())
	lease := acquire(t, l, ctx, "k")
	cancel()
	if err := lease.Release(ctx); err != nil {
		t.Error(err)
	}
	if err := lease.Release(ctx); err != nil {
		t.Errorf("the second release: %v", err)
	}
	if holds(t, store, "k") != 0 {
		t.Error("still held")
	}
}

func TestARefusalIsNotRepeated(t *testing.T) {
	store := newFaulty()
	l := newLocker(t, store)
	errPermission := errors.New("no permission")
	store.set(only("acquire", func(lock.Claim) error {
		return &lock.StoreError{Outcome: lock.OutcomeRefused, Err: errPermission}
	}), nil)
	_, err := l.Acquire(t.Context(), "k")
	wantErr(t, err, lock.ErrUnavailable, errPermission)
	if n := store.count("acquire"); n != 1 {
		t.Errorf("asked %d times", n)
	}
	if n := store.count("release"); n != 0 {
		t.Errorf("undid %d times what never ran", n)
	}
}

func TestModesAStoreLacksAreUnsupported(t *testing.T) {
	l := newLocker(t, &oneMode{newRemote()})
	_, err := l.Acquire(t.Context(), "k", lock.WithMode(lock.Fair))
	wantErr(t, err, lock.ErrUnsupported)
	if errors.Is(err, lock.ErrUnavailable) {
		t.Errorf("%v must not look like an outage", err)
	}
}

// oneMode knows Exclusive only.
type oneMode struct{ lock.BlockingStore }

func (s *oneMode) Acquire(ctx context.Context, c lock.Claim) (uint64, error) {
	if c.Mode != lock.Exclusive {
		return 0, lock.ErrUnsupported
	}
	return s.BlockingStore.Acquire(ctx, c)
}

// What is to be undone first goes first, whatever the queue waits for; and Close does
// not wait for the pauses.
func TestANewUndoDoesNotWaitForThePausesOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		l := lock.New(port(store))
		for _, key := range []string{"a", "b"} {
			store.set(nil, only("acquire", func(lock.Claim) error { return errLineCut }))
			_, err := l.TryAcquire(t.Context(), key)
			wantErr(t, err, lock.ErrUnavailable)
			store.set(nil, nil)
			synctest.Wait()
			if n := holds(t, store.Store, key); n != 0 {
				t.Errorf("%d holds of %s are left", n, key)
			}
			time.Sleep(time.Second / 2) // the next pass of a comes later
		}
		start := time.Now()
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if took := time.Since(start); took > 0 {
			t.Errorf("Close took %v", took)
		}
	})
}

// What has expired needs no undo, also if the store is away for long.
func TestWhatHasExpiredIsNotUndone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		var backlog atomic.Int64
		l := newLocker(t, store, lock.WithHooks(lock.Hooks{Backlog: func(n int) { backlog.Store(int64(n)) }}))
		store.set(func(string, lock.Claim) error { return errLineCut }, nil)
		_, err := l.TryAcquire(t.Context(), "k")
		wantErr(t, err, lock.ErrUnavailable)
		time.Sleep(time.Second)
		if backlog.Load() != 1 {
			t.Errorf("%d are to be undone", backlog.Load())
		}
		time.Sleep(time.Minute)
		if backlog.Load() != 0 {
			t.Errorf("%d are to be undone after a minute", backlog.Load())
		}
	})
}

// overtakes are the ends of a hold that a slower call of one of its leases is no match
// for.
var overtakes = map[string]struct {
	by   func(context.Context, *lock.Locker, *lock.Lease) error
	want error // of an extension
}{
	"by the last release": {func(ctx context.Context, _ *lock.Locker, lease *lock.Lease) error { return lease.Release(ctx) }, lock.ErrReleased},
	"by Close":            {func(ctx context.Context, l *lock.Locker, _ *lock.Lease) error { return l.Close(ctx) }, lock.ErrClosed},
}

// An extension that finds nothing, as the lease was released meanwhile, is no loss.
func TestAnExtensionThatIsOvertakenIsNoLoss(t *testing.T) {
	for name, end := range overtakes {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newFaulty()
				store.set(only("renew", func(lock.Claim) error { time.Sleep(time.Second); return nil }), nil)
				l := newLocker(t, store)
				lease := acquire(t, l, t.Context(), "k")
				extended := make(chan error, 1)
				go func() { extended <- lease.Extend(t.Context(), time.Minute) }()
				synctest.Wait()
				wantErr(t, end.by(t.Context(), l, lease), nil)
				err := <-extended
				wantErr(t, err, end.want)
				if errors.Is(err, lock.ErrLost) {
					t.Errorf("%v, want no loss", err)
				}
			})
		})
	}
}

// A call without an answer may have made the key last for longer than the locker knows.
// The release is repeated for as long.
func TestAReleaseIsRepeatedForAsLongAsTheKeyMayLast(t *testing.T) {
	const answered = 19 * time.Minute // TTL of renewals of which the first gets an answer
	for name, prolong := range map[string]func(t *testing.T, l *lock.Locker){
		"an extension": func(t *testing.T, l *lock.Locker) {
			t.Helper()
			lease := acquire(t, l, t.Context(), "k")
			wantErr(t, lease.Extend(t.Context(), 10*time.Hour), lock.ErrUnavailable)
			wantErr(t, lease.Release(t.Context()), lock.ErrUnavailable)
		},
		"a long lease": func(t *testing.T, l *lock.Locker) {
			t.Helper()
			_, err := l.Acquire(t.Context(), "k", lock.WithLease(10*time.Hour))
			wantErr(t, err, lock.ErrUnavailable)
		},
		"an extension of what is lost": func(t *testing.T, l *lock.Locker) {
			t.Helper()
			lease := acquire(t, l, t.Context(), "k", lock.WithLease(10*time.Second))
			wantErr(t, lease.Extend(t.Context(), 10*time.Hour), lock.ErrUnavailable)
			<-lease.Context().Done()
			wantErr(t, lease.Release(t.Context()), lock.ErrExpired)
		},
		"a long re-entry": func(t *testing.T, l *lock.Locker) {
			t.Helper()
			lease := acquire(t, l, t.Context(), "k")
			_, err := l.Acquire(lease.Context(), "k", lock.WithLease(10*time.Hour))
			wantErr(t, err, lock.ErrUnavailable)
			wantErr(t, lease.Release(t.Context()), lock.ErrUnavailable)
		},
		"what a writer read": func(t *testing.T, l *lock.Locker) {
			t.Helper()
			writer := acquire(t, l, t.Context(), "k", writing)
			read := acquire(t, l, writer.Context(), "k", reading)
			wantErr(t, read.Extend(t.Context(), 10*time.Hour), lock.ErrUnavailable)
			release(t, read)
			wantErr(t, writer.Release(t.Context()), lock.ErrUnavailable)
		},
		"what a writer goes on reading": func(t *testing.T, l *lock.Locker) {
			t.Helper()
			writer := acquire(t, l, t.Context(), "k", writing)
			read := acquire(t, l, writer.Context(), "k", reading)
			wantErr(t, read.Extend(t.Context(), 10*time.Hour), lock.ErrUnavailable)
			release(t, writer)
			wantErr(t, read.Release(t.Context()), lock.ErrUnavailable)
		},
		"renewals": func(t *testing.T, l *lock.Locker) {
			t.Helper()
			lease := acquire(t, l, t.Context(), "k", lock.WithWatchdog(answered))
			time.Sleep(18 * time.Minute)
			wantErr(t, lease.Release(t.Context()), lock.ErrUnavailable)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newFaulty()
				l := newLocker(t, store)
				first := times(1, errLineCut)
				store.set(only("release", func(lock.Claim) error { return errLineCut }), func(op string, c lock.Claim) error {
					if op == "renew" && (c.TTL != answered || first(c) == nil) {
						return errLineCut
					}
					return nil
				})
				prolong(t, l)
				time.Sleep(5 * time.Minute) // longer than what was confirmed
				if holds(t, store, "k") == 0 {
					t.Error("the key is free: this tests nothing")
				}
				store.set(nil, nil)
				time.Sleep(time.Minute)
				if holds(t, store, "k") != 0 {
					t.Error("the key is held, and nobody releases it")
				}
			})
		})
	}
}

// Trust may end while a release is under way.
func TestAReleaseMayOutlastTheTrust(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		store.set(nil, only("release", func(lock.Claim) error { time.Sleep(5 * time.Second); return nil }))
		l := newLocker(t, store, lock.WithCallTimeout(10*time.Second))
		release(t, acquire(t, l, t.Context(), "k", lock.WithLease(time.Second)))
	})
}

// Not while its caller waits: who may do it is changed by somebody. It is, in the background.
func TestAReleaseThatIsRefusedIsRepeatedInTheBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		l := newLocker(t, store)
		lease := acquire(t, l, t.Context(), "k")
		errPermission := errors.New("no permission")
		var sent atomic.Int32
		store.set(only("release", func(c lock.Claim) error {
			if !c.Undo { // what may be left is removed in the background
				sent.Add(1)
			}
			return &lock.StoreError{Outcome: lock.OutcomeRefused, Err: errPermission}
		}), nil)
		wantErr(t, lease.Release(t.Context()), lock.ErrUnavailable, errPermission)
		if n := sent.Load(); n != 1 {
			t.Errorf("sent %d times", n)
		}
		time.Sleep(10 * time.Second) // all passes of an undo
		store.set(nil, nil)
		time.Sleep(time.Second)
		if n := holds(t, store.Store, "k"); n != 0 {
			t.Errorf("%d holds are left", n)
		}
	})
}

// Only a store that did nothing has found the claim wrong.
func TestARemovalWhoseFailureWrapsARefusalIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		l := newLocker(t, store)
		lease := acquire(t, l, t.Context(), "k")
		store.set(only("release", func(lock.Claim) error {
			return &lock.StoreError{Outcome: lock.OutcomeUnknown, Err: lock.ErrInvalid}
		}), nil)
		wantErr(t, lease.Release(t.Context()), lock.ErrUnavailable)
		time.Sleep(10 * time.Second) // all passes of an undo
		store.set(nil, nil)
		time.Sleep(time.Second)
		if n := holds(t, store.Store, "k"); n != 0 {
			t.Errorf("%d holds are left", n)
		}
	})
}

func TestCloseSaysThatAReleaseWasRefusedToTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		l := lock.New(port(store))
		lease := acquire(t, l, t.Context(), "k")
		store.set(only("release", func(lock.Claim) error {
			return &lock.StoreError{Outcome: lock.OutcomeRefused, Err: errors.New("no permission")}
		}), nil)
		wantErr(t, lease.Release(t.Context()), lock.ErrUnavailable)
		wantErr(t, l.Close(t.Context()), lock.ErrUnavailable)
	})
}

// The caller has gone, and the answer that comes late says nothing.
func TestALateFailureIsUndone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		l := newLocker(t, store)
		store.set(nil, only("acquire", func(lock.Claim) error { time.Sleep(time.Second); return errLineCut }))
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, err := l.TryAcquire(ctx, "k")
		wantErr(t, err, context.DeadlineExceeded)
		time.Sleep(10 * time.Second) // all passes of an undo
		if n := holds(t, store.Store, "k"); n != 0 {
			t.Errorf("%d holds are left", n)
		}
	})
}

// A call without an answer may run after the first removal: it is repeated soon, as most late
// calls run soon, and when the call can run no longer.
func TestWhatIsInDoubtIsUndoneThreeTimes(t *testing.T) {
	for name, end := range map[string]func(context.Context, *lock.Locker, *lock.Lease) error{
		"after the release": func(ctx context.Context, _ *lock.Locker, lease *lock.Lease) error { return lease.Release(ctx) },
		"after a loss": func(ctx context.Context, l *lock.Locker, lease *lock.Lease) error {
			_, err := l.ForceRelease(ctx, lease.Key())
			_ = lease.Release(ctx)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newFaulty()
				l := newLocker(t, store)
				store.set(nil, only("acquire", times(1, errLineCut)))
				lease := acquire(t, l, t.Context(), "k")
				var sent []time.Duration
				began := time.Now()
				store.set(only("release", func(lock.Claim) error {
					sent = append(sent, time.Since(began))
					return nil
				}), nil)
				wantErr(t, end(t.Context(), l, lease), nil)
				time.Sleep(time.Minute)
				synctest.Wait()
				soon := slices.Contains(sent, 100*time.Millisecond)
				if len(sent) < 3 || sent[0] != 0 || !soon || sent[len(sent)-1] < 2*time.Second {
					t.Errorf("removed at %v, want at once, after 100 ms, and after 2 s", sent)
				}
			})
		})
	}
}

func TestWhatAStoreRefusesIsAskedOnceAndNotUndone(t *testing.T) {
	for _, refusal := range []error{lock.ErrUnsupported, lock.ErrInvalid} {
		store := newFaulty()
		l := newLocker(t, store)
		store.set(only("acquire", func(lock.Claim) error { return refusal }), nil)
		_, err := l.Acquire(t.Context(), "k")
		wantErr(t, err, refusal)
		if asked, undone := store.count("acquire"), store.count("release"); asked != 1 || undone != 0 {
			t.Errorf("%v: asked %d times, undid %d", refusal, asked, undone)
		}
	}
}

// A failure is none of the store's answers, whatever it wraps.
func TestAFailureThatWrapsAnAnswerIsNone(t *testing.T) {
	for name, answer := range map[string]error{"not held": lock.ErrNotHeld, "busy": &lock.BusyError{TTL: time.Second}} {
		for call, opts := range map[string][]lock.Option{"Acquire": {lock.WithWait(time.Minute)}, "a try": {lock.WithWait(0)}} {
			t.Run(call+", "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					store := newFaulty()
					l := newLocker(t, store)
					store.set(nil, only("acquire", func(lock.Claim) error {
						return &lock.StoreError{Outcome: lock.OutcomeUnknown, Err: answer}
					}))
					_, err := l.Acquire(t.Context(), "k", opts...)
					wantErr(t, err, lock.ErrUnavailable)
					time.Sleep(10 * time.Second) // all passes of an undo
					if n := holds(t, store.Store, "k"); n != 0 {
						t.Errorf("%d holds are left", n)
					}
				})
			})
		}
	}
}

// Such a failure of a renewal is no loss.
func TestARenewalThatFailsWithAnAnswerInsideIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		l := newLocker(t, store)
		lease := acquire(t, l, t.Context(), "k")
		store.set(only("renew", func(lock.Claim) error {
			return &lock.StoreError{Outcome: lock.OutcomeUnknown, Err: lock.ErrNotHeld}
		}), nil)
		time.Sleep(20 * time.Second)
		store.set(nil, nil)
		time.Sleep(time.Minute)
		wantErr(t, lock.AssertHeld(lease.Context(), "k"), nil)
		release(t, lease)
	})
}

// Tries that share a call learn that the store failed.
func TestTriesThatShareAFailureWithAnAnswerInsideAreNotBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		l := newLocker(t, store)
		store.set(only("acquire", func(lock.Claim) error {
			time.Sleep(10 * time.Millisecond)
			return &lock.StoreError{Outcome: lock.OutcomeNotExecuted, Err: lock.ErrBusy}
		}), nil)
		leases, failed := atOnce(5, func() (*lock.Lease, error) { return l.TryAcquire(t.Context(), "k") })
		if len(leases) > 0 {
			t.Errorf("%d got the key", len(leases))
		}
		for _, err := range failed {
			wantErr(t, err, lock.ErrUnavailable)
		}
	})
}

// A store that refuses what it is asked for is well.
func TestWhatAStoreCallsInvalidIsNoOutage(t *testing.T) {
	store := newFaulty()
	store.set(only("acquire", func(lock.Claim) error { return lock.ErrInvalid }), nil)
	_, err := newLocker(t, store).Acquire(t.Context(), "k")
	wantErr(t, err, lock.ErrInvalid)
	if errors.Is(err, lock.ErrUnavailable) {
		t.Errorf("%v must not look like an outage", err)
	}
}

// A store may fail with an error of another lock, such as one that it works under. That says
// nothing about the hold that an acquisition would join.
func TestAFailureThatWrapsAReleaseIsOneOfTheStore(t *testing.T) {
	for call, opts := range map[string][]lock.Option{
		"Acquire":    nil,
		"TryAcquire": {lock.WithWait(0)},
	} {
		opts = slices.Clip(opts)
		t.Run(call, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newFaulty()
				l := newLocker(t, store)
				failing := only("acquire", func(lock.Claim) error { return fmt.Errorf("the store's own lock: %w", lock.ErrReleased) })
				store.set(failing, nil)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				began := time.Now()
				_, err := l.Acquire(ctx, "k", opts...)
				wantErr(t, err, lock.ErrUnavailable)
				if took, n := time.Since(began), store.count("acquire"); took > time.Second || n > 3 {
					t.Errorf("called %d times in %v", n, took)
				}
			})
		})
	}
}

// queries is a store that answers no query.
type queries struct{ lock.BlockingStore }

func (queries) Inspect(context.Context, string) (lock.State, error) { return lock.State{}, errLineCut }
func (queries) ForceRelease(context.Context, string) (bool, error)  { return false, errLineCut }

// A key that cannot be looked at is not free, and one that is not freed ends no lease.
func TestAQueryThatFailsIsAnError(t *testing.T) {
	l := newLocker(t, queries{newRemote()})
	lease := acquire(t, l, t.Context(), "k")
	_, err := l.Inspect(t.Context(), "k")
	wantErr(t, err, lock.ErrUnavailable, errLineCut)
	_, err = l.ForceRelease(t.Context(), "k")
	wantErr(t, err, lock.ErrUnavailable, errLineCut)
	wantErr(t, lock.AssertHeld(lease.Context(), "k"), nil)
	release(t, lease)
}

// What may be left in a store that blocks is removed by a few goroutines, however much it is.
func TestAStoreThatBlocksIsCleanedUpByAFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const keys, few = 40, 8
		store := newFaulty()
		var mu sync.Mutex
		var now, most int
		count := func(n int) {
			mu.Lock()
			defer mu.Unlock()
			now += n
			most = max(most, now)
		}
		store.set(func(op string, _ lock.Claim) error {
			switch op {
			case "acquire":
				return errors.New("no answer")
			case "release":
				count(1)
				time.Sleep(100 * time.Millisecond)
				count(-1)
			}
			return nil
		}, nil)
		l := newLocker(t, store)
		for i := range keys {
			_, err := l.TryAcquire(t.Context(), strconv.Itoa(i))
			wantErr(t, err, lock.ErrUnavailable)
		}
		time.Sleep(10 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		if n := store.count("release"); n < keys || most != few {
			t.Errorf("%d calls for %d keys, %d at a time; want %d", n, keys, most, few)
		}
	})
}

func TestAReleaseWithoutAContextReleasesNothing(t *testing.T) {
	store := memstore.New()
	lease := acquire(t, newLocker(t, store), t.Context(), "k")
	func() {
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
		}()
		_ = lease.Release(nil) //nolint:staticcheck // that is what is tried
	}()
	release(t, lease)
	if n := store.Len(); n != 0 {
		t.Errorf("%d keys are left", n)
	}
}
