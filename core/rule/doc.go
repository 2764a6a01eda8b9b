// Package rule says which operation takes which lock, as plain data. A rule has one
// string form everywhere, the template of its key and then fields:
//
//	lock:order:<userId> wait=200ms maxWaiters=50
//
// [ParseRule] reads it. Package rulefile reads rules from YAML and JSON. Both, and
// the directives and the .proto option of package annotations, read a rule's fields
// through one table, [Fields].
//
// Rules are checked as a whole before the first request: [NewSet] and rulefile
// report every fault they find, each with its place, and return no set while there
// is one. An unknown field is a fault, because a misspelled "wait" must not silently
// mean "try once", and so is an operation that nothing could ever serve. There is no
// way to say "run without the lock".
package rule
