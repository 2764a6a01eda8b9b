package interop_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redlatch/redlatch/test/internal/process"
)

// agent is a Java process with a Redisson client. Its language is described
// in Agent.java.
type agent struct {
	id  string // of the Redisson client
	cmd *exec.Cmd
	log string

	mu    sync.Mutex
	stdin io.Writer
	calls map[string]*call // without an answer yet
	last  int
	gone  error // why there will be no more answers

	ended chan struct{}
}

// startAgent returns when Redisson is connected. The process ends with the
// test at the latest.
func startAgent(t *testing.T, tc toolchain, version string, args ...string) *agent {
	t.Helper()
	jar := tc.build(t, version)
	a := &agent{
		log:   filepath.Join(t.TempDir(), "agent.log"),
		calls: make(map[string]*call), ended: make(chan struct{}),
	}
	log, err := os.Create(a.log)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = log.Close() }()

	flags := []string{"-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-jar", jar}
	a.cmd = exec.Command(tc.java, append(flags, args...)...)
	a.cmd.Stderr = log
	stdin, err := a.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := a.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	a.stdin = stdin
	hello := a.expect(t, "0")
	hello.patience = 4 * patience // several may start at once
	if err := a.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go a.read(stdout)
	t.Cleanup(func() {
		a.kill()
		if t.Failed() {
			says, _ := os.ReadFile(a.log)
			t.Logf("Redisson %s says:\n%s", version, says)
		}
	})
	a.id = hello.result()
	return a
}

// kill ends the process with SIGKILL, and waits until it is gone. A second
// call does nothing.
func (a *agent) kill() {
	_ = a.cmd.Process.Kill()
	<-a.ended
}

// read hands out the answers until the process ends.
func (a *agent) read(stdout io.Reader) {
	defer close(a.ended)
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		id, text, _ := strings.Cut(lines.Text(), " ")
		a.mu.Lock()
		c := a.calls[id]
		delete(a.calls, id)
		a.mu.Unlock()
		if c != nil {
			c.answer <- text
		}
	}
	err := fmt.Errorf("the agent has ended: %w", a.cmd.Wait())
	a.mu.Lock()
	defer a.mu.Unlock()
	a.gone = err
	for _, c := range a.calls {
		c.answer <- "gone " + err.Error()
	}
}

func (a *agent) expect(t *testing.T, id string) *call {
	t.Helper()
	c := &call{t: t, what: "connect", answer: make(chan string, 1), patience: patience}
	a.calls[id] = c
	return c
}

// thread is a thread of the agent: to Redisson, an owner. One test must not
// meet the threads of another.
func (a *agent) thread(t *testing.T, name string) thread {
	t.Helper()
	return thread{agent: a, t: t, name: strings.ReplaceAll(t.Name(), " ", "_") + "/" + name}
}

type thread struct {
	*agent
	t    *testing.T
	name string
}

// start runs a command on the thread, behind what it runs already.
func (th thread) start(words ...any) *call {
	th.mu.Lock()
	defer th.mu.Unlock()
	th.last++
	id := strconv.Itoa(th.last)
	c := th.expect(th.t, id)
	c.what = strings.TrimSpace(fmt.Sprintln(words...))
	if th.gone != nil {
		c.answer <- "gone " + th.gone.Error()
		return c
	}
	// A process that ended lets the reader end, which answers.
	line := id + "\t" + th.name
	for _, word := range words {
		line += fmt.Sprint("\t", word)
	}
	_, _ = fmt.Fprintln(th.stdin, line)
	return c
}

// do runs a command that must succeed.
func (th thread) do(words ...any) string {
	th.t.Helper()
	return th.start(words...).result()
}

// want runs a command that must succeed with that result.
func (th thread) want(result string, words ...any) {
	th.t.Helper()
	if got := th.do(words...); got != result {
		th.t.Errorf("Java: %s: got %q, want %q", strings.TrimSpace(fmt.Sprintln(words...)), got, result)
	}
}

// refuses runs a command that must fail with that class of exception.
func (th thread) refuses(class string, words ...any) {
	th.t.Helper()
	th.start(words...).fails(class)
}

// awaitParked returns once the thread has subscribed, tried again, and sleeps
// until a message arrives or a timer fires.
func (th thread) awaitParked() {
	th.t.Helper()
	err := process.Poll(patience, func() error {
		if th.do("parked") != "true" {
			return errors.New("the thread in Java does not wait")
		}
		return nil
	})
	if err != nil {
		th.t.Fatal(err)
	}
}

// call is a command that has been sent.
type call struct {
	t      *testing.T
	what   string
	answer chan string
	// patience is how long it may take.
	patience time.Duration
}

// result waits for the command to succeed.
func (c *call) result() string {
	c.t.Helper()
	kind, text := c.wait()
	if kind != "ok" {
		c.t.Fatalf("Java: %s: %s %s", c.what, kind, text)
	}
	return text
}

// fails waits for the command to fail.
func (c *call) fails(class string) {
	c.t.Helper()
	kind, text := c.wait()
	if kind != "error" || !strings.Contains(text, class) {
		c.t.Errorf("Java: %s: %s %s, want a %s", c.what, kind, text, class)
	}
}

func (c *call) wait() (kind, text string) {
	c.t.Helper()
	select {
	case answer := <-c.answer:
		kind, text, _ = strings.Cut(answer, " ")
		return kind, text
	case <-time.After(c.patience):
		c.t.Fatalf("Java: %s: no answer within %v", c.what, c.patience)
		return "", ""
	}
}

// ends says whether the command ends within that time.
func (c *call) ends(within time.Duration) bool {
	select {
	case answer := <-c.answer:
		c.answer <- answer
		return true
	case <-time.After(within):
		return false
	}
}

// unanswered fails the test if the command has ended.
func (c *call) unanswered() {
	c.t.Helper()
	select {
	case answer := <-c.answer:
		c.t.Fatalf("Java: %s: has ended: %s", c.what, answer)
	default:
	}
}
