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
			want: lock.ErrExpired, says: "WithLease",
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
			want: lock.ErrNotRenewed, says: "watchdog",
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
				for _, other := range []error{lock.ErrExpired, lock.ErrHeldTooLong, lock.ErrNotRenewed, lock.ErrTaken, lock.ErrForced} {
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
		"no re-entry":   {nil, []lock.Option{lock.WithoutReentry()}},
		"all permits":   {[]lock.Option{lock.WithPermits(2, 3)}, []lock.Option{lock.WithPermits(2, 3)}},
		"reads as well": {[]lock.Option{writing}, []lock.Option{reading, lock.WithoutReentry()}},
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
		"fixed":    {lock.WithLease(length), length * 9 / 10, length, lock.ErrExpired},
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
