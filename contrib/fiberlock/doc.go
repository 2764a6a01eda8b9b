// Package fiberlock is the integration for Fiber 3: a middleware that runs the handler
// behind it under a lock.
//
//	app.Post("/vouchers/:id/orders", authenticate, fiberlock.New(g, "lock:order:<userId> wait=200ms"), create)
//
// The string is a rule: the template of the key, whose grammar package key has, and
// the rule's fields. Where variables come from, the options, the body and the
// answers are described in package httpguard. In Fiber
//
//   - a path parameter is that of c.Params, as the client has escaped it unless the
//     app's UnescapePath is set;
//   - a value that an earlier middleware set is one of c.Locals or of c.Context(); two that
//     disagree are refused;
//   - <ip> is c.IP(), which believes the proxies that the app trusts: by default none.
//
// Rules for many routes are the guard's. [Route] takes the lock of one:
//
//	app.Post("/vouchers/:id/orders", fiberlock.Route(g, "POST /vouchers/:id/orders"), create)
//	if err := g.Validate(); err != nil { // names the rules that no Route was made for
//		return err
//	}
//
// # Where to put it
//
// In front of the handler of a route, where the route is registered: Use runs it before
// the route is known, and keys have no path parameters there. Behind recovery from panics and
// authentication, so that <userId> is one to trust.
//
// # The handler
//
// The handler's c.Context() is the lease's: pass that one on. [lock.FromContext] and
// [lock.AssertHeld] find the lease through c as well, but c never ends. Fiber doesn't
// notice that a client has left: a request that waits for its lock waits until its rule's
// wait is over, or until a middleware in front, such as Fiber's timeout, ends c.Context().
//
// Fiber sends an answer when all handlers have returned. If the lease was lost, and the
// handler has answered, its answer is sent; an error that it returned is not.
package fiberlock
