package command_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/redisstore"
	"github.com/redlatch/redlatch/test/internal/redistest"
)

func TestRunExitsAsTheCommandDoes(t *testing.T) {
	s := onRedis(t, redistest.Standalone(t))
	for name, tt := range map[string]struct {
		args           []string
		stdout, stderr string // patterns; empty: nothing
		code           int
	}{
		"success":             {[]string{"run", "k", "--", "sh", "-c", "echo $REDLATCH_KEY $REDLATCH_FENCE"}, `^k \d{15,}\n$`, "", 0},
		"failure":             {[]string{"run", "k", "--", "sh", "-c", "exit 7"}, "", "", 7},
		"signal":              {[]string{"run", "k", "--", "sh", "-c", "kill -9 $$"}, "", "", 137},
		"input":               {[]string{"run", "k", "--permits", "1/2", "--", "cat", "/dev/null"}, "", "", 0},
		"flags of its own":    {[]string{"run", "k", "--", "echo", "--wait", "x"}, `^--wait x\n$`, "", 0},
		"verbose":             {[]string{"run", "k", "--verbose", "--", "true"}, "", `^redlatch: k: locked, fence \d+\n$`, 0},
		"no such command":     {[]string{"run", "k", "--", "/no/such"}, "", "no such file", 127},
		"not executable":      {[]string{"run", "k", "--", "/etc/passwd"}, "", "permission denied", 126},
		"no command":          {[]string{"run", "k"}, "", "want KEY -- COMMAND", 64},
		"no dashes":           {[]string{"run", "k", "true"}, "", "want KEY -- COMMAND", 64},
		"wrong flag":          {[]string{"run", "k", "--waitt", "1s", "--", "true"}, "", "waitt", 64},
		"wrong permits":       {[]string{"run", "k", "--permits", "4/3", "--", "true"}, "", "WithPermits", 64},
		"wrong permits' form": {[]string{"run", "k", "--permits", "4", "--", "true"}, "", "want n/m", 64},
		"two modes":           {[]string{"run", "k", "--read", "--write", "--", "true"}, "", "read write", 64},
		"Redis is away":       {[]string{"run", "k", "--redis", "redis://127.0.0.1:1", "--", "true"}, "", "unavailable", 69},
		"password in argv":    {[]string{"run", "k", "--redis", "redis://u:hushhush@127.0.0.1:1", "--", "true"}, "", "REDLATCH_PASSWORD", 64},
	} {
		t.Run(name, func(t *testing.T) {
			in := &shell{t, s.env}
			stdout, stderr, code := in.run(tt.args...)
			for _, got := range []struct{ what, text, want string }{{"stdout", stdout, tt.stdout}, {"stderr", stderr, tt.stderr}} {
				if got.want == "" && got.text != "" || !regexp.MustCompile(got.want).MatchString(got.text) {
					t.Errorf("%s is %q, want %q", got.what, got.text, got.want)
				}
			}
			if code != tt.code || strings.Contains(stderr, "hushhush") {
				t.Errorf("exit code %d, want %d: %s", code, tt.code, stderr)
			}
		})
	}
}

func TestRunOfABusyLock(t *testing.T) {
	s := onRedis(t, redistest.Standalone(t))
	started := s.file("started")
	holder, ended := s.background("run", "k", "--", "sh", "-c", "touch "+started+"; sleep 60")
	s.eventually("the start", func() bool { _, err := os.Stat(started); return err == nil })
	stdout, stderr, code := s.run("run", "k", "--", "echo", "ran")
	if stdout+stderr != "" || code != 75 {
		t.Errorf("printed %q, exit code %d; want nothing and 75", stdout+stderr, code)
	}
	if _, stderr, code := s.run("run", "k", "--verbose", "--wait", "300ms", "--", "echo", "ran"); code != 75 || !strings.Contains(stderr, "held by another") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	next := s.file("next")
	_, waiter := s.background("run", "k", "--wait", "30s", "--", "touch", next)
	if err := holder.Process.Signal(syscall.SIGTERM); err != nil { // passed on
		t.Fatal(err)
	}
	s.code("the holder", ended, 143)
	s.code("the waiter", waiter, 0)
	if _, err := os.Stat(next); err != nil {
		t.Error(err)
	}
}

// beats is a command that notes each tenth of a second that it lives, and its signals.
func beats(file string, ignoring string) []string {
	return []string{"sh", "-c", fmt.Sprintf(`trap '%s' TERM; while :; do echo beat >> %s; sleep 0.1; done`, ignoring, file)}
}

func (s *shell) stops(file string) {
	s.Helper()
	s.eventually("the end of the beats", func() bool {
		before := len(s.read(file))
		time.Sleep(500 * time.Millisecond) // the command beats in it, if it lives
		return len(s.read(file)) == before
	})
}

func TestRunWhenSomethingIsKilled(t *testing.T) {
	t.Run("redlatch", func(t *testing.T) {
		s := onRedis(t, redistest.Standalone(t))
		file := s.file("beats")
		c, ended := s.background(append([]string{"run", "k", "--watchdog", "2s", "--"}, beats(file, "")...)...)
		s.eventually("a beat", func() bool { return s.read(file) != "" })
		if err := c.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		s.code("redlatch", ended, -1)
		s.stops(file)
		if _, stderr, code := s.run("run", "k", "--wait", "20s", "--", "true"); code != 0 {
			t.Errorf("the next: %d, %s", code, stderr)
		}
	})
	t.Run("the command", func(t *testing.T) {
		s := onRedis(t, redistest.Standalone(t))
		if _, _, code := s.run("run", "k", "--", "sh", "-c", "kill -KILL $$"); code != 137 {
			t.Errorf("exit code %d, want 137", code)
		}
		if _, _, code := s.run("run", "k", "--", "true"); code != 0 {
			t.Errorf("the next: %d", code)
		}
	})
	for name, tt := range map[string]struct{ ignoring, last string }{
		"Redis, and the command obeys": {"echo term >> $0; exit 3", "term"},
		"Redis, and it doesn't":        {"echo term >> $0", "beat"},
	} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Standalone(t)
			s := onRedis(t, server)
			file := s.file("beats")
			trap := strings.ReplaceAll(tt.ignoring, "$0", file)
			c, ended := s.background(append([]string{"run", "k", "--watchdog", "2s", "--grace", "1s", "--"}, beats(file, trap)...)...)
			_ = c
			s.eventually("a beat", func() bool { return s.read(file) != "" })
			server.Kill()
			s.code("redlatch", ended, 70)
			s.stops(file)
			text := s.read(file)
			if !strings.Contains(text, "term") || !strings.HasSuffix(strings.TrimSpace(text), tt.last) {
				t.Errorf("the command noted %q, want term, and %s at the end", text[max(0, len(text)-60):], tt.last)
			}
		})
	}
}

// Three hosts start the same command each second, as cron does each minute, under a lock
// with the time of the tick in its name: each tick is run once, however late a host is.
func TestThreeCronLinesRunEachTickOnce(t *testing.T) {
	const ticks = 60
	s := onRedis(t, redistest.Standalone(t))
	ran := s.file("ran")
	began := time.Now().Truncate(time.Second).Add(2 * time.Second)
	hosts := make(chan error, 3)
	for host := range 3 {
		go func() {
			var err error
			for tick := range ticks {
				// Clocks differ by up to 100 ms.
				time.Sleep(time.Until(began.Add(time.Duration(tick)*time.Second + time.Duration(host*50)*time.Millisecond)))
				c := s.command("run", fmt.Sprint("job:", tick), "--min-hold", "30s", "--", "sh", "-c", fmt.Sprintf("echo %d >> %s", tick, ran))
				if failed := c.Run(); failed != nil && c.ProcessState.ExitCode() != 75 {
					err = failed
				}
			}
			hosts <- err
		}()
	}
	for range 3 {
		if err := <-hosts; err != nil {
			t.Error(err)
		}
	}
	counts := make(map[string]int)
	for line := range strings.Lines(s.read(ran)) {
		counts[strings.TrimSpace(line)]++
	}
	for tick := range ticks {
		if n := counts[fmt.Sprint(tick)]; n != 1 {
			t.Errorf("tick %d ran %d times", tick, n)
		}
	}
}

func TestLeadMovesToAnotherHostAndComesBack(t *testing.T) {
	server := redistest.Standalone(t)
	s := onRedis(t, server)
	leads := s.file("leads")
	lead := func(name string) (kill func()) {
		c, _ := s.background("lead", "boss", "--watchdog", "2s", "--grace", "1s", "--", "sh", "-c",
			fmt.Sprintf("echo %s $REDLATCH_FENCE >> %s; exec sleep 600", name, leads))
		return func() { _ = c.Process.Kill() }
	}
	count := func() int { return strings.Count(s.read(leads), "\n") }
	killFirst := lead("first")
	s.eventually("the first leads", func() bool { return count() == 1 })
	lead("second")
	locker := lock.New(redisstore.New(server.Client(t)))
	defer func() { _ = locker.Close(t.Context()) }()
	for terms := 2; terms <= 3; terms++ { // taken away: whoever leads next, the command starts again
		s.eventually("a release", func() bool {
			freed, err := locker.ForceRelease(t.Context(), "boss")
			return err == nil && freed
		})
		s.eventually("the next term", func() bool { return count() >= terms })
	}
	killFirst()
	before := count()
	_, _ = locker.ForceRelease(t.Context(), "boss")
	s.eventually("the second leads", func() bool {
		return count() > before && strings.HasPrefix(lastLine(s.read(leads)), "second")
	})
}

func TestLeadExits(t *testing.T) {
	server := redistest.Standalone(t)
	admin := server.Admin(t)
	s := onRedis(t, server)
	hold(t, server.Client(t), lock.Identity{}, "held")
	admin.RPush(t.Context(), "list", "x")
	if err := admin.Do(t.Context(), "ACL", "SETUSER", "poor", "on", ">hush", "~*", "&*", "+@all", "-evalsha", "-eval").Err(); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		args   []string
		env    string
		code   int
		stderr string
	}{
		"as the command does":      {[]string{"k", "--", "sh", "-c", "exit 7"}, "", 7, ""},
		"at a signal":              {[]string{"k", "--", "sh", "-c", "kill -9 $$"}, "", 137, ""},
		"without a permission":     {[]string{"k", "--user", "poor", "--", "true"}, "REDLATCH_PASSWORD=hush", 69, "NOPERM"},
		"with a wrong password":    {[]string{"k", "--user", "poor", "--", "true"}, "REDLATCH_PASSWORD=wrong", 69, "WRONGPASS"},
		"at a key that is no lock": {[]string{"list", "--", "true"}, "", 64, "no lock"},
		"without a command":        {[]string{"k", "--", "/no/such"}, "", 127, "no such file"},
	} {
		in := newShell(t, append(s.env, tt.env)...)
		if _, stderr, code := in.run(append([]string{"lead"}, tt.args...)...); code != tt.code || !strings.Contains(stderr, tt.stderr) {
			t.Errorf("%s: exit code %d, want %d: %s", name, code, tt.code, stderr)
		}
	}
	waiter, ended := s.background("lead", "held", "--", "true")
	s.eventually("it waits", func() bool {
		state, _, _ := s.run("ls", "held", "--json")
		return strings.Contains(state, `"waiting":1`)
	})
	if err := waiter.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	s.code("who waits for its turn", ended, 143)
}

// A Redis that is away is waited for, and said once.
func TestLeadWaitsForRedis(t *testing.T) {
	server := redistest.Standalone(t)
	s := onRedis(t, server)
	server.Kill()
	term := s.terminal("lead", "k", "--", "echo", "led")
	term.await(`k: .*unavailable.*: waiting`)
	server.Restart()
	term.await("led")
	term.ends(0)
	if n := strings.Count(term.screen(), "waiting"); n != 1 {
		t.Errorf("said %d times that it waits:\n%s", n, term.screen())
	}
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

func TestRunInATerminal(t *testing.T) {
	s := onRedis(t, redistest.Standalone(t))
	file := filepath.Join(t.TempDir(), "signals")
	term := s.terminal("run", "k", "--", "sh", "-c", fmt.Sprintf(`trap 'echo int >> %s; exit 5' INT; echo ready; while :; do sleep 0.1; done`, file))
	term.await("ready")
	term.types("\x03") // Ctrl-C
	term.ends(5)
	if got := s.read(file); got != "int\n" {
		t.Errorf("the command got %q, want one signal", got)
	}
}
