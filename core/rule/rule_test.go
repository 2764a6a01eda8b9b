package rule_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
	"github.com/redlatch/redlatch/core/rule"
)

func TestCompileFillsInTheDefaults(t *testing.T) {
	got, err := rule.Rule{Operation: "POST /orders", Key: "lock:order:<userId>"}.Compile()
	if err != nil {
		t.Fatal(err)
	}
	want := rule.Rule{
		Operation: "POST /orders", Key: "lock:order:<userId>", Name: "lock:order:<userId>",
		Mode: lock.Exclusive, OnBusy: rule.Reject,
	}
	if got.Rule != want {
		t.Errorf("got %+v, want %+v", got.Rule, want)
	}
	if got.Template.String() != want.Key {
		t.Errorf("template is %s", got.Template)
	}
}

func TestCompileKeepsWhatIsSet(t *testing.T) {
	want := rule.Rule{
		Operation: "/shop.v1.Stock/Refill", Key: "lock:stock", Mode: lock.Write,
		Wait: time.Second, Lease: lock.MinLease, OnBusy: rule.Skip, Name: "refill",
	}
	got, err := want.Compile()
	if err != nil || got.Rule != want {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestASemaphoreTakesOnePermitByDefault(t *testing.T) {
	got, err := rule.Rule{Key: "lock:x", Mode: lock.Semaphore, Size: 5}.Compile()
	if err != nil || got.Permits != 1 || got.Size != 5 {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestCompileDoesNotNeedAnOperation(t *testing.T) {
	if _, err := (rule.Rule{Key: "lock:x"}).Compile(); err != nil {
		t.Error(err)
	}
}

func TestEveryFaultOfARuleNamesFieldAndFix(t *testing.T) {
	tests := map[string]struct {
		change func(*rule.Rule)
		field  string
		fix    string
	}{
		"no key":                  {func(r *rule.Rule) { r.Key = "" }, "key", "add a template"},
		"broken key":              {func(r *rule.Rule) { r.Key = "lock:<a" }, "key", `column 6: the variable is not closed, add ">"`},
		"key without separator":   {func(r *rule.Rule) { r.Key = "<a>-<b>" }, "key", `put ":" between`},
		"unknown mode":            {func(r *rule.Rule) { r.Mode = 99 }, "mode", "use exclusive, fair, read, write or semaphore"},
		"semaphore without size":  {func(r *rule.Rule) { r.Mode = lock.Semaphore }, "permits", "such as 1/3"},
		"permits without size":    {func(r *rule.Rule) { r.Mode, r.Permits = lock.Semaphore, 2 }, "permits", "such as 1/3"},
		"too many permits":        {func(r *rule.Rule) { r.Mode, r.Size, r.Permits = lock.Semaphore, 3, 4 }, "permits", "use 1 to 3"},
		"negative permits":        {func(r *rule.Rule) { r.Mode, r.Size, r.Permits = lock.Semaphore, 3, -1 }, "permits", "use 1 to 3"},
		"size of another mode":    {func(r *rule.Rule) { r.Size = 3 }, "permits", "set the mode"},
		"permits of other mode":   {func(r *rule.Rule) { r.Permits = 1 }, "permits", "set the mode"},
		"negative wait":           {func(r *rule.Rule) { r.Wait = -1 }, "wait", "use 0 to try once"},
		"negative lease":          {func(r *rule.Rule) { r.Lease = -time.Second }, "lease", "use 0"},
		"lease too short":         {func(r *rule.Rule) { r.Lease = lock.MinLease - 1 }, "lease", "use at least 10ms"},
		"negative waiters":        {func(r *rule.Rule) { r.MaxWaiters = -1 }, "maxWaiters", "use at least 1"},
		"negative hold":           {func(r *rule.Rule) { r.MaxHold = -1 }, "maxHold", "use 0"},
		"hold too short":          {func(r *rule.Rule) { r.MaxHold = 1 }, "maxHold", "use at least 10ms"},
		"least hold too short":    {func(r *rule.Rule) { r.MinHold = 1 }, "minHold", "use at least 10ms"},
		"least hold beyond lease": {func(r *rule.Rule) { r.Lease, r.MinHold = time.Second, time.Minute }, "minHold", "than the lease of 1s"},
		"least hold beyond most":  {func(r *rule.Rule) { r.MaxHold, r.MinHold = time.Second, time.Minute }, "minHold", "than the maxHold of 1s"},
		"unknown onBusy":          {func(r *rule.Rule) { r.OnBusy = 7 }, "onBusy", "use reject or skip"},
		"operation over 2 lines":  {func(r *rule.Rule) { r.Operation = "a\nb" }, "operation", "remove it"},
		"operation with space":    {func(r *rule.Rule) { r.Operation = "a " }, "operation", "remove it"},
		"name with escape":        {func(r *rule.Rule) { r.Name = "a\x1bb" }, "name", "remove it"},
		"name not UTF-8":          {func(r *rule.Rule) { r.Name = "a\xff" }, "name", "remove it"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r := rule.Rule{Operation: "op", Key: "lock:<a>"}
			tt.change(&r)
			compiled, err := r.Compile()
			if compiled != nil {
				t.Error("a rule with a fault compiled")
			}
			faults := wantFaults(t, err, 1)
			if f := faults[0]; f.Field != tt.field || !strings.Contains(f.Reason, tt.fix) || f.Operation != r.Operation {
				t.Errorf("fault %+v, want field %q and a reason with %q", f, tt.field, tt.fix)
			}
			if strings.ContainsAny(err.Error(), "\n\x1b") || !utf8.ValidString(err.Error()) {
				t.Errorf("text %q is not one printable line", err)
			}
		})
	}
}

// A rule that compiles must not fail with each request. Nor is a rule refused that a
// locker would take.
func TestWhatCompilesIsWhatALockerAccepts(t *testing.T) {
	locker := lock.New(memstore.New())
	defer func() {
		if err := locker.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	numbers := rand.New(rand.NewPCG(1, 2))
	one := func(durations ...time.Duration) time.Duration { return durations[numbers.IntN(len(durations))] }
	limits := []time.Duration{0, 0, 0, 0, lock.MinLease, time.Minute, lock.MaxDuration, -1, 1, lock.MinLease - 1, lock.MaxDuration + 1}
	counts := []int{0, 0, 1, 2, lock.MaxPermits, lock.MaxPermits + 1, -1}
	accepted := 0
	for range 5000 {
		r := rule.Rule{
			Key: "lock:a", Mode: lock.Mode(numbers.IntN(6)),
			Wait: one(limits...), Timeout: one(0, 0, time.Millisecond, time.Millisecond-1, time.Second, lock.MaxDuration+1), Lease: one(limits...),
			MinHold: one(limits...), MaxHold: one(limits...),
			MaxWaiters: []int{0, 1, -1, math.MaxInt}[numbers.IntN(4)],
		}
		if r.Mode == lock.Semaphore { // others have no permits
			r.Size, r.Permits = counts[numbers.IntN(len(counts))], counts[numbers.IntN(len(counts))]
		}
		compiled, err := r.Compile()
		if err == nil {
			accepted++
			if err := locker.Check(r.Key, compiled.Options()...); err != nil {
				t.Fatalf("%+v compiles, and then: %v", r, err)
			}
			continue
		}
		if r.Mode == lock.Semaphore && r.Permits == 0 {
			r.Permits = 1
		}
		if locker.Check(r.Key, (&rule.Compiled{Rule: r}).Options()...) == nil {
			t.Fatalf("%+v is refused, and a locker accepts it: %v", r, err)
		}
	}
	if accepted < 50 {
		t.Errorf("only %d rules were accepted", accepted)
	}
}

func TestCompileReportsAllFaults(t *testing.T) {
	_, err := rule.Rule{Key: "<", Mode: 9, Wait: -1, Lease: 1, OnBusy: 9, Name: " "}.Compile()
	var fields []string
	for _, f := range wantFaults(t, err, 6) {
		fields = append(fields, f.Field)
	}
	if want := []string{"key", "mode", "wait", "lease", "onBusy", "name"}; !reflect.DeepEqual(fields, want) {
		t.Errorf("fields %v, want %v", fields, want)
	}
}

func TestNewSetFindsRulesByOperation(t *testing.T) {
	set, err := rule.NewSet(
		rule.Rule{Operation: "POST /b", Key: "lock:b:<id>"},
		rule.Rule{Operation: "POST /a", Key: "lock:a:<id>", Wait: time.Second},
	)
	if err != nil {
		t.Fatal(err)
	}
	found := set.Lookup("POST /a")
	if len(found) != 1 || found[0].Key != "lock:a:<id>" || found[0].Wait != time.Second {
		t.Fatalf("Lookup = %+v", found)
	}
	for _, unknown := range []string{"", "POST /c", "post /a", "POST /a "} {
		if len(set.Lookup(unknown)) > 0 {
			t.Errorf("Lookup(%q) found a rule", unknown)
		}
	}
	all := set.All()
	if len(all) != 2 || all[0].Operation != "POST /b" || all[1] != found[0] {
		t.Errorf("All() = %v", all)
	}
	all[0] = nil
	if set.All()[0] == nil {
		t.Error("changing the result of All changed the set")
	}
	again, err := rule.NewSet(set.Rules()...)
	if err != nil || !reflect.DeepEqual(again.Rules(), set.Rules()) {
		t.Errorf("a set of the rules of a set is another: %v, %v", again, err)
	}
}

func TestAnEmptySetHasNoRules(t *testing.T) {
	set, err := rule.NewSet()
	if err != nil || len(set.All()) != 0 || len(set.Overlaps()) != 0 {
		t.Errorf("got %v, %v", set, err)
	}
	if len(set.Lookup("")) > 0 {
		t.Error("found a rule")
	}
}

func TestNewSetReportsEveryFaultWithItsPlace(t *testing.T) {
	set, err := rule.NewSet(
		rule.Rule{Operation: "a", Key: "lock:<"},
		rule.Rule{Operation: "b", Key: "lock:b", Wait: -1, Lease: 1},
		rule.Rule{Key: "lock:c"},
		rule.Rule{Operation: "b", Key: "lock:d"},
		rule.Rule{Operation: "b", Key: ""},
	)
	if set != nil {
		t.Error("got a set with faults")
	}
	_ = wantFaults(t, err, 7)
	const want = `rules[0]: "a": key: "lock:<", column 6: the variable is not closed, add ">"
rules[1]: "b": wait: -1ns is negative, use 0 to try once or the longest time to wait
rules[1]: "b": lease: 1ns is too short, use at least 10ms, or 0 for a lease that the watchdog keeps alive
rules[2]: operation: is missing, name the route or method that takes the lock
rules[3]: "b": operation: has a rule already, rules[1], keep one of them, or say also: true if it takes both locks
rules[4]: "b": key: is missing, add a template such as "lock:order:<userId>"
rules[4]: "b": operation: has a rule already, rules[1], keep one of them, or say also: true if it takes both locks`
	if err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

func TestRulesOfOneKeyAgreeOnItsPermits(t *testing.T) {
	semaphore := func(permits, size int) rule.Rule {
		return rule.Rule{Key: "lock:x", Mode: lock.Semaphore, Permits: permits, Size: size}
	}
	mode := func(m lock.Mode) rule.Rule { return rule.Rule{Key: "lock:x", Mode: m} }
	elsewhere := semaphore(1, 5)
	elsewhere.Key = "lock:y"
	for name, test := range map[string]struct {
		first, second rule.Rule
		want          string
	}{
		"another size":           {semaphore(1, 3), semaphore(1, 5), `rules[1]: "b": permits: 5 in all, and rules[0] says 3 for the same key: write the same number`},
		"a lock and a semaphore": {mode(lock.Fair), semaphore(1, 3), `rules[1]: "b": mode: semaphore, and rules[0] has the same key in mode fair: a semaphore needs a separate key`},
		"a semaphore and a lock": {semaphore(1, 3), mode(lock.Exclusive), `rules[1]: "b": mode: exclusive, and rules[0] has the same key in mode semaphore: a semaphore needs a separate key`},
		"the same size":          {semaphore(1, 3), semaphore(0, 3), ""},
		"of two keys":            {semaphore(1, 3), elsewhere, ""},
		"a reader and a writer":  {mode(lock.Read), mode(lock.Write), ""},
		"fair and exclusive":     {mode(lock.Fair), mode(lock.Exclusive), ""},
	} {
		test.first.Operation, test.second.Operation = "a", "b"
		_, err := rule.NewSet(test.first, test.second)
		if got := fmt.Sprint(err); test.want == "" && err != nil || test.want != "" && got != test.want {
			t.Errorf("%s: got %v, want %s", name, err, test.want)
		}
	}
}

func TestRulesThatOverlapOnPurposeAgreeOnTheirPermits(t *testing.T) {
	seat := func(operation, variable string, size int, overlaps bool) rule.Rule {
		r := rule.Rule{Operation: operation, Key: "lock:seat:<" + variable + ">", Overlaps: overlaps}
		if size > 0 {
			r.Mode, r.Size = lock.Semaphore, size
		}
		return r
	}
	size3, other := seat("a", "x", 3, false), seat("b", "y", 5, false)
	for name, test := range map[string]struct {
		rules []rule.Rule
		want  string
	}{
		"another size":                  {[]rule.Rule{size3, seat("c", "z", 5, true)}, `rules[1]: "c": permits: 5 in all, and rules[0] says 3 for the same key: write the same number`},
		"another size, said before":     {[]rule.Rule{seat("c", "z", 5, true), size3}, `rules[1]: "a": permits: 3 in all, and rules[0] says 5 for the same key: write the same number`},
		"a lock":                        {[]rule.Rule{size3, seat("c", "z", 0, true)}, `rules[1]: "c": mode: exclusive, and rules[0] has the same key in mode semaphore: a semaphore needs a separate key`},
		"a lock, said before":           {[]rule.Rule{seat("c", "z", 0, true), size3}, `rules[1]: "a": mode: semaphore, and rules[0] has the same key in mode exclusive: a semaphore needs a separate key`},
		"one of several":                {[]rule.Rule{size3, other, seat("c", "z", 3, true)}, `rules[2]: "c": permits: 3 in all, and rules[1] says 5 for the same key: write the same number`},
		"the same size":                 {[]rule.Rule{size3, seat("c", "z", 3, true)}, ""},
		"an overlap that nobody claims": {[]rule.Rule{size3, other}, ""}, // it may be an accident, see Overlaps
	} {
		_, err := rule.NewSet(test.rules...)
		if got := fmt.Sprint(err); test.want == "" && err != nil || test.want != "" && got != test.want {
			t.Errorf("%s: got %v, want %s", name, err, test.want)
		}
	}
}

func TestOverlapsNameTemplatesOfOneShape(t *testing.T) {
	set, err := rule.NewSet(
		rule.Rule{Operation: "a", Key: "lock:order:<userId>"},
		rule.Rule{Operation: "b", Key: "lock:stock:<id>"},
		rule.Rule{Operation: "c", Key: "lock:order:<path.orderId|int>"},
		rule.Rule{Operation: "d", Key: "lock:stock:<id>"}, // the same template is no accident
		rule.Rule{Operation: "e", Key: "lock:order:<userId>"},
	)
	if err != nil {
		t.Fatal(err)
	}
	overlaps := set.Overlaps()
	if len(overlaps) != 1 || overlaps[0].Shape != "lock:order:<>" {
		t.Fatalf("got %v", overlaps)
	}
	const want = `these templates can render to the same key: lock:order:<userId> of "a", ` +
		`lock:order:<path.orderId|int> of "c", lock:order:<userId> of "e"`
	if got := overlaps[0].String(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestOnBusyTextIsReadBack(t *testing.T) {
	for _, want := range []rule.OnBusy{rule.Reject, rule.Skip} {
		if got, err := rule.ParseOnBusy(want.String()); err != nil || got != want || !got.Valid() {
			t.Errorf("%v: got %v, %v", want, got, err)
		}
	}
	if got, err := rule.ParseOnBusy(""); err != nil || got != rule.Reject {
		t.Errorf("empty: got %v, %v", got, err)
	}
	for _, text := range []string{"run", "Skip", " skip", "onBusy(2)"} {
		if _, err := rule.ParseOnBusy(text); !errors.Is(err, rule.ErrInvalid) {
			t.Errorf("%q: got %v, want ErrInvalid", text, err)
		}
	}
	if got := rule.OnBusy(2); got.String() != "onBusy(2)" || got.Valid() {
		t.Errorf("got %v", got)
	}
}

func wantFaults(t *testing.T, err error, n int) rule.Faults {
	t.Helper()
	var faults rule.Faults
	if !errors.As(err, &faults) || !errors.Is(err, rule.ErrInvalid) {
		t.Fatalf("error is %T (%v), want Faults and ErrInvalid", err, err)
	}
	var first rule.Fault
	if !errors.As(err, &first) || first != faults[0] {
		t.Errorf("errors.As finds %+v, want the first fault", first)
	}
	if len(faults) != n {
		t.Fatalf("%d faults, want %d:\n%v", len(faults), n, err)
	}
	return faults
}
