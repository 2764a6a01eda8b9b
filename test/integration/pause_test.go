package integration_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/redisstore"
	"github.com/redlatch/redlatch/test/internal/redistest"
)

var errOrphan = errors.New("an orphan hold is left")

// holderEnv makes this test binary a process that holds a lock: the address
// of the Redis to take it from.
const holderEnv = "REDLATCH_TEST_HOLDER"

// TestHolderProcess is the other process. It takes the key "paused", says so,
// and goes on when its standard input says a line.
func TestHolderProcess(t *testing.T) {
	addr := os.Getenv(holderEnv)
	if addr == "" {
		t.Skip("only runs as a child of TestAPausedHolder…")
	}
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	defer func() { _ = rdb.Close() }()
	l := lock.New(redisstore.New(rdb), lock.WithWatchdog(pausedWatchdog))
	defer func() { _ = l.Close(context.Background()) }()
	lease, err := l.Acquire(t.Context(), "paused")
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println("fence", lease.Fence())
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	// The first thing it does when it runs again is to look.
	err = lease.Context().Err()
	fmt.Println("cancelled", err != nil)
	fmt.Println("lost", errors.Is(context.Cause(lease.Context()), lock.ErrLost))
	fmt.Println("write", lease.Fence()) // … and it writes all the same
	fmt.Println("released", lease.Release(context.Background()))
}

const pausedWatchdog = 500 * time.Millisecond

// register is a resource that remembers the highest fence, and refuses lower
// ones.
type register struct {
	mu     sync.Mutex
	fence  uint64
	writer string
}

func (r *register) write(fence uint64, writer string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if fence < r.fence {
		return false
	}
	r.fence, r.writer = fence, writer
	return true
}

func TestAPausedHolderIsCutOffAndFenced(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	child := startHolder(t, server.Addr())
	fence := child.number("fence")
	child.signal(syscall.SIGSTOP)

	l := newLocker(t, server.Client(t))
	lease := acquire(t, l, "paused") // the paused one cannot renew
	var resource register
	if lease.Fence() <= fence || !resource.write(lease.Fence(), "new holder") {
		t.Fatalf("the new holder's fence %d, the paused one's %d", lease.Fence(), fence)
	}

	child.say("go on") // it finds this when it runs again
	child.signal(syscall.SIGCONT)
	if got := child.word("cancelled"); got != "true" {
		t.Error("its context was not cancelled when it woke up")
	}
	if got := child.word("lost"); got != "true" {
		t.Error("the cause was not ErrLost")
	}
	if resource.write(child.number("write"), "paused holder") {
		t.Error("its write was accepted")
	}
	if got := child.word("released"); !strings.Contains(got, lock.ErrLost.Error()) {
		t.Errorf("its release said %q, want that the lease is lost", got)
	}
	child.wait()
	if fields := hash(t, server.Admin(t), "paused"); fields[lease.Owner()] != "1" {
		t.Errorf("its release freed the new holder: %v", fields)
	}
	if lease.Context().Err() != nil {
		t.Error("the new holder lost its lease")
	}
	release(t, lease)
}

func TestAKilledHoldersLockFreesItself(t *testing.T) {
	server := redistest.Standalone(t)
	child := startHolder(t, server.Addr())
	fence := child.number("fence")
	l := newLocker(t, server.Client(t))
	child.signal(syscall.SIGKILL)
	child.gone()
	died := time.Now()
	lease := acquire(t, l, "paused")
	if took, most := time.Since(died), pausedWatchdog+lock.DefaultPoll+slack(died); took > most {
		t.Errorf("it was free after %v, want %v at most", took, most)
	}
	if lease.Fence() <= fence {
		t.Errorf("fence %d after %d", lease.Fence(), fence)
	}
	release(t, lease)
}

// holderProcess is a child that runs a test such as TestHolderProcess.
type holderProcess struct {
	*testing.T
	cmd   *exec.Cmd
	stdin io.WriteCloser
	lines *bufio.Scanner
}

func startHolder(t *testing.T, addr string) *holderProcess {
	t.Helper()
	return startChild(t, "TestHolderProcess", holderEnv+"="+addr)
}

// startChild runs a test of this binary in another process.
func startChild(t *testing.T, name string, env ...string) *holderProcess {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+name+"$", "-test.timeout=2m")
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	child := &holderProcess{T: t, cmd: cmd, stdin: stdin, lines: bufio.NewScanner(stdout)}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return child
}

// word returns what the child says behind that word.
func (p *holderProcess) word(name string) string {
	p.Helper()
	for p.lines.Scan() {
		if rest, ok := strings.CutPrefix(p.lines.Text(), name+" "); ok {
			return rest
		}
	}
	p.Fatalf("the child ended without saying %q", name)
	return ""
}

func (p *holderProcess) number(name string) uint64 {
	p.Helper()
	n, err := strconv.ParseUint(p.word(name), 10, 64)
	if err != nil {
		p.Fatal(err)
	}
	return n
}

func (p *holderProcess) say(line string) {
	p.Helper()
	if _, err := io.WriteString(p.stdin, line+"\n"); err != nil {
		p.Fatal(err)
	}
}

func (p *holderProcess) signal(s os.Signal) {
	p.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.Fatal(err)
	}
}

// wait waits for a clean end.
func (p *holderProcess) wait() {
	p.Helper()
	for p.lines.Scan() {
	}
	if err := p.cmd.Wait(); err != nil {
		p.Errorf("the child: %v", err)
	}
}

// gone waits for any end.
func (p *holderProcess) gone() { _ = p.cmd.Wait() }
