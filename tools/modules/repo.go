package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
)

// tools is the one module that isn't in go.work: what the tools need must not decide
// which versions the others are tested with.
const tools = "tools"

// repo is the work tree with its modules. The first one is that of the root.
type repo struct {
	root    string
	modules []*module
}

// module is a folder with a go.mod, and the files below it that are in no other module.
type module struct {
	dir      string // relative to the root, with slashes
	mod      *modfile.File
	files    []string // relative to dir, with slashes
	packages []string // the folders, relative to dir, of packages that others can import
	commands []string // the folders, relative to dir, of packages main
}

func (m *module) path() string { return m.mod.Module.Mod.Path }

// published reports whether users fetch the module.
func (m *module) published() bool {
	return m.dir != tools && m.dir != "test" && !strings.HasPrefix(m.dir, "test/")
}

// tag is the name that the go command expects for a version of the module.
func (m *module) tag(version string) string { return path.Join(m.dir, version) }

// owns reports whether a module path is one of this repository.
func (r *repo) owns(module string) bool {
	root := r.modules[0].path()
	return module == root || strings.HasPrefix(module, root+"/")
}

func (r *repo) published() []*module {
	return slices.DeleteFunc(slices.Clone(r.modules), func(m *module) bool { return !m.published() })
}

func (r *repo) folder(m *module) string { return filepath.Join(r.root, filepath.FromSlash(m.dir)) }

// findRoot returns the nearest folder, from here up, that has a go.work.
func findRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			return dir, nil
		}
		if filepath.Dir(dir) == dir {
			return "", errors.New("there is no go.work here or above")
		}
		dir = filepath.Dir(dir)
	}
}

// load reads the modules that go.work lists, and tools.
func load(ctx context.Context, root string) (*repo, error) {
	name := filepath.Join(root, "go.work")
	content, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	work, err := modfile.ParseWork(name, content, nil)
	if err != nil {
		return nil, err
	}
	r := &repo{root: root}
	for _, use := range append(work.Use, &modfile.Use{Path: tools}) {
		m := &module{dir: path.Clean(use.Path)}
		name := filepath.Join(r.folder(m), "go.mod")
		content, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		if m.mod, err = modfile.Parse(name, content, nil); err != nil {
			return nil, err
		}
		r.modules = append(r.modules, m)
	}
	if r.modules[0].dir != "." {
		return nil, fmt.Errorf("%s doesn't list the root first", name)
	}
	return r, r.readFiles(ctx)
}

// readFiles gives every file that git knows, or would add, to the innermost module.
func (r *repo) readFiles(ctx context.Context) error {
	list, err := output(ctx, r.root, nil, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	if err != nil {
		return err
	}
	for _, file := range strings.Split(strings.TrimSuffix(list, "\x00"), "\x00") {
		if _, err := os.Lstat(filepath.Join(r.root, file)); errors.Is(err, fs.ErrNotExist) {
			continue // deleted, and not committed yet
		}
		if err := r.add(file); err != nil {
			return err
		}
	}
	return nil
}

func (r *repo) add(file string) error {
	m := r.modules[0]
	for _, other := range r.modules {
		if strings.HasPrefix(file, other.dir+"/") && (m.dir == "." || len(other.dir) > len(m.dir)) {
			m = other
		}
	}
	if m.dir != "." {
		file = strings.TrimPrefix(file, m.dir+"/")
	}
	m.files = append(m.files, file)
	if !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") || hidden(file) {
		return nil
	}
	parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(r.folder(m), file), nil, parser.PackageClauseOnly)
	if err != nil {
		return err
	}
	switch folder := path.Dir(file); {
	case parsed.Name.Name == "main":
		m.commands = insert(m.commands, folder)
	case !slices.Contains(strings.Split(folder, "/"), "internal"):
		m.packages = insert(m.packages, folder)
	}
	return nil
}

// hidden reports whether the go command ignores a file.
func hidden(file string) bool {
	return slices.ContainsFunc(strings.Split(file, "/"), func(name string) bool {
		return name == "testdata" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_")
	})
}

func insert(list []string, name string) []string {
	if slices.Contains(list, name) {
		return list
	}
	return append(list, name)
}

// output runs a command and returns what it prints.
func output(ctx context.Context, dir string, env []string, name string, args ...string) (string, error) {
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s%s", name, strings.Join(args, " "), err, &out, &errs)
	}
	return out.String(), nil
}
