package lock_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
)

// Each way of losing a lease has an error that says what can be done, in the
// cause of its context, in what its release returns, and in the hook.
func TestEachLossHasItsReason(t *testing.T) {
	away := only("renew", func(lock.Claim) error { return errLineCut })
	for name, c := range map[string]struct {
		opts []lock.Option
		lose func(t *testing.T, l *lock.Locker, store *faulty)
		want error
		says string
	}{
		"lease over": {
			opts: []lock.Option{lock.WithLease(time.Second)},
			lose: func(*testing.T, *lock.Locker, *faulty) { time.Sleep(2 * time.Second) },
			want: lock.ErrLeaseOver, says: "WithLease",
		},
		"held too long": {
			opts: []lock.Option{lock.WithMaxHold(time.Second)},
			lose: func(*testing.T, *lock.Locker, *faulty) { time.Sleep(2 * time.Second) },
			want: lock.ErrHeldTooLong, says: "WithMaxHold",
		},
		"store away": {
			lose: func(_ *testing.T, _ *lock.Locker, store *faulty) {
				store.set(away, nil)
				time.Sleep(time.Minute)
				store.set(nil, nil)
			},
			want: lock.ErrStoreAway, says: "watchdog",
		},
		"taken": {
			lose: func(t *testing.T, _ *lock.Locker, store *faulty) {
				t.Helper()
				if _, err := store.ForceRelease(t.Context(), "k"); err != nil {
					t.Error(err)
				}
				time.Sleep(time.Minute)
			},
			want: lock.ErrTaken, says: "evictions",
		},
		"taken, and released at once": {
			lose: func(t *testing.T, _ *lock.Locker, store *faulty) {
				t.Helper()
				if _, err := store.ForceRelease(t.Context(), "k"); err != nil {
					t.Error(err)
				}
			},
			want: lock.ErrTaken, says: "evictions",
		},
		"forced": {
			lose: func(t *testing.T, l *lock.Locker, _ *faulty) {
				t.Helper()
				if _, err := l.ForceRelease(t.Context(), "k"); err != nil {
					t.Error(err)
				}
			},
			want: lock.ErrForced, says: "ForceRelease",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var hooked error
				store := newFaulty()
				l := newLocker(t, store, lock.WithHooks(lock.Hooks{Lost: func(e lock.LossEvent) { hooked = e.Cause }}))
				lease := acquire(t, l, t.Context(), "k", c.opts...)
				c.lose(t, l, store)
				synctest.Wait()
				err := lease.Release(t.Context())
				wantErr(t, err, c.want, lock.ErrLost)
				if cause := context.Cause(lease.Context()); !errors.Is(cause, lock.ErrReleased) {
					wantErr(t, cause, c.want, lock.ErrLost)
				}
				wantErr(t, hooked, c.want, lock.ErrLost)
				if !strings.Contains(err.Error(), c.says) {
					t.Errorf("%q does not name the cure, %q", err, c.says)
				}
				for _, other := range []error{lock.ErrLeaseOver, lock.ErrHeldTooLong, lock.ErrStoreAway, lock.ErrTaken, lock.ErrForced} {
					if errors.Is(err, other) != errors.Is(c.want, other) {
						t.Errorf("%q also matches %q", err, other)
					}
				}
			})
		})
	}
}

func TestWhoWaitsForItselfIsToldSo(t *testing.T) {
	for name, c := range map[string]struct{ outer, inner []lock.Option }{
		"another name":   {nil, []lock.Option{lock.WithOwner("b")}},
		"between names":  {[]lock.Option{lock.WithOwner("a")}, []lock.Option{lock.WithOwner("b")}},
		"no re-entry":    {nil, []lock.Option{lock.WithoutReentry()}},
		"all permits":    {[]lock.Option{lock.WithPermits(2, 3)}, []lock.Option{lock.WithPermits(2, 3)}},
		"reads as well":  {[]lock.Option{lock.WithMode(lock.Write)}, []lock.Option{lock.WithMode(lock.Read), lock.WithOwner("b")}},
		"writes as well": {[]lock.Option{lock.WithMode(lock.Read)}, []lock.Option{lock.WithMode(lock.Write), lock.WithOwner("b")}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLocker(t, memstore.New())
				lease := acquire(t, l, t.Context(), "k", c.outer...)
				defer release(t, lease)
				_, try := l.TryAcquire(lease.Context(), "k", c.inner...)
				_, wait := l.Acquire(lease.Context(), "k", append(c.inner, lock.WithWait(time.Second))...)
				for _, err := range []error{try, wait} {
					wantErr(t, err, lock.ErrBusy, lock.ErrOwnHold)
					if err == nil || strings.Contains(err.Error(), lock.ErrBusy.Error()) {
						t.Errorf("%v speaks of another owner", err)
					}
				}
				_, err := l.TryAcquire(t.Context(), "k", c.inner...)
				if errors.Is(err, lock.ErrOwnHold) {
					t.Errorf("a caller that holds nothing got %v", err)
				}
			})
		})
	}
}

// A lease in a log line shows neither the key nor the owner, which is enough
// to release it.
func TestALeasePrintsNoOwner(t *testing.T) {
	l := newLocker(t, memstore.New())
	lease := acquire(t, l, t.Context(), "order:42")
	defer release(t, lease)
	for _, verb := range []string{"%s", "%v", "%+v", "%#v", "%d", "%q"} {
		got := fmt.Sprintf(verb, lease)
		if strings.Contains(got, lease.Owner()) || strings.Contains(got, "order:42") {
			t.Errorf("%s prints %s", verb, got)
		}
		if of := fmt.Sprintf(verb, lease.Context()); of != got {
			t.Errorf("%s prints the context as %s, want %s", verb, of, got)
		}
	}
	if got, want := fmt.Sprint(lease), fmt.Sprintf("lease(mode=exclusive, fence=%d)", lease.Fence()); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// A store that panics has an unknown outcome, and nothing is left of the call.
func TestAPanicInAStoreCallIsAnUnknownOutcome(t *testing.T) {
	for _, op := range []string{"acquire", "release", "renew", "watch"} {
		t.Run(op, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newFaulty()
				var mu sync.Mutex
				var renewed error
				l := newLocker(t, store, lock.WithHooks(lock.Hooks{Renewed: func(e lock.RenewEvent) {
					mu.Lock()
					defer mu.Unlock()
					renewed = errors.Join(renewed, e.Err)
				}}))
				lease := acquire(t, l, t.Context(), "held")
				store.set(nil, only(op, func(lock.Claim) error { panic("bad reply") }))
				_, failed := l.Acquire(t.Context(), "k", lock.WithWait(10*time.Second))
				_, _ = l.Acquire(t.Context(), "held", lock.WithWait(10*time.Second)) // subscribes
				time.Sleep(15 * time.Second)
				if lease.Context().Err() != nil {
					t.Errorf("the lease ended: %v", context.Cause(lease.Context()))
				}
				released := lease.Release(t.Context())
				store.set(nil, nil)
				mu.Lock()
				defer mu.Unlock()
				for op2, err := range map[string]error{"acquire": failed, "release": released, "renew": renewed} {
					var panicked *lock.PanicError
					if errors.As(err, &panicked) != (op == op2) {
						t.Errorf("%s said %v", op2, err)
					} else if op == op2 && (panicked.Value != "bad reply" || !strings.Contains(err.Error(), "reasons_test.go")) {
						t.Errorf("%s does not show where: %v", op2, err)
					}
				}
			})
		})
	}
}

func TestNumbersThatAreTooLargeAreRefused(t *testing.T) {
	l := newLocker(t, memstore.New())
	for _, d := range []time.Duration{lock.MaxDuration + 1, math.MaxInt64} {
		for name, opt := range map[string]lock.Option{
			"WithLease": lock.WithLease(d), "WithWatchdog": lock.WithWatchdog(d), "WithWait": lock.WithWait(d),
			"WithMaxWait": lock.WithMaxWait(d), "WithMaxHold": lock.WithMaxHold(d), "WithPoll": lock.WithPoll(d),
			"WithCallTimeout": lock.WithCallTimeout(d),
		} {
			_, err := l.Acquire(t.Context(), "k", opt)
			wantErr(t, err, lock.ErrInvalid)
			if err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("%s: %v", name, err)
			}
		}
		lease := acquire(t, l, t.Context(), "k")
		wantErr(t, lease.Extend(t.Context(), d), lock.ErrInvalid)
		release(t, lease)
	}
	for _, n := range []int{lock.MaxPermits + 1, math.MaxInt} {
		_, err := l.Acquire(t.Context(), "k", lock.WithPermits(1, n))
		wantErr(t, err, lock.ErrInvalid)
	}
	lease := acquire(t, l, t.Context(), "k", lock.WithLease(lock.MaxDuration))
	if left := time.Until(lease.Deadline()); left < lock.MaxDuration*9/10 {
		t.Errorf("a lease of a year lasts %v", left)
	}
	release(t, lease)
}

// Nobody renews a fixed lease, so nobody finds out that its key was taken away.
func TestAFixedLeaseThatIsTakenAwayLastsUntilItsEnd(t *testing.T) {
	const length = 10 * time.Minute
	for name, c := range map[string]struct {
		opt            lock.Option
		least, longest time.Duration
		cause          error
	}{
		"fixed":    {lock.WithLease(length), length * 9 / 10, length, lock.ErrLeaseOver},
		"watchdog": {lock.WithWatchdog(length), 0, length / 3, lock.ErrTaken},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memstore.New()
				l, other := newLocker(t, store), newLocker(t, store)
				began := time.Now()
				lease := acquire(t, l, t.Context(), "k", c.opt)
				if _, err := store.ForceRelease(t.Context(), "k"); err != nil {
					t.Fatal(err)
				}
				next := acquire(t, other, t.Context(), "k")
				<-lease.Context().Done()
				if lasted := time.Since(began); lasted < c.least || lasted > c.longest {
					t.Errorf("it ended after %v, want %v to %v", lasted, c.least, c.longest)
				}
				wantErr(t, context.Cause(lease.Context()), c.cause)
				if err := next.Context().Err(); err != nil {
					t.Errorf("the next owner: %v", err)
				}
				release(t, next)
			})
		})
	}
}

// ErrBusy says that the work did not run, and so a loss is none, though it was noticed
// because another owner has the key.
func TestALossIsNoContention(t *testing.T) {
	store := newFaulty()
	l, other := newLocker(t, store), newLocker(t, store)
	store.set(only("acquire", func(c lock.Claim) error {
		if c.Holds > 1 {
			return &lock.BusyError{TTL: time.Second}
		}
		return nil
	}), nil)
	exclusive := lock.WithMode(lock.Exclusive)
	takenUnderWork(t, l, other, exclusive, exclusive)
}

// A writer may always read: where the store says that another has the key, the writer
// has lost it.
func TestAReadThatIsRefusedToItsWriterIsALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		takenUnderWork(t, newLocker(t, store), newLocker(t, store), writing, reading)
	})
}

// takenUnderWork takes a key of l by force while work runs, which then acquires again. It
// must hear of the loss, and of no contention.
func takenUnderWork(t *testing.T, l, other *lock.Locker, mode, again lock.Option) {
	t.Helper()
	var theirs *lock.Lease
	err := l.Do(t.Context(), "k", func(ctx context.Context) error {
		if _, err := other.ForceRelease(t.Context(), "k"); err != nil {
			t.Error(err)
		}
		theirs = acquire(t, other, t.Context(), "k", mode)
		_, err := l.Acquire(ctx, "k", again)
		wantErr(t, err, lock.ErrTaken, lock.ErrNotHeld)
		wantErr(t, context.Cause(ctx), lock.ErrTaken)
		if cause := context.Cause(ctx); errors.Is(err, lock.ErrBusy) || errors.Is(cause, lock.ErrBusy) {
			t.Errorf("got %v and the cause %v, which match ErrBusy", err, cause)
		}
		return nil
	}, mode)
	wantErr(t, err, lock.ErrTaken)
	if errors.Is(err, lock.ErrBusy) {
		t.Errorf("got %v, which matches ErrBusy", err)
	}
	release(t, theirs)
}

// In the queue it waits for its turn, as a separate owner.
func TestAReaderInTheQueueWhoseWriterIsLostSleeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		l, other := newLocker(t, store, lock.WithOwner("me")), newLocker(t, store)
		theirs := acquire(t, other, t.Context(), "k", writing)
		w, r := start(t, l, t.Context(), writing), start(t, l, t.Context(), reading)
		store.set(only("acquire", func(c lock.Claim) error {
			if c.Mode == lock.Read {
				time.Sleep(20 * time.Millisecond) // a slow packet
			}
			return nil
		}), nil)
		release(t, theirs)
		write := granted(t, "the writer", w)
		if _, err := store.Store.ForceRelease(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
		theirs = acquire(t, other, t.Context(), "k", writing)
		before := store.count("acquire")
		time.Sleep(time.Second)
		waits(t, "the reader", r)
		if n := store.count("acquire") - before; n > 10 {
			t.Errorf("%d calls in a second", n)
		}
		wantErr(t, context.Cause(write.Context()), lock.ErrTaken)
		release(t, theirs)
		time.Sleep(time.Second)
		release(t, granted(t, "the reader", r))
	})
}

// The release of one of several leases is repeated until it is answered. An answer that
// the key is held by somebody else is a loss: unlike the last release, the call before
// can't have done that.
func TestARepeatedReleaseOfOneOfSeveralLeasesTellsOfALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		l, other := newLocker(t, store), newLocker(t, store)
		outer := acquire(t, l, t.Context(), "k", lock.WithLease(20*time.Second))
		inner := acquire(t, l, outer.Context(), "k", lock.WithLease(20*time.Second))
		cut := times(1, errLineCut)
		store.set(only("release", func(c lock.Claim) error {
			err := cut(c)
			if err != nil {
				_, _ = store.Store.ForceRelease(t.Context(), "k") // a failover forgets it
			}
			return err
		}), nil)
		err := inner.Release(t.Context())
		store.set(nil, nil)
		release(t, acquire(t, other, t.Context(), "k"))
		wantErr(t, err, lock.ErrTaken, lock.ErrNotHeld)
		wantErr(t, context.Cause(outer.Context()), lock.ErrTaken)
	})
}

// A release that arrives when the limit has passed says what the loss says.
func TestAReleaseThatIsLateSaysHowTheHoldEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		l := newLocker(t, store)
		outer := acquire(t, l, t.Context(), "k", lock.WithMaxHold(time.Second))
		inner := acquire(t, l, outer.Context(), "k")
		store.set(only("release", func(lock.Claim) error { time.Sleep(time.Second + time.Millisecond); return nil }), nil)
		err := inner.Release(t.Context())
		wantErr(t, err, lock.ErrHeldTooLong)
		if errors.Is(err, lock.ErrTaken) {
			t.Errorf("got %v, and nobody took it", err)
		}
		wantErr(t, context.Cause(outer.Context()), lock.ErrHeldTooLong)
		wantErr(t, outer.Release(t.Context()), lock.ErrHeldTooLong)
	})
}

func TestWhoseLeaseIsReleasedWaitsForAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLocker(t, memstore.New())
		outer := acquire(t, l, t.Context(), "k")
		inner := acquire(t, l, outer.Context(), "k")
		ctx := context.WithoutCancel(outer.Context())
		release(t, outer)
		_, err := l.TryAcquire(ctx, "k", lock.WithOwner("other"))
		wantErr(t, err, lock.ErrBusy)
		if errors.Is(err, lock.ErrOwnHold) {
			t.Errorf("%v: it has released that", err)
		}
		release(t, inner)
	})
}

// Somebody else may release what it waits for.
func TestWhoWaitsForItselfIsServedWhenAnotherReleasesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLocker(t, memstore.New())
		outer := acquire(t, l, t.Context(), "k")
		waits := await(context.WithoutCancel(outer.Context()), l, "k", lock.WithOwner("other"))
		release(t, outer)
		release(t, waits.got(t))
	})
}

func TestAnEndedContextIsNotBusy(t *testing.T) {
	l := newLocker(t, memstore.New())
	lease := acquire(t, l, t.Context(), "k")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, key := range []string{"k", "free"} {
		_, err := l.TryAcquire(ctx, key)
		wantErr(t, err, context.Canceled)
	}
	release(t, lease)
}
