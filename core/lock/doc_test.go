package lock_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A reader of the documentation finds each name in the list for them, and only there.
// Constants belong to their type, options and errors to their prefix.
func TestTheDocumentationListsEachName(t *testing.T) {
	packages, err := parser.ParseDir(token.NewFileSet(), ".", func(f fs.FileInfo) bool {
		return !strings.HasSuffix(f.Name(), "_test.go")
	}, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	files := packages["lock"].Files
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

func exported(files map[string]*ast.File) map[string]bool {
	names := make(map[string]bool)
	for _, f := range files {
		for name, object := range f.Scope.Objects {
			spec, isValue := object.Decl.(*ast.ValueSpec)
			typed := isValue && (spec.Type != nil && object.Kind == ast.Con || object.Kind == ast.Con && len(spec.Values) == 0)
			prefixed := strings.HasPrefix(name, "With") || strings.HasPrefix(name, "Err") && name != "Error"
			if ast.IsExported(name) && !prefixed && !typed {
				names[name] = true
			}
		}
	}
	return names
}
