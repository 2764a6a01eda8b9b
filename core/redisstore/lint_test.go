package redisstore_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch/core/redisstore"
)

// What providers of Redis refuse when they read a script before they run it:
// keys that are not written KEYS[n], commands that are not literal strings, and
// unpack. Each pattern is what such a script contains.
var (
	commands   = regexp.MustCompile(`redis\.p?call\(\s*([^,)]*)(?:,\s*([^,)]*),?)?`)
	literalKey = regexp.MustCompile(`^KEYS\[\d+\]$`)
	literal    = regexp.MustCompile(`^'[a-z]+'$`)
	manyKeys   = regexp.MustCompile(`'exists'.*,.*,`)
	loop       = regexp.MustCompile(`\b(for|while|repeat)\b.*`)
)

// keyless are the commands of ours whose first argument is no key.
var keyless = []string{"'time'", "'publish'", "'spublish'"}

// withDynamicKeys are the scripts in which a key is not literal, and why. Where
// they are refused, so are the modes that need them.
var withDynamicKeys = map[string]string{
	"renew_many": "renews many locks where that is cheaper; renew.lua takes its place where it is refused",
	"readwrite":  "sentinels of other readers: who they are is in the hash",
	"inspect":    "the same sentinels",
}

func TestScriptsRunWhereScriptsAreReadFirst(t *testing.T) {
	dynamic := make(map[string]bool)
	for _, name := range scriptNames(t) {
		text := code(t, name)
		found := commands.FindAllStringSubmatch(text, -1)
		if len(found) == 0 && name != "semaphore" && name != "latch_count" { // latch.lua reads for that
			t.Errorf("%s: calls nothing", name)
		}
		for _, call := range found {
			command, key := call[1], call[2]
			if !literal.MatchString(command) {
				t.Errorf("%s: the command %s is not a literal string", name, command)
			}
			if slices.Contains(keyless, command) || literalKey.MatchString(key) && !manyKeys.MatchString(call[0]) {
				continue
			}
			dynamic[name] = true
			if _, allowed := withDynamicKeys[name]; !allowed {
				t.Errorf("%s: the key %s of %s is not written KEYS[n]", name, key, command)
			}
		}
		for _, word := range []string{"unpack", "loadstring", "while", "repeat", "SELECT", "math.random"} {
			if regexp.MustCompile(`\b` + regexp.QuoteMeta(word) + `\b`).MatchString(text) {
				t.Errorf("%s: has %s", name, word)
			}
		}
		if _, allowed := withDynamicKeys[name]; !allowed && regexp.MustCompile(`(?m)=\s*KEYS(\[\w+\])?\s*$`).MatchString(text) {
			t.Errorf("%s: has a key in a variable", name)
		}
		for _, line := range loop.FindAllString(text, -1) {
			if !strings.Contains(line, " in ipairs(") && !regexp.MustCompile(`for \w+ = \d+, `).MatchString(line) {
				t.Errorf("%s: the loop %q has no bound", name, line)
			}
		}
	}
	for name := range withDynamicKeys {
		if !dynamic[name] {
			t.Errorf("%s has no dynamic keys", name)
		}
	}
}

// The variants lack what they are made to do without.
func TestVariantsOfScripts(t *testing.T) {
	_, rdb := newFake(t, func([]string) string { return integer(1) })
	for word, opts := range map[string][]redisstore.Option{
		"'publish'": {redisstore.WithoutScriptPublish()},
		"'time'":    {redisstore.WithoutScriptTime(), redisstore.WithQuarantine(time.Second)},
	} {
		texts := redisstore.New(rdb, opts...).VariantTexts()
		if len(texts) == 0 {
			t.Errorf("%s: no variants", word)
		}
		for _, text := range texts {
			if strings.Contains(text, word) || !strings.Contains(text, "redis.call(") {
				t.Errorf("%s is in:\n%s", word, text)
			}
		}
	}
}

// The lint finds what it is for.
func TestTheLintOfScripts(t *testing.T) {
	for _, line := range []string{
		"redis.call('hget', lock, 'a')", "redis.call('hget', KEYS[i], 'a')", "redis.call('hget', KEYS[1 + n], 'a')",
		"redis.call('hget', KEYS[#KEYS], 'a')", "redis.pcall('get', prefix .. 'a')",
	} {
		if found := commands.FindStringSubmatch(line); found == nil || literalKey.MatchString(found[2]) {
			t.Errorf("%s passes", line)
		}
	}
	for _, line := range []string{"redis.call(command, KEYS[1])", "redis.call(ARGV[1], KEYS[1])", "redis.call('p' .. 'ublish', 'c', '0')"} {
		if found := commands.FindStringSubmatch(line); found == nil || literal.MatchString(found[1]) {
			t.Errorf("%s passes", line)
		}
	}
	if found := commands.FindStringSubmatch("redis.call('hget', KEYS[1], 'a')"); found == nil || !literalKey.MatchString(found[2]) {
		t.Error("what is right does not pass")
	}
}

func scriptNames(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir("scripts")
	if err != nil || len(entries) == 0 {
		t.Fatal(entries, err)
	}
	names := make([]string, 0, len(entries))
	for _, entry := range entries {
		names = append(names, strings.TrimSuffix(entry.Name(), ".lua"))
	}
	return names
}

// code is a script without its comments.
func code(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("scripts/" + name + ".lua")
	if err != nil {
		t.Fatal(err)
	}
	return regexp.MustCompile(`--.*`).ReplaceAllString(string(text), "")
}
