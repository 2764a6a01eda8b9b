// Chaos runs processes that use locks while everything they need breaks, and judges what they
// saw.
//
//	chaos [run]       one run, judged
//	chaos replay DIR  judges the report of an earlier run again
//	chaos controls    runs in which the checkers must find something
//
// The exit code is 1 if a promise is broken, if something leaks, or if the run itself didn't
// work. That includes a run in which fewer than half of the planned faults came about, or
// which granted fewer locks than it had faults. A run needs redis-server, on free loopback
// ports.
//
// # The workload
//
// Eight worker processes with eight clients each acquire, re-enter, renew and release locks
// with leases of 300 ms, on a few keys that all of them want. Half of the leases have a fixed
// length, the others a watchdog. A few are held for longer than a lease lasts without renewal.
// Every 2.5 s the keys get new names, so that the history of each key stays short.
//
// Clients mostly call TryAcquire, one time in a hundred in a storm of 30 on a key that is
// held. Others wait: for 1 to 3 s (in fair locks most of the time), for 5 to 300 ms, or for
// less than a round trip. Three in a hundred have a context that is canceled, or whose
// deadline comes, within 10 ms. A third of the calls that are given up ask for a lease of ten
// seconds, so that it shows if nobody releases a lock that was granted too late.
//
// On some keys all leases have a watchdog and many callers wait, so that a release often
// passes the key to the next caller of the process. Three acquisitions in a hundred have a
// minimum hold. In every second generation of keys somebody calls ForceRelease now and then.
// Each process campaigns with leader.Run for two keys, and a leader counts at a fenced
// resource. Two more clients of each process rely on wake-ups: they poll once a minute, so
// that no poll hides a waiter that wasn't woken. Two workers in three end with leases that
// only Close releases.
//
// Under the locks lie counters that know nothing of Redis. Each holder claims its fence,
// reads, waits a little, and writes. One counter accepts only writes with the fence that
// claimed it last, the other accepts all of them.
//
// # The faults
//
// Each worker reaches each Redis over its own proxy. A nemesis follows a plan that depends on
// the seed alone:
//
//   - worker paused, worker killed: SIGSTOP for longer than a lease; SIGKILL, and another process
//     in its place
//   - redis paused, redis killed: SIGSTOP; SIGKILL and a restart with its log (--no-durable: with
//     nothing)
//   - links cut: all connections of a worker
//   - request cut, reply cut: the connection, right before the server sees a script, or right
//     after it has run it
//   - delay, requests held, replies held: the worker's traffic is slow, or stands still in one
//     direction
//   - pubsub killed, script flush: all subscribers are disconnected; the server forgets its
//     scripts
//   - failover: the master is killed, a replica takes over, the old one comes back (Sentinel,
//     Cluster)
//   - with locks in PostgreSQL or MariaDB (--topology), "redis" in these names is the database.
//     Its processes are killed, and the machine stays, so it needs no fsync. Leases have 600 ms
//   - slot moved: the slot of a key in use migrates to another master (Cluster)
//
// Three times a minute nothing breaks for some seconds. In these truces the service is
// measured. The machine makes different interleavings of the same plan, so a seed repeats the
// faults and not the run.
//
// # What is judged
//
// Every call is recorded with the monotonic clock of the machine, in memory that survives a
// kill. There are two witnesses: the caller of the lock, and a recorder between the engine and
// the store. The rules of safety:
//
//   - fence twice, fence order: no two owners have one fence, and a grant that began after another
//     one was reported has a larger one
//   - fence of a re-entry: it is that of the lease
//   - kept: a grant that reached a caller who had given up is released, or passed on
//   - trust: no lease says that it is held for longer than the store was asked to keep it
//   - overlap, permits: no two leases that exclude each other are trusted at one moment; no more
//     permits are out than there are
//   - handover: between two leases lies a release or an expiry
//   - after the release: nothing of an owner happens
//   - unkept: nobody gets in before the end of a minimum hold, unless it was released by force
//   - leaders: terms rise, no two leaders lead at one moment, the resource accepts no write of an
//     old term
//   - stale write, lost update: the fenced counter accepted no smaller fence, and misses no write
//     that it confirmed
//   - fair order: a caller that was queued before another's first call comes before it, unless a
//     fault disturbed it
//   - model illegal, model unknown: porcupine finds no order in which a fenced lock with leases
//     could have answered so, or doesn't end within 30 s
//   - record: the history itself is complete
//
// The rules of liveness:
//
//   - stranded: no key is free for more than 500 ms while a caller waits for it whom nothing
//     disturbs
//   - unheard: the same where waiters poll once a minute
//   - leaderless: no key is without a leader for more than 2.5 s while an undisturbed process
//     campaigns for it
//   - passed: no caller is served after a caller of its process that came later
//   - refused: a wait that is too short doesn't keep a caller from a key that is free all the time
//   - unavailable: nobody gets ErrUnavailable when nothing is broken
//   - left: no hold is in the store when Close has returned no error, unless a failover may have
//     forgotten the release
//   - subscribed: no server has subscribers of a key whose last caller has left
//   - no service: each truce grants at least a tenth of the locks that a truce usually grants, and
//     every process gets some
//   - growth: when nothing breaks, goroutines and calls to undo stay within twice their usual
//     number
//
// In the end there must be no goroutine left in any worker, no connection, no subscription,
// and no key that doesn't expire in time. Each lock is then used once more.
//
// # What is excused
//
// A caller is disturbed by each fault that it can feel, and for 1 to 4 s after it; also in the
// first second of its process, which makes its connections then. A busy
// machine looks like a fault, too: every worker has a goroutine that records how late it is
// itself, and each allowance grows by four times that. A thread of a database that has waited for a
// processor for long counts as a server that was late.
//
// Time enters the models as bounds: a hold certainly lasts until its last renewal was sent
// plus the lease, and is certainly gone once that was answered plus the lease. A call without
// an answer, or of a process that was killed, makes an unknown owner, who may have the key
// until the request can no longer run and its lease has ended. The report counts unknown
// owners, and the refusals that nobody else explains.
//
// A release in PostgreSQL doesn't wait for the log. Where a kill of the server came before any
// grant that wrote the log, the hold may be back until its lease ends: that explains refusals,
// and no more.
//
// Where Redis may forget (a forced release, a failover before replication, a kill without a
// log), histories of that time are set aside, and overlaps are excused and counted. Fences and
// the fenced counter are judged all the same.
//
// # The controls
//
// A control plants a bug in a wrapper of the store, in this package alone, and fails unless
// its own rule finds it: writes without fences must be lost, a release that ignores the owner
// must overlap, a queue that serves the last first must break the fair order, a store that
// wakes nobody must strand. The table in controls.go has all of them with their rules. A
// control that found nothing runs up to twice more, for longer each time. TestIllegalHistories
// and TestMutantsOfALongHistory plant more in histories that are written by hand.
//
// # A report
//
//	flags.json  plan.json   what was asked for; replay reads the first
//	faults.jsonl            what the nemesis did, and when
//	history.jsonl           every call: k kind, m mode, o owner, b begin and e end in ns, r result, f fence, h holds
//	end.json                counters and leaks, which only the run itself could see
//	summary.json            the verdict
//	pictures/*.html         porcupine's view of each history that fits no order, with the faults in a separate lane
//	servers/*/server.log    what Redis said
//
// Start with the first VIOLATION: its rule, key and time. Open the picture of that key, or
// search for the key in history.jsonl, and look at faults.jsonl around that time. Replay
// judges a report again, with a newer checker as well, so a report is worth keeping.
package main
