package rulewatch

import (
	"fmt"
	"os"

	"github.com/redlatch/redlatch/core/rule/rulefile"
)

// version is what the file was at one look. Its size and date don't identify it: what
// copies files may keep both.
type version struct {
	text string
	err  error // why it could not be read
}

// versionOf looks at the file that path leads to. It doesn't read a pipe, which would wait for
// who writes to it.
func versionOf(path string) version {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return version{err: fmt.Errorf("reading rules: %s is no regular file", path)}
	}
	data, err := rulefile.Read(path)
	return version{string(data), err}
}

func (v version) same(other version) bool {
	return v.text == other.text && fmt.Sprint(v.err) == fmt.Sprint(other.err)
}
