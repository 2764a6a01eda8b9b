package house_test

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const modulePath = "github.com/redlatch/redlatch"

// unit is a folder whose packages belong together: they may import each other,
// and packages of units on a lower layer. Siblings on one layer stay apart, so
// that each can be understood, replaced and left out alone.
type unit struct {
	layer int
	// uses are the import paths, with all below them, that the unit takes from
	// outside the module and the standard library. A user pays for each of them,
	// so a new one has to be written down here.
	uses []string
	// anything lifts the limit on uses.
	anything bool
	// forTests marks a unit that only tests and the top layer import.
	forTests bool
}

const top = 5

var units = map[string]unit{
	"core/key":  {layer: 0},
	"core/lock": {layer: 0},
	// What several packages of the core share, and nobody else sees.
	"core/internal": {layer: 1},

	"core/rule":       {layer: 2},
	"core/memstore":   {layer: 2},
	"core/quorum":     {layer: 2},
	"core/redisstore": {layer: 2, uses: []string{"github.com/redis/go-redis/v9"}},
	"core/storetest":  {layer: 2, forTests: true},
	"core/telemetry":  {layer: 2, uses: []string{"go.opentelemetry.io/otel"}},
	"core/fence":      {layer: 2},
	"core/leader":     {layer: 2},
	"core/sqlstore":   {layer: 2},

	"core/guard":   {layer: 3},
	"core/console": {layer: 3},
	// Apart from core/rule, so that only programs that load files have a YAML parser.
	"core/rule/rulefile": {layer: 3, uses: []string{"go.yaml.in/yaml/v4", "github.com/fsnotify/fsnotify"}},
	"core/rule/ruletest": {layer: 3, forTests: true},

	"ginlock":  {layer: 4, uses: []string{"github.com/gin-gonic/gin"}},
	"httplock": {layer: 4},
	"grpclock": {layer: 4, uses: []string{"google.golang.org/grpc", "google.golang.org/protobuf", "google.golang.org/genproto"}},
	// On the layer of the integrations, whose tests it serves.
	"core/guard/guardtest": {layer: 4, forTests: true},
	// Declares locks by an option of annotations, as users do.
	"grpclock/internal/testpb": {layer: top, anything: true, forTests: true},
	// The option of a .proto, which annotations offers and grpclock reads.
	"annotations/lockpb": {layer: 3, uses: []string{"google.golang.org/protobuf"}},
	"annotations":        {layer: 4},
	"fxmodule": {layer: 4, uses: []string{
		"go.uber.org/fx", "github.com/redis/go-redis/v9", "go.opentelemetry.io/otel/metric", "go.opentelemetry.io/otel/trace",
	}},

	// Programs, which write code that calls annotations and grpclock.
	"annotations/cmd/lockgen": {layer: top, uses: []string{"golang.org/x/tools"}},
	// The command, for shells and operators.
	"cmd/redlatch": {layer: top, uses: []string{
		"github.com/spf13/cobra", "github.com/spf13/pflag", "github.com/jedib0t/go-pretty/v6", "golang.org/x/term",
		"github.com/redis/go-redis/v9", "github.com/jackc/pgx/v5", "github.com/go-sql-driver/mysql", "modernc.org/sqlite",
	}},
	"grpclock/cmd/protoc-gen-go-grpclock": {layer: top, uses: []string{"google.golang.org/protobuf"}},

	"contrib":  {layer: 4, anything: true},
	"examples": {layer: top, anything: true},
	"test":     {layer: top, anything: true},
	"tools":    {layer: top, anything: true},
	".":        {layer: top},
}

// graph holds, for the folder of every package, what its code imports. Tests are
// left out: they may look at anything, the engine's run on the memory store.
type graph map[string][]string

func TestLayersImportsOnlyGoDown(t *testing.T) {
	imports, err := readImports(".")
	if err != nil {
		t.Fatal(err)
	}
	if len(imports["core/lock"]) == 0 {
		t.Fatal("core/lock imports nothing: the reader does not work")
	}
	for _, fault := range faults(imports) {
		t.Error(fault)
	}
}

func TestLayersCheckerCatchesPlantedFaults(t *testing.T) {
	const module = modulePath + "/"
	for name, test := range map[string]struct {
		imports graph
		want    string // in the only fault; empty means none
	}{
		"down one layer":              {graph{"core/rule": {module + "core/key"}}, ""},
		"down many layers":            {graph{"ginlock": {module + "core/lock"}}, ""},
		"within a unit":               {graph{"core/redisstore": {module + "core/redisstore/internal/subs"}}, ""},
		"standard library":            {graph{"core/key": {"net/url", "strings"}}, ""},
		"what the unit uses":          {graph{"core/redisstore": {"github.com/redis/go-redis/v9/push"}}, ""},
		"the top takes all":           {graph{"test/chaos": {"example.com/x", module + "core/storetest", module + "ginlock"}}, ""},
		"up":                          {graph{"core/lock": {module + "core/memstore"}}, "up"},
		"up to an integration":        {graph{"core/guard": {module + "ginlock"}}, "up"},
		"up to the root":              {graph{"core/guard": {modulePath}}, "up"},
		"up to an example":            {graph{"grpclock": {module + "examples/seckill/shop"}}, "up"},
		"sideways in the kernel":      {graph{"core/lock": {module + "core/key"}}, "sideways"},
		"sideways between stores":     {graph{"core/redisstore": {module + "core/memstore"}}, "sideways"},
		"down into a unit's folder":   {graph{"grpclock": {module + "annotations/lockpb"}}, ""},
		"up out of a unit's folder":   {graph{"annotations/lockpb": {module + "annotations"}}, "up"},
		"sideways among integrations": {graph{"grpclock": {module + "annotations"}}, "sideways"},
		"sideways among HTTP ones":    {graph{"httplock": {module + "ginlock"}}, "sideways"},
		"framework in httplock":       {graph{"httplock": {"github.com/go-chi/chi/v5"}}, "go-chi"},
		"sideways from deep inside":   {graph{"annotations/internal/directive": {module + "ginlock"}}, "sideways"},
		"sideways at the top":         {graph{"examples/seckill": {module + "test/internal/redistest"}}, "sideways"},
		"in no layer":                 {graph{"util": {}}, "no layer"},
		"in no layer below core":      {graph{"core/common": {}}, "no layer"},
		"import of one in no layer":   {graph{"ginlock": {module + "internal/x"}}, "no layer"},
		"framework in core":           {graph{"core/guard": {"github.com/gin-gonic/gin"}}, "gin-gonic"},
		"framework of another one":    {graph{"ginlock": {"google.golang.org/grpc/codes"}}, "google.golang.org/grpc"},
		"dependency of the kernel":    {graph{"core/lock": {"golang.org/x/sync/errgroup"}}, "golang.org/x/sync"},
		"dependency of the grammar":   {graph{"core/key": {"github.com/google/uuid"}}, "google/uuid"},
		"redis in the engine":         {graph{"core/lock": {"github.com/redis/go-redis/v9"}}, "go-redis"},
		"path with the same letters":  {graph{"ginlock": {"github.com/gin-gonic/gin-contrib"}}, "gin-contrib"},
		"module with the same start":  {graph{"core/lock": {modulePath + "x/y"}}, "redlatchx"},
		"suite in shipped code":       {graph{"ginlock": {module + "core/storetest"}}, "tests"},
		"test library in the suite":   {graph{"core/storetest": {"github.com/stretchr/testify/require"}}, "testify"},
	} {
		t.Run(name, func(t *testing.T) {
			got := faults(test.imports)
			if test.want == "" {
				if len(got) != 0 {
					t.Errorf("a legal import is refused: %q", got)
				}
				return
			}
			if len(got) != 1 || !strings.Contains(got[0], test.want) {
				t.Errorf("got %q, want one fault with %q", got, test.want)
			}
		})
	}
}

func TestLayersReaderSeesCodeButNoTests(t *testing.T) {
	root := t.TempDir()
	for name, content := range map[string]string{
		"core/a/a.go":           "package a\nimport (\n \"fmt\"\n x \"example.com/x\"\n)\nvar _ = fmt.Sprint(x.X)",
		"core/a/linux.go":       "//go:build linux && never\n\npackage a\nimport _ \"example.com/tagged\"",
		"core/a/a_test.go":      "package a_test\nimport _ \"example.com/test\"",
		"core/b/only_test.go":   "package b_test\nimport _ \"example.com/test\"",
		"core/testdata/c/c.go":  "package c",
		".tmp/d/d.go":           "package d",
		"examples/e/e.go":       "package e",
		"examples/e/go.mod":     "module example.com/e",
		"core/a/_ignored/a.go":  "package ignored",
		"core/a/notes/a.go.txt": "package notes",
	} {
		file := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := readImports(root)
	if err != nil {
		t.Fatal(err)
	}
	want := graph{
		"core/a":     {"example.com/tagged", "example.com/x", "fmt"},
		"core/b":     {},
		"examples/e": {},
	}
	if !maps.EqualFunc(got, want, slices.Equal) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// faults lists every import that breaks the layers.
func faults(imports graph) []string {
	var all []string
	for _, folder := range slices.Sorted(maps.Keys(imports)) {
		if _, _, ok := unitOf(folder); !ok {
			all = append(all, fmt.Sprintf("%s is in no layer: add its unit to the table", folder))
			continue
		}
		for _, imported := range imports[folder] {
			if fault := faultOf(folder, imported); fault != "" {
				all = append(all, fmt.Sprintf("%s imports %s: %s", folder, imported, fault))
			}
		}
	}
	return all
}

// faultOf says what is wrong with one import, "" if nothing is.
func faultOf(folder, imported string) string {
	name, from, _ := unitOf(folder)
	target, inside := folderOf(imported)
	if !inside {
		if standard(imported) || from.anything || slices.ContainsFunc(from.uses, func(prefix string) bool { return below(prefix, imported) }) {
			return ""
		}
		return fmt.Sprintf("%s is not among what %s uses", imported, name)
	}

	targetName, to, ok := unitOf(target)
	switch {
	case !ok:
		return target + " is in no layer"
	case targetName == name:
		return ""
	case to.layer > from.layer:
		return fmt.Sprintf("up, from layer %d to %d", from.layer, to.layer)
	case to.layer == from.layer:
		return fmt.Sprintf("sideways, both are on layer %d", to.layer)
	case to.forTests && from.layer < top:
		return targetName + " is for tests"
	}
	return ""
}

// unitOf finds the unit that a folder belongs to: the folder itself or the
// nearest one above it.
func unitOf(folder string) (name string, found unit, ok bool) {
	if folder == "." {
		return folder, units[folder], true
	}
	for name = folder; name != "."; name = path.Dir(name) {
		if found, ok = units[name]; ok {
			return name, found, true
		}
	}
	return "", unit{}, false
}

// folderOf turns the import path of a package of ours into its folder.
func folderOf(imported string) (folder string, inside bool) {
	if imported == modulePath {
		return ".", true
	}
	return strings.CutPrefix(imported, modulePath+"/")
}

// standard reports whether the path is of the standard library, whose first
// element has no dot.
func standard(imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	return !strings.Contains(first, ".")
}

// below reports whether the path is the prefix or lies below it.
func below(prefix, imported string) bool {
	return imported == prefix || strings.HasPrefix(imported, prefix+"/")
}

// readImports reads the Go files below root, nested modules and files for other
// systems included, and skips the folders that the go command skips.
func readImports(root string) (graph, error) {
	imports := make(graph)
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() {
			if file != root && (strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || name == "testdata") {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		folder, err := filepath.Rel(root, filepath.Dir(file))
		if err != nil {
			return err
		}
		return imports.add(filepath.ToSlash(folder), file)
	})
	for folder, paths := range imports {
		slices.Sort(paths)
		imports[folder] = slices.Compact(paths)
	}
	return imports, err
}

// add notes the imports of one file. A test only makes its package known.
func (g graph) add(folder, file string) error {
	if _, known := g[folder]; !known {
		g[folder] = []string{}
	}
	if strings.HasSuffix(file, "_test.go") {
		return nil
	}
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
	if err != nil {
		return fmt.Errorf("read imports: %w", err)
	}
	for _, spec := range parsed.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return fmt.Errorf("read imports of %s: %w", file, err)
		}
		g[folder] = append(g[folder], imported)
	}
	return nil
}
