// Package rule says which operation takes which lock, as plain data: from Go, or
// from YAML or JSON.
//
//	rules:
//	  - operation: POST /vouchers/:id/orders
//	    key: lock:order:<userId>
//	    wait: 200ms
//	  - operation: /shop.v1.Stock/Refill
//	    key: lock:stock:<req.voucher_id>
//	    mode: write
//	    lease: 30s
//	    onBusy: skip
//	    name: refill
//
// Editors complete and check such a file with the help of its JSON Schema, see
// [Schema]. Package rulewatch follows a file while the program runs.
//
// Rules are checked as a whole before the first request: [NewSet], [Parse] and
// [Load] report every fault they find, each with its place, and return no set
// while there is one. An unknown field is a fault, because a misspelt "wait" must
// not silently mean "try once". There is no way to say "run without the lock".
package rule
