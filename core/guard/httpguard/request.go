package httpguard

import (
	"net/http"

	"github.com/redlatch/redlatch/core/guard"
)

// Request is a request as an integration sees it.
type Request interface {
	// HTTP is the request. Its body, if it was read for the key, can be read again.
	HTTP() *http.Request
	// PathValue is a path parameter; ok is false if the route has none of that name.
	PathValue(name string) (value string, ok bool)
	// Value is what an earlier middleware set under key: in the framework's own
	// store, or else in the request's context.
	Value(key any) any
	// Pattern is the route as registered, empty if no route matched. It may begin
	// with the method.
	Pattern() string
	// ClientIP is the address of the client as far as the framework trusts it,
	// empty if the connection has none.
	ClientIP() string
}

// Exchange is a request and its response, for [Middleware.Serve]. Integrations
// implement it.
type Exchange interface {
	Request
	// Writer is where the answer goes.
	Writer() http.ResponseWriter
	// Next runs the handler with r and reports whether it has begun an answer.
	Next(r *http.Request) (answered bool)
	// Answer calls f once with the writer, and reports whether f has begun an answer, or
	// has left it to a middleware in front. A panic of f passes through.
	Answer(f func(http.ResponseWriter)) (answered bool)
	// Refused is called before the answer to a request that didn't get its lock,
	// and when the lock was lost under the handler, whether or not there is an
	// answer left to give.
	Refused(e *guard.Error)
}

// drained is an Exchange whose body an earlier middleware may have read.
type drained interface {
	// BodyBytes are the bytes that were read, nil if nobody has.
	BodyBytes() []byte
}
