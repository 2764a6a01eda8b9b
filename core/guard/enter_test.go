package guard_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/guard/guardtest"
	"github.com/redlatch/redlatch/core/key"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
	"github.com/redlatch/redlatch/core/rule"
)

func TestEnterHoldsTheKeyOfTheRuleUntilLeave(t *testing.T) {
	g := guardtest.Guard(t, orders())
	ctx, leave, err := g.Enter(t.Context(), user("42"))
	if err != nil {
		t.Fatal(err)
	}
	if err := lock.AssertHeld(ctx, "lock:order:42"); err != nil {
		t.Error(err)
	}
	if _, _, err := g.Enter(t.Context(), user("42")); guard.KindOf(err) != guard.Contended {
		t.Errorf("a second one got %v, want Contended", err)
	}
	if err := leave(); err != nil {
		t.Error(err)
	}
	if !errors.Is(context.Cause(ctx), lock.ErrReleased) {
		t.Errorf("cause is %v, want ErrReleased", context.Cause(ctx))
	}
	_, again, err := g.Enter(t.Context(), user("42"))
	if err != nil {
		t.Fatalf("after leave: %v", err)
	}
	_ = again()
}

func TestEnterRefusesAnOperationWithoutARule(t *testing.T) {
	g := guardtest.Guard(t, orders())
	ctx, leave, err := g.Enter(t.Context(), guard.Call{Operation: "POST /order"})
	if guard.KindOf(err) != guard.Invalid || !errors.Is(err, rule.ErrInvalid) || ctx != t.Context() || leave() != nil {
		t.Fatalf("got %v, want Invalid and the context unchanged", err)
	}
	if want := `did you mean "POST /orders"?`; !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestEnterUsesTheRuleOfTheCall(t *testing.T) {
	g := guardtest.Guard(t, orders())
	own, err := rule.Rule{Key: "lock:stock:<id>"}.Compile()
	if err != nil {
		t.Fatal(err)
	}
	call := user("7")
	call.Rule = own
	ctx, leave, err := g.Enter(t.Context(), call)
	if err != nil {
		t.Fatal(err)
	}
	defer leave() //nolint:errcheck // nothing can be lost here
	if err := lock.AssertHeld(ctx, "lock:stock:7"); err != nil {
		t.Error(err)
	}
}

func TestEnterReentersTheKeyOfItsContext(t *testing.T) {
	g := guardtest.Guard(t, orders())
	outer, leaveOuter, err := g.Enter(t.Context(), user("42"))
	if err != nil {
		t.Fatal(err)
	}
	_, leaveInner, err := g.Enter(outer, user("42"))
	if err != nil {
		t.Fatalf("inside: %v", err)
	}
	if err := leaveInner(); err != nil {
		t.Error(err)
	}
	if err := lock.AssertHeld(outer, "lock:order:42"); err != nil {
		t.Errorf("after the inner leave: %v", err)
	}
	if err := leaveOuter(); err != nil {
		t.Error(err)
	}
}

func TestLeaveWorksForAnEndedRequestAndTwice(t *testing.T) {
	g := guardtest.Guard(t, orders())
	ctx, cancel := context.WithCancel(t.Context())
	_, leave, err := g.Enter(ctx, user("42"))
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	for range 2 {
		if err := leave(); err != nil {
			t.Errorf("leave: %v", err)
		}
	}
	state, err := g.Locker().Inspect(t.Context(), "lock:order:42")
	if err != nil || state.Held {
		t.Errorf("held %v, %v: want free", state.Held, err)
	}
}

func TestLeaveTellsOfALostLease(t *testing.T) {
	store := memstore.New()
	g := served(guard.New(guardtest.Locker(t, store, lock.WithWatchdog(900*time.Millisecond)), orders()))
	ctx, leave, err := g.Enter(t.Context(), user("42"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := guardtest.Locker(t, store).ForceRelease(t.Context(), "lock:order:42"); err != nil {
		t.Fatal(err)
	}
	<-ctx.Done()
	for range 2 {
		if err := leave(); guard.KindOf(err) != guard.Lost || !errors.Is(err, lock.ErrLost) {
			t.Errorf("leave: %v, want kind Lost that wraps ErrLost", err)
		}
	}
}

func TestASecondLeaveDoesNothingElse(t *testing.T) {
	calls := 0
	g := guardtest.Guard(t, orders()).WithHooks(guard.Hooks{Refused: func(context.Context, *guard.Error) { calls++ }})
	for name, enter := range map[string]func() (context.Context, func() error, error){
		"Enter":    func() (context.Context, func() error, error) { return g.Enter(t.Context(), user("42")) },
		"EnterAll": func() (context.Context, func() error, error) { return g.EnterAll(t.Context(), user("42"), user("43")) },
	} {
		calls = 0
		_, leave, err := enter()
		if err != nil {
			t.Fatal(err)
		}
		guardtest.Lose(t, g, "lock:order:42")
		first := leave()
		if second := leave(); guard.KindOf(first) != guard.Lost || second != first { //nolint:errorlint // it is the same
			t.Errorf("%s: leave: %v, and again: %v", name, first, second)
		}
		if calls != 1 {
			t.Errorf("%s: one loss was reported %d times", name, calls)
		}
	}
}

func TestLeaveTellsOfAClosedLocker(t *testing.T) {
	locker := lock.New(memstore.New())
	g := served(guard.New(locker, orders()))
	_, leave, err := g.Enter(t.Context(), user("42"))
	if err != nil {
		t.Fatal(err)
	}
	if err := locker.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := leave(); guard.KindOf(err) != guard.Lost {
		t.Errorf("leave: %v, want kind Lost: the key was free before the work was done", err)
	}
	if _, _, err := g.Enter(t.Context(), user("42")); guard.KindOf(err) != guard.Unavailable {
		t.Errorf("enter: %v, want kind Unavailable", err)
	}
}

func TestEnterSortsWhatGoesWrong(t *testing.T) {
	vars := func(err error) guard.Call {
		return guard.Call{Operation: operation, Vars: func(key.Var) (string, error) { return "", err }}
	}
	for name, test := range map[string]struct {
		rule rule.Rule
		call guard.Call
		busy bool
		want guard.Kind
		is   error
	}{
		"busy":                     {orders(), user("42"), true, guard.Contended, lock.ErrBusy},
		"busy for the whole wait":  {orders(waiting), user("42"), true, guard.Contended, context.DeadlineExceeded},
		"busy, to be skipped":      {orders(skipping), user("42"), true, guard.Skipped, lock.ErrBusy},
		"waited, to be skipped":    {orders(waiting, skipping), user("42"), true, guard.Skipped, lock.ErrBusy},
		"missing value":            {orders(), vars(key.ErrMissing), false, guard.BadKey, key.ErrMissing},
		"empty value":              {orders(), vars(nil), false, guard.BadKey, key.ErrMissing},
		"ambiguous value":          {orders(), vars(key.ErrAmbiguous), false, guard.BadKey, key.ErrAmbiguous},
		"value too long":           {orders(), user(strings.Repeat("x", 257)), false, guard.BadKey, key.ErrTooLong},
		"value the filter refuses": {orders(ints), user("07"), false, guard.BadKey, key.ErrInvalid},
		"an integration's error":   {orders(), vars(errLookup), false, guard.BadKey, errLookup},
		"no source":                {orders(), vars(guard.ErrUnresolvable), false, guard.Invalid, guard.ErrUnresolvable},
		"no vars at all":           {orders(), guard.Call{Operation: operation}, false, guard.Invalid, guard.ErrUnresolvable},
		"long key":                 {orders(), keyed(strings.Repeat("x", key.MaxKey+1)), false, guard.BadKey, key.ErrTooLong},
	} {
		t.Run(name, func(t *testing.T) {
			g := guardtest.Guard(t, test.rule)
			if test.busy {
				hold(t, g.Locker(), "lock:order:42")
			}
			ctx, leave, err := g.Enter(t.Context(), test.call)
			if got := guard.KindOf(err); got != test.want || !errors.Is(err, test.is) {
				t.Errorf("got %v: %v, want %v that wraps %q", got, err, test.want, test.is)
			}
			var e *guard.Error
			if !errors.As(err, &e) || e.Operation != operation || e.Name != "orders" {
				t.Errorf("got %#v, want a *guard.Error that names operation and rule", err)
			}
			if _, held := lock.FromContext(ctx); held {
				t.Error("the context carries a lease")
			}
			if err := leave(); err != nil {
				t.Errorf("leave: %v", err)
			}
		})
	}
}

// Nobody else does the work of a caller that would wait for its own hold, and trying
// again never helps.
func TestACallerInItsOwnWayIsNotSkipped(t *testing.T) {
	for name, change := range map[string]func(*rule.Rule){"reject": waiting, "skip": skipping} {
		t.Run(name, func(t *testing.T) {
			permits := func(r *rule.Rule) { r.Mode, r.Permits, r.Size = lock.Semaphore, 2, 3 }
			g := guardtest.Guard(t, orders(permits, change))
			ctx, leave, err := g.Enter(t.Context(), user("42"))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = leave() }()
			if _, _, err := g.Enter(ctx, user("42")); guard.KindOf(err) != guard.Invalid || !errors.Is(err, lock.ErrOwnHold) {
				t.Errorf("got %v: %v, want Invalid that wraps ErrOwnHold", guard.KindOf(err), err)
			}
		})
	}
}

var errLookup = errors.New("the lookup failed")

func waiting(r *rule.Rule)  { r.Wait = 20 * time.Millisecond }
func skipping(r *rule.Rule) { r.OnBusy = rule.Skip }
func ints(r *rule.Rule)     { r.Key = "lock:order:<userId|int>" }

func keyed(text string) guard.Call { return guard.Call{Operation: operation, Key: text} }

func TestAKeyIsUsedAsItIs(t *testing.T) {
	g := guardtest.Guard(t, orders())
	inside, leave, err := g.Enter(t.Context(), keyed("lock:mine:<userId>"))
	if err != nil {
		t.Fatal(err)
	}
	guardtest.AssertHeld(t, inside, "lock:mine:<userId>")
	if err := leave(); err != nil {
		t.Error(err)
	}
}

func TestRefuseSortsWhatGoesWrong(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	g := guardtest.Guard(t, orders())
	rules, _ := g.RulesOf(operation)
	r := rules[0]
	for _, test := range []struct {
		ctx  context.Context
		rule *rule.Compiled
		err  error
		want guard.Kind
		name string
	}{
		{t.Context(), r, errLookup, guard.BadKey, "orders"},
		{t.Context(), r, guard.ErrUnresolvable, guard.Invalid, "orders"},
		{t.Context(), nil, rule.ErrInvalid, guard.Invalid, ""},
		{ended, r, errLookup, guard.Canceled, "orders"},
		{ended, r, key.ErrMissing, guard.BadKey, "orders"},
	} {
		var seen *guard.Error
		observed := g.WithHooks(guard.Hooks{Refused: func(_ context.Context, e *guard.Error) { seen = e }})
		e := observed.Refuse(test.ctx, guard.Call{Operation: operation, Rule: test.rule}, test.err)
		if e.Kind != test.want || e.Name != test.name || e.Operation != operation || !errors.Is(e, test.err) {
			t.Errorf("%v: got %#v, want %v", test.err, e, test.want)
		}
		if seen != e {
			t.Errorf("%v: the hook saw %v", test.err, seen)
		}
	}
}

func TestEnterTellsWhoseTimeRanOut(t *testing.T) {
	for name, test := range map[string]struct {
		wait, deadline time.Duration
		want           guard.Kind
	}{
		"the rule's":   {wait: time.Second, deadline: time.Minute, want: guard.Contended},
		"the caller's": {wait: time.Minute, deadline: time.Second, want: guard.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := guardtest.Guard(t, orders(func(r *rule.Rule) { r.Wait = test.wait }))
				lease := hold(t, g.Locker(), "lock:order:42")
				ctx, cancel := context.WithTimeout(t.Context(), test.deadline)
				defer cancel()
				began := time.Now()
				_, _, err := g.Enter(ctx, user("42"))
				if got := guard.KindOf(err); got != test.want || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("got %v: %v, want %v that wraps DeadlineExceeded", got, err, test.want)
				}
				if took := time.Since(began); took != time.Second {
					t.Errorf("waited %v, want 1s", took)
				}
				_ = lease.Release(ctx)
			})
		})
	}
}

// A deadline that passes while the store is silent says nothing of the caller: somebody
// has to look at the store.
func TestASilentStoreIsUnavailableAndNotCanceled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, seen := watched(served(guard.New(guardtest.Locker(t, lock.Async(silentStore{lock.Blocking(memstore.New())})), orders())))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, _, err := g.Enter(ctx, user("42"))
		if guard.KindOf(err) != guard.Unavailable || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want Unavailable that wraps DeadlineExceeded", err)
		}
		if len(*seen) != 1 || !(*seen)[0].Kind.Info().Operator {
			t.Errorf("the hook saw %v, want what is the operator's business", *seen)
		}
	})
}

// silentStore answers no acquisition.
type silentStore struct{ lock.BlockingStore }

func (silentStore) Acquire(ctx context.Context, _ lock.Claim) (uint64, error) {
	<-ctx.Done()
	return 0, ctx.Err()
}

// Nor is the caller's end the reason for what no caller could get.
func TestARuleThatCannotBeAppliedIsInvalidForACallerThatHasLeft(t *testing.T) {
	g := served(guard.New(guardtest.Locker(t, memstore.New(), lock.WithMaxHold(30*time.Second))))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, test := range map[string]struct {
		change func(*rule.Rule)
		want   guard.Kind
	}{
		"ruled out": {func(r *rule.Rule) { r.MinHold = 50 * time.Second }, guard.Invalid},
		"fits":      {func(*rule.Rule) {}, guard.Canceled},
	} {
		if _, _, err := g.Enter(ctx, account(t, "a", test.change)); guard.KindOf(err) != test.want {
			t.Errorf("%s: got %v, want %v", name, err, test.want)
		}
	}
}

func TestEnterRefusesTheOneThatIsTooMany(t *testing.T) {
	for _, test := range []struct {
		onBusy rule.OnBusy
		want   guard.Kind
	}{{rule.Reject, guard.Overloaded}, {rule.Skip, guard.Skipped}} {
		t.Run(test.want.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := guardtest.Guard(t, orders(func(r *rule.Rule) { r.Wait, r.MaxWaiters, r.OnBusy = time.Minute, 1, test.onBusy }))
				lease := hold(t, g.Locker(), "lock:order:42")
				entered := make(chan struct{})
				go func() {
					defer close(entered)
					_, leave, err := g.Enter(t.Context(), user("42"))
					if err != nil {
						t.Errorf("the one that may wait: %v", err)
					}
					_ = leave()
				}()
				synctest.Wait()
				began := time.Now()
				_, _, err := g.Enter(t.Context(), user("42"))
				if got := guard.KindOf(err); got != test.want || !errors.Is(err, lock.ErrTooManyWaiters) || time.Since(began) > 0 {
					t.Errorf("got %v after %v, want %v at once", err, time.Since(began), test.want)
				}
				_ = lease.Release(t.Context())
				<-entered
			})
		})
	}
}

func TestEnterHoldsALockNoLongerThanTheRuleAllows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := guardtest.Guard(t, orders(func(r *rule.Rule) { r.MaxHold = 90 * time.Second }))
		began := time.Now()
		ctx, leave, err := g.Enter(t.Context(), user("42"))
		if err != nil {
			t.Fatal(err)
		}
		<-ctx.Done()
		if held := time.Since(began); held < 80*time.Second || held >= 90*time.Second {
			t.Errorf("held for %v", held)
		}
		if err := leave(); guard.KindOf(err) != guard.Lost || !errors.Is(err, lock.ErrHeldTooLong) {
			t.Errorf("leave says %v", err)
		}
	})
}

func TestEnterStopsWaitingWhenTheCallerLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := guardtest.Guard(t, orders(func(r *rule.Rule) { r.Wait = time.Minute }))
		lease := hold(t, g.Locker(), "lock:order:42")
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		_, _, err := g.Enter(ctx, user("42"))
		if guard.KindOf(err) != guard.Canceled || !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want Canceled", err)
		}
		_ = lease.Release(ctx)
	})
}

func TestEnterCountsALookupThatTheCallerCutShortAsCanceled(t *testing.T) {
	g := guardtest.Guard(t, orders())
	ctx, cancel := context.WithCancel(t.Context())
	_, _, err := g.Enter(ctx, guard.Call{Operation: operation, Vars: func(key.Var) (string, error) {
		cancel()
		return "", errLookup
	}})
	if guard.KindOf(err) != guard.Canceled {
		t.Errorf("got %v, want Canceled", err)
	}
}

func TestEnterHoldsAFixedLeaseNoLongerThanTheRuleSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := guardtest.Guard(t, orders(func(r *rule.Rule) { r.Lease = 5 * time.Second }))
		ctx, leave, err := g.Enter(t.Context(), user("42"))
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		<-ctx.Done()
		if held := time.Since(began); held > 5*time.Second || held < 4*time.Second {
			t.Errorf("held for %v, want a little less than 5s", held)
		}
		if err := leave(); guard.KindOf(err) != guard.Lost {
			t.Errorf("leave: %v, want Lost", err)
		}
		synctest.Wait()
	})
}

func TestEnterReportsAStoreThatFails(t *testing.T) {
	g := served(guard.New(guardtest.Locker(t, guardtest.Broken{Store: memstore.New()}), orders()))
	_, _, err := g.Enter(t.Context(), user("42"))
	if guard.KindOf(err) != guard.Unavailable || !errors.Is(err, guardtest.ErrDown) {
		t.Errorf("got %v, want Unavailable that wraps the store's error", err)
	}
}

func TestEnterAsksForTheModeOfTheRule(t *testing.T) {
	store := guardtest.ExclusiveOnly{Store: memstore.New()}
	fair := orders(func(r *rule.Rule) { r.Mode = lock.Fair })
	g := served(guard.New(guardtest.Locker(t, store), fair))
	_, _, err := g.Enter(t.Context(), user("42"))
	if guard.KindOf(err) != guard.Invalid || !errors.Is(err, lock.ErrUnsupported) {
		t.Errorf("got %v, want Invalid that wraps ErrUnsupported", err)
	}
}

func TestHooksSeeTheNameOfTheRuleAndNotItsKey(t *testing.T) {
	var names []string
	hooks := lock.Hooks{Acquired: func(_ context.Context, e lock.AcquireEvent) { names = append(names, e.Name) }}
	g := served(guard.New(guardtest.Locker(t, memstore.New(), lock.WithHooks(hooks)), orders(),
		rule.Rule{Operation: "unnamed", Key: "lock:<userId>"}))
	for _, operation := range []string{operation, "unnamed"} {
		call := user("42")
		call.Operation = operation
		_, leave, err := g.Enter(t.Context(), call)
		if err != nil {
			t.Fatal(err)
		}
		_ = leave()
	}
	if got := fmt.Sprint(names); got != "[orders lock:<userId>]" {
		t.Errorf("names are %s", got)
	}
}
