package rule_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/redlatch/redlatch/core/rule"
)

func ExampleParseRule() {
	r, err := rule.ParseRule("lock:order:<userId> wait=200ms maxWaiters=50")
	fmt.Println(r.Key, r.Mode, r.Wait, r.MaxWaiters, err)
	// Output: lock:order:<userId> exclusive 200ms 50 <nil>
}

// Everything that is wrong is reported at once, with its column.
func ExampleParseRule_faults() {
	_, err := rule.ParseRule("lock:order:<userId wiat=200ms lease=-1s")
	fmt.Println(err)
	fmt.Println(errors.Is(err, rule.ErrInvalid))
	// Output:
	// "lock:order:<userId wiat=200ms lease=-1s", column 12: key: the variable is not closed, add ">"
	// "lock:order:<userId wiat=200ms lease=-1s", column 20: unknown field "wiat", did you mean "wait"?; known are mode, permits, wait, timeout, maxWaiters, lease, minHold, maxHold, onBusy, name, overlaps, also, optional
	// "lock:order:<userId wiat=200ms lease=-1s", column 37: lease: -1s is negative, use 0 for a lease that the watchdog keeps alive
	// true
}

func ExampleSet_Overlaps() {
	set, err := rule.NewSet(
		rule.Rule{Operation: "POST /orders", Key: "lock:order:<userId>", Wait: time.Second},
		rule.Rule{Operation: "DELETE /orders/:id", Key: "lock:order:<path.id>"},
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, overlap := range set.Overlaps() {
		fmt.Println(overlap)
	}
	// Output: these templates can render to the same key: lock:order:<userId> of "POST /orders", lock:order:<path.id> of "DELETE /orders/:id"
}
