package interop_test

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

// operators is what holds for the command, which operators use, and for locks of Java of
// any kind.
var operators = []promise{{"redlatch lists, shows and releases what Java holds", commandSeesJava, ""}}

// buildCommand builds cmd/redlatch.
func buildCommand(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "redlatch")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", path, "github.com/redlatch/redlatch/cmd/redlatch").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

// redlatch runs the command on the site, and returns what it prints.
func (w world) redlatch(args ...string) string {
	w.Helper()
	switch w.args[0] {
	case "sentinel":
		for _, addr := range w.addrs {
			args = append(args, "--sentinel", addr)
		}
		args = append(args, "--master", w.master)
	case "cluster":
		args = append(args, "--cluster", "--redis", "redis://"+w.addrs[0])
	default:
		args = append(args, "--redis", "redis://"+w.addrs[0])
	}
	out, err := exec.CommandContext(w.Context(), w.command, args...).Output()
	if err != nil {
		w.Fatalf("redlatch %q: %v\n%s", args, err, out)
	}
	return string(out)
}

func commandSeesJava(w world) {
	key, java := w.key(), w.thread("holder")
	keys, owner := []string{key}, java.do("owner")
	switch w.mode {
	case lock.Semaphore:
		java.want("true", "permit.set", key, 3)
		owner = java.do("permit.acquire", key, 0, long.Milliseconds())
	case lock.Exclusive:
		keys = []string{key + ":1", key + ":2"}
		java.do("lock", "multi", strings.Join(keys, "|"), long.Milliseconds())
	case lock.Fair:
		java.do("lock", w.kind, key, long.Milliseconds())
		waiter := w.thread("waiter")
		waiting := waiter.start("lock", w.kind, key, long.Milliseconds())
		defer func() { waiting.result(); waiter.do("unlock", w.kind, key) }()
		waiter.awaitParked()
	default:
		java.do("lock", w.kind, key, long.Milliseconds())
	}
	listed := make(map[string]bool)
	for line := range strings.Lines(w.redlatch("ls", key+"*", "--json")) {
		var row struct {
			Key, Mode, Owner, Format string
			Holds, Waiting           int
			LeftMS                   int64
		}
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			w.Fatalf("%v in %q", err, line)
		}
		listed[row.Key] = true
		left := time.Duration(row.LeftMS) * time.Millisecond
		if row.Mode != w.mode.String() || row.Owner != owner || row.Format != "Redisson" || row.Holds != 1 || left <= 0 || left > long {
			w.Errorf("listed %s, want owner %s of Redisson in mode %s", line, owner, w.mode)
		}
		if w.mode == lock.Fair && row.Waiting != 1 {
			w.Errorf("listed %s, want one that waits", line)
		}
	}
	if len(listed) != len(keys) {
		w.Errorf("listed %v, want %q", listed, keys)
	}
	for _, key := range keys {
		shown := w.redlatch("show", key)
		if !strings.Contains(shown, owner) || !strings.Contains(shown, "in the format of Redisson") {
			w.Errorf("shown, without %s of Redisson:\n%s", owner, shown)
		}
		w.redlatch("release", key, "--yes", "--reason", "a test")
	}
	if w.mode == lock.Semaphore {
		java.want("3", "permit.available", key)
	} else if w.mode != lock.Exclusive { // a multi lock can't say it
		java.want("false", "held", w.kind, key)
	}
}
