// Package fxmodule wires locks into an fx application.
//
//	fx.New(
//		fxmodule.Module,
//		fx.Provide(newRedisClient), // *redis.Client, *redis.ClusterClient or redis.UniversalClient
//		fxmodule.AsRule(rule.Rule{Operation: "POST /orders", Key: "lock:order:<userId>"}),
//		fx.Invoke(func(g *guard.Guard, r *gin.Engine) {
//			r.Use(authenticate, ginlock.Rules(g, r, httpguard.WithProvided("userId"))) // authenticate sets "userId"
//			r.POST("/orders", createOrder)                                             // behind Use
//		}),
//	)
//
// [Module] provides a *[lock.Locker] and a *[guard.Guard]; middleware takes the
// guard. The Redis client is the application's: the module never creates or closes
// one. The start fails if there is neither a client nor a [lock.Store]. [InMemory]
// chooses memory, for one process.
//
// When the application starts, the store is checked with the modes of the rules,
// and the guard is validated: a rule that nothing serves ends the start. When it
// stops, the locker is closed: after everything that uses it, because fx stops in
// the reverse order. Everything works without fx as well: [New] and [NewGuard] are
// plain constructors.
package fxmodule
