// Package process starts the real servers that tests need: it finds the
// binary, picks a free loopback port, runs the server in its own folder
// and makes sure that nothing outlives the test, not even after a crash of the
// test binary.
package process

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// RequireEnv names the variable that turns a missing server from a skip into a
// failure. `make test` and CI set it to 1.
const RequireEnv = "REDLATCH_REQUIRE_SERVERS"

// Find returns the path of the first binary in names that exists in PATH or in
// one of the folders where systems hide their servers. Without any, the test is
// skipped, or failed if [RequireEnv] is 1. Every test that needs a server asks
// here, so this is the only place where that decision is taken.
func Find(t Host, names ...string) string {
	t.Helper()
	for _, name := range names {
		if path := Look(name); path != "" {
			return path
		}
	}
	message := fmt.Sprintf("none of %q is installed: run scripts/install-servers.sh (make test does)", names)
	if os.Getenv(RequireEnv) == "1" {
		t.Fatalf("%s, and %s=1 forbids to skip", message, RequireEnv)
	}
	t.Skipf("\n\n*** SKIPPED, NOT TESTED: %s ***\n\n", message)
	return ""
}

// Look returns the path of one binary, or "" if it is nowhere.
func Look(name string) string {
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	for _, pattern := range []string{
		"/usr/sbin", "/usr/local/sbin", "/usr/libexec", "/usr/lib/postgresql/*/bin",
		"/usr/pgsql-*/bin", "/opt/homebrew/opt/*/bin", "/usr/local/opt/*/bin",
	} {
		paths, _ := filepath.Glob(filepath.Join(pattern, name)) // fails only on a malformed pattern
		if len(paths) > 0 {
			return paths[len(paths)-1] // the newest version sorts last
		}
	}
	return ""
}

// Spec says how to run a server.
type Spec struct {
	Path       string              // the binary
	Args       []string            // without the binary itself
	Stdin      io.Reader           // nil means empty
	Dir        string              // working directory
	Log        string              // stdout and stderr are appended to this file
	Credential *syscall.Credential // nil means the user of the test
}

// Process is a running server.
type Process struct {
	cmd    *exec.Cmd
	log    string
	offset int64
	done   chan struct{}
	err    error // valid once done is closed
}

// Start runs the server. It returns as soon as the process exists: use
// [Process.Await] to wait until it serves.
//
// The kernel kills the server when the thread that started it ends (Pdeathsig
// is bound to the thread, not to the process), so one locked thread both starts
// the server and waits for it.
func Start(spec Spec) (*Process, error) {
	log, err := os.OpenFile(spec.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("process: open log: %w", err)
	}
	defer log.Close() //nolint:errcheck // the child holds its own copy of the descriptor

	info, err := log.Stat()
	if err != nil {
		return nil, fmt.Errorf("process: stat log: %w", err)
	}
	cmd := exec.Command(spec.Path, spec.Args...)
	cmd.Dir = spec.Dir
	cmd.Env = append(os.Environ(), "LC_ALL=C") // logs are read for readiness, so they must not be translated
	cmd.Stdin, cmd.Stdout, cmd.Stderr = spec.Stdin, log, log
	cmd.SysProcAttr = attributes(spec.Credential)

	p := &Process{cmd: cmd, log: spec.Log, offset: info.Size(), done: make(chan struct{})}
	started := make(chan error)
	go p.run(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("process: start %s: %w", spec.Path, err)
	}
	return p, nil
}

// Run runs a program to its end, for instance one that prepares a folder for a
// server. The error contains what it wrote.
func Run(spec Spec) error {
	p, err := Start(spec)
	if err != nil {
		return err
	}
	<-p.done
	if p.err != nil {
		return fmt.Errorf("process: %s: %w\n%s", spec.Path, p.err, p.Log())
	}
	return nil
}

func (p *Process) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(p.done)
	err := p.cmd.Start()
	started <- err
	if err == nil {
		p.err = p.cmd.Wait()
	}
}

// Await polls ready until it returns nil. It gives up when the process ends or
// after the timeout, and returns the last reason.
func (p *Process) Await(timeout time.Duration, ready func() error) error {
	err := Poll(timeout, func() error {
		select {
		case <-p.done:
			return stop{fmt.Errorf("process: ended before it was ready: %w", p.exit())}
		default:
			return ready()
		}
	})
	if err != nil {
		return fmt.Errorf("%w\n%s", err, p.Log())
	}
	return nil
}

func (p *Process) exit() error {
	if p.err == nil {
		return errors.New("exit status 0")
	}
	return p.err
}

// Alive reports whether the process still exists.
func (p *Process) Alive() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Pid is the process id.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Signal sends a signal. It fails with [os.ErrProcessDone] if the process has
// ended.
func (p *Process) Signal(signal os.Signal) error { return p.cmd.Process.Signal(signal) }

// Kill ends the process with SIGKILL, which also works on a stopped one, and
// waits until it is gone. A second call does nothing.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // fails only if the process has ended, which is the goal
	<-p.done
}

// Shutdown ends the process with the given signal, waits, and kills it
// if it takes longer than the timeout.
func (p *Process) Shutdown(signal os.Signal, timeout time.Duration) {
	if p.Signal(signal) == nil {
		select {
		case <-p.done:
			return
		case <-time.After(timeout):
		}
	}
	p.Kill()
}

// Log returns what the process wrote since it was started.
func (p *Process) Log() string {
	all, err := os.ReadFile(p.log)
	if err != nil {
		return fmt.Sprintf("(no log: %v)", err)
	}
	if int64(len(all)) < p.offset {
		return ""
	}
	return string(all[p.offset:])
}

// stop is an error that ends a poll at once.
type stop struct{ error }

func (s stop) Unwrap() error { return s.error }

// Contains says what a log must contain before a server is ready.
func (p *Process) Contains(text string) func() error {
	return func() error {
		if strings.Contains(p.Log(), text) {
			return nil
		}
		return fmt.Errorf("%q is not in the log", text)
	}
}

// Poll calls ready until it returns nil, or returns its last error once the
// timeout has passed.
func Poll(timeout time.Duration, ready func() error) error {
	deadline := time.After(timeout)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ready()
		if err == nil {
			return nil
		}
		if final, ok := errors.AsType[stop](err); ok {
			return final.error
		}
		select {
		case <-deadline:
			return fmt.Errorf("process: not ready within %v: %w", timeout, err)
		case <-tick.C:
		}
	}
}
