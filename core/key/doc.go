// Package key turns a template such as "lock:order:<userId>" and a request's
// values into the key of a lock.
//
// # Grammar
//
//	template = 1*( literal / var )     1..256 bytes, at least one literal byte
//	literal  = printable ASCII except  < > % " ` \  and the space
//	var      = "<" [ source "." ] name *( "|" filter ) ">"
//	source   = path query header cookie form body ctx md req
//	name     = ident *( "." ident )    dots only behind a source
//	ident    = ( letter / "_" ) *( letter / digit / "_" / "-" )
//	filter   = int uuid lower sha256
//
// The braces of a literal are Redis Cluster's hash tag, put there on purpose:
// at most one "{" and one "}", in this order, with something in between, as in
// "lock:{order:<userId>}".
//
// # What a template guarantees
//
// A template renders two different tuples of (filtered) values to two different
// keys. Every byte of a value outside [A-Za-z0-9._~-] is written as %XX, and
// between two variables stands at least one byte that no escaped value contains,
// which [Parse] requires: "lock:<a>-<b>" is refused, "lock:<a>:<b>" isn't. So
// no value can forge a separator, a brace or a control byte, and a key is always
// printable ASCII of at most [MaxKey] bytes.
//
// A missing or empty value is an error, never an empty part of a key: two callers
// without a user id must not end up on one lock. A value that is too long is
// refused, never cut.
//
// Values are compared byte by byte. The package folds neither case nor Unicode
// normal forms on its own; where the work behind the lock does (a database with a
// case-insensitive collation, a handler that parses "07" as 7), say so with a
// filter, or lock on the id that the database returned.
package key
