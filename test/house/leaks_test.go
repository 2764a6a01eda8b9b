package house_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Every package whose tests could leave a goroutine behind looks for it when
// they have ended.
func TestEveryPackageLooksForLeaks(t *testing.T) {
	tested, looking := map[string]bool{}, map[string]bool{}
	eachTestFile(t, func(path string) {
		code, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		folder := filepath.Dir(path)
		tested[folder] = true
		looking[folder] = looking[folder] || strings.Contains(string(code), "goleak.") || strings.Contains(string(code), "leak.Main(m)")
	})
	if len(tested) < 10 {
		t.Fatalf("%d packages with tests: the reader does not work", len(tested))
	}
	for folder := range tested {
		if !looking[folder] {
			t.Errorf("%s does not use goleak, or leak.Main, in its TestMain", folder)
		}
	}
}

// A goroutine of a test that still uses its t after the last thing it says to the
// test may do so when the test has ended, which is a panic of the whole package.
func TestGoroutinesOfTestsEndBeforeTheirTests(t *testing.T) {
	seen := 0
	eachTestFile(t, func(path string) {
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for n := range ast.Preorder(file) {
			if g, ok := n.(*ast.GoStmt); ok && usesTest(g) {
				seen++
				if !endsWithASignal(g) {
					t.Errorf("%s: the goroutine uses the test's t, and nobody waits for its end", fset.Position(g.Pos()))
				}
			}
		}
	})
	if seen < 20 {
		t.Errorf("%d goroutines of tests: the reader does not work", seen)
	}
}

func usesTest(n ast.Node) bool {
	return contains(n, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		return ok && (id.Name == "t" || id.Name == "tb")
	})
}

func contains(n ast.Node, what func(ast.Node) bool) bool {
	return slices.ContainsFunc(slices.Collect(ast.Preorder(n)), what)
}

// endsWithASignal is whether the goroutine sends, closes a channel or calls Done in a
// deferred call, or after the last use of the test's t.
func endsWithASignal(g *ast.GoStmt) bool {
	lit, ok := g.Call.Fun.(*ast.FuncLit)
	if !ok {
		return false
	}
	for _, s := range slices.Backward(lit.Body.List) {
		if signals(s) {
			return true
		}
		if usesTest(s) {
			break
		}
	}
	return slices.ContainsFunc(lit.Body.List, func(s ast.Stmt) bool {
		_, deferred := s.(*ast.DeferStmt)
		return deferred && signals(s)
	})
}

func signals(n ast.Node) bool {
	return contains(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SendStmt:
			return true
		case *ast.CallExpr:
			switch f := n.Fun.(type) {
			case *ast.Ident:
				return f.Name == "close"
			case *ast.SelectorExpr:
				return f.Sel.Name == "Done" && len(n.Args) == 0
			}
		}
		return false
	})
}

func eachTestFile(t *testing.T, visit func(path string)) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != "." && strings.HasPrefix(entry.Name(), "."):
			return fs.SkipDir
		case strings.HasSuffix(path, "_test.go") && !strings.Contains(path, "testdata"):
			visit(path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
