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
// Every operation is one Lua script on the keys of one lock, and absolute:
// running it twice changes nothing the second time. It is sent so that the client never sends
// it again by itself, whatever its MaxRetries, because only the engine knows
// whether a repetition is still wanted. What an error says about the script,
// that it did not run or that nobody knows, is reported as [lock.StoreError].
//
// # Wake-ups
//
// All watches of a Store share one connection, which exists while somebody
// watches. Two goroutines serve it: one subscribes to the channels that are
// wanted, one reads. In a cluster from Redis 7 on there are two planes of
// channels that do not meet; both are listened to, the sharded one by a further
// connection for each master. [WithPublish] is about the other direction.
//
//	Watch ──► pending ── SUBSCRIBE ──► acknowledged ──► live ── message ──► wake
//	             │                                       │ ▲
//	             └── refused or ctx over: an error       │ └─ acknowledged again:
//	                                          stop ◄─────┘    wake, as messages
//	                                                          may have been missed
//
// A lost connection is replaced for as long as somebody watches. The
// acknowledgements of the new one then wake everybody once.
package redisstore
