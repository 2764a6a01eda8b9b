// Package lockgen writes the decorators of interfaces whose methods have
// directives. It is all of the command annotations/cmd/lockgen but its main.
//
// It goes through the stations
//
//	patterns -> folders -> packages      load.go
//	comments -> directives               scan.go
//	interfaces, types -> decorators      decorator.go, resolve.go, tagged.go
//	decorators -> text                   emit.go
//	text -> files, or what -check says   output.go
//
// Everything that is wrong with the source is collected, with its place, and a
// package is written only if nothing is.
package lockgen

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/tools/go/packages"
)

// The statuses of the command.
const (
	statusDone  = 0
	statusWrong = 1 // the source is wrong, or -check found a stale file
	statusUsage = 2 // wrong arguments, or packages that cannot be read
)

const usage = `lockgen writes decorators that take the locks which directives on the methods
of interfaces name:

	//redlatch:lock lock:order:<req.UserID> wait=200ms
	Place(ctx context.Context, req *PlaceRequest) (*Order, error)

For the interfaces of order.go it writes order_lockgen.go next to it, and it
removes such a file when no directive is left.

usage: lockgen [flags] [packages]

Packages are those of the go command; the default is "." and "./..." means all
below. It ends with status 1 if a directive is wrong or, with -check, a file is
not up to date, and with 2 if it could not do its work at all.

`

// Run is the command. dir is where relative patterns start, and args are its
// arguments without its name.
func Run(ctx context.Context, dir string, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("lockgen", flag.ContinueOnError)
	flags.SetOutput(stderr)
	check := flags.Bool("check", false, "write nothing, fail if a file is not up to date")
	tags := flags.String("tags", "", "build `tags` as for the go command, separated by commas")
	verbose := flags.Bool("v", false, "name the files that are written or removed")
	flags.Usage = func() {
		fmt.Fprint(flags.Output(), usage)
		flags.PrintDefaults()
	}
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return statusDone
	case err != nil:
		return statusUsage
	}
	patterns := flags.Args()
	if len(patterns) == 0 {
		patterns = []string{"."}
	}
	l := &loader{ctx: ctx, dir: dir}
	if *tags != "" {
		l.flags = []string{"-tags=" + *tags}
	}
	outputs, faults, err := generate(l, patterns)
	if err != nil {
		fmt.Fprintf(stderr, "lockgen: %v\n", err)
		return statusUsage
	}
	status := statusDone
	for _, f := range faults {
		fmt.Fprintln(stderr, f.text(dir))
		status = statusWrong
	}
	for _, o := range outputs {
		stale, err := o.stale()
		if err == nil && stale != "" && !*check {
			err = o.write()
		}
		switch name := relative(dir, o.path); {
		case err != nil:
			fmt.Fprintf(stderr, "lockgen: %v\n", err)
			status = max(status, statusWrong)
		case stale != "" && *check:
			fmt.Fprintf(stderr, "%s %s\n", name, stale)
			status = max(status, statusWrong)
		case stale != "" && *verbose:
			fmt.Fprintln(stdout, name)
		}
	}
	return status
}

// generate makes the outputs of all packages that the patterns name.
func generate(l *loader, patterns []string) ([]output, []fault, error) {
	folders, err := l.folders(patterns)
	if err != nil {
		return nil, nil, err
	}
	show, err := l.hide(folders)
	if err != nil {
		return nil, nil, err
	}
	defer show()
	loaded, err := l.load(folders)
	if err != nil {
		return nil, nil, err
	}
	g := &generator{
		sources: make(map[string]bool), outputs: make(map[string][]byte),
		loaded: make(map[string]bool), ignored: make(map[string]bool), wrong: make(map[string]bool),
	}
	for _, f := range folders {
		for _, source := range f.sources {
			g.sources[filepath.Join(f.path, source)] = true
		}
	}
	for _, p := range loaded {
		if err := g.generate(p); err != nil {
			return nil, nil, err
		}
	}
	var outputs []output
	for _, f := range folders {
		g.complete(f, loaded)
		if !g.wrong[f.path] {
			outputs = append(outputs, g.of(f)...)
		}
	}
	return outputs, sorted(g.faults), nil
}

// generator collects what is to be written and what is wrong.
type generator struct {
	sources map[string]bool   // files that mention a directive, by path
	outputs map[string][]byte // by path
	loaded  map[string]bool   // source files, by path
	ignored map[string]bool   // files that the build leaves out, by path
	wrong   map[string]bool   // folders
	faults  []fault
}

func (g *generator) report(at token.Position, format string, args ...any) {
	g.faults = append(g.faults, fault{at, fmt.Sprintf(format, args...)})
	g.wrong[filepath.Dir(at.Filename)] = true
}

// of are the outputs of a folder: what was generated, and of the files that
// are there those to be removed. A file whose source the build leaves out
// stays as it is.
func (g *generator) of(f *folder) []output {
	var all []output
	for _, path := range slices.Sorted(maps.Keys(g.outputs)) {
		if filepath.Dir(path) == f.path {
			all = append(all, output{path, g.outputs[path]})
		}
	}
	for _, name := range f.outputs {
		path := filepath.Join(f.path, name)
		if g.outputs[path] == nil && !g.leftOut(filepath.Join(f.path, sourceOf(name))) {
			all = append(all, output{path: path})
		}
	}
	return all
}

// complete reports sources that are neither in a package nor left out by the build,
// such as those of a second package in the folder. They would silently lock nothing.
func (g *generator) complete(f *folder, loaded []*packages.Package) {
	if g.wrong[f.path] {
		return
	}
	for _, source := range f.sources {
		path := filepath.Join(f.path, source)
		if g.loaded[path] || g.ignored[path] {
			continue
		}
		reason := "no package has this file"
		for _, p := range loaded {
			if p.Dir == f.path && len(p.Errors) > 0 {
				reason = p.Errors[0].Msg
			}
		}
		g.report(token.Position{Filename: path}, "cannot be read: %s", reason)
	}
}

// leftOut reports whether a source may need an output, but isn't part of the build
// that was loaded.
func (g *generator) leftOut(source string) bool {
	if g.loaded[source] || !g.sources[source] && (!g.ignored[source] || isTest(source)) {
		return false
	}
	file, err := parser.ParseFile(token.NewFileSet(), source, nil, parser.ParseComments|parser.SkipObjectResolution)
	return err != nil || mentions(file) || mayEmbed(file)
}

// generate makes the outputs of one package. The variant of a package that is
// built for its tests has all files, and only its tests count.
func (g *generator) generate(p *packages.Package) error {
	forTest := strings.HasSuffix(p.ID, ".test]")
	if strings.HasSuffix(p.ID, ".test") {
		return nil // the main of the tests
	}
	for _, path := range p.IgnoredFiles {
		g.ignored[path] = true
	}
	if g.broken(p) {
		return nil
	}
	before := len(g.faults)
	report := func(at token.Pos, format string, args ...any) { g.report(place(p, at), format, args...) }
	s := &scanner{methods: make(map[token.Pos][]found), used: make(map[token.Pos]bool), report: report}
	for _, file := range p.Syntax {
		s.scan(file)
	}
	unknown, ours := false, make(map[string]bool)
	declared, others := declaredIn(p.Dir, p.Name), newForeign(p.Fset)
	for _, file := range p.Syntax {
		path := place(p, file.Package).Filename
		if forTest != isTest(path) || file.Name.Name != p.Name {
			continue
		}
		g.loaded[path] = true
		if forTest && !g.sources[path] {
			continue // tests are loaded only if one of them mentions a directive
		}
		im := newImports(p, file, declared)
		b := &builder{pkg: p.Types, info: p.TypesInfo, methods: s.methods, imports: im, foreign: others, report: report}
		decorators := b.build(file)
		unknown = unknown || b.unknown
		for _, d := range decorators {
			ours[d.name], ours[d.constructor] = true, true
		}
		if len(decorators) == 0 || len(g.faults) > before {
			continue
		}
		content, err := (&emitter{imports: im}).emit(p.Name, buildLine(filepath.Base(path), file), decorators)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		g.outputs[filepath.Join(filepath.Dir(path), outputOf(filepath.Base(path)))] = content
	}
	if unknown {
		g.explain(p, ours)
	}
	return nil
}

// broken reports files that aren't Go, and packages that couldn't be found.
func (g *generator) broken(p *packages.Package) bool {
	broken := false
	for _, e := range p.Errors {
		if e.Kind == packages.ParseError || len(p.Syntax) == 0 {
			g.report(position(e.Pos, p.Dir), "%s", e.Msg)
			g.wrong[p.Dir] = true
			broken = true
		}
	}
	return broken || p.Types == nil
}

// explain reports why types aren't known. Other errors are left to the compiler, and so
// are those about the names that lockgen is going to write.
func (g *generator) explain(p *packages.Package, ours map[string]bool) {
	for _, e := range p.TypeErrors {
		name, undefined := strings.CutPrefix(e.Msg, "undefined: ")
		if !e.Soft && (!undefined || !ours[name]) {
			g.report(place(p, e.Pos), "%s", e.Msg)
		}
	}
}

// place is a position in the file itself, whatever its //line comments say. Only in
// what cgo makes of a file do they say where the file is.
func place(p *packages.Package, at token.Pos) token.Position {
	position := p.Fset.PositionFor(at, false)
	if !slices.Contains(p.GoFiles, position.Filename) {
		return p.Fset.Position(at)
	}
	return position
}

// position reads "file:line:column", of which the end may be missing.
func position(text, dir string) token.Position {
	at := token.Position{Filename: text}
	var numbers []int
	for range 2 {
		rest, last, ok := cutLast(at.Filename)
		if !ok {
			break
		}
		at.Filename, numbers = rest, append(numbers, last)
	}
	slices.Reverse(numbers)
	if len(numbers) > 0 {
		at.Line = numbers[0]
	}
	if len(numbers) > 1 {
		at.Column = numbers[1]
	}
	if at.Filename == "" || at.Filename == "-" {
		at.Filename = dir
	}
	return at
}

func cutLast(text string) (rest string, number int, ok bool) {
	i := strings.LastIndexByte(text, ':')
	if i < 0 {
		return text, 0, false
	}
	number, err := strconv.Atoi(text[i+1:])
	return text[:i], number, err == nil
}

// newImports prepares the imports of an output: what is predeclared, what the package
// calls its own, what its other builds and tests declare, and the type parameters of the
// source are taken, and what the source calls others is kept.
func newImports(p *packages.Package, file *ast.File, declared []string) *imports {
	im := &imports{
		pkg: p.Types, path: cmp.Or(p.ForTest, p.PkgPath), names: newNames(slices.Concat(types.Universe.Names(), p.Types.Scope().Names(), declared)...),
		prefer: make(map[string]string), used: make(map[string]string), plain: make(map[string]string),
	}
	for _, spec := range file.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if err == nil && spec.Name != nil && spec.Name.Name != "_" && spec.Name.Name != "." {
			im.prefer[path] = spec.Name.Name
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if t, ok := n.(*ast.TypeSpec); ok && t.TypeParams != nil {
			for _, p := range t.TypeParams.List {
				for _, name := range p.Names {
					im.names.add(name.Name)
				}
			}
		}
		return true
	})
	im.receiver = im.names.take("l")
	return im
}
