package redisstore_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/redisstore"
)

// young is a server of some age that has yet to see a script.
func young(info string, loaded *atomic.Bool) func(command []string) string {
	return func(command []string) string {
		switch strings.ToLower(command[0]) {
		case "evalsha":
			if loaded.Load() {
				return integer(7)
			}
			return failed("NOSCRIPT No matching script")
		case "info":
			if strings.HasPrefix(info, "-") {
				return failed(info[1:])
			}
			return fmt.Sprintf("$%d\r\n%s\r\n", len(info), info)
		case "script":
			loaded.Store(true)
			return "$40\r\n" + strings.Repeat("a", 40) + "\r\n"
		case "wait":
			return integer(1)
		}
		return failed("ERR unexpected " + command[0])
	}
}

func server(version string, up int) string {
	return fmt.Sprintf("# Server\r\nredis_version:%s\r\nuptime_in_seconds:%d\r\nuptime_in_days:0\r\n", version, up)
}

func TestAServerInQuarantineGetsNoScriptThatGrants(t *testing.T) {
	const d = 30 * time.Second
	claims := map[string]lock.Claim{
		"exclusive": {Mode: lock.Exclusive}, "fair": {Mode: lock.Fair, Places: []string{"o:1"}},
		"read": {Mode: lock.Read}, "write": {Mode: lock.Write}, "permits": {Mode: lock.Semaphore, Permits: 1, Size: 2},
		"queued": {Mode: lock.Fair, Places: []string{"o:1"}},
	}
	for name, tt := range map[string]struct {
		info string
		want error // nil: granted
	}{
		"just started":       {server("7.0.15", 0), redisstore.ErrQuarantine},
		"a second too young": {server("7.0.15", 30), redisstore.ErrQuarantine},
		"old enough":         {server("7.0.15", 31), nil},
		"Redis 10":           {server("10.2.0", 31), nil},
		"an old Redis":       {server("6.2.14", 3600), lock.ErrUnsupported},
		"no age":             {"# Server\r\nredis_version:7.0.0\r\n", lock.ErrUnsupported},
	} {
		for mode, c := range claims {
			t.Run(name+", "+mode, func(t *testing.T) {
				var loaded atomic.Bool
				f, client := newFake(t, young(tt.info, &loaded))
				store := redisstore.New(client, redisstore.WithQuarantine(d))
				c.Key, c.Owner, c.TTL = "k", "owner:1", time.Second
				_, err := lock.Blocking(store).Acquire(t.Context(), c)
				if !errors.Is(err, tt.want) {
					t.Errorf("got %v, want %v", err, tt.want)
				}
				var sent []string
				for _, command := range f.received() {
					sent = append(sent, strings.ToLower(command[0]))
				}
				want := []string{"evalsha", "info"}
				if tt.want == nil {
					want = append(want, "script", "evalsha")
				}
				if !slices.Equal(sent, want) {
					t.Errorf("sent %q, want %q", sent, want)
				}
				var failed *lock.StoreError
				if errors.Is(err, redisstore.ErrQuarantine) && (!errors.As(err, &failed) || failed.Outcome != lock.OutcomeNotExecuted || failed.Unreachable) {
					t.Errorf("got %#v, want a call that did not run", err)
				}
			})
		}
	}
	t.Run("without permission", func(t *testing.T) {
		var loaded atomic.Bool
		_, client := newFake(t, young("-NOPERM this user has no permissions to run the 'info' command", &loaded))
		store := redisstore.New(client, redisstore.WithQuarantine(d))
		_, err := lock.Blocking(store).Acquire(t.Context(), lock.Claim{Key: "a", Owner: "o:1", TTL: time.Second})
		var failed *lock.StoreError
		if !errors.As(err, &failed) || failed.Outcome != lock.OutcomeRefused || loaded.Load() {
			t.Errorf("got %v", err)
		}
	})
}

// Whichever way it is called, and whatever has to follow a grant.
func TestQuarantineIsKeptByAllCalls(t *testing.T) {
	replicas := redisstore.WithReplicas(1, 10*time.Millisecond)
	for name, tt := range map[string]struct {
		opts  []redisstore.Option
		begun bool
	}{
		"a call": {}, "a call that begins": {begun: true},
		"with replicas": {opts: []redisstore.Option{replicas}}, "that begins, with replicas": {opts: []redisstore.Option{replicas}, begun: true},
		"with the time behind it": {opts: []redisstore.Option{redisstore.WithoutScriptTime()}, begun: true},
	} {
		for up, want := range map[int]error{0: redisstore.ErrQuarantine, 31: nil} {
			t.Run(fmt.Sprintf("%s, after %d s", name, up), func(t *testing.T) {
				var loaded atomic.Bool
				ordinary := young(server("7.0.15", up), &loaded)
				f, client := newFake(t, func(command []string) string {
					if command[0] == "time" {
						return clock(7)
					}
					return ordinary(command)
				})
				store := redisstore.New(client, append(tt.opts, redisstore.WithQuarantine(30*time.Second))...)
				var a answer
				if tt.begun {
					a = answered(t, begin(t.Context(), store, "k", time.Now().Add(soon)))
				} else {
					a.fence, a.err = lock.Blocking(store).Acquire(t.Context(), claim)
				}
				if !errors.Is(a.err, want) || want == nil && a.fence == 0 {
					t.Errorf("got %d, %v; want %v", a.fence, a.err, want)
				}
				for _, command := range f.received() {
					if command[0] == "eval" || want != nil && command[0] == "script" {
						t.Errorf("it got the script by %s", command[0])
					}
				}
			})
		}
	}
}

// Neither is it sent what the server refuses in scripts.
func TestAScriptOfQuarantineIsAsQuietAsTheOthers(t *testing.T) {
	var loaded atomic.Bool
	f, client := newFake(t, young(server("7.0.15", 31), &loaded))
	store := redisstore.New(client, redisstore.WithQuarantine(30*time.Second), redisstore.WithoutScriptPublish())
	for i, mode := range []lock.Mode{lock.Exclusive, lock.Read, lock.Write, lock.Semaphore} {
		loaded.Store(false)
		c := lock.Claim{Key: fmt.Sprint("k:", i), Owner: "o:1", Mode: mode, TTL: time.Second}
		if mode == lock.Semaphore {
			c.Permits, c.Size = 1, 2
		}
		if _, err := lock.Blocking(store).Acquire(t.Context(), c); err != nil {
			t.Errorf("%v: %v", mode, err)
		}
	}
	for _, command := range f.received() {
		if strings.EqualFold(command[0], "script") && strings.Contains(command[2], "'publish'") {
			t.Errorf("loaded a script that publishes:\n%.60s", command[2])
		}
	}
}

// Stores with other settings, or none, must not open the server for this one.
func TestAScriptOfQuarantineIsNobodyElses(t *testing.T) {
	names := make(map[string]bool)
	for _, opts := range [][]redisstore.Option{
		nil, {redisstore.WithQuarantine(time.Second)}, {redisstore.WithQuarantine(time.Minute)},
	} {
		f, client := newFake(t, func([]string) string { return integer(7) })
		_, err := lock.Blocking(redisstore.New(client, opts...)).Acquire(t.Context(), lock.Claim{Key: "a", Owner: "o:1", TTL: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		if sent := f.received(); len(sent) != 1 { // and a server that knows it costs one call
			t.Errorf("sent %q", sent)
		} else {
			names[sent[0][1]] = true
		}
	}
	if len(names) != 3 {
		t.Errorf("names of scripts: %v, want three", names)
	}
}

// What goes before an acquire and has no answer leaves nothing to undo.
func TestAnIntroductionWithoutAnAnswerHasAcquiredNothing(t *testing.T) {
	_, client := newFake(t, func(command []string) string {
		if command[0] == "evalsha" {
			return failed("NOSCRIPT No matching script")
		}
		return "hang up"
	})
	store := redisstore.New(client, redisstore.WithQuarantine(time.Minute))
	_, err := lock.Blocking(store).Acquire(t.Context(), lock.Claim{Key: "k", Owner: "o:1", TTL: time.Minute})
	wantNotExecuted(t, err)
}
