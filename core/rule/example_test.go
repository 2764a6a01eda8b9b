package rule_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/redlatch/redlatch/core/rule"
)

func ExampleParse() {
	set, err := rule.Parse([]byte(`
rules:
  - operation: POST /vouchers/:id/orders
    key: lock:order:<userId>
    wait: 200ms
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	r, ok := set.Lookup("POST /vouchers/:id/orders")
	fmt.Println(r.Key, r.Mode, r.Wait, r.OnBusy, ok)
	// Output: lock:order:<userId> exclusive 200ms reject true
}

// Everything that is wrong is reported at once, each fault in a line of its own.
func ExampleParse_faults() {
	_, err := rule.Parse([]byte(`
rules:
  - operation: POST /vouchers/:id/orders
    key: lock:order:<userId
    wiat: 200ms
  - operation: POST /vouchers
    key: lock:voucher:<body.title>
    lease: -1s
`))
	fmt.Println(err)
	fmt.Println(errors.Is(err, rule.ErrInvalid))
	// Output:
	// 4:21: "POST /vouchers/:id/orders": key: "lock:order:<userId", column 12: the variable is not closed, add ">"
	// 5:5: "POST /vouchers/:id/orders": unknown field "wiat", known are operation, key, mode, permits, size, wait, maxWaiters, lease, maxHold, onBusy, name, overlaps
	// 8:12: "POST /vouchers": lease: -1s is negative, use 0 for a lease that the watchdog keeps alive
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
