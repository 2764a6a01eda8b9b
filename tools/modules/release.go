package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	gomodule "golang.org/x/mod/module"
	"golang.org/x/mod/semver"
	"golang.org/x/mod/zip"
)

// release prints the tags of a version, in the order in which they have to be pushed: a
// module comes after those that it requires. What can't be tagged is an error.
func (r *repo) release(ctx context.Context, out io.Writer, version string) error {
	faults := r.refuse(version)
	changed, err := output(ctx, r.root, nil, "git", "status", "--porcelain")
	if err != nil {
		return err
	}
	if changed != "" {
		faults = errors.Join(faults, fmt.Errorf("there are changes that are not committed:\n%s", changed))
	}
	list, err := output(ctx, r.root, nil, "git", "tag", "--list")
	if err != nil {
		return err
	}
	existing := strings.Fields(list)
	modules := r.order()
	for _, m := range modules {
		if slices.Contains(existing, m.tag(version)) {
			faults = errors.Join(faults, fmt.Errorf("the tag %s exists; a version that was published stays as it is", m.tag(version)))
		}
	}
	if faults != nil {
		return fmt.Errorf("%s can't be tagged:\n%w", version, faults)
	}
	for _, m := range modules {
		fmt.Fprintf(out, "git tag %s && git push origin %[1]s\n", m.tag(version))
	}
	return nil
}

// require lets all modules require each other in a version.
func (r *repo) require(version string) error {
	if err := check(version); err != nil {
		return err
	}
	for _, m := range r.modules {
		for _, required := range m.mod.Require {
			if r.owns(required.Mod.Path) {
				if err := m.mod.AddRequire(required.Mod.Path, version); err != nil {
					return err
				}
			}
		}
		content, err := format(m.mod)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(r.folder(m), "go.mod"), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// check refuses what is no version that these modules can have.
func check(version string) error {
	if semver.Canonical(version) != version || semver.Build(version) != "" {
		return fmt.Errorf("%q is no version, such as v0.1.0", version)
	}
	if semver.Compare(semver.Major(version), "v2") >= 0 {
		return fmt.Errorf("%s: module paths have no /%s", version, semver.Major(version))
	}
	return nil
}

// order returns the published modules, each after those that it requires.
func (r *repo) order() []*module {
	var ordered []*module
	var visit func(m *module)
	visit = func(m *module) {
		if slices.Contains(ordered, m) {
			return
		}
		for _, required := range r.published() {
			if required != m && requires(m.mod, required.path()) {
				visit(required)
			}
		}
		ordered = append(ordered, m)
	}
	for _, m := range r.published() {
		visit(m)
	}
	return ordered
}

func requires(f *modfile.File, path string) bool {
	return slices.ContainsFunc(f.Require, func(r *modfile.Require) bool { return r.Mod.Path == path })
}

// refuse lists what would make a version unusable for its users.
func (r *repo) refuse(version string) error {
	if err := check(version); err != nil {
		return err
	}
	var faults []error
	for _, m := range r.published() {
		for _, fault := range r.faults(m, version) {
			faults = append(faults, fmt.Errorf("%s: %s", path.Join(m.dir, "go.mod"), fault))
		}
		if err := r.zippable(m, version); err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", m.dir, err))
		}
	}
	return errors.Join(faults...)
}

// faults lists what is wrong with one go.mod.
func (r *repo) faults(m *module, version string) (all []string) {
	add := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	if want := path.Join(r.modules[0].path(), m.dir); m.path() != want {
		add("the module is called %s, its folder says %s", m.path(), want)
	}
	if m.mod.Toolchain != nil {
		add("it has a toolchain line, which would choose the Go of others")
	}
	if got, want := m.mod.Go, r.modules[0].mod.Go; got == nil || got.Version != want.Version {
		add("it doesn't say go %s, as the root does", want.Version)
	}
	if len(m.mod.Exclude) > 0 {
		add("it has exclude lines, which others don't see")
	}
	for _, required := range m.mod.Require {
		if !r.owns(required.Mod.Path) {
			continue
		}
		if !slices.ContainsFunc(r.published(), func(other *module) bool { return other.path() == required.Mod.Path }) {
			add("it requires %s, which isn't published", required.Mod.Path)
		}
		if required.Mod.Version != version {
			add("it requires %s %s, want %s", required.Mod.Path, required.Mod.Version, version)
		}
	}
	for _, replaced := range m.mod.Replace {
		switch {
		case len(m.commands) > 0:
			add("it replaces %s: go install refuses a command whose go.mod does so", replaced.Old.Path)
		case !r.owns(replaced.Old.Path):
			add("it replaces %s, which others don't see", replaced.Old.Path)
		case path.Join(r.modules[0].path(), m.dir, filepath.ToSlash(replaced.New.Path)) != replaced.Old.Path:
			add("it replaces %s by %s, which is another module", replaced.Old.Path, replaced.New.Path)
		}
	}
	return all
}

// zippable says what the go command would refuse to put into the zip of a module.
func (r *repo) zippable(m *module, version string) error {
	files, err := r.read(m)
	if err != nil {
		return err
	}
	var zipped []zip.File
	for _, f := range files {
		zipped = append(zipped, f)
	}
	if err := gomodule.Check(m.path(), version); err != nil {
		return err
	}
	checked, err := zip.CheckFiles(zipped)
	if err != nil {
		return err
	}
	return checked.Err()
}
