package rulefile_test

import (
	"errors"
	"fmt"

	"github.com/redlatch/redlatch/core/rule"
	"github.com/redlatch/redlatch/core/rule/rulefile"
)

func ExampleParse() {
	set, err := rulefile.Parse([]byte(`
rules:
  - operation: POST /vouchers/:id/orders
    key: lock:order:<userId>
    wait: 200ms
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, r := range set.Lookup("POST /vouchers/:id/orders") {
		fmt.Println(r.Key, r.Mode, r.Wait, r.OnBusy)
	}
	// Output: lock:order:<userId> exclusive 200ms reject
}

// Everything that is wrong is reported at once, each fault on its own line.
func ExampleParse_faults() {
	_, err := rulefile.Parse([]byte(`
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
	// 5:5: "POST /vouchers/:id/orders": unknown field "wiat", did you mean "wait"?; known are operation, key, mode, permits, wait, timeout, maxWaiters, lease, minHold, maxHold, onBusy, name, overlaps, also, optional
	// 8:12: "POST /vouchers": lease: -1s is negative, use 0 for a lease that the watchdog keeps alive
	// true
}
