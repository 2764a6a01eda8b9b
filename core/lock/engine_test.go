//go:build !machine

package lock_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

var (
	onMachine = flag.Bool("machine", false, "run the tests on the engine that is behind the build tag machine")
	shrink    = flag.Bool("shrink", false, "with -machine: take tests that pass off the list")
)

// failing are the tests that fail on the engine behind the build tag. It may only shrink.
const failing = "testdata/machine-failing.txt"

// TestTheMachineFailsNoOtherTests runs the tests of this package on the engine that is made of
// package machine. A test fails that isn't on the list, or is on it and doesn't fail.
func TestTheMachineFailsNoOtherTests(t *testing.T) {
	if !*onMachine {
		t.Skip("without -machine")
	}
	known := make(map[string]bool)
	text, err := os.ReadFile(failing)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if name := strings.TrimSpace(line); name != "" && !strings.HasPrefix(name, "#") {
			known[name] = true
		}
	}
	var passed []string
	for name, ok := range outcomes(t) {
		switch {
		case !ok && !known[name]:
			t.Errorf("%s fails", name)
		case ok && known[name]:
			passed = append(passed, name)
		}
	}
	if len(passed) == 0 {
		return
	}
	if !*shrink {
		t.Errorf("%s lists tests that pass: %v (run with -shrink)", failing, passed)
		return
	}
	var left []string
	for line := range strings.Lines(string(text)) {
		if !slices.Contains(passed, strings.TrimSpace(line)) {
			left = append(left, line)
		}
	}
	if err := os.WriteFile(failing, []byte(strings.Join(left, "")), 0o644); err != nil { //nolint:gosec // it is source
		t.Fatal(err)
	}
}

// outcomes runs the tests, and returns which of them have passed.
func outcomes(t *testing.T) map[string]bool {
	t.Helper()
	cmd := exec.Command("go", "test", "-tags", "machine", "-count=1", "-json", "-timeout", "20m", ".")
	out, err := cmd.Output()
	if _, failed := err.(*exec.ExitError); err != nil && !failed { //nolint:errorlint // it is that one
		t.Fatal(err)
	}
	passed := make(map[string]bool)
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var line struct{ Action, Test string }
		if json.Unmarshal(lines.Bytes(), &line) != nil || line.Test == "" || strings.Contains(line.Test, "/") {
			continue
		}
		switch line.Action {
		case "pass":
			passed[line.Test] = true
		case "fail":
			passed[line.Test] = false
		}
	}
	if len(passed) < 300 {
		t.Fatalf("only %d tests have run: %v", len(passed), slices.Sorted(maps.Keys(passed)))
	}
	return passed
}
