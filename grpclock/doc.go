// Package grpclock provides gRPC interceptors, and decorators of generated servers, that
// run a method under its locks.
//
//	locks, err := grpclock.New(g) // g is a *guard.Guard
//	server := grpc.NewServer(
//		grpc.ChainUnaryInterceptor(authenticate, locks.UnaryServerInterceptor()),
//		grpc.ChainStreamInterceptor(authenticateStream, locks.StreamServerInterceptor()),
//	)
//	shop.RegisterOrdersServer(server, orders)
//	locks.Attach(server)
//	err = g.Validate()
//
// The rules of a method are the first of: [WithRule]; the guard's rules for the
// full name of the method, "/shop.v1.Orders/Place"; the options
// (redlatch.lock.v1.lock) of the method in its .proto, see package lockpb. A
// method without a rule passes through. Several rules are taken together, all or none.
//
// [Locks.Attach] declares which methods go through the interceptors, and looks whether
// the server has them. [guard.Guard.Validate] reports the rules that none of these methods
// has, such as a misspelled method. Until there is no such fault, the guard lets nobody in.
// Don't put a selector in front of the interceptors: a method that it leaves out would run
// without the lock of its rule.
//
// # Without a server of gRPC
//
// What calls the implementation in the process, such as an HTTP gateway, comes through no
// interceptor. The command protoc-gen-go-grpclock writes a decorator that takes the locks
// around the implementation itself, see [Decorator]. [Require] ends the start where an
// option has nobody to take its lock. Integrations of other frameworks stand on package
// rpcguard.
//
// The rule's template names the values of the call that make the key; package
// key has its grammar. Where they come from:
//
//	<name>       [WithVar]; else the field of the request
//	<req.a.b>    the field of the request, or of a message in it
//	<md.name>    metadata; refused when it is repeated
//	<ctx.name>   a value of the context under a key of type string
//	<method> <service>: "Place" and "shop.v1.Orders"; refused where the request
//	             has a field of that name, which is <req.method>
//
// Fields go by their names in the .proto or in JSON. They are strings, integers,
// booleans or enums; an enum counts by its number, since names may change. A
// field that isn't there is missing, and so is one that is empty or 0: a
// request that lacks its id must not share a lock with all others that do.
// With the filter |int, 0 is a value, unless the field is optional and absent.
// A boolean that isn't optional is always there.
//
// # Streams
//
// A method that answers one request with a stream takes its lock when the
// request has been received, which generated code does before it calls the
// handler. A method to which clients stream takes it before the handler runs,
// and its key can be made of metadata and the context only; or, by
// [WithFirstMessage], when the handler receives the first message. The rule is
// the one that is in force at that moment. Every lock
// is held until the handler returns. A stream can last for long: leave the
// rule's lease at 0, so that the watchdog keeps the lock alive.
//
// When the lock is lost, the context of the stream ends, and SendMsg and RecvMsg
// return an error for which [IsLost] is true. A RecvMsg that waits for a message
// returns it only when the message comes or the stream ends: a handler that
// must stop at once also watches the context.
//
// # Where to put them
//
// Behind authentication and tracing; in front of recovery, so that a panic
// has become an error before the lock is released (without recovery, the lock
// is released all the same). Handlers get the lease's context as theirs: it
// ends when the lease is lost. That of a stream is the lease's once the lock is
// taken, so interceptors that wrap streams with a context belong in front. Work that a handler leaves to a goroutine is
// not covered. A lock is re-entered by context only: a handler that calls a
// method with the same key over the network waits for itself.
//
// # Answers
//
//	LOCK_CONTENDED        ABORTED, or as WithContentionCode says; RetryInfo and pushback
//	LOCK_OVERLOADED       RESOURCE_EXHAUSTED; RetryInfo and pushback
//	LOCK_KEY_INVALID      INVALID_ARGUMENT; BadRequest with the field
//	LOCK_UNAUTHENTICATED  UNAUTHENTICATED, for the variables of WithIdentity
//	LOCK_UNAVAILABLE      UNAVAILABLE; RetryInfo
//	LOCK_CANCELED         CANCELLED or DEADLINE_EXCEEDED
//	LOCK_LOST             INTERNAL; pushback -1: clients do not retry. The handler has run
//	LOCK_SKIPPED          OK with an empty answer; the trailer [CodeTrailer] has the code
//	LOCK_RULE_INVALID     INTERNAL
//
// Each error has an ErrorInfo whose reason is that code and whose domain is
// [Domain]. Its metadata has the template of the rule, also if the rule has a name.
// No error holds the value of a variable, an owner, or what the store said. Nor does
// it hold the key, unless the template has no variables and is the key itself. The
// [guard.Error] in it, which errors.As finds within the process and which does
// not go over the network, has the cause.
//
// A client may retry contention by its service config, since the handler did
// not run: {"retryPolicy": {"retryableStatusCodes": ["ABORTED"], ...}}. It
// then waits as long as the pushback says. Don't name another code there: gRPC itself
// answers Unavailable and ResourceExhausted also after a handler has run.
//
// A handler that returns a [guard.Error], as of a method with directives, answers with its
// code. By [Status] the client may also repeat the call.
//
// A handler that returns the error of another locked method, which it called, has
// run. Where its method has a lock, its own client gets that error without ErrorInfo
// and RetryInfo and with pushback -1, and doesn't repeat the call.
package grpclock
