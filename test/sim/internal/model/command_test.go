package model_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/redlatch/redlatch/test/sim/internal/model"
)

// draw makes arguments of one kind.
type draw func(rng *rand.Rand) []string

func one(of ...string) draw {
	return func(rng *rand.Rand) []string { return []string{of[rng.IntN(len(of))]} }
}

func either(a, b draw) draw {
	return func(rng *rand.Rand) []string {
		if rng.IntN(2) == 0 {
			return a(rng)
		}
		return b(rng)
	}
}

// far draws from a million numbers that end with these digits.
func far(digits string) draw {
	return func(rng *rand.Rand) []string { return []string{fmt.Sprint(1_000_000+rng.IntN(1_000_000), digits)} }
}

func maybe(d draw) draw {
	return func(rng *rand.Rand) []string {
		if rng.IntN(2) == 0 {
			return nil
		}
		return d(rng)
	}
}

func several(d draw) draw {
	return func(rng *rand.Rand) (all []string) {
		for range 1 + rng.IntN(3) {
			all = append(all, d(rng)...)
		}
		return all
	}
}

func all(parts ...draw) draw {
	return func(rng *rand.Rand) (args []string) {
		for _, part := range parts {
			args = append(args, part(rng)...)
		}
		return args
	}
}

var (
	// Each kind of value has its own key, and shares one with the others,
	// so that commands meet keys of another type.
	texts   = one("text", "shared")
	hashes  = one("hash", "shared")
	lists   = one("list", "shared")
	zsets   = one("zset", "shared")
	anyKey  = one("text", "hash", "list", "zset", "shared", "absent")
	field   = one("a", "b", "c", "mode", "")
	value   = one("1", "2", "x", "-7", "9223372036854775807")
	element = one("p", "q", "r")
	index   = one("0", "1", "2", "-1", "-2", "7", "x")
	score   = one("0", "1", "2.5", "-3", "1e3", "1760000000000", "x")
	bound   = one("0", "1", "(1", "-inf", "+inf", "(2.5", "x")
	by      = one("1", "5", "-2", "9223372036854775807", "x")
	// Ends are far away or past, so that none comes between the two sides. Two
	// that count from now are never close together: which of them is later
	// would depend on the clocks of the two sides.
	seconds = either(far("000"), one("0", "-1", "9223372036854775807", "x"))
	millis  = either(far("000000"), one("0", "-1", "9223372036854775807", "x"))
	when    = one("4102444800000", "1000", "x")
)

// arguments makes the arguments of every command of the model.
var arguments = map[string]draw{
	"ping": all(), "time": all(),
	"exists": several(anyKey), "del": anyKey, "unlink": anyKey, "type": anyKey,
	"ttl": anyKey, "pttl": anyKey, "persist": anyKey, "pexpiretime": anyKey,
	"expire":    all(anyKey, seconds, maybe(one("NX", "xx", "GT", "LT"))),
	"pexpire":   all(anyKey, millis, maybe(one("NX", "XX", "gt", "lt"))),
	"pexpireat": all(anyKey, when, maybe(one("NX", "XX", "GT", "LT"))),
	"publish":   all(one("c"), value), "spublish": all(one("c"), value),

	"get": texts, "incr": texts, "decr": texts, "incrby": all(texts, by), "decrby": all(texts, by),
	"set": all(texts, value, maybe(one("NX", "XX", "KEEPTTL")), maybe(all(one("PX"), millis))),

	"hset": all(hashes, several(all(field, value))), "hsetnx": all(hashes, field, value), "hget": all(hashes, field),
	"hmget": all(hashes, several(field)), "hdel": all(hashes, several(field)), "hexists": all(hashes, field),
	"hlen": hashes, "hgetall": hashes, "hkeys": hashes, "hincrby": all(hashes, field, by),
	"hrandfield": all(hashes, one("7", "100"), maybe(one("withvalues"))),

	"llen": lists, "lindex": all(lists, index), "lrange": all(lists, index, index), "rpush": all(lists, several(element)),
	"lpush": all(lists, several(element)), "lpop": lists, "rpop": lists,
	"lrem": all(lists, one("0", "1", "2"), element), "lpos": all(lists, element),

	"zadd": all(zsets, maybe(one("NX", "XX", "GT", "LT")), maybe(one("CH")), several(all(score, element))),
	"zrem": all(zsets, several(element)), "zcard": zsets, "zscore": all(zsets, element), "zcount": all(zsets, bound, bound),
	"zrange":           all(zsets, index, index, maybe(one("withscores"))),
	"zrangebyscore":    all(zsets, bound, bound, maybe(one("withscores")), maybe(all(one("limit"), one("0", "1"), one("1", "2", "-1")))),
	"zremrangebyscore": all(zsets, bound, bound),
}

// Every command of the model with seeded arguments, on the model and on a
// server: the same replies, and the same keys.
func TestCommandsAnswerAsTheServerDoes(t *testing.T) {
	p := newPair(t)
	names := model.Commands()
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			p.wipe(t)
			rng := rand.New(rand.NewPCG(seed, 0))
			for n := range 400 {
				name := names[rng.IntN(len(names))]
				p.command(t, append([]string{name}, arguments[name](rng)...)...)
				if n%20 == 0 {
					p.keys(t)
				}
			}
			p.keys(t)
		})
	}
}

func TestEveryCommandHasArguments(t *testing.T) {
	for _, name := range model.Commands() {
		if arguments[name] == nil {
			t.Errorf("%s is never run", name)
		}
	}
}

func TestWrongNumbersOfArguments(t *testing.T) {
	p := newPair(t)
	for _, name := range model.Commands() {
		if name != "ping" && name != "time" {
			p.command(t, name)
		}
	}
	p.command(t, "nothing", "x")
}
