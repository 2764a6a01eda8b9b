package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/mod/modfile"
	gomodule "golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// proxy is a module proxy in a folder, which serves the published modules of the work
// tree in one version. The version names their content: what the go command keeps in
// its cache is never the content of another work tree, nor that of the real version.
type proxy struct{ dir, version string }

// content is a file of a module as the proxy serves it.
type content struct {
	name string
	data []byte
}

func (c content) Path() string                { return c.name }
func (c content) Lstat() (os.FileInfo, error) { return c, nil }
func (c content) Open() (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader(c.data)), nil
}

// A content is its own FileInfo: a regular file.
func (c content) Name() string       { return filepath.Base(c.name) }
func (c content) Size() int64        { return int64(len(c.data)) }
func (c content) Mode() os.FileMode  { return 0o644 }
func (c content) ModTime() time.Time { return time.Time{} }
func (c content) IsDir() bool        { return false }
func (c content) Sys() any           { return nil }

// newProxy writes the proxy into dir.
func (r *repo) newProxy(dir string) (*proxy, error) {
	hash := sha256.New()
	contents := make(map[string][]content)
	for _, m := range r.published() {
		files, err := r.read(m)
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			fmt.Fprintf(hash, "%s %d\n", filepath.Join(m.dir, f.name), len(f.data))
			hash.Write(f.data)
		}
		contents[m.dir] = files
	}
	p := &proxy{dir: dir, version: fmt.Sprintf("v0.0.0-worktree.%x", hash.Sum(nil)[:6])}
	for _, m := range r.published() {
		if err := p.add(r, m, contents[m.dir]); err != nil {
			return nil, fmt.Errorf("%s: %w", m.dir, err)
		}
	}
	return p, nil
}

// read returns the files of a module, with the license that git's host would add.
func (r *repo) read(m *module) ([]content, error) {
	var all []content
	licensed := false
	for _, name := range m.files {
		data, err := os.ReadFile(filepath.Join(r.folder(m), name))
		if err != nil {
			return nil, err
		}
		licensed = licensed || name == "LICENSE"
		all = append(all, content{name, data})
	}
	if !licensed {
		data, err := os.ReadFile(filepath.Join(r.root, "LICENSE"))
		if err != nil {
			return nil, err
		}
		all = append(all, content{"LICENSE", data})
	}
	return all, nil
}

// required returns a copy of a go.mod that requires what the proxy has.
func (p *proxy) required(r *repo, m *module) (*modfile.File, error) {
	copied, err := reparse(m.mod)
	if err != nil {
		return nil, err
	}
	for _, required := range m.mod.Require {
		if r.owns(required.Mod.Path) {
			err = errors.Join(err, copied.AddRequire(required.Mod.Path, p.version))
		}
	}
	return copied, err
}

// add writes what a proxy has of one version: its list, info, go.mod and zip.
func (p *proxy) add(r *repo, m *module, files []content) error {
	copied, err := p.required(r, m)
	if err != nil {
		return err
	}
	mod, err := format(copied)
	if err != nil {
		return err
	}
	var zipped []zip.File
	for _, f := range files {
		if f.name == "go.mod" {
			f.data = mod
		}
		zipped = append(zipped, f)
	}
	version := gomodule.Version{Path: m.path(), Version: p.version}
	var archive bytes.Buffer
	if err := zip.Create(&archive, version, zipped); err != nil {
		return err
	}
	info, err := json.Marshal(map[string]string{"Version": p.version, "Time": "2000-01-01T00:00:00Z"})
	if err != nil {
		return err
	}
	escaped, err := gomodule.EscapePath(m.path())
	if err != nil {
		return err
	}
	folder := filepath.Join(p.dir, filepath.FromSlash(escaped), "@v")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(folder, "list"), []byte(p.version+"\n"), 0o600),
		os.WriteFile(filepath.Join(folder, p.version+".info"), info, 0o600),
		os.WriteFile(filepath.Join(folder, p.version+".mod"), mod, 0o600),
		os.WriteFile(filepath.Join(folder, p.version+".zip"), archive.Bytes(), 0o600),
	)
}
