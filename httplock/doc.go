// Package httplock is the net/http door: a middleware that runs the handler
// behind it under a lock. It serves [http.ServeMux] and the routers that tell
// a request's pattern and path values as ServeMux does.
//
//	locked := httplock.New(g, "lock:order:<userId>")
//	mux.Handle("POST /vouchers/{id}/orders", auth(locked(create)))
//
// The template names the values of the request that make the key; package key
// has its grammar. Where they come from:
//
//	<name>         [WithVar]; else the path value; else the value that the
//	               request's context has under that name, a string. Two that
//	               disagree are refused.
//	<path.name>    the path value: of {name} and {name...}
//	<query.name>   <header.name>  <cookie.name>: refused when they are repeated
//	<form.name>    a field of a URL-encoded body
//	<body.a.b>     a field of a JSON body: text, an integer or a boolean
//	<ctx.name>     the value that the request's context has
//	<method> <route> <ip>
//
// A bare name is never looked up where the client alone decides. <ip> is the
// address of the connection: behind a proxy that is the proxy's. Bind another
// name to what your proxy tells, if you trust it.
//
// # Where to put it
//
// Around the handlers of routes, behind the router: in front of it, a request
// has neither pattern nor path values yet. Behind whatever recovers from
// panics, traces and authenticates, so that <userId> is one to trust; in front
// of everything that must not run twice at once. A handler's request has the
// lease's context: pass it on. Work that a handler leaves to a goroutine is not
// covered: the lock is given back when the handler returns.
//
// chi and Echo 5 need nothing else:
//
//	r.With(httplock.New(g, "lock:order:<id>")).Post("/orders/{id}", create)                   // chi
//	e.POST("/orders/:id", create, echo.WrapMiddleware(httplock.New(g, "lock:order:<id>")))    // Echo 5
//
// For chi that is With, or Use inside of Group: the middlewares that Use puts
// on a router itself run before it has found the route. chi's path values are
// as the client has escaped them; a filter (<id|int>) refuses all spellings
// but one. [WithPattern] and [WithPathValue] are for other routers.
//
// # Answers
//
// Whatever goes wrong before the handler runs is answered in its place; see
// [Problem]. The body is read before the lock is taken, so that a slow client
// does not hold it; [WithPrereadBody] does so for keys that do not need the
// body.
//
// Handlers still run for a request whose client has gone, and keep the lock
// until they return: their context tells them. Their [http.ResponseWriter]
// can what the one before it can: flush, hijack, and all that
// [http.ResponseController] knows.
package httplock
