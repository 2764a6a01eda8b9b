package leader_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/core/leader"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
)

func elect(ctx context.Context, e *leader.Elector) <-chan error {
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	return ended
}

func TestAnElectorLetsTheLeaderWorkAndNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		l, other := newLocker(t, store), newLocker(t, store)
		one, two := leader.NewElector(l, office), leader.NewElector(other, office)
		ctx, stop := context.WithCancel(t.Context())
		ended := elect(ctx, one)
		synctest.Wait()
		ctx2, stop2 := context.WithCancel(t.Context())
		ended2 := elect(ctx2, two)
		synctest.Wait()
		ran := 0
		work := func(ctx context.Context) error {
			ran++
			if err := lock.AssertHeld(ctx, office); err != nil {
				t.Error(err)
			}
			return errWork
		}
		wantErr(t, one.Do(t.Context(), work), errWork)
		wantErr(t, two.Do(t.Context(), work), lock.ErrNotHeld)
		if err := one.IsLeader(t.Context()); err != nil || ran != 1 {
			t.Errorf("the leader: %v, and the work ran %d times", err, ran)
		}
		wantErr(t, two.IsLeader(t.Context()), lock.ErrNotHeld)

		// It resigns. What it works on goes on under the lock; nothing else begins.
		working := make(chan error, 1)
		go func() {
			working <- one.Do(t.Context(), func(ctx context.Context) error {
				<-ctx.Done()
				time.Sleep(time.Hour)
				return lock.AssertHeld(ctx, office)
			})
		}()
		synctest.Wait()
		stop()
		time.Sleep(time.Minute)
		wantErr(t, one.Do(t.Context(), work), lock.ErrNotHeld)
		wantErr(t, two.Do(t.Context(), work), lock.ErrNotHeld)
		if err := <-working; err != nil {
			t.Error(err)
		}
		wantErr(t, <-ended, context.Canceled)
		synctest.Wait()
		wantErr(t, two.Do(t.Context(), work), errWork)
		stop2()
		wantErr(t, <-ended2, context.Canceled)
		wantErr(t, two.IsLeader(t.Context()), lock.ErrNotHeld)
	})
}

func TestTheWorkOfAnElectorEndsWithItsTermAndWithItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLocker(t, memstore.New())
		e := leader.NewElector(l, office)
		ctx, stop := context.WithCancel(t.Context())
		ended := elect(ctx, e)
		synctest.Wait()
		wait := func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }
		for _, limit := range []time.Duration{0, time.Minute} { // none, and one that isn't reached
			caller, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Second, func() { cancel(errWork) })
			if limit > 0 {
				var expire context.CancelFunc
				caller, expire = context.WithTimeout(caller, limit)
				defer expire()
			}
			began := time.Now()
			wantErr(t, e.Do(caller, wait), errWork)
			if took := time.Since(began); took != time.Second {
				t.Errorf("with a limit of %v it ended after %v, want 1s", limit, took)
			}
		}
		time.AfterFunc(time.Second, func() { _, _ = l.ForceRelease(t.Context(), office) })
		wantErr(t, e.Do(t.Context(), wait), lock.ErrForced)
		if err := e.IsLeader(t.Context()); !errors.Is(err, lock.ErrNotHeld) {
			t.Errorf("behind the loss: %v", err)
		}
		time.Sleep(3 * time.Second)
		if err := e.IsLeader(t.Context()); err != nil { // elected again
			t.Error(err)
		}
		stop()
		wantErr(t, <-ended, context.Canceled)
	})
}

// It would never lead, and say so only to who looks at the error of Run.
// Jobs that never run, without a word, are what comes of a Run that nobody has called.
func TestAnElectorSaysThatItDoesNotRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := leader.NewElector(newLocker(t, memstore.New()), office)
		work := func(context.Context) error { t.Error("the work ran"); return nil }
		idle := func() {
			t.Helper()
			err := e.Do(t.Context(), work)
			if wantErr(t, err, lock.ErrNotHeld); !strings.Contains(err.Error(), "Run of the elector is not called, or has returned") {
				t.Errorf("got %v", err)
			}
		}
		idle()
		ctx, stop := context.WithCancel(t.Context())
		first := elect(ctx, e)
		synctest.Wait()
		wantErr(t, e.Run(ctx), lock.ErrInvalid)
		if err := e.IsLeader(ctx); err != nil {
			t.Error(err)
		}
		stop()
		wantErr(t, <-first, context.Canceled)
		idle()
	})
}

func TestAnElectorThatCannotLeadIsNotMade(t *testing.T) {
	l := newLocker(t, memstore.New())
	for name, c := range map[string]struct {
		key  string
		opts []lock.Option
	}{
		"an option":                {office, []lock.Option{lock.WithWatchdog(time.Microsecond)}},
		"options that don't agree": {office, []lock.Option{lock.WithMinHold(time.Minute), lock.WithLease(time.Second)}},
		"the key":                  {key: ""},
	} {
		func() {
			defer func() {
				if said := fmt.Sprint(recover()); !strings.Contains(said, "leader.NewElector: ") || !strings.Contains(said, lock.ErrInvalid.Error()) {
					t.Errorf("%s: panic %q, want one that says what is wrong", name, said)
				}
			}()
			leader.NewElector(l, c.key, leader.WithLock(c.opts...))
		}()
	}
}

func TestTheWorkOfAnElectorHasTheDeadlineOfItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := leader.NewElector(newLocker(t, memstore.New()), office)
		term, stop := context.WithTimeout(t.Context(), time.Hour)
		ended := elect(term, e)
		synctest.Wait()
		for _, c := range []struct{ caller, want time.Duration }{{time.Minute, time.Minute}, {2 * time.Hour, time.Hour - time.Minute}} {
			began := time.Now()
			caller, cancel := context.WithTimeout(t.Context(), c.caller)
			err := e.Do(caller, func(ctx context.Context) error {
				if at, ok := ctx.Deadline(); !ok || at.Sub(began) != c.want {
					t.Errorf("a caller with %v: deadline in %v, %v, want %v", c.caller, at.Sub(began), ok, c.want)
				}
				<-ctx.Done()
				return ctx.Err()
			})
			wantErr(t, err, context.DeadlineExceeded)
			cancel()
		}
		stop()
		wantErr(t, <-ended, context.DeadlineExceeded)
	})
}

func TestTheWorkOfACallerThatHasGoneFindsItsContextEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := leader.NewElector(newLocker(t, memstore.New()), office)
		ctx, stop := context.WithCancel(t.Context())
		ended := elect(ctx, e)
		synctest.Wait()
		gone, cancel := context.WithCancelCause(t.Context())
		cancel(errWork)
		wantErr(t, e.Do(gone, context.Cause), errWork)
		stop()
		wantErr(t, <-ended, context.Canceled)
	})
}

// However long a term lasts, and whatever its callers' contexts do, work that has returned
// leaves nothing: neither in the term's context nor in the callers'.
func TestWorkThatHasReturnedLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := leader.NewElector(newLocker(t, memstore.New()), office)
		ctx, stop := context.WithCancel(t.Context())
		ended := elect(ctx, e)
		synctest.Wait()
		endless, cancel := context.WithCancel(t.Context())
		defer cancel()
		limited, cancelLimited := context.WithTimeout(t.Context(), time.Hour)
		defer cancelLimited()
		for name, caller := range map[string]context.Context{"endless": endless, "limited": limited} {
			const calls = 1000
			before := objects()
			for range calls {
				var during context.Context
				wantErr(t, e.Do(caller, func(ctx context.Context) error { during = ctx; return errWork }), errWork)
				if during.Err() == nil {
					t.Fatalf("%s: the context of the work goes on", name)
				}
			}
			if kept := objects() - before; kept > calls/2 {
				t.Errorf("%s: %d objects are kept after %d calls", name, kept, calls)
			}
		}
		stop()
		wantErr(t, <-ended, context.Canceled)
	})
}

// objects is the number of objects that are in use.
func objects() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapObjects)
}
