package model

import (
	"math"
	"strconv"
	"strings"
)

var stringCommands = map[string]command{
	"get":    {2, (*Keyspace).get},
	"set":    {-3, (*Keyspace).set},
	"incr":   {2, func(k *Keyspace, args []string) Reply { return k.add(args[0], "1", 1) }},
	"incrby": {3, func(k *Keyspace, args []string) Reply { return k.add(args[0], args[1], 1) }},
	"decr":   {2, func(k *Keyspace, args []string) Reply { return k.add(args[0], "1", -1) }},
	"decrby": {3, func(k *Keyspace, args []string) Reply { return k.add(args[0], args[1], -1) }},
}

func (k *Keyspace) get(args []string) Reply {
	e := k.find(args[0])
	if e == nil {
		return nil
	}
	text, ok := e.value.(string)
	if !ok {
		return errWrongType
	}
	return text
}

func (k *Keyspace) set(args []string) Reply {
	o, wrong := k.setOptions(args[2:])
	if wrong != nil {
		return wrong
	}
	old := k.find(args[0])
	if o.ifAbsent && old != nil || o.ifPresent && old == nil {
		return nil
	}
	fresh := &entry{value: args[1], expires: o.expires}
	if o.keep && old != nil {
		fresh.expires = old.expires
	}
	k.keys[args[0]] = fresh
	return Status("OK")
}

// setting is what the options of SET say.
type setting struct {
	ifAbsent, ifPresent, keep bool
	expires                   int64
}

func (k *Keyspace) setOptions(options []string) (o setting, wrong Reply) {
	for ; len(options) > 0; options = options[1:] {
		switch option := strings.ToUpper(options[0]); {
		case option == "NX" && !o.ifPresent:
			o.ifAbsent = true
		case option == "XX" && !o.ifAbsent:
			o.ifPresent = true
		case option == "KEEPTTL" && o.expires == 0:
			o.keep = true
		case (option == "PX" || option == "EX") && len(options) > 1 && !o.keep && o.expires == 0:
			if o.expires, wrong = k.expiry("set", option, options[1]); wrong != nil {
				return o, wrong
			}
			options = options[1:]
		default:
			return o, errSyntax
		}
	}
	return o, nil
}

// expiry reads the argument of PX or EX.
func (k *Keyspace) expiry(name, option, text string) (at int64, wrong Reply) {
	n, ok := integer(text)
	if !ok {
		return 0, errNotInteger
	}
	unit := int64(1)
	if option == "EX" {
		unit = 1000
	}
	now := k.now.UnixMilli()
	if n <= 0 || n > math.MaxInt64/unit || now > math.MaxInt64-n*unit {
		return 0, Error("ERR invalid expire time in '" + name + "' command")
	}
	return now + n*unit, nil
}

func (k *Keyspace) add(key, by string, sign int64) Reply {
	n, ok := integer(by)
	if !ok {
		return errNotInteger
	}
	e := k.find(key)
	if e == nil {
		e = &entry{value: "0"}
	}
	text, ok := e.value.(string)
	if !ok {
		return errWrongType
	}
	old, ok := integer(text)
	if !ok {
		return errNotInteger
	}
	sum := old + sign*n
	if sign*n > 0 && sum < old || sign*n < 0 && sum > old {
		return errOverflow
	}
	e.value = strconv.FormatInt(sum, 10)
	k.keys[key] = e
	return sum
}
