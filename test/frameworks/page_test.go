package frameworks_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/other-frameworks.md")

const page = "../../docs/other-frameworks.md"

// row is a line of the page. Its words are what its tests found: a way of ways,
// or a test of its name.
type row struct {
	framework, module string
	how               string // what takes the lock
	wiring            string // the funcs whose lines count; empty for one line, - for none
	holds, noticed    string
	tests             []string // that find it
}

func rows() []row {
	const require = "yes, by `Require`, if it is the only way in"
	noticed := []string{"TestTransfersAreLockedWhoeverCallsTheImplementation", "TestRequireNoticesAnImplementationThatNothingLocks"}
	return []row{
		{"chi", "github.com/go-chi/chi/v5", "`httplock`", "", "yes", "yes, by `httplock.Route`", []string{"TestChi"}},
		{"Echo 5", "github.com/labstack/echo/v5", "`httplock`", "", "yes", "yes, by `httplock.Route`", []string{"TestEcho5"}},
		{"Echo 4", "github.com/labstack/echo/v4", "`httplock`, behind a middleware that says the route", "routed", "yes", "yes, by `httplock.Route`", []string{"TestEcho4"}},
		{"Fiber 3", "github.com/gofiber/fiber/v3", "`contrib/fiberlock`", "", "yes", "yes, by `fiberlock.Route`", []string{"TestFiberTakesCrossingTransfersOneByOne", "TestARuleOfFiberThatNoRouteHasIsNoticed"}},
		{"Fiber 3, `adaptor.HTTPMiddleware(httplock.New(…))`", "github.com/gofiber/fiber/v3", "not supported", "-", "no: the handler doesn't run", "yes, 500 and a line in the log", []string{"TestFibersAdaptorOfMiddlewaresIsRefused"}},
		{"Fiber 2, the same", "github.com/gofiber/fiber/v2", "not supported", "-", "no: the handler doesn't run", "yes, 500 and a line in the log", []string{"TestFibersAdaptorOfMiddlewaresIsRefused"}},
		{"Hertz", "github.com/cloudwego/hertz", "`contrib/hertzlock`", "", "yes", "yes, by `hertzlock.Route`", []string{"TestHertzTakesCrossingTransfersOneByOne", "TestARuleOfHertzThatNoRouteHasIsNoticed"}},
		{"go-zero, rest", "github.com/zeromicro/go-zero", "`httplock`, behind a middleware that says the route", "zeroRouted", "yes", "yes, by `httplock.Route`", []string{"TestGoZeroRest", "TestGoZeroRoutesLock"}},
		{"grpc-gateway, in process", "github.com/grpc-ecosystem/grpc-gateway/v2", "the decorator", "gatewayInProcess", "yes", require, noticed},
		{"Kratos, HTTP and gRPC", "github.com/go-kratos/kratos/v2", "the decorator", "kratosDecorated", "yes", require, noticed},
		{"Kratos, HTTP and gRPC", "github.com/go-kratos/kratos/v2", "a middleware on `rpcguard`", "kratosLock", "yes", require, noticed},
		{"Connect 1", "connectrpc.com/connect", "an interceptor on `rpcguard`", "connectLock", "yes", require, noticed},
		{"Connect 2", "connectrpc.com/connect/v2", "an interceptor on `rpcguard`", "connect2Lock connect2Error firstMessage Receive", "yes", require, noticed},
		{"Vanguard, over a server of gRPC", "connectrpc.com/vanguard", "the interceptors, or the decorator", "vanguardOverServer", "yes", require, noticed},
		{"go-zero, zrpc", "github.com/zeromicro/go-zero", "the interceptors, or the decorator", "zrpcOverServer", "yes", require, noticed},
	}
}

// The page says what the tests found, with the versions that they ran.
func TestThePageOfOtherFrameworksIsWhatTheTestsRun(t *testing.T) {
	lines, tests := functions(t)
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	table.WriteString("| framework | version | what takes the lock | does the lock hold | is a void rule noticed | lines |\n|---|---|---|---|---|---|\n")
	for _, r := range rows() {
		for _, test := range r.tests {
			if !tests[test] {
				t.Errorf("%s: there is no %s", r.framework, test)
			}
		}
		version := regexp.MustCompile(`(?m)^\s*` + regexp.QuoteMeta(r.module) + ` v(\S+)`).FindSubmatch(mod)
		if version == nil {
			t.Fatalf("%s is not in go.mod", r.module)
		}
		count := "1"
		n := 0
		for wiring := range strings.FieldsSeq(r.wiring) {
			if n += lines[wiring]; lines[wiring] == 0 && wiring != "-" {
				t.Errorf("there is no func %s", wiring)
			}
		}
		switch {
		case r.wiring == "-":
			count = ""
		case n > 0:
			count = fmt.Sprint(n)
		}
		fmt.Fprintf(&table, "| %s | %s | %s | %s | %s | %s |\n", r.framework, version[1], r.how, r.holds, r.noticed, count)
	}
	written, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- table: go test ./test/frameworks -run Page -update -->\n", "<!-- end of the table -->\n"
	before, rest, ok := strings.Cut(string(written), begin)
	old, after, also := strings.Cut(rest, end)
	if !ok || !also {
		t.Fatalf("%s has no place for the table", page)
	}
	switch want := table.String(); {
	case old == want:
	case *update:
		if err := os.WriteFile(page, []byte(before+begin+want+end+after), 0o600); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s has another table, run this test with -update:\n%s", page, want)
	}
}

// functions returns how many lines each func of this folder has, and the tests.
func functions(t *testing.T) (lines map[string]int, tests map[string]bool) {
	t.Helper()
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	lines, tests = make(map[string]int), make(map[string]bool)
	for _, file := range files {
		fset := token.NewFileSet()
		parsed, err := parser.ParseFile(fset, file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			if f, ok := d.(*ast.FuncDecl); ok {
				lines[f.Name.Name] = fset.Position(f.End()).Line - fset.Position(f.Pos()).Line + 1
				tests[f.Name.Name] = true
			}
		}
	}
	return lines, tests
}
