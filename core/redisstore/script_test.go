package redisstore_test

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/redisstore"
)

// Keys that each script declares, by what they are called in Redisson's format
// for a lock k and an owner o.
var declared = []struct {
	mode    lock.Mode
	op      string
	scripts []string
	keys    []string
}{
	{lock.Exclusive, "acquire", []string{"plain", "acquire"}, []string{"k"}},
	{lock.Exclusive, "release", []string{"publish", "keep", "release"}, []string{"k"}},
	{lock.Exclusive, "renew", []string{"renew"}, []string{"k"}},
	{lock.Fair, "acquire", []string{"publish", "fair", "fair_acquire"}, []string{"k", "redisson_lock_queue:{k}", "redisson_lock_timeout:{k}"}},
	{lock.Fair, "release", []string{"publish", "keep", "fair", "fair_release"}, []string{"k", "redisson_lock_queue:{k}", "redisson_lock_timeout:{k}"}},
	{lock.Fair, "renew", []string{"renew"}, []string{"k"}},
	{lock.Read, "acquire", []string{"read_acquire"}, []string{"k", "{k}:o:1:rwlock_timeout:1"}},
	{lock.Read, "release", []string{"publish", "keep", "writer", "readwrite", "read_release"}, []string{"k", "{k}:o:1:rwlock_timeout:1"}},
	{lock.Read, "renew", []string{"read_renew"}, []string{"k", "{k}:o:1:rwlock_timeout:1"}},
	{lock.Write, "acquire", []string{"readwrite", "write_acquire"}, []string{"k"}},
	{lock.Read, "lower", []string{"publish", "lower"}, []string{"k", "{k}:o:1:rwlock_timeout:1"}},
	{lock.Write, "release", []string{"publish", "keep", "writer", "write_release"}, []string{"k"}},
	{lock.Read, "keep", []string{"publish", "keep", "writer", "readwrite", "read_release"}, []string{"k", "{k}:o:1:rwlock_timeout:1", "{k}:o:1:kept:rwlock_timeout:1"}},
	{lock.Write, "keep", []string{"publish", "keep", "writer", "write_release"}, []string{"k"}},
	{lock.Write, "renew", []string{"renew"}, []string{"k"}},
	{lock.Semaphore, "acquire", []string{"publish", "semaphore", "semaphore_acquire"}, []string{"k", "{k}:timeout"}},
	{lock.Semaphore, "release", []string{"publish", "semaphore", "semaphore_release"}, []string{"k", "{k}:timeout"}},
	{lock.Semaphore, "keep", []string{"publish", "semaphore", "semaphore_keep"}, []string{"k", "{k}:timeout"}},
	{lock.Semaphore, "renew", []string{"semaphore", "semaphore_renew"}, []string{"{k}:timeout", "k"}},
	{lock.Exclusive, "renew many", []string{"renew_many"}, []string{"k", "k:2"}},
	{lock.Exclusive, "acquire with token", []string{"plain", "token_acquire"}, []string{"k", "redisson_lock_token:{k}"}},
	{lock.Exclusive, "acquire by SETNX", []string{"setnx_acquire"}, []string{"k"}},
	{lock.Exclusive, "release by SETNX", []string{"publish", "setnx_release"}, []string{"k"}},
	{lock.Exclusive, "renew by SETNX", []string{"setnx_renew"}, []string{"k"}},
	{lock.Exclusive, "inspect by SETNX", []string{"setnx_inspect"}, []string{"k"}},
	{lock.Exclusive, "inspect", []string{"semaphore", "inspect"}, []string{"k", "{k}:timeout", "redisson_lock_queue:{k}"}},
	{lock.Exclusive, "set latch", []string{"publish", "latch", "latch_set"}, []string{"k"}},
	{lock.Exclusive, "count down", []string{"publish", "latch", "latch_count_down"}, []string{"k"}},
	{lock.Exclusive, "count", []string{"latch", "latch_count"}, []string{"k"}},
	{lock.Exclusive, "delete latch", []string{"publish", "latch", "latch_delete"}, []string{"k"}},
	{lock.Exclusive, "force release", []string{"publish", "semaphore", "force_release"}, []string{"k", "{k}:timeout", "redisson_lock_queue:{k}"}},
	{lock.Read, "force release", []string{"publish", "semaphore", "force_release"}, []string{"k", "{k}:timeout", "redisson_lock_queue:{k}", "{k}:o:1:rwlock_timeout:1"}},
}

// keptUntil is the end of a minimum hold.
var keptUntil = time.Now().Add(time.Hour)

// sent performs an operation and returns what the server got of it.
func sent(t *testing.T, m lock.Mode, op, key string) (sha string, keys, args []string) {
	t.Helper()
	f, rdb := newFake(t, func(command []string) string {
		switch command[1] {
		case redisstore.SHA("setnx_inspect"):
			return "*6\r\n$5\r\ntoken\r\n:1000\r\n*2\r\n$3\r\no:1\r\n$1\r\n1\r\n*0\r\n:0\r\n:0\r\n"
		case redisstore.SHA("semaphore", "inspect"):
			if m == lock.Read {
				return "*6\r\n$4\r\nhash\r\n:1000\r\n*4\r\n$4\r\nmode\r\n$4\r\nread\r\n$3\r\no:1\r\n$1\r\n1\r\n*0\r\n:0\r\n:0\r\n"
			}
			return "*6\r\n$4\r\nhash\r\n:1000\r\n*2\r\n$3\r\no:1\r\n$1\r\n1\r\n*0\r\n:0\r\n:0\r\n"
		}
		return integer(1)
	})
	store := redisstore.New(rdb)
	op, bySETNX := strings.CutSuffix(op, " by SETNX")
	if bySETNX {
		store = redisstore.New(rdb, redisstore.WithSETNX())
	}
	c := lock.Claim{Key: key, Owner: "o:1", Mode: m, TTL: claim.TTL, Places: []string{"o:1", "o:2"}, Permits: 2, Size: 3}
	switch op {
	case "acquire":
		_, _ = lock.Blocking(store).Acquire(t.Context(), c)
	case "acquire with token":
		_, _ = lock.Blocking(redisstore.New(rdb, redisstore.WithRedissonTokens())).Acquire(t.Context(), c)
	case "release":
		_ = lock.Blocking(store).Release(t.Context(), c)
	case "lower":
		_ = lock.Blocking(store).Lower(t.Context(), c)
	case "keep":
		c.Keep = keptUntil
		_ = lock.Blocking(store).Release(t.Context(), c)
	case "renew":
		store.Renew(t.Context(), []lock.Claim{c}, func(int, error) {})
	case "renew many":
		other := c
		other.Key += ":2"
		store.Renew(t.Context(), []lock.Claim{c, other}, func(int, error) {})
	case "inspect":
		_, _ = store.Inspect(t.Context(), key)
	case "force release":
		_, _ = store.ForceRelease(t.Context(), key)
	case "set latch":
		_ = redisstore.NewLatch(store, key).TrySet(t.Context(), 3)
	case "count down":
		_ = redisstore.NewLatch(store, key).CountDown(t.Context())
	case "count":
		_, _ = redisstore.NewLatch(store, key).Count(t.Context())
	case "delete latch":
		_ = redisstore.NewLatch(store, key).Delete(t.Context())
	}
	commands := f.received()
	if op == "force release" && len(commands) == 3 && commands[2][0] == "publish" {
		commands = commands[1:2] // it looks first who has the key, and announces the release
	}
	if len(commands) != 1 || commands[0][0] != "evalsha" {
		t.Fatalf("%s %s sent %q", m, op, commands)
	}
	n, err := strconv.Atoi(commands[0][2])
	if err != nil {
		t.Fatal(err)
	}
	return commands[0][1], commands[0][3 : 3+n], commands[0][3+n:]
}

func TestScriptsDeclareTheKeysOfTheirLock(t *testing.T) {
	for _, d := range declared {
		sha, keys, _ := sent(t, d.mode, d.op, "k")
		if sha != redisstore.SHA(d.scripts...) {
			t.Errorf("%s %s sent another script than %s", d.mode, d.op, d.scripts)
		}
		if !slices.Equal(keys, d.keys) {
			t.Errorf("%s %s declares %q, want %q", d.mode, d.op, keys, d.keys)
		}
	}
}

// A script runs on one node of a cluster, so everything that it touches must be
// in the slot of the lock, declared or not, and channels must be as well.
func TestAllThatAScriptTouchesIsInTheSlotOfItsLock(t *testing.T) {
	for _, name := range []string{"Q", "{t}Q", "Q{t}b"} {
		for _, d := range declared {
			if strings.Contains(d.op, "latch") || strings.HasPrefix(d.op, "count") && strings.Contains(name, "{") {
				continue // refused in a cluster
			}
			if d.op == "renew many" && !strings.Contains(name, "{") {
				continue // several locks: refused in a cluster without a common hash tag
			}
			_, keys, args := sent(t, d.mode, d.op, name)
			for _, text := range slices.Concat(keys, args) {
				// The prefix of sentinels and the like are parts of names.
				if strings.Contains(text, name) && redisstore.HashTag(text) != redisstore.HashTag(name) {
					t.Errorf("%s %s of %q: %q is in another slot", d.mode, d.op, name, text)
				}
			}
		}
	}
}

// The head of a script is its contract.
func TestEveryScriptSaysWhatGoesInAndOut(t *testing.T) {
	files, err := filepath.Glob("scripts/*.lua")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	operation := make(map[string]bool) // false: what several have in common
	for _, d := range declared {
		for i, name := range d.scripts {
			operation[name] = i == len(d.scripts)-1
		}
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		head, body, _ := strings.Cut(string(text), "\nlocal ")
		name := strings.TrimSuffix(filepath.Base(file), ".lua")
		isOperation, sent := operation[name]
		if !sent {
			t.Errorf("%s: nothing sends it", name)
		}
		words := []string{"-- KEYS"}
		if isOperation {
			words = append(words, "\n-- Returns ")
		}
		if isOperation && strings.Contains(body, "ARGV") {
			words = append(words, "-- ARGV")
		}
		for _, word := range words {
			if !strings.Contains(head, word) {
				t.Errorf("%s: the head does not have %q", name, word)
			}
		}
		if !isOperation && strings.Contains(head, "\n-- Returns ") {
			t.Errorf("%s: begins others, and its head has Returns", name) // the simulator would wait for it
		}
	}
}

// The server's clock decides, and no caller's.
func TestNoScriptIsToldTheTime(t *testing.T) {
	for _, d := range declared {
		if d.op == "keep" {
			continue // it has what is left, as a number of ms
		}
		_, _, first := sent(t, d.mode, d.op, "k")
		_, _, second := sent(t, d.mode, d.op, "k")
		if !slices.Equal(first, second) {
			t.Errorf("%s %s: %q, and then %q", d.mode, d.op, first, second)
		}
	}
}

func TestPermitsAreTheOwnersAlways(t *testing.T) {
	_, _, taken := sent(t, lock.Semaphore, "acquire", "k")
	_, _, given := sent(t, lock.Semaphore, "release", "k")
	ids := taken[len(taken)-2:]
	if !slices.Equal(ids, given[len(given)-2:]) {
		t.Errorf("took %q, gave %q", ids, given)
	}
	if want := []string{"o:1/0", "o:1/1"}; !slices.Equal(ids, want) {
		t.Errorf("ids %q, want %q", ids, want)
	}
}
