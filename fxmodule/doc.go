// Package fxmodule wires locks into an fx application.
//
//	fx.New(
//		fxmodule.Module,
//		fx.Provide(newRedisClient), // *redis.Client, *redis.ClusterClient or redis.UniversalClient
//		fxmodule.AsRule(rule.Rule{Operation: "POST /orders", Key: "lock:order:<userId>"}),
//		fx.Invoke(func(g *guard.Guard, r *gin.Engine) { r.Use(ginlock.Rules(g)) }),
//	)
//
// [Module] provides a *[lock.Locker] and a *[guard.Guard]; the doors take the
// guard. It provides nothing that belongs to the application: the Redis client
// is found among what the application provides, and stays open when it stops.
// Without one, locks are kept in the memory of the process.
//
// When the application starts, the store is asked whether it is there; when it
// stops, the locker is closed: after everything that uses it, because fx stops
// in the reverse order. Everything works without fx as well: [New] and
// [NewGuard] are plain constructors.
package fxmodule
