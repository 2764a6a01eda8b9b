// Package rulefile reads rules from files in YAML or JSON. Only programs that load
// rules from a file need it, and with it a YAML parser.
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
// [rule.Schema]. Package rulewatch follows a file while the program runs.
package rulefile
