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
	named map[string]string // name by whole text
}

// ReadCatalog reads the files of a folder.
func ReadCatalog(folder string) (*Catalog, error) {
	paths, err := filepath.Glob(filepath.Join(folder, "*.lua"))
	if err != nil {
		return nil, err
	}
	c := &Catalog{files: make(map[string]string), named: make(map[string]string)}
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

// Name returns the name of a script, "?" if it is none of redisstore's.
func (c *Catalog) Name(text string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if name, ok := c.named[text]; ok {
		return name
	}
	found := "?"
	for name, file := range c.files {
		if strings.HasSuffix(text, file) && (found == "?" || len(file) > len(c.files[found])) {
			found = name
		}
	}
	c.named[text] = found
	return found
}

// Names returns the names of all files, sorted.
func (c *Catalog) Names() []string {
	var names []string
	for name := range c.files {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
