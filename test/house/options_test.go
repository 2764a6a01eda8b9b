package house_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/redlatch/redlatch/core/rule"
	"github.com/redlatch/redlatch/fxmodule"
)

// unset are options of which no configuration has a field of that name, and why.
var unset = map[string]string{
	"lock.WithHandoff":           "the fields handoffs and handoffTime",
	"lock.WithIdentity":          "the field service",
	"lock.WithHooks":             "Go: fxmodule.AsOption, and the telemetry of the module",
	"lock.WithoutReentry":        "Go: of one acquisition",
	"redisstore.WithCircuit":     "the fields circuitFailures and circuitPause",
	"redisstore.WithCircuitHook": "Go: the telemetry of the module",
	"redisstore.WithLogger":      "Go: the logger of the application",
	"redisstore.WithNameMapper":  "Go: a lock.Store of one's own; keyPrefix is the usual one",
}

// Everybody who configures locks by a file can set what a program in Go can.
func TestEveryOptionHasASetting(t *testing.T) {
	t.Parallel()
	unknown := maps.Clone(unset)
	fields := settings(reflect.TypeFor[fxmodule.Config]())
	for _, f := range rule.Fields() {
		fields = append(fields, f.Name)
	}
	found := 0
	for _, folder := range []string{"core/lock", "core/redisstore"} {
		for _, option := range options(t, folder) {
			found++
			name := filepath.Base(folder) + "." + option
			_, excepted := unset[name]
			delete(unknown, name)
			has := slices.ContainsFunc(fields, func(field string) bool {
				return strings.EqualFold(field, option) || strings.EqualFold(field, strings.TrimPrefix(option, "With"))
			})
			switch {
			case has && excepted:
				t.Errorf("%s has a setting: take it out of the exceptions", name)
			case !has && !excepted:
				t.Errorf("%s has no setting: give it a field in fxmodule.Config, fxmodule.Redis or rule.Rule, or a line in the exceptions", name)
			}
		}
	}
	if found < 30 {
		t.Errorf("%d options: the reader does not work", found)
	}
	for name := range unknown {
		t.Errorf("%s does not exist: take it out of the exceptions", name)
	}
}

// settings are the fields of a configuration, and of its sections.
func settings(of reflect.Type) (names []string) {
	for field := range of.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		names = append(names, name)
		if field.Type.Kind() == reflect.Struct {
			names = append(names, settings(field.Type)...)
		}
	}
	return names
}

// options are the exported functions of a package that return an Option.
func options(t *testing.T, folder string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if !strings.HasSuffix(entry.Name(), ".go") || strings.HasSuffix(entry.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(folder, entry.Name()), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, declaration := range file.Decls {
			f, ok := declaration.(*ast.FuncDecl)
			if !ok || f.Recv != nil || !f.Name.IsExported() || f.Type.Results == nil || len(f.Type.Results.List) != 1 {
				continue
			}
			if result, ok := f.Type.Results.List[0].Type.(*ast.Ident); ok && result.Name == "Option" {
				names = append(names, f.Name.Name)
			}
		}
	}
	return names
}
