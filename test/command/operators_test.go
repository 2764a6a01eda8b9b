package command_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/redisstore"
	"github.com/redlatch/redlatch/test/internal/redistest"
)

// hold takes some keys until the test ends.
func hold(t *testing.T, rdb redis.UniversalClient, id lock.Identity, keys ...string) *lock.Locker {
	t.Helper()
	l := lock.New(redisstore.New(rdb), lock.WithIdentity(id))
	t.Cleanup(func() { _ = l.Close(context.Background()) })
	for _, key := range keys {
		if _, err := l.Acquire(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

func TestOperatorsSeeWhoHoldsWhat(t *testing.T) {
	server := redistest.Standalone(t)
	rdb := server.Client(t)
	s := onRedis(t, server)
	checkout := hold(t, rdb, lock.Identity{Service: "checkout", Host: "web-3", PID: 812}, "order:1", "order:2")
	if _, err := checkout.Acquire(t.Context(), "order:api", lock.WithPermits(2, 3)); err != nil {
		t.Fatal(err)
	}
	hold(t, rdb, lock.Identity{Service: "mail", Host: "web-4", PID: 9}, "mail:1")
	ctx := t.Context()
	redisson := "b983c153-7421-469a-addb-44fb92259a1b:42"
	rdb.HSet(ctx, "order:java", redisson, 2)
	rdb.PExpire(ctx, "order:java", time.Minute)
	if err := redsync.New(goredis.NewPool(rdb)).NewMutex("order:redsync", redsync.WithExpiry(time.Minute)).Lock(); err != nil {
		t.Fatal(err)
	}
	gone := "0fa1b2c3-7421-869a-addb-44fb92259a1b:7" // of this kit, and not registered
	rdb.HSet(ctx, "order:gone", gone, 1)
	rdb.PExpire(ctx, "order:gone", time.Minute)
	rdb.HSet(ctx, "order:basket", "name", "x") // no lock
	rdb.Set(ctx, "order:cache", strings.Repeat("x", 1000), time.Minute)
	rdb.Set(ctx, "order:counter", 17, 0)
	var out string
	s.eventually("names and fences", func() bool {
		out, _, _ = s.run("ls", "order:*")
		for _, held := range []string{"order:1 +exclusive", "order:2 +exclusive", "order:api +semaphore"} { // each registers on its own
			if !regexp.MustCompile(held + ` +checkout@web-3 pid 812 +\S+ +\S+ +\d{15,} +0`).MatchString(out) {
				return false
			}
		}
		return true
	})
	t.Logf("\n%s", out)
	for _, want := range []string{`order:java +exclusive +Redisson ` + redisson, `order:redsync +exclusive +SETNX [A-Za-z0-9+/=]{20,}`, `order:gone +exclusive +zombie ` + gone} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if lines := strings.Count(out, "\n"); lines != 7 || strings.Contains(out, "basket") || strings.Contains(out, "mail") {
		t.Errorf("listed\n%s", out)
	}
	for name, tt := range map[string]struct{ args, keys []string }{
		"host":          {[]string{"ls", "--host", "web-4"}, []string{"mail:1"}},
		"zombies":       {[]string{"ls", "--zombies"}, []string{"order:gone"}},
		"held for long": {[]string{"ls", "--held-for", "1h"}, nil},
		"a pattern":     {[]string{"ls", "order:[12]"}, []string{"order:1", "order:2"}},
	} {
		stdout, stderr, code := s.run(append(tt.args, "--json")...)
		keys := make(map[string]bool)
		for line := range strings.Lines(stdout) {
			var row struct{ Key string }
			if err := json.Unmarshal([]byte(line), &row); err != nil {
				t.Errorf("%s: %v in %q", name, err, line)
			}
			keys[row.Key] = true
		}
		if len(keys) != len(tt.keys) || (code == 75) != (len(tt.keys) == 0) {
			t.Errorf("%s: %v, exit code %d, %s", name, keys, code, stderr)
		}
		for _, key := range tt.keys {
			if !keys[key] {
				t.Errorf("%s: no %s", name, key)
			}
		}
	}
	shown, _, code := s.run("show", "order:java")
	if code != 0 || !strings.Contains(shown, "in the format of Redisson") || !strings.Contains(shown, "count 2") {
		t.Errorf("show: %d\n%s", code, shown)
	}
	shown, _, _ = s.run("show", "order:1")
	t.Logf("\n%s", shown)
	if !regexp.MustCompile(`by +checkout@web-3 pid 812\n.*\n +since .* fence \d{15,}`).MatchString(shown) {
		t.Errorf("show:\n%s", shown)
	}
	if shown, _, code := s.run("show", "nothing"); code != 75 || shown != "nothing is free\n" {
		t.Errorf("show: %d, %q", code, shown)
	}
}

func TestShowHasTheQueueInOrder(t *testing.T) {
	server := redistest.Standalone(t)
	s := onRedis(t, server)
	rdb := server.Client(t)
	open := func(name string) *lock.Locker {
		l := lock.New(redisstore.New(rdb), lock.WithMode(lock.Fair), lock.WithIdentity(lock.Identity{Service: name, Host: "h", PID: 1}))
		t.Cleanup(func() { _ = l.Close(context.Background()) })
		return l
	}
	if _, err := open("holder").Acquire(t.Context(), "k"); err != nil {
		t.Fatal(err)
	}
	waited := make(chan struct{}, 2)
	for i, name := range []string{"first", "second"} {
		l := open(name)
		go func() {
			_, _ = l.Acquire(t.Context(), "k")
			waited <- struct{}{}
		}()
		s.eventually(name+" queues", func() bool {
			shown, _, _ := s.run("show", "k")
			return strings.Contains(shown, fmt.Sprintf("next %d %s@h", i+1, name))
		})
		defer func() { <-waited }()
		defer func() { _ = l.Close(context.Background()) }()
	}
	shown, _, _ := s.run("show", "k")
	t.Logf("\n%s", shown)
	if !regexp.MustCompile(`(?s)mode fair.*by +holder@h.*next 1 first@h.*next 2 second@h`).MatchString(shown) {
		t.Errorf("show:\n%s", shown)
	}
}

func TestReleaseInATerminal(t *testing.T) {
	server := redistest.Standalone(t)
	s := onRedis(t, server)
	audit := s.file("audit")
	s.env = append(s.env, "REDLATCH_AUDIT=cat >> "+audit)
	started := s.file("started")
	_, holder := s.background("run", "order:4711", "--service", "checkout", "--grace", "1s", "--", "sh", "-c", "touch "+started+"; exec sleep 600")
	s.eventually("the start", func() bool { _, err := os.Stat(started); return err == nil })
	wrong := s.terminal("release", "order:4711")
	wrong.await("by +checkout@")
	wrong.await("Type the key")
	wrong.types("order:4712\n")
	wrong.await("nothing released")
	wrong.ends(64)
	term := s.terminal("release", "order:4711")
	term.await("Type the key")
	term.types("order:4711\n")
	term.await("Why: ")
	term.types("it hangs\n")
	term.await(`"reason":"it hangs"`)
	term.ends(0)
	t.Logf("\n%s", term.screen())
	s.code("the holder", holder, 70)
	var line struct {
		Key, Reason, By string
		From            []string
	}
	if err := json.Unmarshal([]byte(s.read(audit)), &line); err != nil || line.Key != "order:4711" || line.Reason != "it hangs" ||
		!strings.Contains(line.By, "@") || len(line.From) != 1 || !strings.Contains(line.From[0], "checkout@") {
		t.Errorf("the audit has %q: %v", s.read(audit), err)
	}
	for name, tt := range map[string]struct {
		args []string
		code int
	}{
		"nobody holds it":      {[]string{"release", "order:4711", "--yes", "--reason", "x"}, 75},
		"without a reason":     {[]string{"release", "order:4711", "--yes"}, 64},
		"no terminal, no key":  {[]string{"release", "held"}, 64},
		"an audit that fails":  {[]string{"release", "held", "--yes", "--reason", "x", "--audit", "exit 1"}, 64},
		"what nobody confirms": {[]string{"release", "held", "--yes", "--reason", "x"}, 0},
	} {
		if tt.code == 64 && strings.Contains(strings.Join(tt.args, " "), "held") {
			hold(t, server.Client(t), lock.Identity{}, "held:"+name)
			tt.args[1] = "held:" + name
		} else if tt.code == 0 {
			hold(t, server.Client(t), lock.Identity{}, "held")
		}
		if _, stderr, code := s.run(tt.args...); code != tt.code {
			t.Errorf("%s: exit code %d, want %d: %s", name, code, tt.code, stderr)
		}
	}
	if out, _, _ := s.run("ls", "held:*"); strings.Count(out, "held:") != 2 {
		t.Errorf("held after refusals:\n%s", out)
	}
}

func TestWatchInATerminal(t *testing.T) {
	server := redistest.Standalone(t)
	s := onRedis(t, server)
	term := s.terminal("watch", "order:*", "--every", "200ms")
	term.await("0 held")
	locker := hold(t, server.Client(t), lock.Identity{Service: "checkout", Host: "web-3", PID: 812}, "order:1", "order:2")
	term.await(`2 held(?s:.*)order:1 +exclusive +checkout@web-3 pid 812`)
	t.Logf("\n%s", term.screen())
	if _, err := locker.ForceRelease(t.Context(), "order:1"); err != nil {
		t.Fatal(err)
	}
	term.await("1 held")
	var many []string
	for i := range 40 {
		many = append(many, fmt.Sprint("order:many:", i))
	}
	hold(t, server.Client(t), lock.Identity{}, many...)
	term.await(`41 held(?s:.*)… \d+ more`)
	term.types("\x03")
	term.ends(0)
}

// The first rows come with the first page, and Redis is never asked for more than 1,000
// keys at a time, on a server and in a cluster.
func TestListOfAHundredThousandLocks(t *testing.T) {
	const locks = 100_000
	fill := func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		for from := 0; from < locks; from += 5000 {
			if _, err := rdb.Pipelined(t.Context(), func(p redis.Pipeliner) error {
				for i := from; i < from+5000; i++ {
					key := fmt.Sprint("many:", i)
					p.HSet(t.Context(), key, fmt.Sprintf("0fa1b2c3-7421-869a-addb-44fb92259a1b:%d", i), 1)
					p.PExpire(t.Context(), key, time.Hour)
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
	}
	list := func(t *testing.T, s *shell, args ...string) {
		t.Helper()
		c := s.command(append([]string{"ls", "many:*", "--page", "1000"}, args...)...)
		pipe, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		var first time.Duration
		lines, buffer := 0, make([]byte, 1<<16)
		for {
			n, err := pipe.Read(buffer)
			if n > 0 && first == 0 {
				first = time.Since(began)
			}
			lines += strings.Count(string(buffer[:n]), "\n")
			if err != nil {
				break
			}
		}
		if err := c.Wait(); err != nil {
			t.Fatal(err)
		}
		all := time.Since(began)
		t.Logf("first rows after %v, all %d after %v", first, lines, all)
		if lines != locks+1 || first > all/2 {
			t.Errorf("%d lines, want %d; the first rows after %v of %v", lines, locks+1, first, all)
		}
	}
	// counts begins to count the commands of a server, and returns their judge.
	counts := func(t *testing.T, admin *redis.Client) (judge func()) {
		t.Helper()
		admin.ConfigSet(t.Context(), "slowlog-log-slower-than", "10000")
		admin.ConfigResetStat(t.Context())
		return func() {
			t.Helper()
			stats, err := admin.InfoMap(t.Context(), "commandstats").Result()
			if err != nil {
				t.Fatal(err)
			}
			size, scans := admin.DBSize(t.Context()).Val(), int64(0)
			if _, err := fmt.Sscanf(stats["Commandstats"]["cmdstat_scan"], "calls=%d", &scans); err != nil || scans < size/1000 {
				t.Errorf("%d SCANs of %d keys, %v", scans, size, err)
			}
			if keys, found := stats["Commandstats"]["cmdstat_keys"]; found {
				t.Errorf("KEYS was called: %s", keys)
			}
			slow, err := admin.SlowLogGet(t.Context(), 20).Result()
			t.Logf("%d keys, %d SCANs; slower than 10 ms: %v, %v", size, scans, slow, err)
		}
	}
	t.Run("standalone", func(t *testing.T) {
		server := redistest.Standalone(t)
		fill(t, server.Admin(t))
		judge := counts(t, server.Admin(t))
		list(t, onRedis(t, server))
		judge()
		if _, stderr, code := onRedis(t, server).run("ls", "--page", "1001"); code != 64 {
			t.Errorf("a page of 1001: %d, %s", code, stderr)
		}
	})
	t.Run("cluster", func(t *testing.T) {
		set := redistest.Cluster(t)
		fill(t, set.Admin(t))
		for _, master := range set.Masters {
			defer counts(t, master.Admin(t))()
		}
		list(t, newShell(t, "REDLATCH_REDIS=redis://"+set.Addrs()[0]), "--cluster")
	})
}

func TestDoctorSaysWhatToPutRight(t *testing.T) {
	server := redistest.Standalone(t)
	s := onRedis(t, server)
	out, _, code := s.run("doctor")
	if code != 0 || strings.Count(out, "ok ") != 8 || !strings.Contains(out, "appendonly") {
		t.Errorf("doctor: %d\n%s", code, out)
	}
	out, stderr, code := s.run("doctor", "--redis", "redis://127.0.0.1:1", "--timeout", "5s")
	if code != 69 || !strings.Contains(out, "BAD") {
		t.Errorf("doctor: %d\n%s%s", code, out, stderr)
	}
	admin := server.Admin(t)
	if err := admin.Do(t.Context(), "ACL", "SETUSER", "poor", "on", ">hush", "~*", "&*", "+@all", "-evalsha", "-eval").Err(); err != nil {
		t.Fatal(err)
	}
	poor := newShell(t, "REDLATCH_REDIS="+server.URL(), "REDLATCH_PASSWORD=hush")
	out, stderr, code = poor.run("doctor", "--user", "poor")
	if code != 69 || !strings.Contains(out, "permi") || strings.Contains(out+stderr, "hush") {
		t.Errorf("doctor: %d\n%s%s", code, out, stderr)
	}
}

func TestRulesCheck(t *testing.T) {
	s := newShell(t)
	good, bad := s.file("good.yaml"), s.file("bad.yaml")
	for file, text := range map[string]string{
		good: "rules:\n  - operation: POST /orders\n    key: lock:order:<userId>\n",
		bad:  "rules:\n  - operation: POST /orders\n    kee: lock:order:<userId>\n",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out, _, code := s.run("rules", "check", good); code != 0 || !strings.HasSuffix(out, "ok, 1 rules\n") {
		t.Errorf("%d %s", code, out)
	}
	if out, _, code := s.run("rules", "check", good, bad); code != 64 || !strings.Contains(out, "kee") {
		t.Errorf("%d %s", code, out)
	}
}

// Each command teaches by three examples, and completes in a shell.
func TestHelpTeaches(t *testing.T) {
	server := redistest.Standalone(t)
	s := onRedis(t, server)
	hold(t, server.Client(t), lock.Identity{}, "order:1")
	for _, command := range [][]string{{}, {"run"}, {"lead"}, {"ls"}, {"show"}, {"watch"}, {"release"}, {"doctor"}, {"rules", "check"}} {
		out, _, code := s.run(append(command, "--help")...)
		_, examples, _ := strings.Cut(out, "Examples:\n")
		examples, _, _ = strings.Cut(examples, "\n\nFlags:")
		examples, _, _ = strings.Cut(examples, "\n\nAvailable")
		if n := strings.Count(examples, "redlatch "); code != 0 || n < 3 {
			t.Errorf("%v: %d examples, exit code %d\n%s", command, n, code, out)
		}
	}
	for _, name := range []string{"bash", "zsh", "fish"} {
		if out, _, code := s.run("completion", name); code != 0 || !strings.Contains(out, "redlatch") {
			t.Errorf("completion for %s: %d", name, code)
		}
	}
	if out, _, _ := s.run("__complete", "show", "ord"); !strings.HasPrefix(out, "order:1\n") {
		t.Errorf("completes %q", out)
	}
}
