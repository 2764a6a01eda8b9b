package machine

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestTraces replays what the explorer has found before. A trace is replayed for as long as
// its moves are possible: the cure makes the last ones impossible, or harmless.
func TestTraces(t *testing.T) {
	files, err := filepath.Glob("testdata/*.trace")
	if err != nil || len(files) == 0 {
		t.Fatalf("no traces: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			sc, steps := parseTrace(t, string(text))
			n, w := sc.replay(steps)
			if w.bad != "" {
				t.Fatalf("found again after %d moves: %s%s", n, w.bad, w)
			}
			if !sc.clean(w) {
				t.Errorf("no clean end can be reached after %d moves%s", n, w)
			}
			if n < len(steps)*2/3 {
				t.Errorf("only %d of %d moves are possible: find the trace anew; next is %q%s", n, len(steps), steps[n], w)
			}
		})
	}
}

// parseTrace reads the scope and the moves of a trace.
func parseTrace(t *testing.T, text string) (sc *scope, steps []string) {
	t.Helper()
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "# scope: "); ok {
			for _, s := range scopes() {
				if s.name == name {
					sc = s
				}
			}
		}
		if strings.HasPrefix(line, "t") {
			_, move, _ := strings.Cut(line, " ")
			steps = append(steps, move)
		}
	}
	if sc == nil || len(steps) == 0 {
		t.Fatalf("no trace of a scope: %s", text)
	}
	return sc, steps
}
