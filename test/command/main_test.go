// Package command_test drives cmd/redlatch as people and cron do: as a process, in a
// terminal, against a real Redis.
package command_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/redlatch/redlatch/test/internal/leak"
	"github.com/redlatch/redlatch/test/internal/process"
	"github.com/redlatch/redlatch/test/internal/redistest"
)

var binary string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "redlatch")
	if err != nil {
		panic(err)
	}
	binary = filepath.Join(dir, "redlatch")
	build := exec.Command("go", "build", "-o", binary, "github.com/redlatch/redlatch/cmd/redlatch")
	if out, err := build.CombinedOutput(); err != nil {
		panic(fmt.Sprintf("%v\n%s", err, out))
	}
	defer func() { _ = os.RemoveAll(dir) }()
	leak.Main(m)
}

const patience = 30 * time.Second

// shell is where commands run: an environment with a Redis.
type shell struct {
	*testing.T
	env []string
}

func newShell(t *testing.T, env ...string) *shell {
	t.Helper()
	return &shell{t, append(os.Environ(), env...)}
}

func onRedis(t *testing.T, server *redistest.Server) *shell {
	t.Helper()
	return newShell(t, "REDLATCH_REDIS="+server.URL())
}

func (s *shell) command(args ...string) *exec.Cmd {
	s.Helper()
	c := exec.CommandContext(s.Context(), binary, args...)
	c.Env = s.env
	c.Cancel = func() error { return c.Process.Kill() }
	return c
}

// run returns what a command has printed, and its exit code.
func (s *shell) run(args ...string) (stdout, stderr string, code int) {
	s.Helper()
	c := s.command(args...)
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	err := c.Run()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		s.Fatal(err)
	}
	return out.String(), errs.String(), c.ProcessState.ExitCode()
}

// terminal is a command in a terminal.
type terminal struct {
	*testing.T
	c    *exec.Cmd
	file *os.File
	mu   sync.Mutex
	seen bytes.Buffer
	done chan struct{}
}

func (s *shell) terminal(args ...string) *terminal {
	s.Helper()
	c := s.command(args...)
	file, err := pty.StartWithSize(c, &pty.Winsize{Rows: 20, Cols: 110})
	if err != nil {
		s.Fatal(err)
	}
	t := &terminal{T: s.T, c: c, file: file, done: make(chan struct{})}
	go func() {
		defer close(t.done)
		buffer := make([]byte, 4096)
		for {
			n, err := file.Read(buffer)
			t.mu.Lock()
			t.seen.Write(buffer[:n])
			t.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	s.Cleanup(func() {
		_ = c.Process.Kill()
		_ = file.Close()
		<-t.done
	})
	return t
}

var escapes = regexp.MustCompile(`\x1b\[[0-9;?]*[A-Za-z]`)

// screen is what the terminal shows, or all that it has shown.
func (t *terminal) screen() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := t.seen.String()
	if at := strings.LastIndex(text, "\x1b[H"); at >= 0 {
		text = text[at:]
	}
	return escapes.ReplaceAllString(strings.ReplaceAll(text, "\r", ""), "")
}

func (t *terminal) await(want string) {
	t.Helper()
	if err := process.Poll(patience, func() error {
		if !regexp.MustCompile(want).MatchString(t.screen()) {
			return fmt.Errorf("no %q on the screen", want)
		}
		return nil
	}); err != nil {
		t.Fatalf("%v:\n%s", err, t.screen())
	}
}

func (t *terminal) types(text string) {
	t.Helper()
	if _, err := t.file.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

func (t *terminal) ends(want int) {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- t.c.Wait() }()
	select {
	case err := <-ended:
		var exit *exec.ExitError
		code := 0
		if errors.As(err, &exit) {
			code = exit.ExitCode()
		}
		if code != want {
			t.Errorf("exit code %d, want %d:\n%s", code, want, t.screen())
		}
	case <-time.After(patience):
		t.Fatalf("goes on:\n%s", t.screen())
	}
}

// background starts a command, and returns its end: the exit code is sent once.
func (s *shell) background(args ...string) (c *exec.Cmd, ended <-chan int) {
	s.Helper()
	c = s.command(args...)
	if err := c.Start(); err != nil {
		s.Fatal(err)
	}
	codes, done := make(chan int, 1), make(chan struct{})
	go func() {
		defer close(done)
		_ = c.Wait()
		codes <- c.ProcessState.ExitCode()
	}()
	s.Cleanup(func() {
		_ = c.Process.Kill()
		<-done
	})
	return c, codes
}

func (s *shell) eventually(what string, ok func() bool) {
	s.Helper()
	if err := process.Poll(patience, func() error {
		if !ok() {
			return context.DeadlineExceeded
		}
		return nil
	}); err != nil {
		s.Fatalf("%s: not within %v", what, patience)
	}
}

func (s *shell) code(what string, codes <-chan int, want int) {
	s.Helper()
	select {
	case code := <-codes:
		if code != want {
			s.Errorf("%s: exit code %d, want %d", what, code, want)
		}
	case <-time.After(patience):
		s.Fatalf("%s goes on", what)
	}
}

// file is a path in a folder of the test.
func (s *shell) file(name string) string {
	s.Helper()
	return filepath.Join(s.TempDir(), name)
}

func (s *shell) read(path string) string {
	s.Helper()
	text, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		s.Fatal(err)
	}
	return string(text)
}
