// Package hertzlock is the integration for Hertz: a middleware that runs the handlers
// behind it under a lock.
//
//	h.POST("/vouchers/:id/orders", authenticate, hertzlock.New(g, "lock:order:<userId> wait=200ms"), create)
//
// The string is a rule: the template of the key, whose grammar package key has, and
// the rule's fields. Where variables come from, the options, the body and the
// answers are described in package httpguard. In Hertz
//
//   - a path parameter is that of c.Param;
//   - a value that an earlier middleware set is one of c.Set or of the context that Hertz
//     passes; two that disagree are refused;
//   - <ip> is c.ClientIP(), which believes X-Forwarded-For of everybody unless
//     the engine has another SetClientIPFunc.
//
// Rules for many routes are the guard's. [Route] takes the lock of one:
//
//	h.POST("/vouchers/:id/orders", hertzlock.Route(g, "POST /vouchers/:id/orders"), create)
//	if err := g.Validate(); err != nil { // names the rules that no Route was made for
//		return err
//	}
//
// # Where to put it
//
// In front of the handler of a route. Behind recovery from panics and authentication, so that
// <userId> is one to trust; in front of everything that must not run twice at once.
//
// # The handler
//
// The handler's first argument is the lease's context: pass that one on. A
// *app.RequestContext isn't a [context.Context], but its Value finds the lease under
// [lock.ContextKey]. Hertz notices that a client has left only with
// server.WithSenseClientDisconnection(true): without it, a request that waits for its lock
// waits until its rule's wait is over.
//
// Hertz sends an answer when all handlers have returned. If the lease was lost, and the
// handler has answered, its answer is sent.
package hertzlock
