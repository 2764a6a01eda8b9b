package rulewatch

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fsnotify/fsnotify"
)

// folders reports changes in the folders of a file. The file itself can't be
// watched: what replaces it under its name is another file.
type folders struct {
	watcher *fsnotify.Watcher // nil: nothing is reported
	events  <-chan fsnotify.Event
	errors  <-chan error
}

// openFolders returns folders that report nothing if there is an error.
func openFolders() (*folders, error) {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return &folders{}, err
	}
	return &folders{watcher: watcher, events: watcher.Events, errors: watcher.Errors}, nil
}

// follow watches the folder in which path is, those of the symbolic links on the way
// to the file, and the one in which the file itself is. Links change, and folders come
// and go, so it is called again before every look at the file. What can't be watched is
// left to polling. Each folder is named without links: one under the name of a link would
// stay watched in the kernel when the link leads to another.
func (f *folders) follow(path string) {
	if f.watcher == nil {
		return
	}
	wanted := foldersOfLinks(path)
	if folder, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		wanted = append(wanted, folder)
	}
	if target, err := filepath.EvalSymlinks(path); err == nil {
		wanted = append(wanted, filepath.Dir(target))
	}
	for _, folder := range f.watcher.WatchList() {
		if !slices.Contains(wanted, folder) {
			_ = f.watcher.Remove(folder)
		}
	}
	for _, folder := range wanted {
		_ = f.watcher.Add(folder)
	}
}

func (f *folders) close() {
	if f.watcher != nil {
		_ = f.watcher.Close()
	}
}

// maxLinks is how many symbolic links are followed. Linux has the same limit.
const maxLinks = 40

// foldersOfLinks returns the folder of each symbolic link on the way to a file: of the
// links among the folders above it, and of a link that another one leads to.
func foldersOfLinks(path string) (folders []string) {
	separator := string(filepath.Separator)
	if !filepath.IsAbs(path) {
		here, err := filepath.Abs("")
		if err != nil {
			return nil
		}
		path = here + separator + path // not cleaned: behind a link ".." is above what it leads to
	}
	root := filepath.VolumeName(path) + separator
	folder, rest := root, path[len(root):]
	for rest != "" && len(folders) < maxLinks {
		name, below, _ := strings.Cut(rest, separator)
		next := filepath.Join(folder, name)
		target, err := os.Readlink(next)
		if err != nil || name == "" || name == "." || name == ".." { // not a link
			folder, rest = next, below
			continue
		}
		folders = append(folders, folder)
		if filepath.IsAbs(target) {
			folder, target = root, target[len(root):]
		}
		rest = target + separator + below
	}
	return folders
}
