// Package httplock is the net/http integration: a middleware that runs the handler
// behind it under a lock. It serves [http.ServeMux] and the routers that set a
// request's pattern and path values as ServeMux does.
//
//	locked := httplock.New(g, "lock:order:<userId> wait=200ms")
//	mux.Handle("POST /vouchers/{id}/orders", auth(locked(create)))
//
// The string is a rule: the template of the key, whose grammar package key has, and
// the rule's fields. Where variables come from, the options, the body and the
// answers are described in package httpguard. Here <ip> is the address of the
// connection: behind a proxy, the proxy's, unless a middleware in front, such as chi's
// RealIP, has put its client's into RemoteAddr. Bind another name to a header that your
// proxy sets, if you trust it.
//
// Rules for many routes are the guard's. [Route] takes the lock of one:
//
//	handle := func(pattern string, h http.HandlerFunc) {
//		mux.Handle(pattern, auth(httplock.Route(g, pattern, httpguard.WithProvided("userId"))(h))) // auth sets "userId"
//	}
//	handle("POST /vouchers/{id}/orders", create)
//	if err := g.Validate(); err != nil { // names the rules that no Route was made for
//		return err
//	}
//
// # Where to put it
//
// Around the handlers of routes, behind the router: in front of it, a request has
// neither pattern nor path values yet. Behind recovery from panics, tracing and
// authentication, so that <userId> is one to trust; in front of everything that must
// not run twice at once. A handler's request has the lease's context: pass it on.
// Work that a handler leaves to a goroutine isn't covered: the lock is released
// when the handler returns. [http.TimeoutHandler] leaves its handler to one, so it
// belongs in front of the lock.
//
// # Other routers
//
// chi and Echo 5 set the pattern and the path values by themselves:
//
//	r.With(httplock.New(g, "lock:order:<id>")).Post("/orders/{id}", create)                // chi
//	e.POST("/orders/:id", create, echo.WrapMiddleware(httplock.New(g, "lock:order:<id>"))) // Echo 5
//	e.POST("/orders/:id", create, echo.WrapMiddleware(httplock.Route(g, "POST /orders/:id")))
//
// With chi use With, or Use inside of Group: the middlewares that Use puts on a
// router itself run before it has found the route. Path values of chi and Echo are
// as the client has escaped them; a filter (<id|int>) refuses all spellings but one.
//
// Echo 4 and other routers need a middleware in front that does it for them:
// docs/http.md shows the one for Echo 4.
//
// # The handler
//
// Handlers still run for a request whose client has gone, and keep the lock until
// they return: their context ends. The wrapped http.ResponseWriter flushes and
// hijacks if the other one does, and [http.ResponseController] finds the rest. It
// doesn't implement [http.Pusher].
package httplock
