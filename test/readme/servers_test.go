package readme_test

import (
	"os/exec"
	"strings"
	"testing"
)

// docs/servers.md has a row for each server of the matrix, be it that it wasn't
// run; and each is pinned, with the hash of its package.
func TestThePageOfServersHasTheWholeMatrix(t *testing.T) {
	list := exec.CommandContext(t.Context(), "bash", "scripts/test-servers.sh", "--list")
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	page, pins := read(t, "docs/servers.md"), read(t, "scripts/requirements-servers.txt")
	rows := 0
	for line := range strings.Lines(string(out)) {
		_, rest, _ := strings.Cut(strings.TrimSpace(line), ": ")
		name, from, found := strings.Cut(rest, ", from ")
		if !found {
			t.Fatalf("--list says %q", line)
		}
		if rows++; !strings.Contains(page, "\n| "+name) {
			t.Errorf("docs/servers.md has no row of %s: run make test-servers", name)
		}
		if from != "the system" && !strings.Contains(pins, "\n"+from+" --hash=sha256:") {
			t.Errorf("%s is not pinned by a hash", from)
		}
	}
	if rows < 2 {
		t.Errorf("the matrix has %d servers", rows)
	}
}
