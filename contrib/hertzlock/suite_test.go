package hertzlock_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/cloudwego/hertz/pkg/app"
	"github.com/cloudwego/hertz/pkg/common/config"
	"github.com/cloudwego/hertz/pkg/common/hlog"
	"github.com/cloudwego/hertz/pkg/route"
	"go.uber.org/goleak"

	"github.com/redlatch/redlatch/contrib/hertzlock"
	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/guard/guardtest/httpsuite"
	"github.com/redlatch/redlatch/core/guard/httpguard"
)

func TestMain(m *testing.M) {
	hlog.SetOutput(io.Discard)
	goleak.VerifyTestMain(m)
}

var framework = httpsuite.Framework{
	By: "hertzlock",
	NewRouter: func() httpsuite.Router {
		return router{route.NewEngine(config.NewOptions(nil))}
	},
	New: func(g *guard.Guard, text string, opts ...httpguard.Option) (httpsuite.Layer, error) {
		return hertzlock.Build(g, text, opts...)
	},
	Rules: func(_ httpsuite.Router, method, pattern string, g *guard.Guard, opts ...httpguard.Option) (httpsuite.Layer, error) {
		return hertzlock.BuildRoute(g, strings.TrimSpace(method+" "+pattern), opts...)
	},
	Wrap:    wrap,
	Pattern: pattern,
	Lacks:   []httpsuite.Capability{httpsuite.Requests, httpsuite.Writers, httpsuite.Streams, httpsuite.TwoTypes},
}

func TestSuite(t *testing.T) { httpsuite.Run(t, framework) }

func FuzzRequests(f *testing.F) { httpsuite.Fuzz(f, framework) }

type router struct{ *route.Engine }

// ServeHTTP hands a request to Hertz as its server would have read it.
func (r router) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	c := r.NewContext()
	c.Request.Header.SetMethod(request.Method)
	c.Request.Header.SetHost(request.Host)
	c.Request.SetRequestURI(request.URL.RequestURI())
	for name, values := range request.Header {
		for _, value := range values {
			c.Request.Header.Add(name, value)
		}
	}
	host, _, _ := net.SplitHostPort(request.RemoteAddr)
	c.SetClientIPFunc(func(*app.RequestContext) string { return host })
	if request.Body != nil {
		body, err := io.ReadAll(request.Body)
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		c.Request.SetBody(body)
	}
	r.Engine.ServeHTTP(request.Context(), c)
	c.Response.Header.VisitAll(func(name, value []byte) { w.Header().Add(string(name), string(value)) })
	w.WriteHeader(c.Response.StatusCode())
	_, _ = w.Write(c.Response.Body())
}

func (r router) Handle(method, path string, h http.Handler, layers ...httpsuite.Layer) {
	var chain []app.HandlerFunc
	for _, l := range layers {
		chain = append(chain, l.(app.HandlerFunc))
	}
	chain = append(chain, func(ctx context.Context, c *app.RequestContext) { serve(ctx, c, h) })
	if method == "" {
		r.Any(pattern(path), chain...)
		return
	}
	r.Engine.Handle(method, pattern(path), chain...)
}

// serve runs a handler of net/http in a request of Hertz.
func serve(ctx context.Context, c *app.RequestContext, h http.Handler) {
	r := httptest.NewRequestWithContext(ctx, string(c.Request.Method()), string(c.Request.RequestURI()), strings.NewReader(string(c.Request.Body())))
	c.Request.Header.VisitAll(func(name, value []byte) { r.Header.Add(string(name), string(value)) })
	w := &begun{ResponseRecorder: httptest.NewRecorder()}
	h.ServeHTTP(w, r)
	for name, values := range w.Header() {
		for _, value := range values {
			c.Response.Header.Add(name, value)
		}
	}
	if w.is {
		c.Response.SetStatusCode(w.Code)
		c.Response.SetBody(w.Body.Bytes())
	}
}

// begun notes that an answer has begun.
type begun struct {
	*httptest.ResponseRecorder

	is bool
}

func (w *begun) WriteHeader(status int) { w.is = true; w.ResponseRecorder.WriteHeader(status) }

func (w *begun) Write(p []byte) (int, error) { w.is = true; return w.ResponseRecorder.Write(p) }

func (w *begun) WriteString(s string) (int, error) {
	w.is = true
	return w.ResponseRecorder.WriteString(s)
}

var parameter = regexp.MustCompile(`\{(\w+)\}`)

// pattern writes a pattern of ServeMux as Hertz does.
func pattern(path string) string { return parameter.ReplaceAllString(path, ":$1") }

// wrap makes a handler of Hertz of a middleware of net/http that hands on a context.
func wrap(m func(http.Handler) http.Handler) httpsuite.Layer {
	return app.HandlerFunc(func(ctx context.Context, c *app.RequestContext) {
		passed := false
		serve(ctx, c, m(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			passed = true
			c.Next(r.Context())
		})))
		if !passed {
			c.Abort()
		}
	})
}
