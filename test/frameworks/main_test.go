// Package frameworks_test runs the suite of HTTP integrations with the routers that
// httplock says it serves.
package frameworks_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/guard/guardtest/httpsuite"
	"github.com/redlatch/redlatch/core/guard/httpguard"
	"github.com/redlatch/redlatch/httplock"
	"github.com/redlatch/redlatch/test/frameworks/internal/bankpb"
)

//go:generate env GOWORK=off go -C ../.. tool -modfile=tools/go.mod buf generate --config tools/buf.yaml --template test/frameworks/buf.gen.yaml

// go-zero starts goroutines for its signals and its figures when it is imported.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/zeromicro/go-zero/core/proc.init.1.func1"),
		goleak.IgnoreTopFunction("github.com/zeromicro/go-zero/core/stat.init.1.func1"))
}

type middleware = func(http.Handler) http.Handler

// framework is one that httplock serves. layer makes one of its middlewares of one
// of net/http.
func framework(newRouter func() httpsuite.Router, pattern func(string) string, layer func(middleware) httpsuite.Layer) httpsuite.Framework {
	return httpsuite.Framework{
		By:        "httplock",
		NewRouter: newRouter,
		New: func(g *guard.Guard, text string, opts ...httpguard.Option) (httpsuite.Layer, error) {
			m, err := httplock.Build(g, text, opts...)
			return layer(m), err
		},
		Rules: func(_ httpsuite.Router, method, pattern string, g *guard.Guard, opts ...httpguard.Option) (httpsuite.Layer, error) {
			m, err := httplock.BuildRoute(g, strings.TrimSpace(method+" "+pattern), opts...)
			return layer(m), err
		},
		Wrap:    func(m func(http.Handler) http.Handler) httpsuite.Layer { return layer(m) },
		Pattern: pattern,
		// These routers leave path parameters as the client has escaped them.
		EscapedPath: true,
	}
}

var parameter = regexp.MustCompile(`\{(\w+)\}`)

// colons writes a pattern of ServeMux as Echo does.
func colons(pattern string) string { return parameter.ReplaceAllString(pattern, ":$1") }

// bankService describes the service of the tests.
func bankService() protoreflect.ServiceDescriptor {
	return bankpb.File_bank_v1_bank_proto.Services().ByName("BankService")
}
