package guard_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
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

// account is a call for the lock of one account.
func account(t testing.TB, id string, change ...func(*rule.Rule)) guard.Call {
	t.Helper()
	r := rule.Rule{Key: "lock:account:<id>", Name: "account-" + id}
	for _, c := range change {
		c(&r)
	}
	compiled, err := r.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return guard.Call{Operation: "transfer", Rule: compiled, Vars: func(key.Var) (string, error) { return id, nil }}
}

func TestEnterAllHoldsEveryKeyUntilLeave(t *testing.T) {
	g := guardtest.Guard(t, orders())
	ctx, leave, err := g.EnterAll(t.Context(), account(t, "b"), account(t, "a"), user("42"))
	if err != nil {
		t.Fatal(err)
	}
	keys := []string{"lock:account:a", "lock:account:b", "lock:order:42"}
	for _, k := range keys {
		if err := lock.AssertHeld(ctx, k); err != nil {
			t.Error(err)
		}
	}
	for range 2 {
		if err := leave(); err != nil {
			t.Errorf("leave: %v", err)
		}
	}
	if !errors.Is(context.Cause(ctx), lock.ErrReleased) {
		t.Errorf("cause is %v, want ErrReleased", context.Cause(ctx))
	}
	wantFree(t, g, keys...)
}

func wantFree(t *testing.T, g *guard.Guard, keys ...string) {
	t.Helper()
	for _, k := range keys {
		if state, err := g.Locker().Inspect(t.Context(), k); err != nil || state.Held {
			t.Errorf("%s: held %v, %v: want free", k, state.Held, err)
		}
	}
}

func TestEnterAllWithoutACallPassesThrough(t *testing.T) {
	ctx, leave, err := guardtest.Guard(t).EnterAll(t.Context())
	if err != nil || ctx != t.Context() || leave() != nil {
		t.Errorf("a new context or %v, want the context unchanged", err)
	}
}

func TestEnterAllRefusesACallWithoutARule(t *testing.T) {
	g := guardtest.Guard(t, orders())
	_, _, err := g.EnterAll(t.Context(), user("42"), guard.Call{Operation: "x"})
	if guard.KindOf(err) != guard.Invalid || !strings.Contains(err.Error(), `"x": has no rule`) {
		t.Errorf("got %v, want Invalid that names the operation", err)
	}
	wantFree(t, g, "lock:order:42")
}

func TestEnterAllTakesNothingUnlessItGetsAll(t *testing.T) {
	for name, test := range map[string]struct {
		last guard.Call
		want guard.Kind
		is   error
	}{
		"busy":              {account(t, "z"), guard.Contended, lock.ErrBusy},
		"busy for the wait": {account(t, "z", waiting), guard.Contended, lock.ErrBusy},
		"busy, to be left":  {account(t, "z", skipping), guard.Skipped, lock.ErrBusy},
		"no key":            {account(t, ""), guard.BadKey, key.ErrMissing},
		"no source":         {guard.Call{Operation: "transfer", Rule: account(t, "z").Rule}, guard.Invalid, guard.ErrUnresolvable},
	} {
		t.Run(name, func(t *testing.T) {
			var refused *guard.Error
			g := guardtest.Guard(t).WithHooks(guard.Hooks{Refused: func(_ context.Context, e *guard.Error) { refused = e }})
			hold(t, g.Locker(), "lock:account:z")
			ctx, leave, err := g.EnterAll(t.Context(), account(t, "a"), test.last)
			if got := guard.KindOf(err); got != test.want || !errors.Is(err, test.is) {
				t.Errorf("got %v: %v, want %v that wraps %q", got, err, test.want, test.is)
			}
			var e *guard.Error
			if !errors.As(err, &e) || e.Operation != "transfer" || e.Name != test.last.Rule.Name {
				t.Errorf("got %#v, want a *guard.Error that names the call that failed", err)
			}
			if refused != e {
				t.Errorf("the hook saw %v, want the error that was returned", refused)
			}
			if _, held := lock.FromContext(ctx); held {
				t.Error("the context carries a lease")
			}
			if err := leave(); err != nil {
				t.Errorf("leave: %v", err)
			}
			wantFree(t, g, "lock:account:a")
		})
	}
}

func TestEnterAllNeverBlocksItselfAcrossCallers(t *testing.T) {
	g := guardtest.Guard(t)
	long := func(r *rule.Rule) { r.Wait = time.Minute }
	var inside [3]int // guarded by the locks
	var callers sync.WaitGroup
	for caller := range 6 {
		callers.Go(func() {
			from, to := caller%3, (caller+1)%3
			if caller%2 == 0 {
				from, to = to, from
			}
			for range 20 {
				_, leave, err := g.EnterAll(t.Context(), account(t, fmt.Sprint(from), long), account(t, fmt.Sprint(to), long))
				if err != nil {
					t.Error(err)
					return
				}
				inside[from]++
				inside[to]++
				if err := leave(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	callers.Wait()
	if inside != [3]int{80, 80, 80} {
		t.Errorf("counted %v, want 80 each: two were inside at once", inside)
	}
}

func TestEnterAllReentersWhatTwoCallsOrTheContextHave(t *testing.T) {
	g := guardtest.Guard(t)
	outer, leaveOuter, err := g.Enter(t.Context(), account(t, "a"))
	if err != nil {
		t.Fatal(err)
	}
	inner, leaveInner, err := g.EnterAll(outer, account(t, "a"), account(t, "b"), account(t, "b"))
	if err != nil {
		t.Fatal(err)
	}
	if err := lock.AssertHeld(inner, "lock:account:b"); err != nil {
		t.Error(err)
	}
	if err := leaveInner(); err != nil {
		t.Error(err)
	}
	if err := lock.AssertHeld(outer, "lock:account:a"); err != nil {
		t.Errorf("after the inner leave: %v", err)
	}
	if err := leaveOuter(); err != nil {
		t.Error(err)
	}
	wantFree(t, g, "lock:account:a", "lock:account:b")
}

func TestEnterAllLosesAllWithAnyPart(t *testing.T) {
	for _, lost := range []string{"a", "b"} {
		t.Run(lost, func(t *testing.T) {
			store := memstore.New()
			g := served(guard.New(guardtest.Locker(t, store, lock.WithWatchdog(900*time.Millisecond))))
			ctx, leave, err := g.EnterAll(t.Context(), account(t, "a"), account(t, "b"))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := guardtest.Locker(t, store).ForceRelease(t.Context(), "lock:account:"+lost); err != nil {
				t.Fatal(err)
			}
			<-ctx.Done()
			for range 2 {
				err := leave()
				var e *guard.Error
				if !errors.As(err, &e) || e.Kind != guard.Lost || !errors.Is(err, lock.ErrLost) || e.Name != "account-"+lost {
					t.Errorf("leave: %v, want kind Lost of account-%s that wraps ErrLost", err, lost)
				}
			}
			wantFree(t, g, "lock:account:a", "lock:account:b")
		})
	}
}

func TestEnterAllReportsEachLostLease(t *testing.T) {
	g, seen := watched(guardtest.Guard(t))
	_, leave, err := g.EnterAll(t.Context(), account(t, "a"), account(t, "b"), account(t, "c"))
	if err != nil {
		t.Fatal(err)
	}
	for _, lost := range []string{"a", "c"} {
		guardtest.Lose(t, g, "lock:account:"+lost)
	}
	for range 2 {
		if e, ok := errors.AsType[*guard.Error](leave()); !ok || e.Kind != guard.Lost || e.Name != "account-a" {
			t.Errorf("leave: %v, want the loss of account-a", e)
		}
	}
	var names []string
	for _, e := range *seen {
		names = append(names, e.Name)
	}
	if !slices.Equal(names, []string{"account-a", "account-c"}) {
		t.Errorf("the hook saw the losses of %v, want account-a and account-c", names)
	}
}

// Calls that a program keeps are entered by the rules of each moment.
func TestEnterAllLeavesTheCallsAsTheyAre(t *testing.T) {
	g := guardtest.Guard(t, orders())
	calls := []guard.Call{user("42")}
	for _, prefix := range []string{"lock:order:", "lock:purchase:"} {
		if err := g.Replace([]rule.Rule{orders(func(r *rule.Rule) { r.Key = prefix + "<userId>" })}); err != nil {
			t.Fatal(err)
		}
		ctx, leave, err := g.EnterAll(t.Context(), calls...)
		if err != nil {
			t.Fatal(err)
		}
		guardtest.AssertHeld(t, ctx, prefix+"42")
		if err := leave(); err != nil {
			t.Error(err)
		}
	}
}

func TestEnterAllLeavesAllThoughAHookPanics(t *testing.T) {
	g := guardtest.Guard(t).WithHooks(guard.Hooks{Refused: func(context.Context, *guard.Error) { panic("a hook") }})
	_, leave, err := g.EnterAll(t.Context(), account(t, "a"), account(t, "b"))
	if err != nil {
		t.Fatal(err)
	}
	guardtest.Lose(t, g, "lock:account:a")
	func() {
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
		}()
		_ = leave()
	}()
	wantFree(t, g, "lock:account:a", "lock:account:b")
}

func TestEnterAllWaitsAsLongAsItsShortestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := guardtest.Guard(t)
		wait := func(d time.Duration) func(*rule.Rule) { return func(r *rule.Rule) { r.Wait = d } }
		lease := hold(t, g.Locker(), "lock:account:b")
		began := time.Now()
		_, _, err := g.EnterAll(t.Context(), account(t, "a", wait(time.Second)), account(t, "b", wait(time.Minute)))
		if guard.KindOf(err) != guard.Contended || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want Contended that wraps DeadlineExceeded", err)
		}
		if took := time.Since(began); took != time.Second {
			t.Errorf("waited %v, want 1s", took)
		}
		_ = lease.Release(t.Context())
	})
}

// The lease of the first key ends while the second is waited for: the operation didn't
// run, which is what Lost would say.
func TestEnterAllNeverSaysLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker := guardtest.Locker(t, memstore.New())
		g := served(guard.New(locker))
		held, err := locker.Acquire(t.Context(), "lock:account:b")
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(2*time.Second, func() { _ = held.Release(t.Context()) })
		short := func(r *rule.Rule) { r.Lease, r.Wait = time.Second, time.Minute }
		patient := func(r *rule.Rule) { r.Wait = time.Minute }
		_, _, err = g.EnterAll(t.Context(), account(t, "a", short), account(t, "b", patient))
		failed, ok := errors.AsType[*guard.Error](err)
		if !ok || failed.Kind != guard.Unavailable {
			t.Errorf("got %v", err)
		}
	})
}

// An operation with several rules needs no list of calls.
func TestEnterTakesAllRulesOfAnOperation(t *testing.T) {
	g := guardtest.Guard(t,
		rule.Rule{Operation: "transfer", Key: "lock:account:<from>", Name: "from"},
		rule.Rule{Operation: "transfer", Key: "lock:account:<to>", Name: "to", Also: true})
	call := guard.Call{Operation: "transfer", Vars: func(v key.Var) (string, error) { return map[string]string{"from": "b", "to": "a"}[v.Name], nil }}
	ctx, leave, err := g.Enter(t.Context(), call)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range []string{"lock:account:a", "lock:account:b"} {
		if lease, ok := lock.LeaseOf(ctx, k); !ok || lock.AssertHeld(ctx, lease.Key()) != nil {
			t.Errorf("%s is not held", k)
		}
	}
	if err := leave(); err != nil {
		t.Error(err)
	}
	wantFree(t, g, "lock:account:a", "lock:account:b")

	guardtest.Hold(t, g, "lock:account:b")
	var refused *guard.Error
	if _, _, err := g.Enter(t.Context(), call); !errors.As(err, &refused) || refused.Kind != guard.Contended || refused.Name != "from" {
		t.Errorf("got %v, want the rule that refused", err)
	}
	wantFree(t, g, "lock:account:a")
	call.Key = "lock:mine"
	if _, _, err := g.Enter(t.Context(), call); guard.KindOf(err) != guard.Invalid {
		t.Errorf("one key for two rules: %v", err)
	}
}
