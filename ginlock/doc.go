// Package ginlock is the Gin door: a middleware that runs the handlers behind
// it under a lock.
//
//	r.POST("/vouchers/:id/orders", auth, ginlock.New(g, "lock:order:<userId>"), create)
//
// The template names the values of the request that make the key; package key
// has its grammar. Where they come from:
//
//	<name>         [WithVar]; else the path parameter; else what an earlier
//	               middleware set (c.Set, or a string key of the request's
//	               context). Two that disagree are refused.
//	<path.name>    the path parameter
//	<query.name>   <header.name>  <cookie.name>: refused when they are repeated
//	<form.name>    a field of a URL-encoded body
//	<body.a.b>     a field of a JSON body: text, an integer or a boolean
//	<ctx.name>     what an earlier middleware set
//	<method> <route> <ip>
//
// A bare name is never looked up where the client alone decides. <ip> is
// [gin.Context.ClientIP], which believes the proxies that the engine trusts:
// by default all of them.
//
// # Where to put it
//
// Behind gin.Recovery, tracing and authentication, so that <userId> is one to
// trust; in front of everything that must not run twice at once. Handlers get
// the lease's context as c.Request.Context(): pass that one on, for a bare c
// ends with the lease only if the engine's ContextWithFallback is set. Work
// that a handler leaves to a goroutine is not covered: the lock is given back
// when the handler returns.
//
// # Answers
//
// Whatever goes wrong before the handler runs ends the request; see [Problem]
// for the answers. The body is read before the lock is taken, so that a slow
// client does not hold it; [WithPrereadBody] does so for keys that do not
// need the body.
//
// Handlers still run for a request whose client has gone, and keep the lock
// until they return: their context tells them.
package ginlock
