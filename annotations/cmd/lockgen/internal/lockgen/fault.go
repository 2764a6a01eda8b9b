package lockgen

import (
	"cmp"
	"fmt"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
)

// fault is one thing that is wrong with the source, and where.
type fault struct {
	at     token.Position
	reason string
}

// text writes the fault in one line, its file as seen from dir.
func (f fault) text(dir string) string {
	if f.at.Filename == "" {
		return f.reason
	}
	at := f.at
	at.Filename = relative(dir, at.Filename)
	return fmt.Sprintf("%s: %s", at, f.reason)
}

// relative names a file for people: from dir if it is below.
func relative(dir, file string) string {
	if short, err := filepath.Rel(dir, file); err == nil && !strings.HasPrefix(short, "..") {
		return short
	}
	return file
}

// sorted orders faults by their places, each once: a fault in an
// interface is also found through the interfaces that embed it.
func sorted(faults []fault) []fault {
	slices.SortStableFunc(faults, func(a, b fault) int {
		return cmp.Or(
			cmp.Compare(a.at.Filename, b.at.Filename),
			cmp.Compare(a.at.Line, b.at.Line),
			cmp.Compare(a.at.Column, b.at.Column),
			cmp.Compare(a.reason, b.reason),
		)
	})
	return slices.Compact(faults)
}
