// Package redlatch is the first page of a kit for distributed locks. It holds no code:
// import the packages below.
//
// # The lock
//
// A lock is taken as a lease, whose context ends when it is released or lost:
//
//	locker := lock.New(redisstore.New(rdb))
//	lease, err := locker.Acquire(ctx, "order:42", lock.WithWait(time.Second))
//	if err != nil {
//		return err
//	}
//	defer lease.Release(ctx)
//	return charge(lease.Context(), lease.Fence())
//
// The engine, and the names of locks:
//
//   - core/lock: the engine. Leases, trust, renewal, the queue of a process. It needs
//     the standard library only.
//   - core/key: templates of keys, for example lock:order:<userId>.
//
// # Stores
//
//   - core/redisstore: Redis and Valkey, alone, with replicas, as a cluster. It uses
//     the keys and channels of Redisson, so Java and Go services share a lock.
//   - core/sqlstore: PostgreSQL, MySQL or MariaDB, SQLite. Locks can be released in the
//     transaction of the work.
//   - core/memstore: a store inside the process, for tests and single instances.
//   - core/quorum: a majority of independent stores, known as RedLock.
//   - core/storetest: the contract, as tests, for authors of a store.
//
// # With the lock
//
//   - core/fence: refuses the writes of a holder that is late, in SQL and over HTTP.
//   - core/leader: leader election; the term is the fence.
//   - core/telemetry (a module): metrics, spans and log lines by OpenTelemetry.
//
// # Rules and integrations
//
// A rule says which operation takes which lock, and what its caller gets when the lock
// is busy. Each integration applies the same rules:
//
//   - core/rule: rules as data, and their text form. core/rule/rulefile reads them from
//     YAML and JSON; core/rule/rulefile/rulewatch follows a file.
//   - core/guard: what integrations share; core/guard/httpguard: those for HTTP.
//   - ginlock (a module): middleware for Gin.
//   - httplock: middleware for net/http, chi, Echo, go-zero and others.
//   - contrib/fiberlock, contrib/hertzlock (modules): middleware for Fiber 3 and Hertz.
//   - grpclock (a module): interceptors for gRPC. annotations/lockpb (a module) is the
//     option that declares a lock in a .proto.
//   - annotations: locks declared by a comment at a method of an interface, or by a
//     struct tag. annotations/cmd/lockgen (a module) generates the decorator.
//   - fxmodule (a module): all of it for applications that are built with fx.
//   - contrib/pgxlisten (module): notifications of PostgreSQL and transactions of pgx for
//     core/sqlstore.
//   - contrib/cronlock, contrib/gocronlock (modules): jobs that run once per tick in a
//     fleet.
//
// A module in this list has its own go.mod, and go get fetches it alone: a program
// inherits only what it imports. The packages of this module need go-redis, a YAML parser
// and fsnotify.
//
// The examples module has a flash sale and recipes, to run and to copy from.
package redlatch
