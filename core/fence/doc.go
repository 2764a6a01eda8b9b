// Package fence lets a resource refuse late writes. A holder of a lock that was
// paused can lose its lease without noticing, and then write over the work of the
// next holder. No lock can prevent that, because the write may be on its way when
// the lease ends. The resource can: it remembers the newest [Token] that it has
// seen, and refuses older ones.
//
// # Protocol
//
//  1. claim: raise what the resource remembers to the token, before anything is
//     read. Refused ([ErrStale]) means that the lock has a newer holder: stop.
//  2. read.
//  3. write, on the condition that the token is still the newest.
//
// A check at the write alone isn't enough: a late holder could write after the new
// one has read, and the new one would overwrite that without having seen it.
//
// In one SQL transaction steps 1 and 3 are one, as the claim keeps the row until
// the transaction ends:
//
//	[Table]  fences rows of your table, in two columns next to the data
//	[Guards] a separate table, one row for each lock: for inserts, for work on
//	         many rows, for tables that cannot be changed
//
// Across HTTP the token travels in the header Lock-Fence: a [Transport] puts the
// lease's token on requests, a [Gate] in front of the resource claims it.
//
// # Tokens
//
// A token is the fence of a grant and a digest of its owner, which distinguishes
// two holders should a fence ever repeat. It doesn't hold the owner itself,
// which is enough to release the lock, so tokens may be stored and logged.
package fence
