// Package ginlock is the Gin integration: a middleware that runs the handlers
// behind it under a lock.
//
//	r.POST("/vouchers/:id/orders", auth, ginlock.New(g, "lock:order:<userId> wait=200ms"), create)
//
// The string is a rule: the template of the key, whose grammar package key has, and
// the rule's fields. Where variables come from, the options, the body and the
// answers are described in package httpguard. In Gin
//
//   - a path parameter is that of c.Param, so the value of *rest begins with a
//     slash;
//   - a value that an earlier middleware set is one of c.Set or of the request's
//     context; two that disagree are refused;
//   - <ip> is [gin.Context.ClientIP], which believes the proxies that the engine
//     trusts: by default all of them.
//
// Rules for many routes are the guard's:
//
//	r.Use(gin.Recovery(), auth, ginlock.Rules(g, r, httpguard.WithProvided("userId"))) // auth sets "userId"
//	r.POST("/vouchers/:id/orders", create)
//	if err := g.Validate(); err != nil { // names the rules without a route, and the routes without their lock
//		return err
//	}
//
// # Where to put it
//
// Behind gin.Recovery, tracing and authentication, so that <userId> is one to
// trust; in front of everything that must not run twice at once. Handlers get the
// lease's context as c.Request.Context(): pass that one on. [lock.FromContext],
// [lock.AssertHeld] and re-entry find the lease through a bare c as well, but c ends with
// the lease only if the engine's ContextWithFallback is set. Work that a handler
// leaves to a goroutine isn't covered: the lock is released when the handler
// returns. A middleware that changes the request's method belongs in front of the
// engine: behind it, Gin has chosen the handler, and [Rules] would take the lock of
// another route.
//
// Whatever goes wrong before the handler runs ends the request. What operators need
// to see is logged by the guard, and [guard.Hooks] get it. Handlers still run for a
// request whose client has gone, and keep the lock until they return: their context
// ends.
package ginlock
