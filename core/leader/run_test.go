package leader_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/core/leader"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
)

var errWork = errors.New("work failed")

func TestALeaderHoldsTheLockAndItsTermIsTheFence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLocker(t, memstore.New())
		wantErr(t, leader.Run(t.Context(), l, office, until, nil), lock.ErrInvalid)
		err := leader.Run(t.Context(), l, office, func(ctx context.Context, term uint64) error {
			lease, ok := lock.FromContext(ctx)
			if !ok || lease.Fence() != term || term == 0 {
				t.Errorf("term %d, lease %v", term, lease)
			}
			return lock.AssertHeld(ctx, office)
		})
		if err != nil {
			t.Error(err)
		}
		wantLeader(t, l, "")
	})
}

func wantLeader(t *testing.T, l *lock.Locker, id string) {
	t.Helper()
	got, err := leader.Who(t.Context(), l, office)
	if err != nil || got.ID != id || (got.TTL > 0) != (id != "") {
		t.Errorf("Who: %+v, %v, want the leader %q", got, err, id)
	}
}

func TestTheNextLeadsWhenTheFirstResignsAndTermsRise(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		first, second := newLocker(t, store), newLocker(t, store)
		var seen diary
		ctx, resign := context.WithCancel(t.Context())
		one := run(ctx, first, until, seen.hooks("first"))
		synctest.Wait()
		ctx2, stop := context.WithCancel(t.Context())
		two := run(ctx2, second, until, seen.hooks("second"))
		time.Sleep(time.Hour) // of renewals
		wantLeader(t, second, first.ID())
		resign()
		wantErr(t, <-one, context.Canceled)
		synctest.Wait()
		wantLeader(t, first, second.ID())
		stop()
		wantErr(t, <-two, context.Canceled)
		seen.want(t, "first elected 1", "first resigned 1: context canceled", "second elected 2", "second resigned 2: context canceled")
	})
}

// Whatever makes the leader resign, its context ends first, and the lock isn't
// released before the func has returned.
func TestAResignationWaitsForTheFunc(t *testing.T) {
	for name, c := range map[string]struct {
		resign func(cancel context.CancelCauseFunc, l *lock.Locker) // returns at once
		want   []error
	}{
		"the context ends":              {func(cancel context.CancelCauseFunc, _ *lock.Locker) { cancel(nil) }, []error{context.Canceled}},
		"the context ends with a cause": {func(cancel context.CancelCauseFunc, _ *lock.Locker) { cancel(errWork) }, []error{context.Canceled, errWork}},
		"the locker drains": {func(_ context.CancelCauseFunc, l *lock.Locker) {
			go func() { _ = l.Drain(context.Background()) }()
		}, []error{lock.ErrClosed}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memstore.New()
				l, other := newLocker(t, store), newLocker(t, store)
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				var done time.Time
				ended := run(ctx, l, func(ctx context.Context, _ uint64) error {
					<-ctx.Done()
					time.Sleep(10 * time.Minute) // tidies up, under renewals
					if err := lock.AssertHeld(ctx, office); err != nil {
						t.Error(err)
					}
					done = time.Now()
					return nil
				})
				synctest.Wait()
				c.resign(cancel, l)
				lease, err := other.Acquire(t.Context(), office)
				if err != nil {
					t.Fatal(err)
				}
				if done.IsZero() || time.Since(done) > time.Second {
					t.Errorf("it was free at %v, and the func returned at %v", time.Now(), done)
				}
				_ = lease.Release(t.Context())
				wantErr(t, <-ended, c.want...)
			})
		})
	}
}

func TestADrainEndsWithTheLeaderAndTheCandidates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		l, other := newLocker(t, store), newLocker(t, store)
		var cause error
		leads := run(t.Context(), l, func(ctx context.Context, term uint64) error {
			defer func() { cause = context.Cause(ctx) }()
			return until(ctx, term)
		})
		synctest.Wait()
		campaigns := run(t.Context(), l, until)
		ctx, stop := context.WithCancel(t.Context())
		elsewhere := run(ctx, other, until)
		synctest.Wait()
		if err := l.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		wantErr(t, <-leads, lock.ErrClosed)
		wantErr(t, <-campaigns, lock.ErrClosed)
		wantErr(t, cause, lock.ErrClosed)
		wantErr(t, leader.Run(t.Context(), l, office, until), lock.ErrClosed)
		synctest.Wait()
		wantLeader(t, other, other.ID())
		stop()
		wantErr(t, <-elsewhere, context.Canceled)
	})
}

func TestCloseEndsTheTermAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		l, other := newLocker(t, store), newLocker(t, store)
		var seen diary
		stubborn := make(chan struct{})
		ended := run(t.Context(), l, func(ctx context.Context, _ uint64) error {
			<-ctx.Done()
			<-stubborn
			return nil
		}, seen.hooks("it"))
		synctest.Wait()
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
		wantLeader(t, other, "")
		close(stubborn)
		wantErr(t, <-ended, lock.ErrClosed)
		seen.want(t, "it elected 1", "it resigned 1: <nil>")
	})
}

// A func that returns because its locker drains may have noticed it before Run does.
func TestADrainIsReportedHoweverSoonTheFuncReturns(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 {
		l := newLocker(t, memstore.New())
		err := leader.Run(t.Context(), l, office, func(context.Context, uint64) error {
			_ = l.Drain(over) // begins, and doesn't wait
			return nil
		})
		wantErr(t, err, lock.ErrClosed)
		if t.Failed() {
			return
		}
	}
}

func TestRunReturnsWhatItsFuncReturns(t *testing.T) {
	for name, want := range map[string]error{"nothing": nil, "an error": errWork} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLocker(t, memstore.New())
				var seen diary
				err := leader.Run(t.Context(), l, office, func(context.Context, uint64) error { return want }, seen.hooks("it"))
				if err != want { //nolint:errorlint // as it is
					t.Errorf("got %v, want %v", err, want)
				}
				wantLeader(t, l, "")
				seen.want(t, "it elected 1", fmt.Sprintf("it resigned 1: %v", want))
			})
		})
	}
}

// An error of the func that isn't its context's isn't hidden by the end of the
// context. Its context's isn't repeated.
func TestAnErrorWhileResigningIsReturned(t *testing.T) {
	said := func(err error) func(context.Context) error { return func(context.Context) error { return err } }
	for name, c := range map[string]struct {
		returns func(ctx context.Context) error
		want    string
	}{
		"another":              {said(errWork), "context canceled: signal: work failed"},
		"another and its own":  {func(ctx context.Context) error { return errors.Join(errWork, ctx.Err()) }, "context canceled: signal: work failed\ncontext canceled"},
		"its own, and what of": {func(ctx context.Context) error { return fmt.Errorf("bill 7: %w", ctx.Err()) }, "context canceled: signal: bill 7: context canceled"},
		"its own":              {context.Context.Err, "context canceled: signal"},
		"its cause":            {context.Cause, "context canceled: signal"},
		"nothing":              {said(nil), "context canceled: signal"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				err := leader.Run(ctx, newLocker(t, memstore.New()), office, func(ctx context.Context, _ uint64) error {
					cancel(errors.New("signal"))
					return c.returns(ctx)
				})
				wantErr(t, err, context.Canceled)
				if got := errors.Unwrap(err); got == nil || got.Error() != c.want {
					t.Errorf("got %q, want %q", got, c.want)
				}
			})
		})
	}
}

// What ended the campaign is said once, not again as the error of the attempt.
func TestACandidateThatGivesUpSaysWhyOnce(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(l *lock.Locker, cancel func())
		want string
	}{
		"the context ends":  {func(_ *lock.Locker, cancel func()) { cancel() }, "context canceled"},
		"the locker closes": {func(l *lock.Locker, _ func()) { _ = l.Close(context.Background()) }, "locker is closed"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memstore.New()
				l := newLocker(t, store)
				if _, err := newLocker(t, store).Acquire(t.Context(), office); err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				ended := run(ctx, l, until)
				synctest.Wait()
				c.end(l, cancel)
				if err := errors.Unwrap(<-ended); err == nil || err.Error() != c.want {
					t.Errorf("got %q, want %q", err, c.want)
				}
			})
		})
	}
}

func TestWithRepeatOthersHaveTheirTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		ctx, stop := context.WithCancel(t.Context())
		var seen diary
		terms := 0
		turn := func(context.Context, uint64) error {
			if terms++; terms == 4 {
				stop()
			}
			return errWork
		}
		one := run(ctx, newLocker(t, store), turn, seen.hooks("one"), leader.WithRepeat())
		synctest.Wait()
		two := run(ctx, newLocker(t, store), turn, seen.hooks("two"), leader.WithRepeat())
		wantErr(t, <-one, context.Canceled)
		wantErr(t, <-two, context.Canceled)
		turns := map[string]int{}
		for _, line := range seen.read() {
			turns[line[:3]]++
		}
		if turns["one"] == 0 || turns["two"] == 0 || len(seen.read()) != 8 {
			t.Errorf("hooks saw %q", seen.read())
		}
	})
}

// The term is lost in each way. The func's context ends before the store gives
// the key to another; the func that doesn't care is waited for; then its process
// campaigns again, for a later term.
func TestALostTermEndsTheContextAndIsFollowedByACampaign(t *testing.T) {
	for name, c := range map[string]struct {
		opts []lock.Option
		lose func(l *lock.Locker, s *line)
		want string
	}{
		"the store is away":        {nil, func(_ *lock.Locker, s *line) { s.cut.Store(true) }, "store away"},
		"taken by force elsewhere": {nil, func(_ *lock.Locker, s *line) { _, _ = s.ForceRelease(context.Background(), office) }, "taken"},
		"taken by force here":      {nil, func(l *lock.Locker, _ *line) { _, _ = l.ForceRelease(context.Background(), office) }, "forced"},
		"the term has its length":  {[]lock.Option{lock.WithMaxHold(time.Minute)}, func(*lock.Locker, *line) {}, "too long"},
		"the lease has its length": {[]lock.Option{lock.WithLease(time.Minute)}, func(*lock.Locker, *line) {}, "lease over"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &line{Store: memstore.New()}
				l, other := newLocker(t, store), newLocker(t, store.Store)
				var seen diary
				ctx, stop := context.WithCancel(t.Context())
				stubborn := make(chan struct{})
				var over atomic.Pointer[time.Time]
				ended := run(ctx, l, func(ctx context.Context, _ uint64) error {
					<-ctx.Done()
					if now := time.Now(); over.CompareAndSwap(nil, &now) {
						wantErr(t, context.Cause(ctx), lock.ErrLost)
						<-stubborn
					}
					return errWork // unexpected
				}, seen.hooks("it"), leader.WithLock(c.opts...))
				synctest.Wait()
				c.lose(l, store)
				next, err := other.Acquire(t.Context(), office)
				if err != nil {
					t.Fatal(err)
				}
				// A key that was taken by force is free at once; the leader notices
				// at its next renewal.
				if at := over.Load(); (at == nil || !at.Before(time.Now())) && c.want != "taken" && c.want != "forced" {
					t.Errorf("the context ended at %v, and the key was free at %v", at, time.Now())
				}
				time.Sleep(lock.DefaultWatchdog)
				synctest.Wait()
				seen.want(t, "it elected 1", "it lost 1: "+c.want) // though the func goes on
				store.cut.Store(false)
				asked := store.acquires.Load()
				_ = next.Release(t.Context())
				time.Sleep(10 * time.Minute)
				if n := store.acquires.Load(); n != asked {
					t.Errorf("it campaigned %d times while its func was running", n-asked)
				}
				close(stubborn)
				time.Sleep(2 * time.Second)
				wantLeader(t, other, l.ID())
				stop()
				wantErr(t, <-ended, context.Canceled)
				seen.want(t, "it elected 1", "it lost 1: "+c.want, "it elected 2", "it resigned 2: work failed")
			})
		})
	}
}

// A leader that resigns and finds the key gone has lost its term: it campaigns
// again, unless its context has ended.
func TestALossThatTheReleaseFindsIsALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		var seen diary
		terms := 0
		err := leader.Run(t.Context(), newLocker(t, store), office, func(context.Context, uint64) error {
			if terms++; terms == 1 {
				_, _ = store.ForceRelease(t.Context(), office)
			}
			return nil
		}, seen.hooks("it"))
		if err != nil {
			t.Error(err)
		}
		seen.want(t, "it elected 1", "it lost 1: taken", "it elected 2", "it resigned 2: <nil>")
	})
}

// The context of a term also ends when that of an outer lease does, with that one's
// loss as the cause. The term itself isn't lost.
func TestATermWithinALeaseThatIsLostIsNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLocker(t, memstore.New())
		outer, err := l.Acquire(t.Context(), "outer")
		if err != nil {
			t.Fatal(err)
		}
		var seen diary
		ended := run(outer.Context(), l, until, seen.hooks("it"))
		synctest.Wait()
		if _, err := l.ForceRelease(t.Context(), "outer"); err != nil {
			t.Fatal(err)
		}
		wantErr(t, <-ended, context.Canceled, lock.ErrForced)
		seen.want(t, "it elected 1", "it resigned 1: context canceled")
	})
}

func TestAPanicReleasesTheLockAndGoesOn(t *testing.T) {
	for name, c := range map[string]struct {
		fall func()
		want any
	}{
		"panic":          {func() { panic("oops") }, "oops"},
		"runtime.Goexit": {runtime.Goexit, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLocker(t, memstore.New())
				var seen diary
				fallen := make(chan any, 1)
				go func() {
					defer func() { fallen <- recover() }()
					_ = leader.Run(t.Context(), l, office, func(context.Context, uint64) error { c.fall(); return nil }, seen.hooks("it"))
					t.Error("Run returned")
				}()
				if got := <-fallen; got != c.want {
					t.Errorf("recovered %v, want %v", got, c.want)
				}
				wantLeader(t, l, "")
				seen.want(t, "it elected 1", "it resigned 1: the leader's func did not return")
			})
		})
	}
}

// A store that is away is called again and again, but not often, and not by all at
// once; when it is back, somebody leads soon.
func TestAStoreThatIsAwayIsAskedAgainButNotOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &line{Store: memstore.New()}
		store.cut.Store(true)
		ctx, stop := context.WithCancel(t.Context())
		const candidates = 10
		var all []<-chan error
		var failed diary
		elected := make(chan time.Time, 1)
		for range candidates {
			l := newLocker(t, store)
			all = append(all, run(ctx, l, func(ctx context.Context, term uint64) error {
				elected <- time.Now()
				return until(ctx, term)
			}, failed.hooks("x")))
		}
		time.Sleep(10 * time.Minute)
		for _, line := range failed.read() {
			if line != "x failed: unavailable" {
				t.Fatalf("hooks saw %q", line)
			}
		}
		before, minute := store.acquires.Load(), time.Minute
		if len(failed.read()) < candidates*int(10*time.Minute/(4*time.Second)) {
			t.Errorf("hooks saw only %d failures", len(failed.read()))
		}
		time.Sleep(minute)
		rate := float64(store.acquires.Load()-before) / candidates / minute.Seconds()
		t.Logf("%.2f calls a second and candidate", rate)
		if rate > 5 {
			t.Errorf("%.1f calls a second and candidate", rate)
		}
		store.cut.Store(false)
		back := time.Now()
		if took := (<-elected).Sub(back); took > 2*time.Second {
			t.Errorf("nobody led for %v", took)
		}
		stop()
		for _, ended := range all {
			wantErr(t, <-ended, context.Canceled)
		}
	})
}

func TestWhatCannotHelpIsReturnedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLocker(t, memstore.New())
		wantErr(t, leader.Run(t.Context(), l, office, nil), lock.ErrInvalid)
		wantErr(t, leader.Run(t.Context(), l, "", until), lock.ErrInvalid)
		wantErr(t, leader.Run(t.Context(), l, office, until, leader.WithLock(lock.WithWatchdog(0))), lock.ErrInvalid)
		err := leader.Run(t.Context(), l, office, func(ctx context.Context, _ uint64) error {
			return leader.Run(ctx, l, office, until)
		})
		wantErr(t, err, lock.ErrOwnHold)
		_, err = leader.Who(t.Context(), l, "")
		wantErr(t, err, lock.ErrInvalid)
	})
}

// A limit of the wait ends an attempt, not the campaign; no option of the lock
// makes two leaders.
func TestOptionsOfTheLockDoNotEndTheCampaign(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		l, other := newLocker(t, store, lock.WithMode(lock.Read)), newLocker(t, store, lock.WithPermits(2, 3))
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		one := run(ctx, l, until)
		synctest.Wait()
		var seen diary
		two := run(t.Context(), other, func(context.Context, uint64) error { return nil }, seen.hooks("it"),
			leader.WithLock(lock.WithWait(time.Minute)), leader.WithName("billing"))
		time.Sleep(2*time.Minute + 30*time.Second)
		stop()
		wantErr(t, <-one, context.Canceled)
		if err := <-two; err != nil {
			t.Error(err)
		}
		seen.want(t, "it failed: busy", "it failed: busy", "it elected 1", "it resigned 1: <nil>")
	})
}

// What a locker says of ordinary work, which is bounded, isn't said of a term or of
// a candidate. What WithLock says is.
func TestLimitsOfTheLockerAreNotThoseOfALeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		limits := []lock.Option{lock.WithMaxHold(time.Minute), lock.WithMaxWait(time.Second), lock.WithWait(time.Second)}
		l, other := newLocker(t, store, limits...), newLocker(t, store, limits...)
		ctx, stop := context.WithCancel(t.Context())
		var seen diary
		one := run(ctx, l, until, seen.hooks("one"))
		synctest.Wait()
		ctx2, stop2 := context.WithCancel(t.Context())
		two := run(ctx2, other, until, seen.hooks("two"), leader.WithLock(lock.WithMaxHold(time.Minute)))
		time.Sleep(time.Hour)
		seen.want(t, "one elected 1")
		stop()
		wantErr(t, <-one, context.Canceled)
		time.Sleep(90 * time.Second)
		stop2()
		wantErr(t, <-two, context.Canceled)
		seen.want(t, "one elected 1", "one resigned 1: context canceled",
			"two elected 2", "two lost 2: too long", "two elected 3", "two resigned 3: context canceled")
	})
}

// A panic on a goroutine that Run started would end the process.
func TestANilLockerIsRefused(t *testing.T) {
	wantErr(t, leader.Run(t.Context(), nil, office, until), lock.ErrInvalid)
	defer func() {
		if said := recover(); said != "leader.NewElector: locker is nil" {
			t.Errorf("panic %v", said)
		}
	}()
	leader.NewElector(nil, office)
}

// Hooks carry no key, also where the release finds the loss.
func TestTheCauseOfALostTermHasNoKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		var causes []error
		hooks := leader.WithHooks(leader.Hooks{Lost: func(_ string, _ uint64, cause error) { causes = append(causes, cause) }})
		err := leader.Run(t.Context(), newLocker(t, store), office, func(context.Context, uint64) error {
			if len(causes) > 0 {
				return nil
			}
			_, err := store.ForceRelease(t.Context(), office)
			return err
		}, hooks)
		if err != nil || len(causes) != 1 {
			t.Fatalf("got %v, and losses %v", err, causes)
		}
		wantErr(t, causes[0], lock.ErrLost)
		if strings.Contains(causes[0].Error(), office) {
			t.Errorf("the cause names the key: %v", causes[0])
		}
	})
}

// The name of an office is that of its lock, for the hooks of the locker.
func TestTheNameOfAnOfficeIsThatOfItsLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for want, opts := range map[string][]leader.Option{
			"billing": {leader.WithName("billing")},
			"jobs":    {leader.WithLock(lock.WithName("jobs"))},
			"later":   {leader.WithName("later"), leader.WithLock(lock.WithName("jobs"))},
			"":        nil,
		} {
			var locks []string
			l := newLocker(t, memstore.New(), lock.WithHooks(lock.Hooks{
				Acquired: func(_ context.Context, e lock.AcquireEvent) { locks = append(locks, e.Name) },
			}))
			offices := []string{}
			opts = append(opts, leader.WithHooks(leader.Hooks{
				Elected: func(name string, _ uint64) { offices = append(offices, name) },
			}))
			if err := leader.Run(t.Context(), l, office, func(context.Context, uint64) error { return nil }, opts...); err != nil {
				t.Error(err)
			}
			if len(locks) != 1 || locks[0] != want {
				t.Errorf("the locker sees %q, want %q", locks, want)
			}
			if office := strings.TrimPrefix(want, "jobs"); len(offices) != 1 || offices[0] != office {
				t.Errorf("the hooks see %q, want %q", offices, office)
			}
		}
	})
}

// What Run has started ends with it, and not with the locker.
func TestRunLeavesNothingBehind(t *testing.T) {
	l := newLocker(t, memstore.New())
	run := func() {
		wantErr(t, leader.Run(t.Context(), l, office, func(context.Context, uint64) error { return errWork }), errWork)
	}
	run()
	before := runtime.NumGoroutine()
	for range 100 {
		run()
	}
	if n := runtime.NumGoroutine() - before; n > 10 {
		t.Errorf("%d goroutines are left", n)
	}
}

// A candidate that found the store away for long campaigns at once when it has led since.
func TestATermThatIsLostIsFollowedByACampaignAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &line{Store: memstore.New()}
		store.cut.Store(true)
		elected := make(chan time.Time, 1)
		l := newLocker(t, store)
		ctx, stop := context.WithCancel(t.Context())
		ended := run(ctx, l, func(ctx context.Context, term uint64) error {
			elected <- time.Now()
			return until(ctx, term)
		})
		time.Sleep(time.Minute)
		store.cut.Store(false)
		<-elected
		time.Sleep(time.Hour)
		lost := time.Now()
		if _, err := l.ForceRelease(t.Context(), office); err != nil {
			t.Error(err)
		}
		if took := (<-elected).Sub(lost); took > 100*time.Millisecond {
			t.Errorf("it led again after %v", took)
		}
		stop()
		wantErr(t, <-ended, context.Canceled)
	})
}

// A lock that stays held for its minimum time has no leader.
func TestNobodyLeadsDuringTheRestOfAMinimumHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLocker(t, memstore.New())
		err := leader.Run(t.Context(), l, office, func(context.Context, uint64) error {
			wantLeader(t, l, l.ID())
			return nil
		}, leader.WithLock(lock.WithMinHold(time.Minute)))
		if err != nil {
			t.Error(err)
		}
		if state, err := l.Inspect(t.Context(), office); err != nil || !state.Held {
			t.Errorf("%+v, %v; want held for the rest of the minute", state, err)
		}
		wantLeader(t, l, "")
	})
}

// A part of a process that is started again waits for its term before to end.
func TestACandidateWaitsForTheTermOfItsProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLocker(t, memstore.New())
		ctx, stop := context.WithCancel(t.Context())
		one := run(ctx, l, func(ctx context.Context, _ uint64) error {
			<-ctx.Done()
			time.Sleep(time.Second) // it resigns late
			return ctx.Err()
		})
		synctest.Wait()
		stop()
		two := run(t.Context(), l, func(context.Context, uint64) error { return nil })
		wantErr(t, <-one, context.Canceled)
		if err := <-two; err != nil {
			t.Error(err)
		}
	})
}

// A leader without hooks says in the log what a person would look for, and seldom.
func TestWithoutHooksACandidateLogs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged bytes.Buffer
		defer slog.SetDefault(slog.Default())
		slog.SetDefault(slog.New(slog.NewTextHandler(&logged, nil)))
		store := &line{Store: memstore.New()}
		store.cut.Store(true)
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		err := leader.Run(ctx, newLocker(t, store), "leader:secret", until, leader.WithName("billing"))
		wantErr(t, err, context.DeadlineExceeded)
		wantErr(t, err, lock.ErrUnavailable)
		if n := strings.Count(logged.String(), "an attempt to be elected failed"); n != 2 {
			t.Errorf("%d lines in a minute, want one every 30 s:\n%s", n, logged.String())
		}
		store.cut.Store(false)
		ctx, stop = context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		err = leader.Run(ctx, newLocker(t, store), "leader:secret", until, leader.WithName("billing"))
		wantErr(t, err, context.DeadlineExceeded)
		if errors.Is(err, lock.ErrUnavailable) {
			t.Errorf("behind a term: %v", err)
		}
		for _, want := range []string{"leader: elected", "leader: resigned", "name=billing"} {
			if !strings.Contains(logged.String(), want) {
				t.Errorf("%q is missing in:\n%s", want, logged.String())
			}
		}
		if strings.Contains(logged.String(), "secret") {
			t.Errorf("the key is in the log:\n%s", logged.String())
		}
	})
}
