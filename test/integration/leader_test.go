package integration_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/leader"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/redisstore"
	"github.com/redlatch/redlatch/test/internal/redistest"
)

const (
	// candidateEnv makes this test binary a candidate: "<sentinel>,<sentinel>,…
	// <master name> <ledger>".
	candidateEnv = "REDLATCH_TEST_CANDIDATE"
	// leaderChangesEnv says how often the leader is changed; once each way unless set.
	leaderChangesEnv = "REDLATCH_LEADER_CHANGES"

	leaderKey      = "leader:ledger"
	leaderWatchdog = 2 * time.Second
	// leaderWork is what lies between a leader's read and its write.
	leaderWork = 2 * time.Millisecond
)

// ledger is the resource that leaders work on: a number, which each of them
// reads, and writes back one larger. It claims terms, and refuses old ones.
type ledger struct {
	listener net.Listener
	serving  sync.WaitGroup

	mu      sync.Mutex
	value   int
	term    uint64                         // the newest that was claimed
	leader  int                            // the process that did
	since   time.Time                      // when
	who     map[uint64]int                 // the process of each term
	written int                            // writes that were acknowledged
	refused int                            // claims and writes of old terms
	late    int                            // of those, the writes
	pause   func(process int, term uint64) // called in the next claim, once
}

func newLedger(t *testing.T) *ledger {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &ledger{listener: listener, who: make(map[uint64]int)}
	l.serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			l.serving.Go(func() { l.serve(t, conn) })
		}
	})
	// Runs after the candidates are dead, whose connections have ended then.
	t.Cleanup(func() { _ = listener.Close(); l.serving.Wait() })
	return l
}

// serve answers one process, which says who it is, and then claims and writes.
func (l *ledger) serve(t *testing.T, conn net.Conn) {
	t.Helper()
	defer conn.Close()
	lines := bufio.NewScanner(conn)
	var process int
	for lines.Scan() {
		var (
			op    string
			term  uint64
			value int
		)
		if _, err := fmt.Sscan(lines.Text(), &op, &term, &value); err != nil {
			t.Errorf("the ledger got %q", lines.Text())
			return
		}
		answer := "ok 0"
		switch op {
		case "hello":
			process = value
		case "claim":
			answer = l.claim(t, process, term)
		case "write":
			answer = l.write(term, value)
		}
		if _, err := io.WriteString(conn, answer+"\n"); err != nil {
			return // it was killed
		}
	}
}

func (l *ledger) claim(t *testing.T, process int, term uint64) string {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if before, known := l.who[term]; known && before != process {
		t.Errorf("processes %d and %d both have term %d", before, process, term)
	}
	l.who[term] = process
	if term < l.term {
		l.refused++
		return "stale 0"
	}
	if term > l.term {
		l.term, l.leader, l.since = term, process, time.Now()
	}
	if l.pause != nil {
		l.pause(process, term)
		l.pause = nil
	}
	return fmt.Sprint("ok ", l.value)
}

func (l *ledger) write(term uint64, value int) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if term < l.term {
		l.refused++
		l.late++
		return "stale 0"
	}
	l.value = value
	l.written++
	return "ok 0"
}

// leads returns the newest term, who has it, and since when.
func (l *ledger) leads() (term uint64, process int, since time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.term, l.leader, l.since
}

// TestCandidateProcess is a candidate until its standard input ends, also with
// the process at the other end. While it leads it counts the ledger up. It looks at its context before
// it reads, as careful code does, and not between the read and the write, where a
// look wouldn't help.
func TestCandidateProcess(t *testing.T) {
	settings := strings.Fields(os.Getenv(candidateEnv))
	if len(settings) != 3 {
		t.Skip("only runs as a child of another test")
	}
	ctx, stop := context.WithCancel(context.Background())
	var input sync.WaitGroup
	input.Go(func() {
		defer stop()
		_, _ = io.Copy(io.Discard, os.Stdin)
	})
	defer input.Wait()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", settings[2])
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	answers := bufio.NewReader(conn)
	call := func(op string, term uint64, value int) (int, error) {
		_, _ = fmt.Fprintf(conn, "%s %d %d\n", op, term, value)
		line, err := answers.ReadString('\n')
		if err != nil {
			return 0, err
		}
		rest, ok := strings.CutPrefix(strings.TrimSpace(line), "ok ")
		if !ok {
			return 0, errors.New("a newer leader was here")
		}
		return strconv.Atoi(rest)
	}
	if _, err := call("hello", 0, os.Getpid()); err != nil {
		t.Fatal(err)
	}
	rdb := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: settings[1], SentinelAddrs: strings.Split(settings[0], ","), DisableIdentity: true,
	})
	defer rdb.Close()
	locker := lock.New(redisstore.New(rdb), lock.WithWatchdog(leaderWatchdog))
	err = leader.Run(ctx, locker, leaderKey, func(ctx context.Context, term uint64) error {
		for ctx.Err() == nil {
			value, err := call("claim", term, 0)
			if err != nil {
				return err
			}
			time.Sleep(leaderWork)
			if _, err := call("write", term, value+1); err != nil {
				return err
			}
		}
		return nil
	}, leader.WithRepeat())
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Run: %v", err)
	}
	if err := locker.Close(context.Background()); err != nil {
		t.Error(err)
	}
}

// electorate is a few candidates on one Redis.
type electorate struct {
	*testing.T
	set       *redistest.SentinelSet
	ledger    *ledger
	processes map[int]*candidateProcess
}

type candidateProcess struct {
	*exec.Cmd
	input io.Closer
}

func newElectorate(t *testing.T, size int) *electorate {
	t.Helper()
	e := &electorate{T: t, set: redistest.Sentinel(t), ledger: newLedger(t), processes: make(map[int]*candidateProcess)}
	t.Cleanup(func() {
		for _, process := range e.processes {
			_ = process.Process.Kill() // also one that is stopped
			_ = process.Wait()
		}
	})
	for _, sentinel := range e.set.Sentinels { // which fails over once in twice this time
		if err := sentinel.Admin(t).Do(t.Context(), "SENTINEL", "SET", e.set.Name, "failover-timeout", 2000).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for range size {
		e.join()
	}
	return e
}

// join starts one more candidate.
func (e *electorate) join() {
	e.Helper()
	cmd := exec.CommandContext(e.Context(), os.Args[0], "-test.run=^TestCandidateProcess$", "-test.timeout=0")
	settings := []string{strings.Join(e.set.Addrs(), ","), e.set.Name, e.ledger.listener.Addr().String()}
	cmd.Env = append(os.Environ(), candidateEnv+"="+strings.Join(settings, " "))
	cmd.Stderr = os.Stderr
	input, err := cmd.StdinPipe()
	if err != nil {
		e.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		e.Fatal(err)
	}
	e.processes[cmd.Process.Pid] = &candidateProcess{cmd, input}
}

func (e *electorate) signal(process int, s os.Signal) {
	e.Helper()
	if err := e.processes[process].Process.Signal(s); err != nil {
		e.Fatal(err)
	}
}

// leave waits for the end of a process, and has another one join.
func (e *electorate) leave(process int) error {
	err := e.processes[process].Wait()
	delete(e.processes, process)
	e.join()
	return err
}

// after waits for a leader whose term is later, and returns since when it leads.
func (e *electorate) after(term uint64) time.Time {
	e.Helper()
	var since time.Time
	eventually(e.T, func() error {
		var newest uint64
		if newest, _, since = e.ledger.leads(); newest <= term {
			return errors.New("nobody leads")
		}
		return nil
	})
	return since
}

// The ways in which a leader ends. Each returns how long nobody led.

func (e *electorate) killed(term uint64, process int) time.Duration {
	e.Helper()
	began := time.Now()
	e.signal(process, syscall.SIGKILL)
	_ = e.leave(process)
	return e.after(term).Sub(began)
}

func (e *electorate) stopped(term uint64, process int) time.Duration {
	e.Helper()
	began := time.Now()
	_ = e.processes[process].input.Close()
	took := e.after(term).Sub(began)
	if err := e.leave(process); err != nil {
		e.Errorf("a candidate that was stopped: %v", err)
	}
	return took
}

// paused stops the leader between its read and its write, which comes late.
func (e *electorate) paused(uint64, int) time.Duration {
	e.Helper()
	type claim struct {
		process int
		term    uint64
		at      time.Time
	}
	claims := make(chan claim, 1)
	e.ledger.mu.Lock()
	late := e.ledger.late
	e.ledger.pause = func(process int, term uint64) {
		e.signal(process, syscall.SIGSTOP)
		claims <- claim{process, term, time.Now()}
	}
	e.ledger.mu.Unlock()
	last := <-claims
	took := e.after(last.term).Sub(last.at)
	e.signal(last.process, syscall.SIGCONT)
	eventually(e.T, func() error {
		e.ledger.mu.Lock()
		defer e.ledger.mu.Unlock()
		if e.ledger.late == late {
			return errors.New("the late write did not come")
		}
		return nil
	})
	return took
}

// failedOver kills the leader together with the master that knows of it.
func (e *electorate) failedOver(term uint64, process int) time.Duration {
	e.Helper()
	master := e.set.Current(e.T)
	began := time.Now()
	master.Kill()
	e.signal(process, syscall.SIGKILL)
	_ = e.leave(process)
	took := e.after(term).Sub(began)
	e.set.AwaitMasterOtherThan(e.T, master)
	master.Restart()
	eventually(e.T, func() error { return settled(e.T, e.set, master) })
	return took
}

// Leaders are killed, paused, stopped, and killed in a failover. Whatever happens,
// no write of a leader is lost to a write of another: that of a late leader is
// refused. How long nobody led is printed.
func TestLeadersChangeAndNoTermsOverlapAtAFencedResource(t *testing.T) {
	t.Parallel()
	ways := []struct {
		name string
		end  func(e *electorate, term uint64, process int) (took time.Duration)
	}{
		{"stopped", (*electorate).stopped},
		{"killed", (*electorate).killed},
		{"paused", (*electorate).paused},
		{"killed in a failover", (*electorate).failedOver},
	}
	changes := len(ways)
	if text := os.Getenv(leaderChangesEnv); text != "" {
		var err error
		if changes, err = strconv.Atoi(text); err != nil || changes < len(ways) {
			t.Fatalf("%s=%q: want a number of changes, %d at least", leaderChangesEnv, text, len(ways))
		}
	}
	e := newElectorate(t, 3)
	took := make(map[string][]time.Duration)
	var term uint64
	for change := range changes {
		e.after(term)
		var process int
		term, process, _ = e.ledger.leads()
		way := ways[change%len(ways)]
		t.Logf("%d: term %d, process %d, is %s", change, term, process, way.name)
		took[way.name] = append(took[way.name], way.end(e, term, process))
	}
	for _, way := range ways {
		distribution(t, "nobody led, after the leader was "+way.name, took[way.name])
	}
	l := e.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	t.Logf("%d terms, %d writes, %d refused, of them %d late writes", len(l.who), l.written, l.refused, l.late)
	if l.value != l.written {
		t.Errorf("the ledger is at %d after %d writes: %d were lost", l.value, l.written, l.written-l.value)
	}
	if l.late < len(took["paused"]) {
		t.Errorf("only %d late writes were refused, and %d leaders were paused before one", l.late, len(took["paused"]))
	}
}
