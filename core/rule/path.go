package rule

import (
	"strings"

	"github.com/redlatch/redlatch/core/key"
)

// request is the source of paths whose first part is no source.
const request = "req."

// Paths is a template whose variables may be paths from any parameter of a method, as
// directives have them. Written canonically, the source req is in front of a path whose first
// part is no source: "<cmd.UserID>" is "<req.cmd.UserID>".
type Paths struct {
	text  string
	moved []int    // offsets in the canonical text where request was put in
	roots []string // the first parts of those paths
}

// ReadPaths reads a template. What is no template stays as wrong as it was.
func ReadPaths(text string) Paths {
	var c Paths
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

// Canonical is the template as [key.Parse] reads it.
func (c Paths) Canonical() string { return c.text }

// Original turns a column of the canonical template into one of the template as it was read.
func (c Paths) Original(column int) int {
	before := column
	for _, at := range c.moved {
		if column > at {
			before -= min(len(request), column-1-at)
		}
	}
	return before
}

// Plain writes the paths in a message as they were read.
func (c Paths) Plain(reason string) string {
	for _, root := range c.roots {
		reason = strings.ReplaceAll(reason, "<"+request+root+".", "<"+root+".")
	}
	return reason
}
