package ginlock_test

import (
	"context"
	"net/http"
	"regexp"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/guard/guardtest/httpsuite"
	"github.com/redlatch/redlatch/core/guard/httpguard"
	"github.com/redlatch/redlatch/ginlock"
)

var framework = httpsuite.Framework{
	By: "ginlock",
	NewRouter: func() httpsuite.Router {
		engine := gin.New()
		engine.Use(gin.ErrorLogger()) // it answers what handlers have added to c.Errors
		return router{engine}
	},
	New: func(g *guard.Guard, text string, opts ...httpguard.Option) (httpsuite.Layer, error) {
		return ginlock.Build(g, text, opts...)
	},
	Rules: func(r httpsuite.Router, _, _ string, g *guard.Guard, opts ...httpguard.Option) (httpsuite.Layer, error) {
		return ginlock.BuildRules(g, r.(router).Engine, opts...)
	},
	Wrap:        wrap,
	Pattern:     pattern,
	Own:         own,
	TrustsProxy: true,
}

func own(r httpsuite.Router, method, path string, h func(context.Context), layers ...httpsuite.Layer) {
	r.(router).register(method, path, func(c *gin.Context) { h(c) }, layers)
}

func TestSuite(t *testing.T) { httpsuite.Run(t, framework) }

// As docs/benchmarks.md says.
func TestAllocations(t *testing.T) { httpsuite.Allocations(t, framework, 5) }

func FuzzRequests(f *testing.F) { httpsuite.Fuzz(f, framework) }

type router struct{ *gin.Engine }

func (r router) Handle(method, path string, h http.Handler, layers ...httpsuite.Layer) {
	r.register(method, path, func(c *gin.Context) { h.ServeHTTP(c.Writer, c.Request) }, layers)
}

func (r router) register(method, path string, h gin.HandlerFunc, layers []httpsuite.Layer) {
	var chain []gin.HandlerFunc
	for _, l := range layers {
		chain = append(chain, l.(gin.HandlerFunc))
	}
	chain = append(chain, h)
	if method == "" {
		r.Any(pattern(path), chain...)
		return
	}
	r.Engine.Handle(method, pattern(path), chain...)
}

var parameter = regexp.MustCompile(`\{(\w+)\}`)

// pattern writes a pattern of ServeMux as Gin does.
func pattern(path string) string {
	path = regexp.MustCompile(`\{(\w+)\.\.\.\}`).ReplaceAllString(path, "*$1")
	return parameter.ReplaceAllString(path, ":$1")
}

// wrap makes a handler of Gin of a middleware of net/http.
func wrap(middleware func(http.Handler) http.Handler) httpsuite.Layer {
	return gin.HandlerFunc(func(c *gin.Context) {
		passed := false
		middleware(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			passed = true
			c.Request = r
			c.Next()
		})).ServeHTTP(c.Writer, c.Request)
		if !passed {
			c.Abort()
		}
	})
}

func BenchmarkRequest(b *testing.B) { httpsuite.Benchmark(b, framework) }
