package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// tidied are the two files of a module as go mod tidy would write them.
type tidied struct{ mod, sum []byte }

// tidyOne tidies a copy of the two files, in which every module of this repository that
// users fetch is replaced by its folder. What the file itself replaces stays as it is.
func (r *repo) tidyOne(ctx context.Context, m *module) (tidied, error) {
	temp, err := os.MkdirTemp("", "tidy")
	if err != nil {
		return tidied{}, err
	}
	defer func() { _ = os.RemoveAll(temp) }()
	mod, sum := filepath.Join(temp, "go.mod"), filepath.Join(temp, "go.sum")

	copied, err := reparse(m.mod)
	if err != nil {
		return tidied{}, err
	}
	var added []string
	for _, own := range r.published() {
		if own != m && !replaces(m.mod, own.path()) {
			added = append(added, own.path())
			if err := copied.AddReplace(own.path(), "", r.folder(own), ""); err != nil {
				return tidied{}, err
			}
		}
	}
	if err := write(mod, copied); err != nil {
		return tidied{}, err
	}
	old, err := os.ReadFile(filepath.Join(r.folder(m), "go.sum"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return tidied{}, err
	}
	if err := os.WriteFile(sum, old, 0o600); err != nil {
		return tidied{}, err
	}
	if _, err := output(ctx, r.folder(m), []string{"GOWORK=off"}, "go", "mod", "tidy", "-modfile="+mod); err != nil {
		return tidied{}, err
	}

	if copied, err = read(mod); err != nil {
		return tidied{}, err
	}
	for _, path := range added {
		if err := copied.DropReplace(path, ""); err != nil {
			return tidied{}, err
		}
	}
	var t tidied
	if t.mod, err = format(copied); err != nil {
		return tidied{}, err
	}
	t.sum, err = os.ReadFile(sum)
	return t, err
}

// tidy tidies every module in place.
func (r *repo) tidy(ctx context.Context) error {
	return r.eachTidied(ctx, func(name string, content []byte) error { return os.WriteFile(name, content, 0o644) })
}

// checkTidy fails if tidy would change a file.
func (r *repo) checkTidy(ctx context.Context, out io.Writer) error {
	faults := 0
	err := r.eachTidied(ctx, func(name string, content []byte) error {
		old, err := os.ReadFile(name)
		if err != nil && !errors.Is(err, os.ErrNotExist) || bytes.Equal(old, content) {
			return err
		}
		faults++
		fmt.Fprintf(out, "%s is not tidy; run make tidy\n", name)
		return nil
	})
	if err == nil && faults > 0 {
		err = fmt.Errorf("%d files are not tidy", faults)
	}
	return err
}

func (r *repo) eachTidied(ctx context.Context, visit func(name string, content []byte) error) error {
	for _, m := range r.modules {
		t, err := r.tidyOne(ctx, m)
		if err != nil {
			return fmt.Errorf("%s: %w", m.dir, err)
		}
		if err := visit(filepath.Join(r.folder(m), "go.mod"), t.mod); err != nil {
			return err
		}
		if len(t.sum) == 0 {
			continue
		}
		if err := visit(filepath.Join(r.folder(m), "go.sum"), t.sum); err != nil {
			return err
		}
	}
	return nil
}
