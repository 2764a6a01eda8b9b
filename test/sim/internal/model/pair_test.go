package model_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/test/internal/redistest"
	"github.com/redlatch/redlatch/test/sim/internal/model"
)

// pair is the model and a real server that get the same commands.
type pair struct {
	rdb  *redis.Client // for the commands
	dump *redis.Client // for looking at the keys
	k    *model.Keyspace
	lua  *model.Interpreter
	// order lists the commands whose elements come in any order.
	order map[string]bool
}

func newPair(t *testing.T) *pair {
	t.Helper()
	server := redistest.Standalone(t)
	p := &pair{
		rdb: client(t, server), dump: client(t, server), k: model.New(rand.New(rand.NewPCG(1, 2))), lua: model.NewInterpreter(),
		order: map[string]bool{"hgetall": true, "hkeys": true, "hrandfield": true},
	}
	t.Cleanup(p.lua.Close)
	p.k.SetTime(time.Now())
	return p
}

// client speaks the protocol in which scripts see their replies.
func client(t *testing.T, server *redistest.Server) *redis.Client {
	t.Helper()
	options := *server.Admin(t).Options()
	options.Protocol = 2
	rdb := redis.NewClient(&options)
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// command runs a command on both sides and compares the replies.
func (p *pair) command(t *testing.T, args ...string) {
	t.Helper()
	p.k.SetTime(time.Now())
	want := realReply(p.rdb.Do(t.Context(), anys(args)...).Result())
	got := p.k.Do(args...)
	if args[0] == "time" { // the µs differ
		got, want = got.([]model.Reply)[:1], want.([]model.Reply)[:1]
	}
	if p.order[args[0]] {
		got, want = sorted(got), sorted(want)
	}
	if fault := differs(got, want); fault != "" {
		t.Fatalf("%q: %s\nmodel  %#v\nserver %#v", args, fault, got, want)
	}
}

// realReply turns an answer of the client into a reply of the model.
func realReply(value any, err error) model.Reply {
	var refused redis.Error
	switch {
	case errors.Is(err, redis.Nil):
		return nil
	case errors.As(err, &refused):
		return model.Error(refused.Error())
	case err != nil:
		return "no reply: " + err.Error()
	}
	if list, ok := value.([]any); ok {
		all := make([]model.Reply, len(list))
		for i, element := range list {
			failed, _ := element.(error)
			all[i] = realReply(element, failed)
		}
		return all
	}
	return value
}

// tolerance is how far apart two numbers may be that are times.
const tolerance = 2 * time.Second

// differs compares two replies. Errors agree in their code, and numbers that are
// times nearly.
func differs(got, want model.Reply) string {
	if list, ok := got.([]model.Reply); ok {
		other, ok := want.([]model.Reply)
		if !ok || len(list) != len(other) {
			return "lists of different lengths"
		}
		for i := range list {
			if fault := differs(list[i], other[i]); fault != "" {
				return fmt.Sprintf("element %d: %s", i, fault)
			}
		}
		return ""
	}
	if failed, ok := got.(model.Error); ok {
		other, ok := want.(model.Error)
		if !ok || code(failed) != code(other) {
			return "different errors"
		}
		return ""
	}
	a, b := fmt.Sprint(plain(got)), fmt.Sprint(plain(want))
	if (got == nil) != (want == nil) || a != b && !near(a, b) {
		return fmt.Sprintf("%q and %q", a, b)
	}
	return ""
}

func plain(r model.Reply) any {
	if status, ok := r.(model.Status); ok {
		return string(status)
	}
	return r
}

func code(e model.Error) string {
	first, _, _ := strings.Cut(string(e), " ")
	return first
}

// near compares times: in µs, in ms, or as what is left of a long one.
func near(a, b string) bool {
	x, err1 := strconv.ParseFloat(a, 64)
	y, err2 := strconv.ParseFloat(b, 64)
	if err1 != nil || err2 != nil || (x < 0) != (y < 0) {
		return false
	}
	switch gap := math.Abs(x - y); {
	case math.Abs(x) > 1e14:
		return gap < float64(tolerance.Microseconds())
	case math.Abs(x) > 20_000:
		return gap < float64(tolerance.Milliseconds())
	default:
		return false
	}
}

// sorted orders what has no order: a list, or the pairs of one.
func sorted(r model.Reply) model.Reply {
	list, ok := r.([]model.Reply)
	if !ok {
		return r
	}
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b model.Reply) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	return list
}

// keys compares all keys of both sides.
func (p *pair) keys(t *testing.T) {
	t.Helper()
	p.k.SetTime(time.Now())
	names, err := p.dump.Keys(t.Context(), "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	if got := p.k.Keys(); !slices.Equal(got, names) {
		t.Fatalf("keys\nmodel  %q\nserver %q", got, names)
	}
	for _, name := range names {
		p.key(t, name)
	}
}

func (p *pair) key(t *testing.T, name string) {
	t.Helper()
	kind := p.dump.Type(t.Context(), name).Val()
	look := map[string][]string{
		"string": {"get", name}, "hash": {"hgetall", name}, "list": {"lrange", name, "0", "-1"},
		"zset": {"zrange", name, "0", "-1", "withscores"},
	}[kind]
	for _, args := range [][]string{{"type", name}, {"pttl", name}, look} {
		want := realReply(p.dump.Do(t.Context(), anys(args)...).Result())
		got := p.k.Do(args...)
		if kind == "hash" {
			got, want = sorted(got), sorted(want)
		}
		if fault := differs(got, want); fault != "" {
			t.Fatalf("key %q, %q: %s\nmodel  %#v\nserver %#v", name, args, fault, got, want)
		}
	}
}

func anys(args []string) []any {
	all := make([]any, len(args))
	for i, arg := range args {
		all[i] = arg
	}
	return all
}

// wipe empties both sides.
func (p *pair) wipe(t *testing.T) {
	t.Helper()
	if err := p.dump.FlushAll(context.WithoutCancel(t.Context())).Err(); err != nil {
		t.Fatal(err)
	}
	p.k.Clear()
}
