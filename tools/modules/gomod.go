package main

import (
	"os"
	"slices"

	"golang.org/x/mod/modfile"
)

func read(name string) (*modfile.File, error) {
	content, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return modfile.Parse(name, content, nil)
}

func format(f *modfile.File) ([]byte, error) {
	f.Cleanup()
	return f.Format()
}

func write(name string, f *modfile.File) error {
	content, err := format(f)
	if err != nil {
		return err
	}
	return os.WriteFile(name, content, 0o600)
}

// reparse returns a copy that can be changed.
func reparse(f *modfile.File) (*modfile.File, error) {
	content, err := f.Format()
	if err != nil {
		return nil, err
	}
	return modfile.Parse(f.Syntax.Name, content, nil)
}

func replaces(f *modfile.File, path string) bool {
	return slices.ContainsFunc(f.Replace, func(r *modfile.Replace) bool { return r.Old.Path == path })
}
