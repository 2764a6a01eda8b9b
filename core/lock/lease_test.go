package lock_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
)

func TestAContextThatIsWantedLateHasTheCauseOfTheEnd(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(*lock.Locker, *lock.Lease) error
		want error
	}{
		{"released", func(_ *lock.Locker, lease *lock.Lease) error { return lease.Release(context.Background()) }, lock.ErrReleased},
		{"over", func(*lock.Locker, *lock.Lease) error { time.Sleep(time.Second); return nil }, lock.ErrExpired},
		{"closed", func(l *lock.Locker, _ *lock.Lease) error { return l.Close(context.Background()) }, lock.ErrClosed},
		{"forced", func(l *lock.Locker, lease *lock.Lease) error {
			_, err := l.ForceRelease(context.Background(), lease.Key())
			return err
		}, lock.ErrForced},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLocker(t, memstore.New())
				lease := acquire(t, l, t.Context(), "k", lock.WithLease(time.Second))
				if err := tt.end(l, lease); err != nil {
					t.Fatal(err)
				}
				ctx := lease.Context()
				if ctx.Err() == nil || !errors.Is(context.Cause(ctx), tt.want) {
					t.Errorf("error %v, cause %v, want %v", ctx.Err(), context.Cause(ctx), tt.want)
				}
				if lease.Context() != ctx {
					t.Error("another context")
				}
			})
		})
	}
}

// Nobody looks at the context before both have ended.
func TestAContextHasTheCauseOfWhatEndedFirst(t *testing.T) {
	errParent := errors.New("the parent's end")
	l := newLocker(t, memstore.New())
	for _, released := range []bool{true, false} {
		parent, cancel := context.WithCancelCause(t.Context())
		lease := acquire(t, l, parent, "k")
		want := errParent
		if released {
			release(t, lease)
			want = lock.ErrReleased
		}
		cancel(errParent)
		release(t, lease)
		child, stop := context.WithCancel(lease.Context())
		stop()
		for _, ctx := range []context.Context{lease.Context(), child} {
			if cause := context.Cause(ctx); !errors.Is(ctx.Err(), context.Canceled) || !errors.Is(cause, want) {
				t.Errorf("released first: %v: error %v, cause %v, want %v", released, ctx.Err(), cause, want)
			}
		}
	}
}

// A context whose parent isn't one of package context needs a goroutine to end with
// it, and ends a little later.
func TestContextsMadeOfALeasesEndWithIt(t *testing.T) {
	l := newLocker(t, memstore.New())
	lease := acquire(t, l, t.Context(), "k")
	const each = 100
	before := runtime.NumGoroutine()
	called := make(chan struct{}, each)
	var children []context.Context
	for range each {
		child, cancel := context.WithCancel(lease.Context())
		defer cancel()
		timed, cancel := context.WithTimeout(context.WithValue(lease.Context(), t, t), time.Hour)
		defer cancel()
		context.AfterFunc(lease.Context(), func() { called <- struct{}{} })
		children = append(children, child, timed)
	}
	if n := goroutines(before+each-1) - before; n >= each {
		t.Errorf("%d goroutines for %d contexts", n, each)
	}
	release(t, lease)
	for _, ctx := range children {
		if !errors.Is(ctx.Err(), context.Canceled) || !errors.Is(context.Cause(ctx), lock.ErrReleased) {
			t.Errorf("error %v, cause %v", ctx.Err(), context.Cause(ctx))
		}
	}
	for range each {
		<-called
	}
}

func TestALeaseThatNobodyWaitsForNeedsNoContext(t *testing.T) {
	l := newLocker(t, memstore.New())
	lease := acquire(t, l, t.Context(), "k")
	if allocs := testing.AllocsPerRun(100, func() {
		ctx := lease.Context()
		if _, held := lock.FromContext(ctx); !held || ctx.Err() != nil {
			t.Error("not held")
		}
	}); allocs > 0 {
		t.Errorf("%v allocations", allocs)
	}
	select {
	case <-lease.Context().Done():
		t.Error("it has ended")
	default:
	}
	release(t, lease)
	<-lease.Context().Done()
}

func TestALeaseEndsOnTimeAmongManyThatDoNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLocker(t, memstore.New())
		began := time.Now()
		var mu sync.Mutex
		ended := make(map[int]time.Duration)
		var leases []*lock.Lease
		for i := range 50 {
			n := i * 37 % 50 // in another order than that of their ends
			lease := acquire(t, l, t.Context(), fmt.Sprint(n), lock.WithLease(time.Duration(n+1)*time.Second))
			context.AfterFunc(lease.Context(), func() {
				if errors.Is(context.Cause(lease.Context()), lock.ErrLost) {
					mu.Lock()
					defer mu.Unlock()
					ended[n] = time.Since(began)
				}
			})
			leases = append(leases, lease)
		}
		for _, lease := range leases {
			if n := lease.Key(); n == "7" || n == "0" || n == "49" {
				release(t, lease)
			}
			if lease.Key() == "10" {
				if err := lease.Extend(t.Context(), 100*time.Second); err != nil {
					t.Fatal(err)
				}
			}
		}
		for range 101 {
			time.Sleep(time.Second)
			synctest.Wait()
		}
		mu.Lock()
		defer mu.Unlock()
		for n := range 50 {
			want := trustOf(time.Duration(n+1) * time.Second)
			switch n {
			case 0, 7, 49:
				want = 0
			case 10:
				want = trustOf(100 * time.Second)
			}
			if ended[n] != want {
				t.Errorf("lease %d ended after %v, want %v", n, ended[n], want)
			}
		}
	})
}

// A hook must not block. Where one does, leases end all the same.
func TestASlowHookDelaysNoEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck := make(chan struct{})
		l := newLocker(t, memstore.New(), lock.WithHooks(lock.Hooks{Lost: func(lock.LossEvent) { <-stuck }}))
		began := time.Now()
		var leases []*lock.Lease
		for i, d := range []time.Duration{time.Second, time.Second, 2 * time.Second} {
			leases = append(leases, acquire(t, l, t.Context(), fmt.Sprint(i), lock.WithLease(d)))
		}
		for _, lease := range leases {
			<-lease.Context().Done()
		}
		if got, want := time.Since(began), trustOf(2*time.Second); got != want {
			t.Errorf("the last ended after %v, want %v", got, want)
		}
		close(stuck)
		synctest.Wait()
	})
}

func TestASlowHookDelaysNoForcedEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck := make(chan struct{})
		l := newLocker(t, memstore.New(), lock.WithHooks(lock.Hooks{Lost: func(lock.LossEvent) { <-stuck }}))
		one := acquire(t, l, t.Context(), "k", lock.WithPermits(1, 2))
		two := acquire(t, l, t.Context(), "k", lock.WithPermits(1, 2))
		ctx := t.Context()
		go func() { _, _ = l.ForceRelease(ctx, "k") }()
		synctest.Wait()
		wantErr(t, context.Cause(one.Context()), lock.ErrForced)
		wantErr(t, context.Cause(two.Context()), lock.ErrForced)
		close(stuck)
		synctest.Wait()
	})
}

// Whether somebody looked at the context before makes no difference.
func TestAReleasedLeaseStaysReleasedWhateverBecomesOfItsHold(t *testing.T) {
	for name, end := range map[string]func(l *lock.Locker) error{
		"forced": func(l *lock.Locker) error { _, err := l.ForceRelease(t.Context(), "k"); return err },
		"closed": func(l *lock.Locker) error { return l.Close(t.Context()) },
	} {
		t.Run(name, func(t *testing.T) {
			l := newLocker(t, memstore.New())
			outer := acquire(t, l, t.Context(), "k")
			inner := acquire(t, l, outer.Context(), "k")
			release(t, inner)
			if err := end(l); err != nil {
				t.Fatal(err)
			}
			wantErr(t, context.Cause(inner.Context()), lock.ErrReleased)
		})
	}
}

// A lease that is lost is released in vain.
func TestALostLeaseStaysLostWhenItIsReleased(t *testing.T) {
	l := newLocker(t, memstore.New())
	lease := acquire(t, l, t.Context(), "k")
	if _, err := l.ForceRelease(t.Context(), "k"); err != nil {
		t.Fatal(err)
	}
	wantErr(t, lease.Release(t.Context()), lock.ErrForced)
	wantErr(t, context.Cause(lease.Context()), lock.ErrForced)
}

// A hold forgets the leases that are released, in whatever order, and these each
// other: a lease that is held for days may be re-entered for ever.
func TestAReleasedLeaseIsForgotten(t *testing.T) {
	for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		l := newLocker(t, memstore.New())
		outer := acquire(t, l, t.Context(), "k")
		var inner [3]*lock.Lease
		for i := range inner {
			inner[i] = acquire(t, l, outer.Context(), "k")
		}
		for _, i := range order {
			release(t, inner[i])
		}
		for i := range inner {
			gone := weak.Make(inner[i])
			inner[i] = nil // the others are known, and must not know it
			for deadline := time.Now().Add(10 * time.Second); gone.Value() != nil; runtime.GC() {
				if time.Now().After(deadline) {
					t.Fatalf("released in the order %v, number %d is still referenced", order, i)
				}
			}
		}
		release(t, outer)
	}
}

// So does a wait that has ended, while others wait.
func TestAWaitThatHasEndedIsForgotten(t *testing.T) {
	store := memstore.New()
	l, other := newLocker(t, store), newLocker(t, store)
	theirs := acquire(t, other, t.Context(), "k")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = l.Acquire(ctx, "k")
	}()
	type caller struct{ context.Context }
	gone := func() weak.Pointer[caller] {
		c := &caller{t.Context()}
		_, err := l.Acquire(c, "k", lock.WithWait(time.Millisecond))
		wantErr(t, err, lock.ErrBusy)
		return weak.Make(c)
	}()
	for deadline := time.Now().Add(10 * time.Second); gone.Value() != nil; runtime.GC() {
		if time.Now().After(deadline) {
			t.Fatal("what has ended is still referenced")
		}
	}
	cancel()
	<-ended
	release(t, theirs)
}

// A context can outlive the lease that it carries.
func TestAnAcquisitionUnderAReleasedLeaseIsANewOne(t *testing.T) {
	l := newLocker(t, memstore.New())
	old := acquire(t, l, t.Context(), "k")
	ctx := context.WithoutCancel(old.Context())
	release(t, old)
	lease := acquire(t, l, ctx, "k")
	if lease.Fence() <= old.Fence() {
		t.Errorf("fence %d, after %d", lease.Fence(), old.Fence())
	}
	release(t, lease)
}

// Who defers a release before the check of the error has a nil lease.
func TestANilLeaseIsNotHeld(t *testing.T) {
	var lease *lock.Lease
	var leases *lock.Leases
	ofTests := map[string]bool{"Locker": true, "TTLAt": true}
	for _, none := range []any{lease, leases} {
		v := reflect.ValueOf(none)
		for i := range v.NumMethod() {
			method := v.Type().Method(i)
			if method.Name == "Format" || ofTests[method.Name] {
				continue
			}
			var args []reflect.Value
			for in := 1; in < method.Type.NumIn(); in++ {
				if arg := method.Type.In(in); arg == reflect.TypeFor[context.Context]() {
					args = append(args, reflect.ValueOf(t.Context()))
				} else {
					args = append(args, reflect.ValueOf(time.Minute).Convert(arg))
				}
			}
			for _, result := range v.Method(i).Call(args) {
				switch got := result.Interface().(type) {
				case error:
					wantErr(t, got, lock.ErrNotHeld)
				case context.Context:
					wantErr(t, context.Cause(got), lock.ErrNotHeld)
				case nil:
					t.Errorf("%T.%s: no error", none, method.Name)
				default:
					if !result.IsZero() {
						t.Errorf("%T.%s: %v", none, method.Name, got)
					}
				}
			}
		}
	}
	for _, verb := range []string{"%s", "%v", "%+v", "%#v", "%d"} {
		if got := fmt.Sprintf(verb, lease); strings.Contains(got, "PANIC") {
			t.Errorf("%s prints %s", verb, got)
		}
	}
	wantErr(t, lock.AssertHeld(lease.Context(), "k"), lock.ErrNotHeld)
	_, err := newLocker(t, memstore.New()).Acquire(lease.Context(), "k")
	wantErr(t, err, context.Canceled, lock.ErrNotHeld)
}

// leaping is a store whose clock was set back: keys last for longer than their owners know.
type leaping struct{ *faulty }

func (s leaping) Acquire(ctx context.Context, c lock.Claim) (uint64, error) {
	c.TTL += 20 * time.Second
	return s.faulty.Acquire(ctx, c)
}

// What was lost is removed by the release of the lease all the same, for some 30 s.
func TestAKeyThatOutlastsItsHoldIsRemovedByTheRelease(t *testing.T) {
	for name, away := range map[string]time.Duration{"a late release": 0, "a release while the store is away": 10 * time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := leaping{newFaulty()}
				l := newLocker(t, store)
				lease := acquire(t, l, t.Context(), "k", lock.WithLease(time.Second))
				time.Sleep(5 * time.Second)
				if away > 0 {
					store.set(func(string, lock.Claim) error { return errLineCut }, nil)
				}
				wantErr(t, lease.Release(t.Context()), lock.ErrLost)
				time.Sleep(away)
				store.set(nil, nil)
				time.Sleep(2 * time.Second)
				if n := holds(t, store, "k"); n != 0 {
					t.Errorf("the key is held by %d", n)
				}
			})
		})
	}
}

// Two acquires of one owner ran in the other order: the first has taken a place after the
// second was granted and the hold was removed by force. Its answer says so, and the end of
// the lease removes the place.
func TestAPlaceThatAnEarlierCallTookLaterIsRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		l, other := newLocker(t, store, fair, lock.WithWatchdog(6*time.Second)), newLocker(t, store.Store)
		blocker := acquire(t, other, t.Context(), "k")
		waiter := await(t.Context(), l, "k") // it has been refused, and will ride out an outage
		first, second := make(chan struct{}), make(chan struct{})
		var calls, answers atomic.Int32
		store.set(only("acquire", func(lock.Claim) error {
			if calls.Add(1) == 1 {
				<-first
			}
			return nil
		}), only("acquire", func(lock.Claim) error {
			if answers.Add(1) == 1 {
				<-second
			}
			return nil
		}))
		release(t, blocker)
		time.Sleep(lock.DefaultCallTimeout + time.Second)
		if n := answers.Load(); n != 1 {
			t.Fatalf("%d calls were granted", n)
		}
		if _, err := other.ForceRelease(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
		held := acquire(t, other, t.Context(), "k")
		close(first)
		synctest.Wait()
		close(second)
		lease := waiter.got(t)
		<-lease.Context().Done() // a renewal has found that it is lost
		wantErr(t, lease.Release(t.Context()), lock.ErrLost)
		release(t, held)
		time.Sleep(time.Second)
		if state, err := store.Inspect(t.Context(), "k"); err != nil || len(state.Waiters) > 0 {
			t.Errorf("left: %+v, %v", state, err)
		}
	})
}

// lateForce answers forced releases late.
type lateForce struct {
	*faulty

	answered chan struct{}
}

func (s lateForce) ForceRelease(ctx context.Context, key string) (bool, error) {
	freed, err := s.faulty.ForceRelease(ctx, key)
	<-s.answered
	return freed, err
}

// What is granted after a forced release was sent stays, also if the locker had nothing of
// the key in between.
func TestAForcedReleaseThatIsAnsweredLateEndsNoLaterGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := lateForce{newFaulty(), make(chan struct{})}
		l := newLocker(t, store)
		before := acquire(t, l, t.Context(), "k")
		forced := make(chan error, 1)
		go func() {
			_, err := l.ForceRelease(t.Context(), "k")
			forced <- err
		}()
		synctest.Wait()
		wantErr(t, before.Release(t.Context()), lock.ErrLost)
		after := acquire(t, l, t.Context(), "k")
		close(store.answered)
		if err := <-forced; err != nil {
			t.Fatal(err)
		}
		if err := after.Context().Err(); err != nil {
			t.Errorf("the later lease: %v", err)
		}
		release(t, after)
	})
}
