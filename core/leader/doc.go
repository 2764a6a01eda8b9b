// Package leader elects one of many processes to do something alone for as long as
// it lives: to run a scheduler, consume a stream, or compact a table.
//
//	err := leader.Run(ctx, locker, "leader:billing", func(ctx context.Context, term uint64) error {
//		return bill(ctx, term) // until ctx ends
//	})
//
// Every process calls [Run]. One of them gets the lock of that key and runs its
// func; the others wait. The lock is an ordinary one of package lock: exclusive, and
// renewed by the watchdog unless the locker or [WithLock] has a [lock.WithLease].
//
// # A term
//
// A term begins when the lock is granted, and its number is the fence of the
// grant: larger than that of every earlier term, whichever process had it. It ends
// in one of two ways.
//
//   - The leader resigns: its func returned, the context of Run ended, or the
//     locker drains ([lock.Locker.Drain], [lock.Locker.Close]). The func's context
//     ends first, Run waits until the func has returned, and only then releases the
//     lock. There is no second leader meanwhile, however long the func takes. Only
//     Close doesn't wait: it ends the func's context and releases the lock.
//   - The term is lost: the lease couldn't be renewed, or was taken away. The
//     func's context ends, with a cause that wraps [lock.ErrLost], before the store
//     would give the lock to anybody else. When it was taken by force or forgotten by
//     the store, the leader notices at its next renewal.
//
// # Two leaders at once
//
// A func that goes on after its context has ended can act at the same time as
// the next leader. So can a process that is paused between checking the context
// and a write. No lock prevents that. The resource can: send the term
// along, and let the resource refuse smaller ones. Package fence does so for SQL
// and HTTP: fence.Of takes the lease, which [lock.FromContext] finds in the func's
// context.
//
// Run never calls its func again before the last call has returned, and doesn't
// campaign until then: a func that doesn't return keeps its process out of the
// next election, but not the others.
package leader
