package redisstore_test

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/redisstore"
)

// notProbed are the scripts that locks can do without, and why. Check doesn't
// fail where only these are refused.
var notProbed = map[string]string{
	"renew_many":       "renew.lua takes its place where it is refused",
	"inspect":          "for operators; docs/managed-redis.md says where it is refused",
	"setnx_inspect":    "the same",
	"force_release":    "the same",
	"latch_set":        "a latch is no mode of a lock",
	"latch_count_down": "the same",
	"latch_count":      "the same",
	"latch_delete":     "the same",
}

// A server that refuses any script that locks need is found by Check, with the
// mode that can't be had, and no script of ours is missing there.
func TestCheckFindsWhichScriptIsRefused(t *testing.T) {
	needed := make(map[string]string) // names, by SHA
	for _, d := range declared {
		name := d.scripts[len(d.scripts)-1]
		if _, exempt := notProbed[name]; !exempt {
			needed[redisstore.SHA(d.scripts...)] = name
		}
	}
	met := make(map[string]bool)
	for mode, formats := range map[lock.Mode][][]redisstore.Option{
		lock.Exclusive: {nil, {redisstore.WithRedissonTokens()}, {redisstore.WithSETNX()}},
		lock.Fair:      {nil},
		lock.Read:      {nil},
		lock.Write:     {nil},
		lock.Semaphore: {nil},
	} {
		for _, opts := range formats {
			scripts, err := check(t, mode, opts, "")
			if err != nil || len(scripts) == 0 {
				t.Errorf("mode %s: Check ran %d scripts: %v", mode, len(scripts), err)
			}
			for sha := range scripts {
				if met[sha] = true; needed[sha] == "" {
					t.Errorf("mode %s: Check runs a script that locks don't need", mode)
				}
				_, err := check(t, mode, opts, sha)
				if !errors.Is(err, lock.ErrUnavailable) || !strings.Contains(err.Error(), "a lock in mode "+mode.String()) ||
					!strings.Contains(err.Error(), "docs/managed-redis.md") {
					t.Errorf("mode %s, where %s is refused: got %v", mode, needed[sha], err)
				}
			}
		}
	}
	for sha, name := range needed {
		if !met[sha] {
			t.Errorf("Check runs %s in no mode", name)
		}
	}
}

// check runs Check on a server that refuses one script, and returns the scripts that
// it was sent.
func check(t *testing.T, mode lock.Mode, opts []redisstore.Option, refused string) (scripts map[string]bool, err error) {
	t.Helper()
	f, rdb := newFake(t, func(command []string) string {
		if command[0] == "evalsha" && command[1] == refused {
			return failed("ERR bad lua script for redis cluster, all the keys that the script uses should be passed using the KEYS array")
		}
		return integer(1)
	})
	silent := redisstore.WithLogger(slog.New(slog.DiscardHandler))
	err = redisstore.New(rdb, append([]redisstore.Option{silent, redisstore.WithPolling()}, opts...)...).Check(t.Context(), mode)
	scripts = make(map[string]bool)
	for _, command := range f.received() {
		if command[0] == "evalsha" {
			scripts[command[1]] = true
		}
	}
	return scripts, err
}
