package lockgen

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
)

// foreign knows the directives in the source of other packages. Of these only the types are
// loaded, and where their methods stand.
type foreign struct {
	fset  *token.FileSet          // of the packages
	files map[string]map[int]bool // the lines of the methods with directives, by file
}

func newForeign(fset *token.FileSet) *foreign {
	return &foreign{fset: fset, files: make(map[string]map[int]bool)}
}

// locks reports whether a method has a directive where it is written. What can't be read
// has none.
func (f *foreign) locks(fn *types.Func) bool {
	at := f.fset.PositionFor(fn.Pos(), false)
	lines, known := f.files[at.Filename]
	if !known {
		lines = linesWithDirectives(at.Filename)
		f.files[at.Filename] = lines
	}
	return lines[at.Line]
}

func linesWithDirectives(path string) map[int]bool {
	content, err := os.ReadFile(path)
	if err != nil || !mention.Match(content) {
		return nil
	}
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, path, content, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil
	}
	lines := make(map[int]bool)
	ast.Inspect(file, func(n ast.Node) bool {
		field, ok := n.(*ast.Field)
		if !ok || field.Doc == nil || len(field.Names) != 1 {
			return true
		}
		for _, c := range field.Doc.List {
			if d, ok := ast.ParseDirective(c.Slash, c.Text); ok && d.Tool == toolName && d.Name == directiveName {
				lines[fset.Position(field.Names[0].Pos()).Line] = true
			}
		}
		return true
	})
	return lines
}
