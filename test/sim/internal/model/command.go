package model

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// command is one command of Redis. arity is the number of arguments with the
// name; negative means at least so many.
type command struct {
	arity int
	run   func(k *Keyspace, args []string) Reply
}

var commands = make(map[string]command)

func register(group map[string]command) {
	for name, c := range group {
		commands[name] = c
	}
}

func init() {
	register(generic)
	register(stringCommands)
	register(hashCommands)
	register(listCommands)
	register(sortedSetCommands)
}

// Commands lists the names of all commands, sorted.
func Commands() []string {
	var names []string
	for name := range commands {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Do runs one command.
func (k *Keyspace) Do(args ...string) Reply {
	if k.Intercept != nil {
		args = k.Intercept(args)
	}
	name := strings.ToLower(args[0])
	c, ok := commands[name]
	switch {
	case !ok:
		return Error("ERR unknown command '" + args[0] + "'")
	case c.arity > 0 && len(args) != c.arity, c.arity < 0 && len(args) < -c.arity:
		return Error("ERR wrong number of arguments for '" + name + "' command")
	}
	return c.run(k, args[1:])
}

func integer(text string) (int64, bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil && strconv.FormatInt(n, 10) == text
}

// generic are the commands for keys of every type.
var generic = map[string]command{
	"ping":    {-1, func(*Keyspace, []string) Reply { return Status("PONG") }},
	"time":    {1, (*Keyspace).time},
	"exists":  {-2, (*Keyspace).exists},
	"del":     {-2, (*Keyspace).del},
	"unlink":  {-2, (*Keyspace).del},
	"type":    {2, (*Keyspace).kind},
	"ttl":     {2, func(k *Keyspace, args []string) Reply { return k.left(args[0], 1000) }},
	"pttl":    {2, func(k *Keyspace, args []string) Reply { return k.left(args[0], 1) }},
	"persist": {2, (*Keyspace).persist},
	"expire": {-3, func(k *Keyspace, args []string) Reply {
		return k.expire("expire", args, 1000, k.now.UnixMilli())
	}},
	"pexpire": {-3, func(k *Keyspace, args []string) Reply {
		return k.expire("pexpire", args, 1, k.now.UnixMilli())
	}},
	"pexpireat":   {-3, func(k *Keyspace, args []string) Reply { return k.expire("pexpireat", args, 1, 0) }},
	"pexpiretime": {2, (*Keyspace).expireTime},
	"publish":     {3, (*Keyspace).publish},
	"spublish":    {3, (*Keyspace).publish},
}

func (k *Keyspace) time([]string) Reply {
	us := k.now.UnixMicro()
	return []Reply{strconv.FormatInt(us/1e6, 10), strconv.FormatInt(us%1e6, 10)}
}

func (k *Keyspace) exists(args []string) Reply {
	var n int64
	for _, key := range args {
		if k.find(key) != nil {
			n++
		}
	}
	return n
}

func (k *Keyspace) del(args []string) Reply {
	var n int64
	for _, key := range args {
		if k.find(key) != nil {
			delete(k.keys, key)
			n++
		}
	}
	return n
}

func (k *Keyspace) kind(args []string) Reply {
	e := k.find(args[0])
	if e == nil {
		return Status("none")
	}
	switch e.value.(type) {
	case *hash:
		return Status("hash")
	case *list:
		return Status("list")
	case *sortedSet:
		return Status("zset")
	default:
		return Status("string")
	}
}

func (k *Keyspace) left(key string, unit int64) Reply {
	e := k.find(key)
	switch {
	case e == nil:
		return int64(-2)
	case e.expires == 0:
		return int64(-1)
	default:
		return (max(0, e.expires-k.now.UnixMilli()) + unit/2) / unit
	}
}

func (k *Keyspace) expireTime(args []string) Reply {
	e := k.find(args[0])
	switch {
	case e == nil:
		return int64(-2)
	case e.expires == 0:
		return int64(-1)
	default:
		return e.expires
	}
}

func (k *Keyspace) persist(args []string) Reply {
	e := k.find(args[0])
	if e == nil || e.expires == 0 {
		return int64(0)
	}
	e.expires = 0
	return int64(1)
}

func (k *Keyspace) expire(name string, args []string, unit, base int64) Reply {
	n, ok := integer(args[1])
	if !ok {
		return errNotInteger
	}
	invalid := Error("ERR invalid expire time in '" + name + "' command")
	if n > math.MaxInt64/unit || n < math.MinInt64/unit {
		return invalid
	}
	n *= unit
	if n > 0 && base > math.MaxInt64-n {
		return invalid
	}
	at := n + base
	e := k.find(args[0])
	allowed, known := allows(args[2:], e, at)
	switch {
	case !known:
		return Error("ERR Unsupported option " + args[2])
	case e == nil, !allowed:
		return int64(0)
	case at <= k.now.UnixMilli():
		delete(k.keys, args[0])
	default:
		e.expires = at
	}
	return int64(1)
}

// allows looks at the conditions NX, XX, GT and LT.
func allows(options []string, e *entry, at int64) (allowed, known bool) {
	allowed = true
	for _, option := range options {
		if e == nil {
			continue
		}
		switch strings.ToUpper(option) {
		case "NX":
			allowed = allowed && e.expires == 0
		case "XX":
			allowed = allowed && e.expires != 0
		case "GT":
			allowed = allowed && e.expires != 0 && at > e.expires
		case "LT":
			allowed = allowed && (e.expires == 0 || at < e.expires)
		default:
			return false, false
		}
	}
	return allowed, true
}

func (k *Keyspace) publish(args []string) Reply {
	if k.Publish == nil {
		return int64(0)
	}
	return k.Publish(args[0], args[1])
}
