package guard_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/guard/guardtest"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
	"github.com/redlatch/redlatch/core/rule"
)

func TestNewReportsEveryFaultOfEveryRule(t *testing.T) {
	_, err := guard.New(guardtest.Locker(t, memstore.New()),
		rule.Rule{Operation: "a", Key: "lock:<"},
		rule.Rule{Operation: "b", Key: "lock:x", Wait: -time.Second},
		rule.Rule{Operation: "c", Key: "lock:x"},
		rule.Rule{Operation: "c", Key: "lock:y"},
	)
	var faults rule.Faults
	if !errors.As(err, &faults) || len(faults) != 3 || guard.KindOf(err) != guard.Invalid {
		t.Fatalf("got %v, want three faults", err)
	}
	for i, want := range []string{`"a": key`, `"b": wait`, `"c": operation`} {
		if !strings.Contains(faults[i].Error(), want) {
			t.Errorf("fault %d is %q, want it to name %s", i, faults[i], want)
		}
	}
}

func TestNewNeedsALocker(t *testing.T) {
	if _, err := guard.New(nil); err == nil {
		t.Error("a guard without a locker was made")
	}
}

func TestMustPanicsOnAFault(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	guard.Must(guard.New(nil))
}

func TestRulesAreFoundByTheirOperation(t *testing.T) {
	locker := guardtest.Locker(t, memstore.New())
	g := guard.Must(guard.New(locker, orders(), rule.Rule{Operation: "GET /b", Key: "lock:order:<id>"}))
	g.Serve("test", operation, "GET /b")
	if r, err := g.RulesOf(operation); err != nil || r[0].Name != "orders" {
		t.Errorf("got %v, %v", r, err)
	}
	if r, err := g.RulesOf("post /orders"); err != nil || r != nil {
		t.Errorf("found %v, %v under another spelling", r, err)
	}
	if rules := g.Rules(); len(rules) != 2 || rules[0].Operation != operation {
		t.Errorf("Rules returned %v", rules)
	}
	if overlaps := g.Overlaps(); len(overlaps) != 1 {
		t.Errorf("%d overlaps, want 1", len(overlaps))
	}
	if g.Locker() != locker {
		t.Error("another locker")
	}
}

func TestErrorTextHoldsNeitherKeyNorValueNorTheStoresWords(t *testing.T) {
	const secret = "alice@example.org"
	store := memstore.New()
	g := served(guard.New(guardtest.Locker(t, store), orders(waiting)))
	broken := served(guard.New(guardtest.Locker(t, guardtest.Broken{Store: store}), orders()))
	hold(t, g.Locker(), "lock:order:"+strings.ReplaceAll(secret, "@", "%40"))
	_, _, contended := g.Enter(t.Context(), user(secret))
	_, _, unavailable := broken.Enter(t.Context(), user(secret))
	_, _, tooLong := g.Enter(t.Context(), user(strings.Repeat(secret, 50)))
	custom := error(g.Refuse(t.Context(), guard.Call{Operation: operation, Rule: g.Rules()[0]}, guardtest.ErrDown))
	for want, err := range map[string]error{
		`guard: POST /orders: contended: lock "orders": lock is held by another owner`:                                    contended,
		`guard: POST /orders: unavailable: lock "orders": lock store is unavailable`:                                      unavailable,
		`guard: POST /orders: bad key: lock "orders": key: too long: variable "userId" of template "lock:order:<userId>"`: tooLong,
		`guard: POST /orders: bad key: lock "orders"`:                                                                     custom,
	} {
		if err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}

func TestErrorNamesTheVariableWithoutASource(t *testing.T) {
	g := guardtest.Guard(t, orders())
	_, _, err := g.Enter(t.Context(), guard.Call{Operation: operation})
	const want = `guard: POST /orders: invalid rule: lock "orders": variable has no source: <userId>, correct its name or bind it with WithVar`
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

func TestErrorOfAnUnknownOperationIsReadable(t *testing.T) {
	err := &guard.Error{Kind: guard.Lost, Err: lock.ErrLost}
	if got := err.Error(); got != "guard: lost: lease is lost" {
		t.Errorf("got %q", got)
	}
}

// The cures of a lease that was too short and of a Redis that was away differ.
func TestALossSaysInWhichWay(t *testing.T) {
	for _, way := range []error{lock.ErrExpired, lock.ErrHeldTooLong, lock.ErrNotRenewed, lock.ErrTaken, lock.ErrForced} {
		err := &guard.Error{Kind: guard.Lost, Err: &lock.Error{Op: "release", Key: "lock:order:42", Err: way}}
		if got, want := err.Error(), "guard: lost: "+way.Error(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		g := guardtest.Guard(t, orders(func(r *rule.Rule) { r.MaxHold = time.Second })).WithLogger(slog.New(slog.NewTextHandler(&text, nil)))
		_, leave, err := g.Enter(t.Context(), user("42"))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		if err := leave(); guard.KindOf(err) != guard.Lost {
			t.Errorf("leave: %v", err)
		}
		if got := text.String(); !strings.Contains(got, "WithMaxHold") || strings.Contains(got, "cause=") || strings.Contains(got, "lock:order:42") {
			t.Errorf("logged %s", got)
		}
	})
}
