// Package redisstore keeps locks in Redis, in the format of Redisson, so that
// Java and Go can contend for one lock.
//
//	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
//	locker := lock.New(redisstore.New(rdb))
//
// It runs on Redis 6.2 and later and on Valkey: standalone, behind Sentinel,
// or as a cluster. What is written where, and how it differs from Redisson, is
// in docs/wire.md. It has every mode of package lock, and [Latch].
//
// # One script per call
//
// Every operation is one Lua script on the keys of one lock, with absolute values:
// running it twice changes nothing the second time. It is sent so that the client
// never resends it, whatever its MaxRetries, because only the engine knows whether
// a repetition is still wanted. A [lock.StoreError] says whether a failed script
// didn't run, or may have run.
//
// # Wake-ups
//
// All watches of a Store share one connection, which exists while somebody watches.
// A channel that nobody watches any longer is kept for 100 ms, for the next watch.
// Two goroutines serve the connection: one subscribes to the channels that are
// wanted, one reads. A cluster of Redis 7 or later has two separate kinds of
// channels, and the store subscribes to both: to the sharded ones on a further
// connection for each master. [WithPublish] sets which of them releases use.
//
//	Watch ──► pending ── SUBSCRIBE ──► acknowledged ──► live ── message ──► wake
//	             │                                       │ ▲
//	             └── refused or ctx ended: an error      │ └─ acknowledged again:
//	                                          stop ◄─────┘    wake, as messages
//	                                                          may have been missed
//
// A lost connection is replaced for as long as somebody watches. The
// acknowledgements of the new one wake all waiters once.
package redisstore
