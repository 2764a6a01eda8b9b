package readme_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redlatch/redlatch/test/internal/process"
	"github.com/redlatch/redlatch/test/internal/redistest"
)

func TestTheProgramOfTheReadmeRuns(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "go", "run", "./test/readme/program")
	cmd.Dir = root
	output, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(output), "order 42 is locked, fence ") || !strings.Contains(string(output), "error: <nil>") {
		t.Errorf("%v: %s", err, output)
	}
}

// runWithRedis runs the program of docs/redis.md against another address.
func runWithRedis(t *testing.T, address string) (output string, err error) {
	t.Helper()
	return runAgainst(t, "test/readme/redisprogram/main.go", "localhost:6379", address)
}

// runAgainst runs a program of the manual against another address than the one that is
// written in it.
func runAgainst(t *testing.T, program, written, address string) (output string, err error) {
	t.Helper()
	source := read(t, program)
	if strings.Count(source, written) != 1 {
		t.Fatalf("the program does not name %s once", written)
	}
	file := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(file, []byte(strings.Replace(source, written, address, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "run", file)
	cmd.Dir = root
	text, err := cmd.CombinedOutput()
	return string(text), err
}

func TestTheProgramWithRedisRuns(t *testing.T) {
	output, err := runWithRedis(t, redistest.Standalone(t).Addr())
	if err != nil || !strings.Contains(output, "working on order 42, fence ") {
		t.Errorf("%v: %s", err, output)
	}
}

func TestTheProgramWithRedisFailsWithoutIt(t *testing.T) {
	output, err := runWithRedis(t, process.LoopbackAddr(process.Port(t)))
	if err == nil || !strings.Contains(output, "unavailable") || strings.Contains(output, "working") {
		t.Errorf("%v: %s", err, output)
	}
}
