package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"

	"github.com/redlatch/redlatch/annotations/cmd/lockgen/internal/lockgen"
)

var update = flag.Bool("update", false, "rewrite the expected files in the scripts")

// leakChecked is a test run that fails when it leaves goroutines behind.
type leakChecked struct{ *testing.M }

func (m leakChecked) Run() int {
	code := m.M.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

func TestMain(m *testing.M) {
	testscript.Main(leakChecked{m}, map[string]func(){"lockgen": main})
}

// TestScripts runs the command as users do: each script is a separate module
// that takes this one and the library from the working tree, and the rest from
// the module cache, without a network. Run it with -update to accept what it writes.
func TestScripts(t *testing.T) {
	module := newModule(t)
	testscript.Run(t, testscript.Params{
		Dir: "testdata", UpdateScripts: *update, RequireUniqueNames: true,
		Setup: func(env *testscript.Env) error {
			for name, value := range module.env {
				env.Setenv(name, value)
			}
			return module.write(env.WorkDir)
		},
	})
}

// module is that of a user.
type module struct {
	env      map[string]string
	mod, sum []byte
}

func newModule(t *testing.T) module {
	t.Helper()
	root, err := filepath.Abs(filepath.Join("..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	folders, err := exec.Command("go", "env", "GOCACHE", "GOMODCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	cache, modules, _ := strings.Cut(strings.TrimSpace(string(folders)), "\n")
	var sum []byte
	for _, file := range []string{filepath.Join(root, "go.sum"), "go.sum"} {
		lines, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		sum = append(sum, lines...)
	}
	return module{
		env: map[string]string{
			"GOCACHE": cache, "GOMODCACHE": modules, "GOWORK": "off",
			"GOFLAGS": "-mod=mod", "GOPROXY": "off", "GOSUMDB": "off", // what is not in the cache is not there
		},
		mod: fmt.Appendf(nil, `module example.com/shop

go 1.26

require (
	%[1]s v0.1.0
	%[1]s/annotations/cmd/lockgen v0.1.0
)

replace (
	%[1]s => %[2]s
	%[1]s/annotations/cmd/lockgen => %[3]s
)
`, "github.com/redlatch/redlatch", root, filepath.Join(root, "annotations", "cmd", "lockgen")),
		sum: sum,
	}
}

func (m module) write(dir string) error {
	return errors.Join(
		os.WriteFile(filepath.Join(dir, "go.mod"), m.mod, 0o600),
		os.WriteFile(filepath.Join(dir, "go.sum"), m.sum, 0o600),
	)
}

// TestTheShopIsWhatLockgenWrites keeps the decorators that tests run those of this lockgen.
func TestTheShopIsWhatLockgenWrites(t *testing.T) {
	shop, err := filepath.Abs(filepath.Join("..", "..", "internal", "shop"))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if status := lockgen.Run(t.Context(), shop, []string{"-check"}, &out, &out); status != 0 {
		t.Errorf("status %d:\n%s", status, &out)
	}
}

// TestRunsLeaveOneFile runs lockgen again, and where it cannot do its work: what is left is
// one output, written once, that builds under other accounts can read as well.
func TestRunsLeaveOneFile(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("it has no such permissions")
	}
	m, dir, temp := newModule(t), t.TempDir(), t.TempDir()
	if err := m.write(dir); err != nil {
		t.Fatal(err)
	}
	for name, value := range m.env {
		t.Setenv(name, value)
	}
	source := "package shop\n\nimport \"context\"\n\ntype Service interface {\n\t//redlatch:lock lock:a\n\tDo(ctx context.Context) error\n}\n"
	if err := os.WriteFile(filepath.Join(dir, "shop.go"), []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	var first os.FileInfo
	for _, run := range []struct {
		name, temp string
		ctx        context.Context
		want       int
	}{
		{"first", temp, t.Context(), 0},
		{"again", temp, t.Context(), 0},
		{"canceled", temp, canceled, 2},
		{"no temporary folder", filepath.Join(temp, "missing"), t.Context(), 2},
	} {
		t.Setenv("TMPDIR", run.temp)
		var out bytes.Buffer
		if status := lockgen.Run(run.ctx, dir, nil, &out, &out); status != run.want || (status != 0) != (out.Len() > 0) {
			t.Errorf("%s: status %d, want %d:\n%s", run.name, status, run.want, &out)
		}
		info, err := os.Stat(filepath.Join(dir, "shop_lockgen.go"))
		if err != nil || info.Mode().Perm() != 0o644 || first != nil && !os.SameFile(first, info) {
			t.Fatalf("%s: got %v, %v, want the file of the first run, for everybody to read", run.name, info, err)
		}
		first = info
	}
	for _, pattern := range []string{filepath.Join(temp, "lockgen*"), filepath.Join(dir, ".lockgen*")} {
		if left, err := filepath.Glob(pattern); err != nil || len(left) > 0 {
			t.Errorf("%q are left, %v", left, err)
		}
	}
}

// TestTwentyMethodsTakeNoTime measures an interface of real size whose types
// come from many packages. The log has the figure; the limit is for a lockgen
// that hangs.
func TestTwentyMethodsTakeNoTime(t *testing.T) {
	const limit = time.Minute
	m, dir := newModule(t), t.TempDir()
	if err := m.write(dir); err != nil {
		t.Fatal(err)
	}
	for name, value := range m.env {
		t.Setenv(name, value)
	}
	var source strings.Builder
	source.WriteString(`package shop

import (
	"context"
	"net/http"
	"time"

	"github.com/redis/go-redis/v9"
)

type Request struct {
	*Base
	Order *struct{ User *struct{ ID int64 } }
	HTTP  *http.Request
}

type Base struct{ Tenant string }

type Answer[T any] struct{ Value T }

type Service interface {
`)
	for i := range 20 {
		fmt.Fprintf(&source, "\t//redlatch:lock lock:m%d:<req.Tenant>:<req.Order.User.ID|int>:<req.HTTP.URL.Host> wait=1s\n", i)
		fmt.Fprintf(&source, "\tMethod%d(ctx context.Context, req *Request, at time.Time, c *redis.Client) (Answer[map[string]*Request], error)\n\n", i)
	}
	source.WriteString("}\n")
	if err := os.WriteFile(filepath.Join(dir, "shop.go"), []byte(source.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, run := range []string{"first", "second", "third"} {
		var out bytes.Buffer
		began := time.Now()
		status := lockgen.Run(t.Context(), dir, nil, &out, &out)
		took := time.Since(began)
		if status != 0 {
			t.Fatalf("status %d:\n%s", status, &out)
		}
		t.Logf("%s run: %v", run, took.Round(time.Millisecond))
		if took > limit {
			t.Errorf("took %v", took)
		}
	}
	content, err := os.ReadFile(filepath.Join(dir, "shop_lockgen.go"))
	if err != nil || bytes.Count(content, []byte("annotations.Call(")) != 20 {
		t.Errorf("%v, or not 20 methods:\n%s", err, content)
	}
}
