package httpsuite_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/guard/guardtest/httpsuite"
	"github.com/redlatch/redlatch/core/guard/httpguard"
	"github.com/redlatch/redlatch/httplock"
)

type middleware = func(http.Handler) http.Handler

// router adapts the router of a framework, here that of net/http.
type router struct{ *http.ServeMux }

func (r router) Handle(method, pattern string, h http.Handler, layers ...httpsuite.Layer) {
	for _, layer := range slices.Backward(layers) {
		h = layer.(middleware)(h)
	}
	r.ServeMux.Handle(strings.TrimSpace(method+" "+pattern), h)
}

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

// testIntegration is what TestSuite of your integration does.
func testIntegration(t *testing.T) { httpsuite.Run(t, framework) } //nolint:thelper // it is a test

// An integration describes its framework, and its tests run the suite.
func Example() { _ = testIntegration }
