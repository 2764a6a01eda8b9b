package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"
)

// mostRaised is how many modules core/lock and core/redisstore may raise in the go.mod
// of the program in testdata/old.mod, which is a year behind.
const mostRaised = 4

// fetcher does what users of the published modules do.
type fetcher struct {
	*repo
	*proxy
	temp string
	sum  []byte   // of all modules of others, together
	env  []string // of the go command
}

// inherited is what a program gets that imports some packages.
type inherited struct {
	name             string
	listed, compiled int // modules: in the go.mod of a program that was empty, and in what it builds
	raised, added    []string
}

// fetch fetches each published module alone, from a proxy made of the work tree, into an
// empty program and into an old one, installs every command, and runs the unit tests of
// each module, all without go.work.
func (r *repo) fetch(ctx context.Context, out io.Writer) error {
	version, err := r.next()
	if err != nil {
		return err
	}
	if err := r.refuse(version); err != nil {
		return err
	}
	f, err := r.newFetcher(ctx)
	if err != nil {
		return err
	}
	defer f.clean(ctx)
	return f.all(ctx, out)
}

func (f *fetcher) all(ctx context.Context, out io.Writer) error {
	root := f.modules[0].path()
	rows := []inherited{{name: "core/lock, core/redisstore"}}
	imports := map[string][]string{rows[0].name: {root + "/core/lock", root + "/core/redisstore"}}
	for _, m := range f.repo.published() {
		if len(m.commands) == 0 { // nobody imports a program
			rows = append(rows, inherited{name: m.dir})
			for _, folder := range m.packages {
				imports[m.dir] = append(imports[m.dir], path.Join(m.path(), folder))
			}
		}
	}
	for i := range rows {
		began := time.Now()
		if err := f.importAll(ctx, &rows[i], imports[rows[i].name]); err != nil {
			return fmt.Errorf("%s: %w", rows[i].name, err)
		}
		fmt.Fprintf(out, "%s: fetched and built in %.1f s\n", rows[i].name, time.Since(began).Seconds())
	}
	if err := f.installAll(ctx, out); err != nil {
		return err
	}
	if err := f.testAll(ctx, out); err != nil {
		return err
	}
	printTable(out, rows)
	if raised := rows[0].raised; len(raised) > mostRaised {
		return fmt.Errorf("%s raise %d modules of an old program, at most %d are right", rows[0].name, len(raised), mostRaised)
	}
	return nil
}

func (r *repo) newFetcher(ctx context.Context) (*fetcher, error) {
	temp, err := os.MkdirTemp("", "fetch")
	if err != nil {
		return nil, err
	}
	f := &fetcher{repo: r, temp: temp}
	if f.proxy, err = r.newProxy(filepath.Join(temp, "proxy")); err != nil {
		return nil, err
	}
	if f.sum, err = r.sums(); err != nil {
		return nil, err
	}
	settings, err := output(ctx, r.root, nil, "go", "env", "GOPROXY", "GOFLAGS")
	if err != nil {
		return nil, err
	}
	others, flags, _ := strings.Cut(strings.TrimRight(settings, "\n"), "\n")
	f.env = []string{
		"GOWORK=off", "GOPRIVATE=",
		"GOPROXY=file://" + filepath.ToSlash(f.proxy.dir) + "," + others,
		"GOFLAGS=" + flags + " -mod=mod -modcacherw",
		"GOSUMDB=off", // what others publish has its sum in one of our go.sum
	}
	return f, nil
}

// sums returns the lines of all go.sum, and of the old program.
func (r *repo) sums() ([]byte, error) {
	var all []byte
	files := []string{filepath.Join(r.root, tools, "modules", "testdata", "old.sum")}
	for _, m := range r.modules {
		if slices.Contains(m.files, "go.sum") {
			files = append(files, filepath.Join(r.folder(m), "go.sum"))
		}
	}
	for _, file := range files {
		sum, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		all = append(all, sum...)
	}
	return all, nil
}

// clean removes the versions that only the proxy had from the cache of modules.
func (f *fetcher) clean(ctx context.Context) {
	_ = os.RemoveAll(f.temp)
	cache, err := output(ctx, f.root, nil, "go", "env", "GOMODCACHE")
	if err != nil {
		return
	}
	cache = strings.TrimSpace(cache)
	for _, m := range f.repo.published() {
		_ = os.RemoveAll(filepath.Join(cache, m.path()+"@"+f.version))
		files, _ := filepath.Glob(filepath.Join(cache, "cache", "download", m.path(), "@v", f.version+".*"))
		for _, file := range files {
			_ = os.Remove(file)
		}
	}
}

// program makes a module with one file, which imports the packages.
func (f *fetcher) program(mod []byte, imports []string) (dir string, err error) {
	if dir, err = os.MkdirTemp(f.temp, "program"); err != nil {
		return "", err
	}
	var code strings.Builder
	code.WriteString("package program\n\nimport (\n")
	for _, imported := range imports {
		fmt.Fprintf(&code, "\t_ %q\n", imported)
	}
	code.WriteString(")\n")
	for name, content := range map[string][]byte{"go.mod": mod, "go.sum": f.sum, "program.go": []byte(code.String())} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// importAll builds an empty program that imports the packages, and adds them to the old one.
func (f *fetcher) importAll(ctx context.Context, row *inherited, imports []string) error {
	get := []string{"get"}
	for _, imported := range imports {
		get = append(get, imported+"@"+f.version)
	}
	empty, err := f.program([]byte("module example.com/program\n\ngo "+f.modules[0].mod.Go.Version+"\n"), imports)
	if err != nil {
		return err
	}
	for _, args := range [][]string{get, {"build", "./..."}} {
		if _, err := output(ctx, empty, f.env, "go", args...); err != nil {
			return err
		}
	}
	mod, err := read(filepath.Join(empty, "go.mod"))
	if err != nil {
		return err
	}
	row.listed = len(mod.Require)
	compiled, err := output(ctx, empty, f.env, "go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}}{{end}}{{end}}", ".")
	if err != nil {
		return err
	}
	row.compiled = len(slices.Compact(slices.Sorted(slices.Values(strings.Fields(compiled)))))
	return f.addToOld(ctx, row, get)
}

// addToOld fetches the packages into the old program.
func (f *fetcher) addToOld(ctx context.Context, row *inherited, get []string) error {
	content, err := os.ReadFile(filepath.Join(f.root, tools, "modules", "testdata", "old.mod"))
	if err != nil {
		return err
	}
	dir, err := f.program(content, nil)
	if err != nil {
		return err
	}
	before, err := read(filepath.Join(dir, "go.mod"))
	if err != nil {
		return err
	}
	if _, err := output(ctx, dir, f.env, "go", get...); err != nil {
		return err
	}
	after, err := read(filepath.Join(dir, "go.mod"))
	if err != nil {
		return err
	}
	row.raised, row.added = compare(before, after)
	return nil
}

// compare lists the modules that have a later version now, and those that are new.
func compare(before, after *modfile.File) (raised, added []string) {
	versions := make(map[string]string)
	for _, r := range before.Require {
		versions[r.Mod.Path] = r.Mod.Version
	}
	for _, r := range after.Require {
		switch old, ok := versions[r.Mod.Path]; {
		case !ok:
			added = append(added, r.Mod.Path)
		case semver.Compare(r.Mod.Version, old) > 0:
			raised = append(raised, r.Mod.Path)
		}
	}
	return raised, added
}

// installAll installs every command, as go install does it outside of a module.
func (f *fetcher) installAll(ctx context.Context, out io.Writer) error {
	for _, m := range f.repo.published() {
		for _, command := range m.commands {
			bin, err := os.MkdirTemp(f.temp, "bin")
			if err != nil {
				return err
			}
			began := time.Now()
			name := path.Join(m.path(), command)
			if _, err := output(ctx, f.temp, append(f.env, "GOBIN="+bin), "go", "install", name+"@"+f.version); err != nil {
				return err
			}
			if _, err := os.Stat(filepath.Join(bin, path.Base(name))); err != nil {
				return err
			}
			fmt.Fprintf(out, "%s: installed in %.1f s\n", path.Join(m.dir, command), time.Since(began).Seconds())
		}
	}
	return nil
}

// testAll runs the unit tests of all modules. Most of them wait, so that many run at once.
func (f *fetcher) testAll(ctx context.Context, out io.Writer) error {
	modules := f.repo.published()
	printed, errs := make([]bytes.Buffer, len(modules)), make([]error, len(modules))
	var running sync.WaitGroup
	slots := make(chan struct{}, 3)
	for i, m := range modules {
		running.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			errs[i] = f.test(ctx, &printed[i], m)
		})
	}
	running.Wait()
	for i := range printed {
		if _, err := printed[i].WriteTo(out); err != nil {
			return err
		}
	}
	return errors.Join(errs...)
}

// test runs the unit tests of a module in its folder, with the others as fetched.
func (f *fetcher) test(ctx context.Context, out io.Writer, m *module) error {
	copied, err := f.required(f.repo, m)
	if err != nil {
		return err
	}
	for _, replaced := range m.mod.Replace {
		if err := copied.DropReplace(replaced.Old.Path, replaced.Old.Version); err != nil {
			return err
		}
	}
	dir, err := os.MkdirTemp(f.temp, "test")
	if err != nil {
		return err
	}
	if err := write(filepath.Join(dir, "go.mod"), copied); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "go.sum"), f.sum, 0o600); err != nil {
		return err
	}
	began := time.Now()
	cmd := exec.CommandContext(ctx, "go", "test", "-short", "-count=1", "-vet=off", "-p=4", "-modfile="+filepath.Join(dir, "go.mod"), "./...")
	cmd.Dir, cmd.Env = f.folder(m), append(os.Environ(), f.env...)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("the unit tests of %s without go.work: %w", m.dir, err)
	}
	fmt.Fprintf(out, "%s: tested in %.1f s\n", m.dir, time.Since(began).Seconds())
	return nil
}

func printTable(out io.Writer, rows []inherited) {
	fmt.Fprintln(out, "\nWhat a program inherits, in modules: listed in the go.mod of one that was empty, compiled by it, and\nraised and new in the go.mod of one that is a year behind.")
	fmt.Fprintln(out)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "import\tlisted\tcompiled\traised\tnew")
	for _, row := range rows {
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\n", row.name, row.listed, row.compiled, len(row.raised), len(row.added))
	}
	_ = table.Flush()
	fmt.Fprintf(out, "\n%s raise: %s\n", rows[0].name, strings.Join(rows[0].raised, ", "))
}

// next is the version that the modules require of each other.
func (r *repo) next() (string, error) {
	versions := make(map[string]bool)
	for _, m := range r.published() {
		for _, required := range m.mod.Require {
			if r.owns(required.Mod.Path) {
				versions[required.Mod.Version] = true
			}
		}
	}
	all := slices.Sorted(maps.Keys(versions))
	if len(all) != 1 {
		return "", fmt.Errorf("the modules require each other in %d versions, want one: %v", len(all), all)
	}
	return all[0], nil
}
