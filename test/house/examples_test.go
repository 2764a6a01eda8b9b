package house_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// pkg is what the files of one folder say of a package.
type pkg struct{ command, hasExample bool }

// Every package that users import shows how it's used, on pkg.go.dev and by go doc.
func TestEveryPublicPackageHasAnExample(t *testing.T) {
	t.Parallel()
	packages := map[string]*pkg{}
	err := filepath.WalkDir(".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			hidden := file != "." && strings.HasPrefix(entry.Name(), ".")
			if hidden || slices.Contains([]string{"internal", "testdata", "test", "examples", "tools"}, entry.Name()) {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(file, ".go") || filepath.Dir(file) == "." {
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		folder := filepath.ToSlash(filepath.Dir(file))
		if packages[folder] == nil {
			packages[folder] = &pkg{}
		}
		packages[folder].add(parsed, strings.HasSuffix(file, "_test.go"))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(packages) < 20 {
		t.Fatalf("%d packages: the reader does not work", len(packages))
	}
	for folder, p := range packages {
		if !p.command && !p.hasExample {
			t.Errorf("%s has no Example", folder)
		}
	}
}

func (p *pkg) add(file *ast.File, test bool) {
	p.command = p.command || file.Name.Name == "main"
	p.hasExample = p.hasExample || test && slices.ContainsFunc(file.Decls, func(d ast.Decl) bool {
		f, ok := d.(*ast.FuncDecl)
		return ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Example")
	})
}
