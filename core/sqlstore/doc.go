// Package sqlstore keeps locks in a database that a team has already: PostgreSQL, MySQL or
// MariaDB, or SQLite for the processes of one machine.
//
//	store, err := sqlstore.New(db, sqlstore.PostgreSQL)
//	if err != nil {
//		return err
//	}
//	if err := store.Check(ctx); err != nil { // says which statements are missing
//		return err
//	}
//	locker := lock.New(store)
//
// It needs database/sql and three tables, which [Migrations] has as files. It has every mode
// of [lock.Store].
//
// # How it works
//
// A key is one row. Each call is one statement and a transaction of its own, so no client
// has a row lock while it works, a process that stands still blocks nobody beyond its TTL,
// and a pooler in transaction mode is no obstacle. Several readers, permits and a queue
// are a document in the row, which is read and written on the condition that its version
// has not changed: that is for some tens of holders of one key.
//
// Time is that of the database, in SQLite that of the machine. Fences are that time in
// microseconds times 64, or 64 more than the last of the key.
//
// An insertion of a new row deletes some rows that nobody has used for a minute.
//
// # Wake-ups
//
// Waiters poll: one statement a process for all keys that it waits for, after 2 ms when
// something has changed, and later each time until it is 50 ms. In PostgreSQL a
// [Listener] replaces that: one connection a process while it waits, and notifications of
// releases that somebody waits for. Releases in the same process wake without either.
package sqlstore
