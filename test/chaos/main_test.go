package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redlatch/redlatch/test/internal/leak"
	"github.com/redlatch/redlatch/test/internal/process"
)

// TestMain lets this binary be a worker, as the program itself is one.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "worker" {
		main()
	}
	leak.Main(m)
}

func chaos(t *testing.T, args ...string) (code int, out string) {
	t.Helper()
	var buffer bytes.Buffer
	code = run(t.Context(), args, &buffer, &buffer)
	return code, buffer.String()
}

func needRedis(t *testing.T) {
	t.Helper()
	process.Find(t, "redis-server", "valkey-server")
}

func TestAShortRunIsSoundAndCanBeReplayed(t *testing.T) {
	needRedis(t)
	dir := t.TempDir()
	code, out := chaos(t, "--duration=3s", "--seed=4", "--processes=4", "--clients=4", "--report="+dir)
	if code != 0 {
		t.Fatalf("exit code %d:\n%s", code, out)
	}
	for _, name := range []string{"summary.json", "plan.json", "history.jsonl", "faults.jsonl", "flags.json", "end.json"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s is missing or empty: %v", name, err)
		}
	}
	if pictures, _ := filepath.Glob(filepath.Join(dir, "pictures", "*.html")); len(pictures) == 0 {
		t.Error("no picture")
	}
	code, again := chaos(t, "replay", dir)
	if code != 0 || !strings.Contains(again, "histories Ok") {
		t.Errorf("exit code %d:\n%s", code, again)
	}

	// A history with an update that got lost is found out.
	forge(t, dir, `{"k":"write","w":0,"key":"exclusive:0:g0","m":"exclusive","o":"x","b":1,"f":9007199254740991,"v":0}`)
	if code, out := chaos(t, "replay", dir); code != 1 || !strings.Contains(out, "VIOLATION lost update") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
}

func forge(t *testing.T, dir, line string) {
	t.Helper()
	file, err := os.OpenFile(filepath.Join(dir, "history.jsonl"), os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteString(line + "\n"); err != nil {
		t.Fatal(err)
	}
}

func TestAPlantedBugEndsWithAnError(t *testing.T) {
	needRedis(t)
	code, out := chaos(t, "--duration=10s", "--rate=4", "--processes=4", "--clients=4", "--mix=pause", "--mode=exclusive", "--bug=no-owner", "--report="+t.TempDir())
	if code != 1 || !strings.Contains(out, "VIOLATION overlap") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
}

func TestAnInterruptedRunLeavesNothingRunning(t *testing.T) {
	needRedis(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out bytes.Buffer
	if code := run(ctx, []string{"--duration=1h", "--report=" + t.TempDir()}, &out, &out); code == 0 {
		t.Errorf("exit code 0:\n%s", out.String())
	}
}

func TestWrongFlagsAreRefused(t *testing.T) {
	for _, args := range [][]string{
		{"--topology=ring"}, {"--mix=none,all"}, {"--mode=mutex"}, {"replay", "/no/such/folder"}, {"nonsense"},
	} {
		if code, out := chaos(t, args...); code != exitUsage || out == "" {
			t.Errorf("%q: exit code %d, %q", args, code, out)
		}
	}
	if code, out := chaos(t, "--help"); code != 0 || !strings.Contains(out, "replay") {
		t.Errorf("help: exit code %d, %q", code, out)
	}
	if code, _ := chaos(t, "--topology=quorum", "--mode=fair", "--duration=1s"); code != exitFailed {
		t.Errorf("fair locks of a quorum: exit code %d", code)
	}
	if code, _ := chaos(t, "--setnx", "--mode=fair", "--duration=1s"); code != exitFailed {
		t.Errorf("fair locks in the format of SETNX: exit code %d", code)
	}
}
