package integration_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/test/internal/redistest"
)

// command is what MONITOR shows of one command: by a client, or by the script
// that a client runs.
type command struct {
	script bool
	words  []string
}

var (
	monitored = regexp.MustCompile(`^\+[\d.]+ \[\d+ (\S+)\] (.*)$`)
	word      = regexp.MustCompile(`"((?:[^"\\]|\\.)*)"`)
)

// monitor returns all that the server does, in its order, until the returned
// function ends it.
func monitor(t *testing.T, server *redistest.Server, tell func(command)) (end func()) {
	t.Helper()
	conn, err := net.Dial("tcp", server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	login := redistest.AdminLogin()
	if _, err := io.WriteString(conn, login+"MONITOR\r\n"); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(conn)
	for range strings.Count(login, "\n") + 1 {
		lines.Scan() // +OK
	}
	var reading sync.WaitGroup
	reading.Go(func() {
		for lines.Scan() {
			match := monitored.FindStringSubmatch(lines.Text())
			if match == nil {
				continue
			}
			c := command{script: match[1] == "lua"}
			for _, w := range word.FindAllStringSubmatch(match[2], -1) {
				c.words = append(c.words, w[1])
			}
			tell(c)
		}
	})
	return func() {
		// What was done before has been shown when this is.
		if err := server.Admin(t).Echo(context.Background(), "the end").Err(); err != nil {
			t.Error(err)
		}
		_ = conn.(*net.TCPConn).CloseWrite()
		_ = conn.SetReadDeadline(time.Now().Add(patience))
		reading.Wait()
		_ = conn.Close()
	}
}

// Renewals race with releases thousands of times, and with losses: whatever
// comes late, no renewal touches a key that its owner no longer holds,
// be it free or another's, and none brings it back.
func TestARenewalNeverTouchesWhatItsOwnerHasGivenBack(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	var mu sync.Mutex
	var faults []string
	var running []string // the script that runs: what its client sent
	owner, renewals, grants := "", 0, 0
	end := monitor(t, server, func(c command) {
		mu.Lock()
		defer mu.Unlock()
		if !c.script {
			running = c.words
			return
		}
		by := func(owner string) bool {
			for _, w := range running {
				if w == owner {
					return true
				}
			}
			return false
		}
		switch name := strings.ToLower(c.words[0]); name {
		case "hset":
			owner = c.words[2]
			grants++
		case "del", "hdel":
			if name == "hdel" && c.words[2] != owner {
				return // there was nothing to remove: a lost lease was released
			}
			if !by(owner) {
				faults = append(faults, fmt.Sprintf("%q removed the hold of %s", running, owner))
			}
			owner = ""
		case "pexpire":
			renewals++
			if owner == "" || !by(owner) {
				faults = append(faults, fmt.Sprintf("%q set the TTL, and the owner is %q", running, owner))
			}
		}
	})
	const watchdog = 60 * time.Millisecond // renewed every 20 ms
	var working sync.WaitGroup
	for range 3 {
		l := newLocker(t, server.Client(t), lock.WithWatchdog(watchdog))
		working.Go(func() {
			for range 60 {
				lease, err := l.Acquire(t.Context(), "k")
				if errors.Is(err, lock.ErrUnavailable) {
					continue // 60 ms pass soon on a busy machine
				}
				if err != nil {
					t.Error(err)
					return
				}
				select { // often the very moment of a renewal
				case <-time.After(20*time.Millisecond*time.Duration(rand.IntN(3)) + time.Duration(rand.IntN(2000)-1000)*time.Microsecond):
				case <-lease.Context().Done():
				}
				if err := lease.Release(t.Context()); err != nil && !errors.Is(err, lock.ErrLost) && !errors.Is(err, lock.ErrUnavailable) {
					t.Error(err)
				}
			}
		})
	}
	working.Wait()
	eventuallyFree(t, server.Admin(t))
	end()
	if len(faults) > 0 {
		t.Errorf("%d faults, the first: %s", len(faults), faults[0])
	}
	t.Logf("%d grants, the TTL was set %d times", grants, renewals)
	if grants < 60 || renewals < grants+20 {
		t.Errorf("%d grants and %d TTLs set: nothing was tested", grants, renewals)
	}
}
