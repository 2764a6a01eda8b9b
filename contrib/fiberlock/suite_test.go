package fiberlock_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/adaptor"
	"github.com/valyala/fasthttp"
	"go.uber.org/goleak"

	"github.com/redlatch/redlatch/contrib/fiberlock"
	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/guard/guardtest/httpsuite"
	"github.com/redlatch/redlatch/core/guard/httpguard"
)

func TestMain(m *testing.M) {
	// A server of fasthttp that was shut down leaves two goroutines, which sleep before they end.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"))
}

var framework = httpsuite.Framework{
	By:        "fiberlock",
	NewRouter: func() httpsuite.Router { return router{fiber.New(fiber.Config{BodyLimit: 32 << 20})} },
	New: func(g *guard.Guard, text string, opts ...httpguard.Option) (httpsuite.Layer, error) {
		return fiberlock.Build(g, text, opts...)
	},
	Rules: func(_ httpsuite.Router, method, pattern string, g *guard.Guard, opts ...httpguard.Option) (httpsuite.Layer, error) {
		return fiberlock.BuildRoute(g, strings.TrimSpace(method+" "+pattern), opts...)
	},
	Wrap:        wrap,
	Pattern:     pattern,
	EscapedPath: true,
	Own: func(r httpsuite.Router, method, path string, h func(context.Context), layers ...httpsuite.Layer) {
		r.(router).register(method, path, func(c fiber.Ctx) error { h(c); return nil }, layers)
	},
	Lacks: []httpsuite.Capability{httpsuite.Requests, httpsuite.Writers, httpsuite.Departures, httpsuite.Streams, httpsuite.TwoTypes},
}

func TestSuite(t *testing.T) { httpsuite.Run(t, framework) }

func FuzzRequests(f *testing.F) { httpsuite.Fuzz(f, framework) }

type router struct{ *fiber.App }

// ServeHTTP hands a request to Fiber as its server would have read it.
func (r router) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	var raw fasthttp.Request
	raw.Header.SetMethod(request.Method)
	raw.SetRequestURI(request.URL.RequestURI())
	raw.Header.SetHost(request.Host)
	for name, values := range request.Header {
		for _, value := range values {
			raw.Header.Add(name, value)
		}
	}
	if request.Body != nil {
		body, err := io.ReadAll(request.Body)
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		raw.SetBody(body)
	}
	address, _ := net.ResolveTCPAddr("tcp", request.RemoteAddr)
	var c fasthttp.RequestCtx
	c.Init(&raw, address, nil)
	r.Handler()(&c)
	for name, value := range c.Response.Header.All() {
		w.Header().Add(string(name), string(value))
	}
	w.WriteHeader(c.Response.StatusCode())
	_, _ = w.Write(c.Response.Body())
}

func (r router) Handle(method, path string, h http.Handler, layers ...httpsuite.Layer) {
	r.register(method, path, func(c fiber.Ctx) error { return serve(c, h) }, layers)
}

func (r router) register(method, path string, h fiber.Handler, layers []httpsuite.Layer) {
	var chain []any
	for _, l := range layers {
		chain = append(chain, l)
	}
	chain = append(chain, h)
	if method == "" {
		r.All(pattern(path), chain[0], chain[1:]...)
		return
	}
	r.Add([]string{method}, pattern(path), chain[0], chain[1:]...)
}

// serve runs a handler of net/http in a request of Fiber.
func serve(c fiber.Ctx, h http.Handler) error {
	r, err := adaptor.ConvertRequest(c, true)
	if err != nil {
		return err
	}
	w := httptest.NewRecorder()
	began := &begun{ResponseWriter: w}
	h.ServeHTTP(began, r.WithContext(c.Context()))
	for name, values := range w.Header() {
		for _, value := range values {
			c.Response().Header.Add(name, value)
		}
	}
	if began.is {
		c.Response().SetStatusCode(w.Code)
		c.Response().SetBody(w.Body.Bytes())
	}
	return nil
}

// begun notes that an answer has begun.
type begun struct {
	http.ResponseWriter

	is bool
}

func (w *begun) WriteHeader(status int) { w.is = true; w.ResponseWriter.WriteHeader(status) }

func (w *begun) Write(p []byte) (int, error) { w.is = true; return w.ResponseWriter.Write(p) }

var parameter = regexp.MustCompile(`\{(\w+)\}`)

// pattern writes a pattern of ServeMux as Fiber does.
func pattern(path string) string { return parameter.ReplaceAllString(path, ":$1") }

// wrap makes a handler of Fiber of a middleware of net/http that hands on a context.
func wrap(m func(http.Handler) http.Handler) httpsuite.Layer {
	return func(c fiber.Ctx) (err error) {
		outside := c.Context()
		defer c.SetContext(outside)
		answer := serve(c, m(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			c.SetContext(r.Context())
			err = c.Next()
		})))
		if answer != nil {
			return answer
		}
		return err
	}
}
