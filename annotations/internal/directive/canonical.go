package directive

import (
	"strings"

	"github.com/redlatch/redlatch/core/key"
)

// request is the source of paths whose first part is no source.
const request = "req."

// rewritten is a template in its canonical form.
type rewritten struct {
	text  string
	moved []int    // offsets in the canonical text where request was put in
	roots []string // the first parts of those paths
}

// canonical puts the source in front of each path that lacks one. Text that
// is no template stays as wrong as it was.
func canonical(text string) rewritten {
	var c rewritten
	for {
		open := strings.IndexByte(text, '<')
		if open < 0 {
			c.text += text
			return c
		}
		c.text += text[:open+1]
		text = text[open+1:]
		end := strings.IndexAny(text, ".|<>")
		if end < 0 || text[end] != '.' || !isName(text[:end]) || isSource(text[:end]) {
			continue
		}
		c.moved = append(c.moved, len(c.text))
		c.roots = append(c.roots, text[:end])
		c.text += request
	}
}

// isName reports whether text may be a name in a template.
func isName(text string) bool {
	t, err := key.Parse("x:<" + text + ">")
	return err == nil && t.Vars()[0].Name == text
}

// isSource reports whether text may stand in front of a dot in a template.
func isSource(text string) bool {
	_, err := key.Parse("x:<" + text + ".x>")
	return err == nil
}

// original turns a column of the canonical text into one of the string before.
func (c rewritten) original(column int) int {
	before := column
	for _, at := range c.moved {
		if column > at {
			before -= min(len(request), column-1-at)
		}
	}
	return before
}

// plain writes paths as they were before, for people.
func (c rewritten) plain(reason string) string {
	for _, root := range c.roots {
		reason = strings.ReplaceAll(reason, "<"+request+root+".", "<"+root+".")
	}
	return reason
}
