package world

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// Catalog knows the scripts of redisstore by their files. A script is one or
// several files, one after the other; the last one is its name.
type Catalog struct {
	files map[string]string // text by name

	mu    sync.Mutex
	named map[string]Name // by whole text
}

// Name is that of a script. Without says what a variant of it leaves out, as some
// servers refuse it: "publish", "time" or nothing.
type Name struct{ File, Without string }

// ReadCatalog reads the files of a folder.
func ReadCatalog(folder string) (*Catalog, error) {
	paths, err := filepath.Glob(filepath.Join(folder, "*.lua"))
	if err != nil {
		return nil, err
	}
	c := &Catalog{files: make(map[string]string), named: make(map[string]Name)}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		c.files[strings.TrimSuffix(filepath.Base(path), ".lua")] = string(text)
	}
	if len(c.files) == 0 {
		return nil, fmt.Errorf("no scripts in %s", folder)
	}
	return c, nil
}

// fenceOfClock is how scripts end whose fence is the server's clock, and fenceLater
// how the variants of these end.
const (
	fenceOfClock = "local now = redis.call('time')\nreturn now[1] * 1000000 + now[2]\n"
	fenceLater   = "return 1\n"
	noPublish    = "local function publish() end\n"
)

// Name returns the name of a script, "?" if it is none of redisstore's.
func (c *Catalog) Name(text string) Name {
	c.mu.Lock()
	defer c.mu.Unlock()
	if name, ok := c.named[text]; ok {
		return name
	}
	found, length := Name{File: "?"}, 0
	for name, file := range c.files {
		if strings.HasSuffix(text, file) && len(file) > length {
			found, length = Name{File: name}, len(file)
		}
		timeless, timed := strings.CutSuffix(file, fenceOfClock)
		if timed && strings.HasSuffix(text, timeless+fenceLater) && len(timeless) > length {
			found, length = Name{name, "time"}, len(timeless)
		}
	}
	if strings.HasPrefix(text, noPublish) {
		found.Without = "publish"
	}
	c.named[text] = found
	return found
}

// Operations returns the names of the scripts, sorted. Files that begin several scripts
// are none: their headers have no Returns, which a test of redisstore sees to.
func (c *Catalog) Operations() []string {
	var names []string
	for name, file := range c.files {
		if strings.Contains(file, "\n-- Returns ") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
