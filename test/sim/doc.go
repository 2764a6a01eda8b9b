// Package sim simulates fleets in virtual time: two or three processes with several callers
// each, on the real engine, the real go-redis client and the real Lua scripts. Redis, the
// network and the clocks are models. Its tests are the simulator.
//
// One seed makes one world, which lives in one bubble of testing/synctest. A minute of it
// takes some tenths of a second. A failing seed prints its features, the broken rules, the
// last events and the command that runs it again; with -shrink, the smallest set of features
// that still breaks the same rule. A seed isn't repeated exactly, because the Go runtime
// chooses among goroutines that can run. So replay a seed several times.
//
// # What a world has
//
// Each seed draws about half of the features, so that one fault doesn't hide another.
//
//   - Workload: locks of every kind, watchdogs and fixed leases, concurrent Extend, re-entry,
//     canceled contexts, waits shorter than a round trip, bursts of TryAcquire, AcquireAll,
//     ForceRelease, minimum and maximum holds, leaders, a key on a quorum of three servers, a
//     writer who reads on, a latch, keys k and {k}, numbers near the end of their type. Few worlds
//     have locks in the SETNX format, or servers that refuse PUBLISH or TIME in scripts.
//   - Faults: slow packets, cut connections, lost requests and replies, lost subscriptions, a
//     frozen network, a server that stalls, restarts with and without data, a failover to a
//     replica that lags, a clock that steps, SCRIPT FLUSH, Close and a new locker, a killed
//     process, forged messages, connections that go mute, a server that refuses to write.
//   - In a quarter of the worlds waiters rely on messages: they poll once a minute. These have no
//     fault after which a key may be free and nobody is notified.
//   - A few worlds have nothing but a server that is needed for 60 % of the time, and that stands
//     still for 2 s once.
//
// After a minute everything heals, all lockers are closed, and a quiet minute follows.
//
// # What is judged
//
//   - two holders, too many permits: leases that exclude each other are trusted at one moment
//   - trusted but gone: a lease is trusted and the server doesn't have its hold; checked after
//     every script
//   - trust outlasts the key: the hold ends before the lease's deadline
//   - hold without an end: a hold has no TTL
//   - confirmed but gone: a renewal is confirmed, and the server doesn't have the hold
//   - fence did not rise: between two owners of an exclusive key, or the two sides of a hand-off
//   - fair order: a fair lock goes to somebody else than the first live place in its queue
//   - passed by later callers: a caller waits, and three later ones of the same locker get the key
//   - free while somebody waits: a key is free and an undisturbed waiter doesn't get it
//   - term is not the fence: the term of a leader; so terms are judged as leases are
//   - hold of nobody, place of nobody: a hold or a place in a queue is there that should have
//     ended
//   - taken by a late force: a forced release removes a hold that was granted after the release
//     was sent
//   - minimum hold: another owner has a key before the minimum hold of the one before has ended
//   - latch was closed, counted wrongly: a waiter goes on though the latch was never open; a call
//     counts twice
//   - grant after close: a call that arrives after Close holds a key for more than 30 s
//   - call overstayed: a call takes longer than it may
//   - left for ever, left for long: a key is there after the quiet minute
//   - script failed, looks at what it removed: a script ended with an error, or names a key again
//     that the same run has removed
//   - calls in a loop: a waiter calls more than 50 times in a second, and nothing has changed
//   - no service, backlog stays: 6 s after a busy server stood still, fewer than three quarters of
//     the usual locks are granted, or a locker has more calls to undo than callers
//   - close failed, held after close, held after drain: Close and Drain say what is true
//   - subscribed for nobody: all callers have left, and a process is still subscribed
//   - lost while reachable: a lease is lost for want of a renewal, and the server could be reached
//     all the time
//
// Where the server may have forgotten what it granted, the leases from before are excused
// until some seconds after a renewal was answered that the hold is gone; so are the leases
// that a forced release ended. The same rules hold for the key of the quorum. The runtime adds
// two: a goroutine that is left behind, and a deadlock.
//
// # Is the model right?
//
// TestCommandsAnswerAsTheServerDoes runs every command of the model with seeded arguments on
// the model and on a redis-server. TestScriptsDoAsOnTheServer does the same with every script.
// They compare all replies and all keys. RESP3, clusters, memory limits, a process that stops
// in the middle of Go code, and an exhausted connection pool aren't modeled.
//
// # Controls
//
// TestControls plants bugs between the engine and the server, in what scripts do and in who
// gets which message. Each must be found within a minute, as the rule that is written next to
// it. A judge that finds nothing there says nothing when it finds nothing elsewhere. Seeds
// that found a fault once are in testdata/seeds.txt, and each go test plays them.
package sim
