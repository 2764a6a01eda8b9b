package httplock_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/guard/guardtest/httpsuite"
	"github.com/redlatch/redlatch/core/guard/httpguard"
	"github.com/redlatch/redlatch/httplock"
)

var framework = httpsuite.Framework{
	By:        "httplock",
	NewRouter: func() httpsuite.Router { return router{http.NewServeMux()} },
	New: func(g *guard.Guard, text string, opts ...httpguard.Option) (httpsuite.Layer, error) {
		return httplock.Build(g, text, opts...)
	},
	Rules: func(_ httpsuite.Router, method, pattern string, g *guard.Guard, opts ...httpguard.Option) (httpsuite.Layer, error) {
		return httplock.BuildRoute(g, strings.TrimSpace(method+" "+pattern), opts...)
	},
	Wrap:    func(m func(http.Handler) http.Handler) httpsuite.Layer { return m },
	Pattern: func(pattern string) string { return pattern },
}

func TestSuite(t *testing.T) { httpsuite.Run(t, framework) }

// As docs/benchmarks.md says.
func TestAllocations(t *testing.T) { httpsuite.Allocations(t, framework, 5) }

func FuzzRequests(f *testing.F) { httpsuite.Fuzz(f, framework) }

func BenchmarkRequest(b *testing.B) { httpsuite.Benchmark(b, framework) }

type router struct{ *http.ServeMux }

func (r router) Handle(method, pattern string, h http.Handler, layers ...httpsuite.Layer) {
	var chain []middleware
	for _, l := range layers {
		chain = append(chain, l.(middleware))
	}
	if method != "" {
		pattern = method + " " + pattern
	}
	route(r.ServeMux, pattern, h.ServeHTTP, chain...)
}
