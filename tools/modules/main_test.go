package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/mod/modfile"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	rootMod = "module example.com/kit\n\ngo 1.26.0\n"
	libMod  = "module example.com/kit/z/lib\n\ngo 1.26.0\n\nreplace example.com/kit => ../..\n\nrequire example.com/kit v0.1.0\n"
	// a comes before z, and requires it.
	programMod = "module example.com/kit/a\n\ngo 1.26.0\n\nrequire (\n\texample.com/kit v0.1.0\n\texample.com/kit/z/lib v0.1.0\n)\n"
	testMod    = "module example.com/kit/test\n\ngo 1.26.0\n\ntoolchain go1.26.1\n"
)

// newRepo writes a repository, with some files changed, commits it and returns its folder.
func newRepo(t *testing.T, changed map[string]string) string {
	t.Helper()
	root := t.TempDir()
	files := map[string]string{
		"go.work":            "go 1.26.0\n\nuse (\n\t.\n\t./a\n\t./test\n\t./z/lib\n)\n",
		"LICENSE":            "as you like\n",
		".gitignore":         "/left/\n",
		"go.mod":             rootMod,
		"doc.go":             "package kit\n",
		"doc_test.go":        "package kit_test\n",
		"left/over.go":       "package over\n",
		"internal/x/x.go":    "package x\n",
		"testdata/y/y.go":    "package y\n",
		"z/lib/go.mod":       libMod,
		"z/lib/lib.go":       "package lib\n",
		"z/lib/sub/sub.go":   "package sub\n",
		"a/go.mod":           programMod,
		"a/cmd/tool/main.go": "package main\n\nfunc main() {}\n",
		"test/go.mod":        testMod,
		"tools/go.mod":       "module example.com/kit/tools\n\ngo 1.26.0\n",
	}
	for name, content := range changed {
		files[name] = content
	}
	for name, content := range files {
		file := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	git(t, root, "init", "-q")
	git(t, root, "add", "-A")
	git(t, root, "-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false", "commit", "-qm", "all")
	return root
}

func git(t *testing.T, root string, args ...string) {
	t.Helper()
	if _, err := output(t.Context(), root, nil, "git", args...); err != nil {
		t.Fatal(err)
	}
}

func mustLoad(t *testing.T, root string) *repo {
	t.Helper()
	r, err := load(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestFilesBelongToTheInnermostModule(t *testing.T) {
	r := mustLoad(t, newRepo(t, nil))
	got := map[string][]string{}
	for _, m := range r.modules {
		got[m.dir] = slices.Concat(m.packages, []string{"|"}, m.commands)
	}
	for dir, want := range map[string]string{".": ". |", "z/lib": ". sub |", "a": "| cmd/tool", "test": "|"} {
		if strings.Join(got[dir], " ") != want {
			t.Errorf("%s has the packages and commands %q, want %q", dir, got[dir], want)
		}
	}
	if files := r.modules[0].files; slices.Contains(files, "z/lib/lib.go") || slices.Contains(files, "left/over.go") {
		t.Errorf("the root has %q", files)
	}
}

func TestReleaseListsTheTagsInTheOrderOfRequirements(t *testing.T) {
	var out bytes.Buffer
	if err := mustLoad(t, newRepo(t, nil)).release(t.Context(), &out, "v0.1.0"); err != nil {
		t.Fatal(err)
	}
	const want = "git tag v0.1.0 && git push origin v0.1.0\n" +
		"git tag z/lib/v0.1.0 && git push origin z/lib/v0.1.0\n" +
		"git tag a/v0.1.0 && git push origin a/v0.1.0\n"
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", &out, want)
	}
}

func TestReleaseRefusesWhatCannotBeTagged(t *testing.T) {
	for name, test := range map[string]struct {
		file, content string
		version       string // v0.1.0 unless set
		want          string
	}{
		"no version":                   {version: "0.1", want: "no version"},
		"a build":                      {version: "v0.1.0+x", want: "no version"},
		"a second major version":       {version: "v2.0.0", want: "have no /v2"},
		"another version":              {version: "v0.2.0", want: "a/go.mod: it requires example.com/kit v0.1.0, want v0.2.0"},
		"a module that nobody fetches": {file: "a/go.mod", content: programMod + "\nrequire example.com/kit/test v0.1.0\n", want: "isn't published"},
		"a command that replaces":      {file: "a/go.mod", content: programMod + "\nreplace example.com/kit => ..\n", want: "go install refuses"},
		"a replaced stranger":          {file: "z/lib/go.mod", content: libMod + "\nreplace example.com/x => example.com/y v1.0.0\n", want: "others don't see"},
		"a replacement by another":     {file: "z/lib/go.mod", content: strings.Replace(libMod, "../..", "../../a", 1), want: "another module"},
		"an exclusion":                 {file: "z/lib/go.mod", content: libMod + "\nexclude example.com/x v1.0.0\n", want: "exclude"},
		"a toolchain":                  {file: "z/lib/go.mod", content: libMod + "\ntoolchain go1.26.1\n", want: "toolchain"},
		"another Go":                   {file: "z/lib/go.mod", content: strings.Replace(libMod, "1.26.0", "1.27.0", 1), want: "doesn't say go 1.26.0"},
		"a name that isn't its folder": {file: "z/lib/go.mod", content: strings.Replace(libMod, "kit/z/lib", "kit/lib", 1), want: "its folder says example.com/kit/z/lib"},
		"a file for no zip":            {file: "z/lib/a?.txt", want: "a?.txt"},
	} {
		t.Run(name, func(t *testing.T) {
			changed := map[string]string{}
			if test.file != "" {
				changed[test.file] = test.content
			}
			if test.version == "" {
				test.version = "v0.1.0"
			}
			var out bytes.Buffer
			err := mustLoad(t, newRepo(t, changed)).release(t.Context(), &out, test.version)
			if err == nil || !strings.Contains(err.Error(), test.want) || out.Len() > 0 {
				t.Errorf("got %v and %q, want %q", err, &out, test.want)
			}
		})
	}
}

func TestReleaseRefusesAChangedTreeAndAnExistingTag(t *testing.T) {
	root := newRepo(t, nil)
	git(t, root, "tag", "z/lib/v0.1.0")
	if err := os.WriteFile(filepath.Join(root, "new.go"), []byte("package kit\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := mustLoad(t, root).release(t.Context(), &bytes.Buffer{}, "v0.1.0")
	for _, want := range []string{"not committed:\n?? new.go", "the tag z/lib/v0.1.0 exists"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestVersionIsWhatAllRequire(t *testing.T) {
	root := newRepo(t, nil)
	if err := mustLoad(t, root).require("v0.2.0"); err != nil {
		t.Fatal(err)
	}
	r := mustLoad(t, root)
	if got, err := r.next(); err != nil || got != "v0.2.0" {
		t.Errorf("they require %s, %v", got, err)
	}
	if err := r.refuse("v0.2.0"); err != nil {
		t.Error(err)
	}
}

func TestRaisedAndNewModulesAreCounted(t *testing.T) {
	mod := func(text string) *modfile.File {
		f, err := modfile.Parse("go.mod", []byte("module x\n"+text), nil)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	raised, added := compare(
		mod("require (\na.com/a v1.9.0\na.com/b v1.0.0\na.com/c v0.0.0-20240101000000-000000000000\n)"),
		mod("require (\na.com/a v1.10.0\na.com/b v1.0.0\na.com/c v0.0.0-20260101000000-000000000000\na.com/d v1.0.0\n)"),
	)
	if strings.Join(raised, " ") != "a.com/a a.com/c" || strings.Join(added, " ") != "a.com/d" {
		t.Errorf("raised %q, new %q", raised, added)
	}
}

// A user of a library gets it and the root from the proxy, in one version, and none of
// what is never published.
func TestTheProxyServesEachModuleAlone(t *testing.T) {
	r := mustLoad(t, newRepo(t, nil))
	p, err := r.newProxy(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, content := range map[string]string{
		"go.mod":     "module example.com/user\n\ngo 1.26.0\n",
		"program.go": "package program\n\nimport _ \"example.com/kit/z/lib/sub\"\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	env := []string{
		"GOWORK=off", "GOSUMDB=off", "GOPROXY=file://" + filepath.ToSlash(p.dir), "GOPRIVATE=",
		"GOFLAGS=-mod=mod -modcacherw", "GOMODCACHE=" + t.TempDir(),
	}
	for _, args := range [][]string{{"get", "example.com/kit/z/lib@" + p.version}, {"build", "./..."}} {
		if _, err := output(t.Context(), dir, env, "go", args...); err != nil {
			t.Fatal(err)
		}
	}
	files, err := output(t.Context(), dir, env, "go", "list", "-m", "-f", "{{.Path}} {{.Version}} {{.Dir}}", "all")
	if err != nil || !strings.Contains(files, "example.com/kit "+p.version) {
		t.Errorf("got %s, %v", files, err)
	}
	if _, err := output(t.Context(), dir, env, "go", "get", "example.com/kit/test@"+p.version); err == nil {
		t.Error("test can be fetched")
	}
}
