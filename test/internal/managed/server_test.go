package managed_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/test/internal/managed"
	"github.com/redlatch/redlatch/test/internal/redistest"
)

func connect(t *testing.T, rules ...managed.Rule) (rdb *redis.Client, server *managed.Server, behind *redis.Client) {
	t.Helper()
	plain := redistest.Standalone(t)
	server = managed.Product{Name: "of a test", Rules: rules}.Serve(t, plain.Addr())
	rdb = redis.NewClient(&redis.Options{Addr: server.Addr(), DisableIdentity: true, MaxRetries: -1})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb, server, plain.Client(t)
}

func TestScriptsAreReadBeforeTheyRun(t *testing.T) {
	rdb, _, behind := connect(t,
		managed.Rule{Refuses: managed.ComputedKeys, Reply: "ERR keys"},
		managed.Rule{Refuses: managed.ComputedCommands, Reply: "ERR commands"},
		managed.Rule{Refuses: managed.ScriptsWith, Names: []string{"publish"}, Reply: "ERR publish"},
		managed.Rule{Refuses: managed.NoKeys, Reply: "ERR no keys"},
	)
	for text, want := range map[string]string{
		"return redis.call('set', KEYS[1], 'a')":                                    "",
		"return redis.call('exists', KEYS[1], KEYS[2])":                             "",
		"-- redis.call('set', key)\nreturn 1":                                       "",
		"local key = KEYS[1] return redis.call('set', key, 'a')":                    "ERR keys",
		"return redis.call('set', KEYS[1 + 1], 'a')":                                "ERR keys",
		"return redis.pcall('exists', KEYS[1], ARGV[1] .. 'a')":                     "ERR keys",
		"local c = 'set' return redis.call(c, KEYS[1], 'a')":                        "ERR commands",
		"redis.call('set', KEYS[1], 'a') return redis.call('publish', 'c', 'gone')": "ERR publish",
	} {
		behind.FlushAll(t.Context())
		err := rdb.Eval(t.Context(), text, []string{"a", "b"}).Err()
		if got := message(err); got != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
		if n := behind.DBSize(t.Context()).Val(); want != "" && n != 0 {
			t.Errorf("%s: refused, and it has run", text)
		}
	}
	if got := message(rdb.Eval(t.Context(), "return 1", nil).Err()); got != "ERR no keys" {
		t.Errorf("without keys: %q", got)
	}
}

func TestScriptsAreStoppedWhileTheyRun(t *testing.T) {
	rdb, _, behind := connect(t,
		managed.Rule{Refuses: managed.RunningScripts, Names: []string{"time"}, Reply: "ERR not here"},
		managed.Rule{Refuses: managed.UndeclaredKeys, Reply: "ERR undeclared"},
	)
	for text, want := range map[string]string{
		"redis.call('set', KEYS[1], 'a') return redis.call('TIME')":                          "ERR not here",
		"redis.call('set', KEYS[1], 'a') return redis.call('get', 'b')":                      "ERR undeclared",
		"redis.call('set', KEYS[1], 'a') return redis.call('exists', KEYS[1], 'b')":          "ERR undeclared",
		"redis.call('set', KEYS[1], 'a') return redis.pcall('get', 'b')":                     "ERR undeclared",
		"redis.call('set', KEYS[1], 'a') redis.pcall('get', 'b') return 1":                   "",
		"local key = KEYS[1] redis.call('set', key, 'a') return redis.sha1hex('')":           "",
		"redis.call('set', KEYS[1], 'a') return redis.call('publish', 'c', 'no key at all')": "",
	} {
		behind.FlushAll(t.Context())
		err := rdb.Eval(t.Context(), text, []string{"a"}).Err()
		if got := message(err); !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
		if behind.Get(t.Context(), "a").Val() != "a" {
			t.Errorf("%s: what it did before is gone", text)
		}
	}
}

func TestAScriptKeepsItsName(t *testing.T) {
	rdb, _, behind := connect(t, managed.Rule{Refuses: managed.RunningScripts, Names: []string{"time"}, Reply: "ERR not here"})
	script := redis.NewScript("return redis.call('incr', KEYS[1])")
	if err := script.Load(t.Context(), behind).Err(); err != nil { // nobody has read it
		t.Fatal(err)
	}
	if err := script.EvalSha(t.Context(), rdb, []string{"a"}).Err(); !redis.HasErrorPrefix(err, "NOSCRIPT") {
		t.Errorf("before it was sent: %v, want NOSCRIPT", err)
	}
	for want := range 3 {
		if n, err := script.Run(t.Context(), rdb, []string{"a"}).Int(); err != nil || n != want+1 {
			t.Errorf("got %d, %v, want %d", n, err, want+1)
		}
	}
}

func TestRepliesKeepTheirOrder(t *testing.T) {
	rdb, server, _ := connect(t, managed.Rule{Refuses: managed.Commands, Names: []string{"wait", "client id"}, Reply: "ERR unknown command"})
	pipe := rdb.Pipeline()
	set := pipe.Set(t.Context(), "a", "1", 0)
	wait := pipe.Do(t.Context(), "WAIT", 0, 0)
	get := pipe.Get(t.Context(), "a")
	id := pipe.ClientID(t.Context())
	name := pipe.ClientGetName(t.Context())
	_, _ = pipe.Exec(t.Context()) // each has its own error
	if set.Err() != nil || get.Val() != "1" || name.Err() != nil && !errors.Is(name.Err(), redis.Nil) {
		t.Errorf("what is served: %v, %v, %v", set, get, name)
	}
	if message(wait.Err()) != "ERR unknown command" || message(id.Err()) != "ERR unknown command" {
		t.Errorf("what is refused: %v, %v", wait.Err(), id.Err())
	}
	if server.Refused("client id") != 1 {
		t.Error("the refusal was not counted")
	}
}

func TestEveryRuleOfAProductHasItsSource(t *testing.T) {
	for _, p := range managed.Products {
		for _, r := range p.Rules {
			if r.Reply == "" || r.Source == "" || r.Seen == "" {
				t.Errorf("%s: %+v", p.Name, r)
			}
		}
	}
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
