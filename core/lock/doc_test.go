package lock_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A reader of the documentation finds each name in the list for them, and only there.
// Constants belong to their type, options and errors to their prefix.
func TestTheDocumentationListsEachName(t *testing.T) {
	files := sources(t)
	_, lists, found := strings.Cut(files["doc.go"].Doc.Text(), "# Names by reader")
	if !found {
		t.Fatal("no list of names")
	}
	listed := make(map[string]int)
	for _, link := range regexp.MustCompile(`\[(\w+)\]`).FindAllStringSubmatch(lists, -1) {
		listed[link[1]]++
	}
	for _, name := range slices.Sorted(maps.Keys(exported(files))) {
		if n := listed[name]; n != 1 {
			t.Errorf("%s is listed %d times, want once", name, n)
		}
		delete(listed, name)
	}
	for name := range listed {
		t.Errorf("%s is listed, and there is no such name", name)
	}
}

// sources are the files of the package, without its tests.
func sources(t *testing.T) map[string]*ast.File {
	t.Helper()
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	files := make(map[string]*ast.File)
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		if files[name], err = parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

func exported(files map[string]*ast.File) map[string]bool {
	names := make(map[string]bool)
	for _, f := range files {
		for _, decl := range f.Decls {
			switch decl := decl.(type) {
			case *ast.FuncDecl:
				if decl.Recv == nil && !strings.HasPrefix(decl.Name.Name, "With") {
					names[decl.Name.Name] = true
				}
			case *ast.GenDecl:
				for _, name := range named(decl) {
					names[name] = true
				}
			}
		}
	}
	maps.DeleteFunc(names, func(name string, _ bool) bool { return !ast.IsExported(name) })
	return names
}

// named are the types of a declaration, and its constants that have no type.
func named(decl *ast.GenDecl) (names []string) {
	typed := false // by the constant before
	for _, spec := range decl.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			names = append(names, spec.Name.Name)
		case *ast.ValueSpec:
			typed = spec.Type != nil || typed && len(spec.Values) == 0
			if typed || decl.Tok != token.CONST {
				continue
			}
			for _, name := range spec.Names {
				names = append(names, name.Name)
			}
		}
	}
	return names
}
