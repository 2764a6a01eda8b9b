package peer_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/redlatch/redlatch/test/bench/internal/peer"
	"github.com/redlatch/redlatch/test/internal/redistest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*pipe).backgroundPing.func1"))
}

func open(t *testing.T, p peer.Peer, addr string) peer.Locker {
	t.Helper()
	locker, err := p.Open(peer.Settings{Addr: addr, Lease: 30 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := locker.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return locker
}

func withDeadline(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// Every peer excludes, refuses one attempt, waits, and lets go.
func TestEveryPeerIsALock(t *testing.T) {
	server := redistest.Standalone(t)
	for _, p := range slices.Concat(peer.All, peer.Databases) {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			ctx, addr := withDeadline(t), server.Addr()
			if p.Server != nil {
				var err error
				if addr, err = p.Serve(ctx, t); err != nil {
					t.Fatal(err)
				}
			}
			here, there := open(t, p, addr), open(t, p, addr)
			held, err := patiently(ctx, t, p, func(ctx context.Context) (peer.Held, error) { return here.Keep(ctx, p.Name) })
			if err != nil {
				t.Fatal(err)
			}
			if _, err := there.TryLock(ctx, p.Name); !errors.Is(err, peer.ErrBusy) {
				t.Errorf("one attempt at a held key: %v, want ErrBusy", err)
			}
			if _, err := here.TryLock(ctx, p.Name); !errors.Is(err, peer.ErrBusy) {
				t.Errorf("one attempt at a key that is held here: %v, want ErrBusy", err)
			}
			if !p.Library {
				if err := held.Unlock(ctx); err != nil {
					t.Error(err)
				}
				return // a floor does not wait
			}
			got := make(chan error, 1)
			go func() {
				held, err := lockWith(ctx, t, p, there, p.Name)
				if err == nil {
					err = held.Unlock(ctx)
				}
				got <- err
			}()
			if err := held.Unlock(ctx); err != nil {
				t.Error(err)
			}
			if err := <-got; err != nil {
				t.Errorf("the one who waited: %v", err)
			}
		})
	}
}

// INFO counts commands inside scripts, too. MONITOR distinguishes them, so it
// knows whether the lists of what peers send are right.
func TestCommandsOfScriptsAreNotCounted(t *testing.T) {
	server := redistest.Standalone(t)
	for _, p := range peer.All {
		t.Run(p.Name, func(t *testing.T) {
			ctx := withDeadline(t)
			locker := open(t, p, server.Addr())
			use(ctx, t, p, locker, open(t, p, server.Addr()), "first:"+p.Name) // loads scripts
			lines := monitor(t, server, func() {
				use(ctx, t, p, locker, open(t, p, server.Addr()), "second:"+p.Name)
			})
			sent := 0
			for _, line := range lines {
				command, inside := parse(line)
				if inside && p.Counts(command) {
					t.Errorf("%q is counted although a script runs it: %s", command, line)
				}
				if !inside && !p.Counts(command) && !setUp(command) {
					t.Errorf("%q is not counted although it is sent: %s", command, line)
				}
				if !inside && p.Counts(command) {
					sent++
				}
			}
			if sent < 2 {
				t.Errorf("saw %d commands of two locks:\n%s", sent, strings.Join(lines, "\n"))
			}
		})
	}
}

// use locks a key, lets another client try and wait for it, and unlocks.
func use(ctx context.Context, t *testing.T, p peer.Peer, locker, other peer.Locker, key string) {
	t.Helper()
	held, err := lockWith(ctx, t, p, locker, key)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.TryLock(ctx, key); !errors.Is(err, peer.ErrBusy) {
		t.Errorf("another client's attempt: %v", err)
	}
	waited := make(chan error, 1)
	go func() {
		if !p.Library {
			waited <- nil
			return
		}
		held, err := lockWith(ctx, t, p, other, key)
		if err == nil {
			err = held.Unlock(ctx)
		}
		waited <- err
	}()
	if err := held.Unlock(ctx); err != nil {
		t.Error(err)
	}
	if err := <-waited; err != nil {
		t.Error(err)
	}
}

func lockWith(ctx context.Context, t *testing.T, p peer.Peer, locker peer.Locker, key string) (peer.Held, error) {
	t.Helper()
	return patiently(ctx, t, p, func(ctx context.Context) (peer.Held, error) { return locker.Lock(ctx, key) })
}

// patiently calls a library of others again that waits for a message which doesn't come, as
// rueidislock does after a command that took it longer than 20 ms.
func patiently(ctx context.Context, t *testing.T, p peer.Peer, call func(context.Context) (peer.Held, error)) (peer.Held, error) {
	t.Helper()
	for {
		attempt, cancel := context.WithCancel(ctx)
		t.Cleanup(cancel) // the hold may end with it
		stuck := time.AfterFunc(5*time.Second, cancel)
		held, err := call(attempt)
		stuck.Stop()
		if err == nil || p.Ours || attempt.Err() == nil || ctx.Err() != nil {
			return held, err
		}
	}
}

// monitor returns what MONITOR shows of work. It speaks the protocol itself:
// the client's support for MONITOR has a data race.
func monitor(t *testing.T, server *redistest.Server, work func()) []string {
	t.Helper()
	conn, err := net.Dial("tcp", server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(conn, "MONITOR\r\n")
	shown := bufio.NewScanner(conn)
	if !shown.Scan() || shown.Text() != "+OK" {
		t.Fatalf("MONITOR: %q, %v", shown.Text(), shown.Err())
	}
	work()
	const mark = "end of the work"
	if err := server.Client(t).Echo(t.Context(), mark).Err(); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for shown.Scan() {
		if strings.Contains(shown.Text(), mark) {
			return lines
		}
		lines = append(lines, shown.Text())
	}
	t.Fatalf("MONITOR ends: %v", shown.Err())
	return nil
}

// parse takes the command out of a line such as
//
//	1700000000.1 [0 lua] "set" "key" "value"
func parse(line string) (command string, inside bool) {
	_, rest, _ := strings.Cut(line, "[")
	client, rest, _ := strings.Cut(rest, "] ")
	command, _, _ = strings.Cut(strings.TrimPrefix(rest, `"`), `"`)
	return strings.ToLower(command), strings.HasSuffix(client, "lua")
}

// setUp reports whether a command belongs to a new connection.
func setUp(command string) bool {
	switch command {
	case "hello", "client", "ping", "script", "echo", "cluster":
		return true
	default:
		return false
	}
}
