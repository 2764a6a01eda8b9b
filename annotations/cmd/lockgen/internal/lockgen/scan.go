package lockgen

import (
	"go/ast"
	"go/token"
	"iter"
	"regexp"
	"slices"

	"github.com/redlatch/redlatch/annotations/internal/directive"
)

const (
	toolName      = "redlatch"
	directiveName = "lock"
)

// found is a directive of a method.
type found struct {
	*directive.Directive

	pos      token.Pos // of its text
	wrong    bool      // in itself
	reported bool      // its template is, too
}

// place is the position of a column of the directive's text.
func (f found) place(column int) token.Pos { return f.pos + token.Pos(column-1) }

// mention is what every directive has, and every attempt at one.
var mention = regexp.MustCompile(`(?i:redlatch)[ \t]*:`)

// attempt is a comment that was meant as a directive. Where it stands in an
// interface, a blank too much must not silently mean: no lock.
var attempt = regexp.MustCompile(`(?m)^[ \t/*]*` + mention.String())

// scanner reads the directives of a file.
type scanner struct {
	methods map[token.Pos][]found // by the position of the method's name
	used    map[token.Pos]bool    // comments
	report  func(at token.Pos, format string, args ...any)
}

// scan looks through a file: at its interfaces for directives, and then
// everywhere for directives that stand where they do nothing.
func (s *scanner) scan(file *ast.File) {
	for t := range typeSpecs(file) {
		s.scanType(t)
	}
	for _, group := range file.Comments {
		for _, c := range group.List {
			d, ok := ast.ParseDirective(c.Slash, c.Text)
			switch {
			case s.used[c.Slash]:
			case ok && d.Tool == toolName:
				s.report(c.Slash, "//%s:%s stands above no method of an interface that is declared in the package, so it locks nothing: "+
					"move it into the comment right above one; code without an interface calls annotations.Do",
					d.Tool, d.Name)
			case attempt.MatchString(c.Text) && inInterface(file, c):
				s.report(c.Slash, "%.40q is a plain comment and locks nothing, write //%s:%s without blanks and in lower case, in the comment above a method",
					c.Text, toolName, directiveName)
			}
		}
	}
}

// inInterface reports whether a comment stands between the braces of an interface.
func inInterface(file *ast.File, c *ast.Comment) bool {
	found := false
	ast.Inspect(file, func(n ast.Node) bool {
		i, ok := n.(*ast.InterfaceType)
		found = found || ok && i.Methods.Opening < c.Slash && c.Slash < i.Methods.Closing
		return !found
	})
	return found
}

func (s *scanner) scanType(t *ast.TypeSpec) {
	i, ok := ast.Unparen(t.Type).(*ast.InterfaceType)
	if !ok {
		return
	}
	for _, f := range i.Methods.List {
		if _, isMethod := f.Type.(*ast.FuncType); isMethod && len(f.Names) == 1 && f.Doc != nil {
			s.scanMethod(f)
		}
	}
}

func (s *scanner) scanMethod(f *ast.Field) {
	for _, c := range f.Doc.List {
		d, ok := ast.ParseDirective(c.Slash, c.Text)
		switch {
		case ok && d.Tool == toolName && d.Name == directiveName:
			s.used[c.Slash] = true
			s.add(f.Names[0].Pos(), d)
		case ok && d.Tool == toolName:
			s.used[c.Slash] = true
			s.report(c.Slash, "unknown directive //%s:%s, write //%s:%s", d.Tool, d.Name, toolName, directiveName)
		}
	}
}

func (s *scanner) add(method token.Pos, d ast.Directive) {
	parsed, faults := directive.Parse(d.Args)
	f := found{Directive: parsed, pos: d.ArgsPos, wrong: len(faults) > 0}
	for _, wrong := range faults {
		if t := parsed.Template; t != nil && wrong.Column < parsed.TemplateColumn+len(t.String()) {
			f.reported = true
		}
		s.report(f.place(wrong.Column), "%s", wrong.Reason)
	}
	s.methods[method] = append(s.methods[method], f)
}

// mentions reports whether a file that the build leaves out has a directive on
// a method, as far as is known without types.
func mentions(file *ast.File) bool {
	s := scanner{
		methods: make(map[token.Pos][]found), used: make(map[token.Pos]bool),
		report: func(token.Pos, string, ...any) {},
	}
	s.scan(file)
	return len(s.methods) > 0
}

// mayEmbed reports whether a file that the build leaves out has a type whose methods
// may have directives in other files, as far as is known without types.
func mayEmbed(file *ast.File) bool {
	for t := range typeSpecs(file) {
		switch of := ast.Unparen(t.Type).(type) {
		case *ast.InterfaceType:
			if slices.ContainsFunc(of.Methods.List, func(f *ast.Field) bool { return len(f.Names) == 0 }) {
				return true
			}
		case *ast.Ident, *ast.IndexExpr, *ast.IndexListExpr:
			return true
		}
	}
	return false
}

// typeSpecs are the types that a file declares at its top level.
func typeSpecs(file *ast.File) iter.Seq[*ast.TypeSpec] {
	return func(yield func(*ast.TypeSpec) bool) {
		for _, d := range file.Decls {
			decl, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range decl.Specs {
				if t, ok := spec.(*ast.TypeSpec); ok && !yield(t) {
					return
				}
			}
		}
	}
}
