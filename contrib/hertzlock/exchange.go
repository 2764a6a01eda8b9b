package hertzlock

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/cloudwego/hertz/pkg/app"
	"github.com/cloudwego/hertz/pkg/protocol"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/guard/httpguard"
	"github.com/redlatch/redlatch/core/lock"
)

// exchange is a request of Hertz and its answer.
type exchange struct {
	c     *app.RequestContext
	r     *http.Request
	draft *httpguard.Draft
}

func (x *exchange) HTTP() *http.Request { return x.r }
func (x *exchange) Pattern() string     { return x.c.FullPath() }

func (x *exchange) PathValue(name string) (string, bool) {
	value, ok := x.c.Params.Get(name)
	return strings.Clone(value), ok // Hertz reuses its memory
}

// Value is what c.Set has stored, or else what the context has.
func (x *exchange) Value(key any) any {
	if key == (own{}) {
		return x.c
	}
	if name, ok := key.(string); ok {
		if value, ok := x.c.Get(name); ok {
			return value
		}
	}
	return x.r.Context().Value(key)
}

// ClientIP is the address that Hertz trusts. Each address has one spelling.
func (x *exchange) ClientIP() string {
	ip, err := netip.ParseAddr(x.c.ClientIP())
	if err != nil {
		return ""
	}
	return ip.Unmap().String()
}

// Writer is a draft of the answer, which begins with Hertz' as it is now.
func (x *exchange) Writer() http.ResponseWriter {
	if x.draft == nil {
		header := make(http.Header)
		x.c.Response.Header.VisitAll(func(name, value []byte) { header.Add(string(name), string(value)) })
		x.draft = httpguard.NewDraft(header)
	}
	return x.draft
}

// Next runs the rest of the chain with r.
func (x *exchange) Next(r *http.Request) (answered bool) {
	if r != x.r {
		lease, _ := lock.FromContext(r.Context())
		around, _ := x.c.Get(lock.ContextKey)
		defer x.c.Set(lock.ContextKey, around)
		x.c.Set(lock.ContextKey, lease)

		if request := &x.c.Request; request.IsBodyStream() && r.Body != x.r.Body {
			request.SetBodyStream(r.Body, int(r.ContentLength)) // what the key was made of can be read again
		}
	}
	x.draft = nil // the handler's answer is in Hertz' context
	before := stateOf(x.c)
	x.c.Next(r.Context())
	return stateOf(x.c) != before
}

// Answer calls f with the draft. f may also answer by Hertz' context.
func (x *exchange) Answer(f func(http.ResponseWriter)) (answered bool) {
	before := stateOf(x.c)
	f(x.Writer())
	status, _ := x.draft.Answer()
	return status != 0 || stateOf(x.c) != before
}

// Refused aborts the chain before an error handler runs, so that none can let the request
// through.
func (x *exchange) Refused(*guard.Error) { x.c.Abort() }

// send hands the draft to Hertz, if an answer has begun in it.
func (x *exchange) send() {
	if x.draft == nil {
		return
	}
	status, body := x.draft.Answer()
	if status == 0 {
		return
	}
	response := &x.c.Response
	response.Reset()
	for name, values := range x.draft.Header() {
		for _, value := range values {
			response.Header.Add(name, value)
		}
	}
	response.SetStatusCode(status)
	response.SetBodyRaw(body)
}

// state is what shows that an answer has begun in Hertz' context.
type state struct {
	status, length int
	streams        bool
}

func stateOf(c *app.RequestContext) state {
	s := state{status: c.Response.StatusCode(), streams: c.Response.IsBodyStream()}
	if !s.streams {
		s.length = len(c.Response.Body())
	}
	return s
}

// requestOf is the request as net/http has it. It shares no memory with Hertz', which is
// used for other requests later: keys of locks live longer.
func requestOf(ctx context.Context, c *app.RequestContext) *http.Request {
	request, uri := &c.Request, c.Request.URI()
	r := &http.Request{
		Method: string(request.Method()), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		URL:    &url.URL{Path: string(uri.Path()), RawPath: string(uri.PathOriginal()), RawQuery: string(uri.QueryString())},
		Header: make(http.Header), Host: string(request.Host()), RemoteAddr: c.RemoteAddr().String(), RequestURI: string(request.RequestURI()),
	}
	request.Header.VisitAll(func(name, value []byte) { r.Header.Add(string(name), string(value)) })
	r.Header.Del("Host") // as in net/http
	r.Body, r.ContentLength = bodyOf(request)
	return r.WithContext(ctx)
}

func bodyOf(request *protocol.Request) (io.ReadCloser, int64) {
	if request.IsBodyStream() {
		return io.NopCloser(request.BodyStream()), max(-1, int64(request.Header.ContentLength()))
	}
	if body := request.Body(); len(body) > 0 {
		return io.NopCloser(bytes.NewReader(bytes.Clone(body))), int64(len(body))
	}
	return http.NoBody, 0
}
