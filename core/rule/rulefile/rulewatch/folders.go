package rulewatch

import (
	"path/filepath"
	"slices"

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

// follow watches the folder in which path is, and, where it is a symbolic link, the
// one in which the file itself is. Links change, and folders come and go, so it is
// called again before every look at the file. What can't be watched is left to polling.
func (f *folders) follow(path string) {
	if f.watcher == nil {
		return
	}
	wanted := []string{filepath.Dir(path)}
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
