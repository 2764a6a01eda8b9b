package readme_test

import (
	"strings"
	"testing"
)

// mistake is what a user may write, and what comes of it.
type mistake struct {
	title, code string
	err         error
}

// quoted compares a section of docs/errors.md with the errors that the mistakes
// really make. On a difference it prints what the section must say.
func quoted(t *testing.T, section string, mistakes []mistake) {
	t.Helper()
	var want strings.Builder
	for _, m := range mistakes {
		if m.err == nil {
			t.Errorf("%s: there is no error", m.title)
			continue
		}
		want.WriteString("\n### " + m.title + "\n\n```text\n" + m.code + "\n```\n\n```text\n" + m.err.Error() + "\n```\n")
	}
	_, rest, ok := strings.Cut(read(t, "docs/errors.md"), "\n## "+section+"\n")
	got, _, _ := strings.Cut(rest, "\n## ")
	_, got, _ = strings.Cut(got, "\n### ")
	if got = "\n### " + strings.TrimRight(got, "\n") + "\n"; !ok || got != want.String() {
		t.Errorf("section %s of docs/errors.md must say:\n%s", section, want.String())
	}
}
