// Package httpguard is what the HTTP integrations share: the sources of the values
// in a key, the options of a middleware, how a request passes its lock, and the
// answers to requests that didn't get one.
//
// Applications use an integration, ginlock for Gin or httplock for net/http and
// the routers that follow it, and configure it with the options and sources of
// this package:
//
//	ginlock.New(g, "lock:order:<userId> wait=200ms",
//		httpguard.WithVar("userId", httpguard.Header("X-User-Id")))
//
// # Variables
//
//	<name>         [WithVar]; else the path parameter; else the value that an
//	               earlier middleware set. Two that disagree are refused.
//	<path.name>    a path parameter
//	<query.name>   <header.name>  <cookie.name>: refused when they are repeated
//	<form.name>    a field of a URL-encoded body of a POST, PUT or PATCH
//	<body.a.b>     a field of a JSON body: a string, an integer or a boolean
//	<ctx.name>     the value that an earlier middleware set
//	<method> <route> <ip>
//
// A bare name is never looked up where the client alone decides. A value that
// two parsers may read in two ways is refused, because the handler may be the
// other one: a repeated parameter, a ";" in a query, an integer that a float64
// can't hold, two Content-Type headers.
//
// # Bodies
//
// A body that a request announces is read before the lock is taken, up to
// [WithMaxBody], and the handler reads it again from memory. A client that sends
// slowly never holds a lock, and one that leaves while it waits for the lock is
// noticed. [WithStreamedBody] is for handlers that must read from the connection.
//
// # Answers
//
// A request that doesn't get its lock is answered by [Problem], or by
// [WithErrorHandler]. The handler never runs then.
package httpguard
