package leak_test

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch/test/internal/leak"
)

// leftEnv makes this test binary one that leaves a goroutine, for as long as it says.
const leftEnv = "REDLATCH_TEST_LEFT"

func TestMain(m *testing.M) { leak.Main(m) }

func TestLeaves(t *testing.T) {
	left, err := time.ParseDuration(os.Getenv(leftEnv))
	if err != nil {
		t.Skip("only runs as a child of TestWhatStaysIsALeak")
	}
	go time.Sleep(left)
}

// What ends within seconds is no leak, however long goleak itself waits.
func TestWhatStaysIsALeak(t *testing.T) {
	for _, left := range []string{"1.5s", "1h"} {
		t.Run(left, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestLeaves$")
			cmd.Env = append(os.Environ(), leftEnv+"="+left)
			says, err := cmd.CombinedOutput()
			stays := left == "1h"
			if failed, _ := errors.AsType[*exec.ExitError](err); (failed != nil) != stays || strings.Contains(string(says), "time.Sleep") != stays {
				t.Errorf("%v:\n%s", err, says)
			}
		})
	}
}
