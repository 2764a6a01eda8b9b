package readme_test

import (
	"slices"
	"strings"
	"testing"
)

// recognizable is how much of a line says which entry it is.
const recognizable = 60

// An entry that several branches have rewritten stands there once for each, unless
// somebody looks.
func TestNoEntryStandsTwice(t *testing.T) {
	for _, document := range []string{"CHANGELOG.md"} {
		lines := strings.Split(read(t, document), "\n")
		if len(lines) < 100 {
			t.Errorf("%s: only %d lines: the reader does not work", document, len(lines))
		}
		for _, entry := range twice(lines) {
			t.Errorf("%s: two entries begin with %q", document, entry)
		}
	}
}

func TestAnEntryThatStandsTwiceIsFound(t *testing.T) {
	entry := "- `core/lock`: a waiter that left the queue is not woken again, "
	for name, lines := range map[string][]string{
		"the same":       {entry + "and calls nobody.", "- another", entry + "and calls nobody."},
		"another ending": {entry + "and calls nobody.", entry + "whatever comes."},
	} {
		if got := twice(lines); !slices.Equal(got, []string{entry[:recognizable]}) {
			t.Errorf("%s: found %q", name, got)
		}
	}
	if got := twice([]string{entry, "", "", "| title |", "| title |"}); len(got) > 0 {
		t.Errorf("found %q", got)
	}
}

// twice returns the beginnings that several entries have. Shorter lines, such as the
// heads of tables, are no entries.
func twice(lines []string) (found []string) {
	seen := make(map[string]int)
	for _, line := range lines {
		if len(line) < recognizable {
			continue
		}
		begin := line[:recognizable]
		if seen[begin]++; seen[begin] == 2 {
			found = append(found, begin)
		}
	}
	return found
}
