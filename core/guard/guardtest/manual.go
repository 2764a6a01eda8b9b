package guardtest

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// Quoted compares the messages that a section of a manual quotes, one line each in
// fenced blocks without a language, with what programs really print.
func Quoted(t testing.TB, file, heading string, messages []string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n## "+heading+"\n")
	if !found {
		t.Fatalf("%s has no section %q", file, heading)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	quoted := make(map[string]bool)
	inside, ours := false, false
	for line := range strings.Lines(section) {
		line = strings.TrimSpace(line)
		switch fence, ok := strings.CutPrefix(line, "```"); {
		case ok:
			inside, ours = !inside, fence == ""
		case inside && ours && line != "":
			quoted[line] = true
		}
	}
	for _, message := range messages {
		for line := range strings.Lines(message) {
			line = strings.TrimSpace(line)
			if _, known := quoted[line]; !known {
				t.Errorf("%s does not quote\n%s", file, line)
			}
			quoted[line] = false
		}
	}
	for _, line := range slices.Sorted(maps.Keys(quoted)) {
		if quoted[line] {
			t.Errorf("%s quotes what nothing prints:\n%s", file, line)
		}
	}
}
