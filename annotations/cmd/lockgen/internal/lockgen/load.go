package lockgen

import (
	"context"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// folder is a directory with Go files, before anything is type-checked.
type folder struct {
	path    string
	outputs []string // files that lockgen wrote, by their names
	sources []string // other Go files that mention a directive
}

// loader finds packages and type-checks the ones that matter.
type loader struct {
	ctx   context.Context
	dir   string
	flags []string // for the go command
}

// folders are the directories that the patterns name and that have something
// to do for lockgen.
func (l *loader) folders(patterns []string) ([]*folder, error) {
	paths, err := l.paths(patterns)
	if err != nil {
		return nil, err
	}
	var all []*folder
	for _, path := range paths {
		f, err := scanFolder(path)
		if err != nil {
			return nil, err
		}
		if len(f.outputs)+len(f.sources) > 0 {
			all = append(all, f)
		}
	}
	return all, nil
}

// paths expands patterns. A pattern that names a directory needs no help of
// the go command.
func (l *loader) paths(patterns []string) ([]string, error) {
	var paths, rest []string
	for _, pattern := range patterns {
		path := filepath.Clean(pattern) // as the go command names it, also without a slash at its end
		if !filepath.IsAbs(path) {
			path = filepath.Join(l.dir, path)
		}
		info, err := os.Stat(path)
		if isPath(pattern) && err == nil && info.IsDir() {
			paths = append(paths, path)
		} else {
			rest = append(rest, pattern)
		}
	}
	if len(rest) > 0 {
		// Outputs may be so broken that the go command trips over them, so
		// its errors count only if they aren't about a package we know.
		found, err := packages.Load(l.config(packages.NeedName|packages.NeedFiles), rest...)
		if err != nil {
			return nil, err
		}
		for _, p := range found {
			switch {
			case p.Dir != "":
				paths = append(paths, p.Dir)
			case len(p.Errors) > 0:
				return nil, fmt.Errorf("%s: %s", p.ID, p.Errors[0].Msg)
			}
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths), nil
}

// isPath reports whether a pattern is a path and not an import path.
func isPath(pattern string) bool {
	return pattern == "." || pattern == ".." || filepath.IsAbs(pattern) ||
		strings.HasPrefix(filepath.ToSlash(pattern), "./") || strings.HasPrefix(filepath.ToSlash(pattern), "../")
}

func (l *loader) config(mode packages.LoadMode) *packages.Config {
	return &packages.Config{
		Mode: mode, Context: l.ctx, Dir: l.dir, BuildFlags: l.flags, ParseFile: parse,
	}
}

// parse reads a file without the bodies of its functions: they may use what
// lockgen is about to write, and nothing in them matters.
func parse(fset *token.FileSet, name string, src []byte) (*ast.File, error) {
	file, err := parser.ParseFile(fset, name, src, parser.ParseComments|parser.SkipObjectResolution|parser.AllErrors)
	if file != nil {
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok {
				f.Body = nil
			}
		}
	}
	return file, err
}

// scanFolder looks at the Go files of a directory, including the ones that a
// constraint leaves out of the build.
func scanFolder(path string) (*folder, error) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	f := &folder{path: path}
	for _, e := range entries {
		if e.IsDir() || !isSource(e.Name()) {
			continue
		}
		content, err := os.ReadFile(filepath.Join(path, e.Name()))
		if err != nil {
			return nil, err
		}
		switch {
		case isOutputName(e.Name()) && isOurs(content):
			f.outputs = append(f.outputs, e.Name())
		case mention.Match(content):
			f.sources = append(f.sources, e.Name())
		}
	}
	return f, nil
}

// hide takes each output away from the go command, until show is called: what it
// says, right, wrong or not even Go, must not matter to what is written next.
//
// This is what an overlay of package packages is for, but with one of those it
// reads all imported packages from source, which takes ten times as long.
func (l *loader) hide(folders []*folder) (show func(), err error) {
	hidden := make(map[string]string) // a path that is replaced by "" isn't there
	for _, f := range folders {
		for _, name := range f.outputs {
			hidden[filepath.Join(f.path, name)] = ""
		}
	}
	if len(hidden) == 0 {
		return func() {}, nil
	}
	overlay, err := json.Marshal(map[string]any{"Replace": hidden})
	if err != nil {
		return nil, err
	}
	temp, err := os.MkdirTemp("", "lockgen")
	if err != nil {
		return nil, err
	}
	show = func() { _ = os.RemoveAll(temp) }
	list := filepath.Join(temp, "overlay.json")
	if err := os.WriteFile(list, overlay, 0o600); err != nil {
		show()
		return nil, err
	}
	l.flags = append(l.flags, "-overlay="+list)
	return show, nil
}

// load type-checks the packages of the folders that have directives. Of the
// packages they import it reads what the compiler wrote; only packages that don't
// compile, as for want of a file that lockgen has yet to write, are read from
// source.
func (l *loader) load(folders []*folder) ([]*packages.Package, error) {
	var patterns []string
	tests := false
	for _, f := range folders {
		if len(f.sources) > 0 {
			patterns = append(patterns, f.path)
			tests = tests || slices.ContainsFunc(f.sources, isTest)
		}
	}
	if len(patterns) == 0 {
		return nil, nil
	}
	config := l.config(packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports |
		packages.NeedTypes | packages.NeedSyntax | packages.NeedTypesInfo | packages.NeedTypesSizes | packages.NeedForTest)
	config.Tests = tests
	return packages.Load(config, patterns...)
}

// isSource reports whether a name is that of a Go file. The go command never reads one
// that begins with "_" or ".".
func isSource(name string) bool {
	return strings.HasSuffix(name, ".go") && !strings.ContainsAny(name[:1], "_.")
}

func isTest(name string) bool { return strings.HasSuffix(name, "_test.go") }

// declaredIn returns the names that the files of a package declare, also those of tests
// and of other builds: an import by such a name wouldn't compile with them. Outputs of
// lockgen and files that can't be read are left out.
func declaredIn(dir, pkg string) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() || !isSource(e.Name()) {
			continue
		}
		path := filepath.Join(dir, e.Name())
		content, err := os.ReadFile(path)
		if err != nil || isOutputName(e.Name()) && isOurs(content) {
			continue
		}
		file, _ := parse(token.NewFileSet(), path, content)
		if file == nil || file.Name.Name != pkg {
			continue
		}
		for _, d := range file.Decls {
			names = append(names, declaredBy(d)...)
		}
	}
	return names
}

// declaredBy returns the names that a declaration adds to its package.
func declaredBy(d ast.Decl) (names []string) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			names = append(names, d.Name.Name)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				names = append(names, spec.Name.Name)
			case *ast.ValueSpec:
				for _, name := range spec.Names {
					names = append(names, name.Name)
				}
			}
		}
	}
	return names
}
