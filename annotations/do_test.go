package annotations_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch/annotations"
	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/guard/guardtest"
	"github.com/redlatch/redlatch/core/key"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
	"github.com/redlatch/redlatch/core/rule"
)

func compile(t testing.TB, g *guard.Guard, directives ...string) *annotations.Method {
	t.Helper()
	m, err := annotations.Compile(g, "place", directives...)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func userVars(id string) annotations.Vars { return annotations.VarsOf(key.Vars{"userId": id}) }

var errWork = errors.New("the work failed")

func TestDoRunsTheWorkUnderTheLocks(t *testing.T) {
	for name, test := range map[string]struct {
		directives []string
		keys       []string
	}{
		"one lock":     {[]string{"lock:order:<userId>"}, []string{"lock:order:42"}},
		"several":      {[]string{"lock:order:<userId>", "lock:a wait=1s"}, []string{"lock:order:42", "lock:a"}},
		"no variables": {[]string{"lock:a"}, []string{"lock:a"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := guardtest.Guard(t)
			m := compile(t, g, test.directives...)
			ran := false
			err := annotations.Do(t.Context(), m, userVars("42"), func(ctx context.Context) error {
				ran = true
				for _, k := range test.keys {
					if err := lock.AssertHeld(ctx, k); err != nil {
						t.Error(err)
					}
				}
				again := annotations.Do(ctx, m, userVars("42"), func(context.Context) error { return errWork })
				if !errors.Is(again, errWork) {
					t.Errorf("with the context of the first call: %v, want the work to run", again)
				}
				other := annotations.Do(t.Context(), compile(t, g, test.keys[0]), nil, func(context.Context) error { return nil })
				if guard.KindOf(other) != guard.Contended {
					t.Errorf("another caller got %v, want Contended", other)
				}
				return errWork
			})
			if !ran || err != errWork { //nolint:errorlint // it must be the work's own
				t.Errorf("ran %v, %v: want the error of the work", ran, err)
			}
			wantFree(t, g, test.keys...)
		})
	}
}

func TestDoGivesTheLocksBackWhenTheWorkPanics(t *testing.T) {
	g := guardtest.Guard(t)
	m := compile(t, g, "lock:order:<userId>", "lock:a")
	func() {
		defer func() {
			if recover() != "broken" {
				t.Error("the panic did not come through")
			}
		}()
		_ = annotations.Do(t.Context(), m, userVars("42"), func(context.Context) error { panic("broken") })
	}()
	wantFree(t, g, "lock:order:42", "lock:a")
}

func TestAValueThatPanicsTakesNoLock(t *testing.T) {
	g := guardtest.Guard(t)
	for name, directives := range map[string][]string{"one lock": {"lock:order:<userId>"}, "several": {"lock:a", "lock:order:<userId>"}} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() != "broken" {
					t.Error("the panic did not come through")
				}
				wantFree(t, g, "lock:a", "lock:order:42")
			}()
			err := annotations.Do(t.Context(), compile(t, g, directives...), func(annotations.Var) (string, error) { panic("broken") }, func(context.Context) error { return nil })
			t.Errorf("it returned %v", err)
		})
	}
}

func TestDoWithoutItsLocksDoesNotRunTheWork(t *testing.T) {
	for name, test := range map[string]struct {
		directives []string
		vars       annotations.Vars
		want       guard.Kind
	}{
		"busy":               {[]string{"lock:order:<userId>"}, userVars("42"), guard.Contended},
		"one of two is busy": {[]string{"lock:a", "lock:order:<userId>"}, userVars("42"), guard.Contended},
		"skip":               {[]string{"lock:order:<userId> onBusy=skip"}, userVars("42"), guard.None},
		"skip, said once":    {[]string{"lock:a onBusy=skip", "lock:order:<userId>"}, userVars("42"), guard.None},
		"no value":           {[]string{"lock:order:<userId> onBusy=skip"}, userVars(""), guard.BadKey},
		"no such variable":   {[]string{"lock:order:<userId>"}, annotations.VarsOf(key.Vars{}), guard.BadKey},
		"no values at all":   {[]string{"lock:order:<userId>"}, nil, guard.Invalid},
	} {
		t.Run(name, func(t *testing.T) {
			g := guardtest.Guard(t)
			guardtest.Hold(t, g, "lock:order:42")
			result, err := annotations.Call(t.Context(), compile(t, g, test.directives...), test.vars, func(context.Context) (int, error) {
				t.Error("the work ran")
				return 7, nil
			})
			if guard.KindOf(err) != test.want || result != 0 {
				t.Errorf("got %d, %v, want 0 and kind %v", result, err, test.want)
			}
			var e *guard.Error
			if test.want != guard.None && (!errors.As(err, &e) || e.Operation != "place") {
				t.Errorf("got %#v, want a *guard.Error that names the operation", err)
			}
			wantFree(t, g, "lock:a")
		})
	}
}

func TestCallReturnsWhatTheWorkDoes(t *testing.T) {
	m := compile(t, guardtest.Guard(t), "lock:a")
	result, err := annotations.Call(t.Context(), m, nil, func(context.Context) (int, error) { return 7, errWork })
	if result != 7 || err != errWork { //nolint:errorlint // it must be the work's own
		t.Errorf("got %d, %v", result, err)
	}
}

// Contended, Unavailable and Canceled say that the work didn't run, and may be tried again.
func TestAnErrorOfWorkThatRanIsNoRefusalOfTheCall(t *testing.T) {
	g := guardtest.Guard(t)
	m, inner := compile(t, g, "lock:a"), compile(t, g, "lock:stock")
	guardtest.Hold(t, g, "lock:stock")
	for name, test := range map[string]struct {
		work func(context.Context) error
		want error
	}{
		"another method is contended": {func(ctx context.Context) error {
			return annotations.Do(ctx, inner, nil, func(context.Context) error { return nil })
		}, lock.ErrBusy},
		"a lock that it takes is held": {func(ctx context.Context) error {
			_, err := g.Locker().TryAcquire(ctx, "lock:stock")
			return err
		}, lock.ErrBusy},
		"its database is too slow": {func(context.Context) error { return context.DeadlineExceeded }, context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			err := annotations.Do(t.Context(), m, nil, test.work)
			var refusal *guard.Error
			if guard.KindOf(err) != guard.None || errors.As(err, &refusal) || !errors.Is(err, test.want) {
				t.Errorf("got %v of kind %v, want the error of the work", err, guard.KindOf(err))
			}
		})
	}
}

func TestALostLeaseIsReportedWhateverTheWorkReturned(t *testing.T) {
	for name, returned := range map[string]error{"nil": nil, "an error": errWork} {
		t.Run(name, func(t *testing.T) {
			store := memstore.New()
			g := guard.Must(guard.New(guardtest.Locker(t, store, lock.WithWatchdog(900*time.Millisecond))))
			m := compile(t, g, "lock:a", "lock:order:<userId>")
			result, err := annotations.Call(t.Context(), m, userVars("42"), func(ctx context.Context) (int, error) {
				if _, err := guardtest.Locker(t, store).ForceRelease(ctx, "lock:a"); err != nil {
					t.Error(err)
				}
				<-ctx.Done()
				if !errors.Is(context.Cause(ctx), lock.ErrLost) {
					t.Errorf("cause is %v, want ErrLost", context.Cause(ctx))
				}
				return 7, returned
			})
			if guard.KindOf(err) != guard.Lost || !errors.Is(err, lock.ErrLost) || result != 7 {
				t.Errorf("got %d, %v, want the result, and kind Lost", result, err)
			}
			if returned != nil && !errors.Is(err, returned) {
				t.Errorf("got %v, which hides %v", err, returned)
			}
			if strings.Contains(err.Error(), "%!") {
				t.Errorf("got %v, which says more than what happened", err)
			}
		})
	}
}

func TestARuleOfTheGuardTakesThePlaceOfDirectives(t *testing.T) {
	g := guardtest.Guard(t, rule.Rule{Operation: "place", Key: "lock:configured:<userId>"})
	m := compile(t, g, "lock:a", "lock:order:<userId>")
	assert := func(held string, free ...string) {
		t.Helper()
		err := annotations.Do(t.Context(), m, userVars("42"), func(ctx context.Context) error {
			wantFree(t, g, free...)
			return lock.AssertHeld(ctx, held)
		})
		if err != nil {
			t.Error(err)
		}
	}
	assert("lock:configured:42", "lock:a", "lock:order:42")
	if err := g.Replace(nil, "place"); err != nil {
		t.Fatal(err)
	}
	assert("lock:order:42", "lock:configured:42")
}

func TestCrossingCallsNeverWaitForEachOther(t *testing.T) {
	const first, second = "lock:account:<from> wait=20s", "lock:account:<to>"
	for name, test := range map[string]struct {
		directives []string
		rules      []rule.Rule
	}{
		"several directives": {[]string{first, second}, nil},
		"several rules of the guard": {[]string{first}, []rule.Rule{
			{Operation: "place", Key: "lock:account:<from>", Wait: 20 * time.Second},
			{Operation: "place", Key: second, Also: true},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var accounts guardtest.Accounts
			move := compile(t, guardtest.Guard(t, test.rules...), test.directives...)
			accounts.Crossing(t, 10_000, func(from, to string) error {
				return annotations.Do(t.Context(), move, annotations.VarsOf(key.Vars{"from": from, "to": to}), func(context.Context) error {
					accounts.Transfer(from, to)
					return nil
				})
			})
		})
	}
}
