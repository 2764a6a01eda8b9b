package fiberlock

import (
	"bytes"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/gofiber/fiber/v3"
	"github.com/valyala/fasthttp"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/guard/httpguard"
	"github.com/redlatch/redlatch/core/lock"
)

// exchange is a request of Fiber and its answer.
type exchange struct {
	c       fiber.Ctx
	r       *http.Request
	pattern string
	draft   *httpguard.Draft
	err     error // of the handler, for Fiber to answer
}

func (x *exchange) HTTP() *http.Request { return x.r }
func (x *exchange) Pattern() string     { return x.pattern }

// PathValue is a parameter of the route. Fiber would find one in other letters, too.
func (x *exchange) PathValue(name string) (string, bool) {
	if x.pattern == "" || !slices.Contains(x.c.Route().Params, name) {
		return "", false
	}
	return strings.Clone(x.c.Params(name)), true // Fiber reuses its memory
}

// Value is what c.Locals has stored, or else what c.Context() has.
func (x *exchange) Value(key any) any {
	if key == (own{}) {
		return x.c
	}
	if value := x.c.Locals(key); value != nil {
		return value
	}
	return x.c.Context().Value(key)
}

// ClientIP is the address that Fiber trusts. Each address has one spelling.
func (x *exchange) ClientIP() string {
	ip, err := netip.ParseAddr(x.c.IP())
	if err != nil {
		return ""
	}
	return ip.Unmap().String()
}

// Writer is a draft of the answer, which begins with Fiber's as it is now.
func (x *exchange) Writer() http.ResponseWriter {
	if x.draft == nil {
		header := make(http.Header)
		for name, value := range x.c.Response().Header.All() {
			header.Add(string(name), string(value))
		}
		x.draft = httpguard.NewDraft(header)
	}
	return x.draft
}

// Next runs the rest of the chain with r. An error of it is for Fiber to answer.
func (x *exchange) Next(r *http.Request) (answered bool) {
	if r != x.r {
		outside := x.c.Context()
		defer x.c.SetContext(outside)
		x.c.SetContext(r.Context())

		lease, _ := lock.FromContext(r.Context())
		around := x.c.Locals(lock.ContextKey)
		defer x.c.Locals(lock.ContextKey, around)
		x.c.Locals(lock.ContextKey, lease)

		if request := x.c.Request(); request.IsBodyStream() && r.Body != x.r.Body {
			request.SetBodyStream(r.Body, int(r.ContentLength)) // what the key was made of can be read again
		}
	}
	x.draft = nil // the handler's answer is in Fiber's context
	before := stateOf(x.c)
	x.err = x.c.Next()
	return x.err == nil && stateOf(x.c) != before
}

// Answer calls f with the draft. f may also answer by Fiber's context.
func (x *exchange) Answer(f func(http.ResponseWriter)) (answered bool) {
	before := stateOf(x.c)
	f(x.Writer())
	status, _ := x.draft.Answer()
	return status != 0 || stateOf(x.c) != before
}

// Refused leaves the error of the handler out: what the lock answers counts.
func (x *exchange) Refused(*guard.Error) { x.err = nil }

// send hands the draft to Fiber, if an answer has begun in it.
func (x *exchange) send() bool {
	if x.draft == nil {
		return false
	}
	status, body := x.draft.Answer()
	if status == 0 {
		return false
	}
	response := x.c.Response()
	response.Reset()
	for name, values := range x.draft.Header() {
		for _, value := range values {
			response.Header.Add(name, value)
		}
	}
	response.SetStatusCode(status)
	response.SetBodyRaw(body)
	return true
}

// state is what shows that an answer has begun in Fiber's context.
type state struct {
	status, length int
	streams        bool
}

func stateOf(c fiber.Ctx) state {
	response := c.Response()
	s := state{status: response.StatusCode(), streams: response.IsBodyStream()}
	if !s.streams {
		s.length = len(response.Body())
	}
	return s
}

// requestOf is the request as net/http has it. It shares no memory with Fiber's, which is
// used for other requests later: keys of locks live longer.
func requestOf(c fiber.Ctx) *http.Request {
	request, uri := c.Request(), c.Request().URI()
	r := &http.Request{
		Method: string(request.Header.Method()), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		URL:    &url.URL{Path: string(uri.Path()), RawPath: string(uri.PathOriginal()), RawQuery: string(uri.QueryString())},
		Header: make(http.Header), Host: string(request.Host()), RemoteAddr: c.RequestCtx().RemoteAddr().String(),
		TLS: c.RequestCtx().TLSConnectionState(), RequestURI: string(request.RequestURI()),
	}
	for name, value := range request.Header.All() {
		r.Header.Add(string(name), string(value))
	}
	r.Header.Del(fasthttp.HeaderHost) // as in net/http
	r.Body, r.ContentLength = bodyOf(request)
	return r.WithContext(c.Context())
}

func bodyOf(request *fasthttp.Request) (io.ReadCloser, int64) {
	if request.IsBodyStream() {
		return io.NopCloser(request.BodyStream()), max(-1, int64(request.Header.ContentLength()))
	}
	if body := request.Body(); len(body) > 0 {
		return io.NopCloser(bytes.NewReader(bytes.Clone(body))), int64(len(body))
	}
	return http.NoBody, 0
}
