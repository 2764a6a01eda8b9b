package process_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redlatch/redlatch/test/internal/process"
)

// verdict is a test that records how it was ended.
type verdict struct {
	testing.TB
	skipped, failed string
}

func (v *verdict) Helper() {}

func (v *verdict) Skipf(format string, args ...any) {
	v.skipped = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func (v *verdict) Fatalf(format string, args ...any) {
	v.failed = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func find(t *testing.T, names ...string) (path string, v *verdict) {
	t.Helper()
	v = &verdict{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		path = process.Find(v, names...)
	}()
	<-done
	return path, v
}

func TestMissingServerSkipsLoudly(t *testing.T) {
	t.Setenv(process.RequireEnv, "")
	_, v := find(t, "no-such-server")
	if v.failed != "" || !strings.Contains(v.skipped, "no-such-server") || !strings.Contains(v.skipped, "NOT TESTED") {
		t.Errorf("skipped with %q, failed with %q", v.skipped, v.failed)
	}
}

func TestMissingServerFailsWhenRequired(t *testing.T) {
	t.Setenv(process.RequireEnv, "1")
	_, v := find(t, "no-such-server")
	if v.skipped != "" || !strings.Contains(v.failed, "no-such-server") {
		t.Errorf("skipped with %q, failed with %q", v.skipped, v.failed)
	}
}

func TestFindTakesTheFirstThatExists(t *testing.T) {
	path, v := find(t, "no-such-server", "sh", "ls")
	if filepath.Base(path) != "sh" || v.skipped != "" || v.failed != "" {
		t.Errorf("found %q, %+v, want sh", path, v)
	}
}

func shell(t *testing.T, script string) process.Spec {
	t.Helper()
	return process.Spec{
		Path: process.Find(t, "sh"), Args: []string{"-c", script},
		Dir: t.TempDir(), Log: filepath.Join(t.TempDir(), "log"),
	}
}

func TestAwaitEndsWhenTheProcessDoes(t *testing.T) {
	p, err := process.Start(shell(t, "echo reason; exit 3"))
	if err != nil {
		t.Fatal(err)
	}
	err = p.Await(time.Hour, p.Contains("never"))
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 3 || !strings.Contains(err.Error(), "reason") {
		t.Errorf("got %v, want exit status 3 and the log", err)
	}
	if p.Alive() {
		t.Error("Alive says yes")
	}
}

func TestAwaitGivesUp(t *testing.T) {
	p, err := process.Start(shell(t, "exec sleep 3600"))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Kill()
	if err := p.Await(50*time.Millisecond, p.Contains("never")); err == nil {
		t.Error("Await returned nil")
	}
}

func TestLogIsOfThisStartOnly(t *testing.T) {
	spec := shell(t, "echo first")
	if err := process.Run(spec); err != nil {
		t.Fatal(err)
	}
	spec.Args = []string{"-c", "echo second; exec sleep 3600"}
	p, err := process.Start(spec)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Kill()
	if err := p.Await(time.Minute, p.Contains("second")); err != nil {
		t.Fatal(err)
	}
	if p.Contains("first")() == nil {
		t.Error("the log contains the earlier start")
	}
}

func TestKillEndsAStoppedProcess(t *testing.T) {
	p, err := process.Start(shell(t, "exec sleep 3600"))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		t.Error(err)
	}
	p.Kill()
	p.Kill() // does nothing
	if err := p.Signal(syscall.SIGCONT); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("signal after Kill: %v, want ErrProcessDone", err)
	}
}

func TestShutdownKillsWhatDoesNotListen(t *testing.T) {
	p, err := process.Start(shell(t, "trap '' TERM; echo up; while :; do sleep 1; done"))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Await(time.Minute, p.Contains("up")); err != nil {
		t.Error(err)
	}
	p.Shutdown(syscall.SIGTERM, 50*time.Millisecond)
	if p.Alive() {
		t.Error("still alive")
	}
}

// TestServerDiesWithTheTestBinary kills a copy of this binary that has started a
// server, so that no cleanup of it can run.
func TestServerDiesWithTheTestBinary(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux can bind the life of a child to its parent's")
	}
	if os.Getenv("REDLATCH_CHILD") == "1" {
		p, err := process.Start(shell(t, "exec sleep 3600"))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println("pid", p.Pid())
		select {} // until killed
	}

	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.timeout=2m")
	child.Env = append(os.Environ(), "REDLATCH_CHILD=1", "GORACE=atexit_sleep_ms=0")
	output, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	if line, err := bufio.NewReader(output).ReadString('\n'); err != nil {
		t.Fatal(err)
	} else if _, err := fmt.Sscanf(line, "pid %d", &pid); err != nil {
		t.Fatalf("the child said %q: %v", line, err)
	}
	if err := syscall.Kill(pid, 0); err != nil {
		t.Fatalf("the server does not run: %v", err)
	}

	_ = child.Process.Kill()
	_ = child.Wait() // reports the kill
	err = process.Poll(time.Minute, func() error {
		if state(pid) != "" {
			return fmt.Errorf("the server is alive: %s", state(pid))
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// state is the kernel's word on a process that is neither gone nor a zombie that
// nobody reaps, as happens in containers without an init.
func state(pid int) string {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(status)) {
		if strings.HasPrefix(line, "State:") && !strings.Contains(line, "zombie") {
			return strings.TrimSpace(line)
		}
	}
	return ""
}
