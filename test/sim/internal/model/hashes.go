package model

import (
	"slices"
	"strconv"
	"strings"
)

// hash keeps the order in which its fields came, as small hashes of Redis do.
type hash struct {
	order  []string
	fields map[string]string
}

func newHash() *hash { return &hash{fields: make(map[string]string)} }

func (h *hash) set(field, value string) (fresh bool) {
	if _, ok := h.fields[field]; !ok {
		h.order = append(h.order, field)
		fresh = true
	}
	h.fields[field] = value
	return fresh
}

func (h *hash) remove(field string) bool {
	if _, ok := h.fields[field]; !ok {
		return false
	}
	delete(h.fields, field)
	h.order = slices.DeleteFunc(h.order, func(f string) bool { return f == field })
	return true
}

var hashCommands = map[string]command{
	"hset":       {-4, (*Keyspace).hset},
	"hsetnx":     {4, (*Keyspace).hsetnx},
	"hget":       {3, (*Keyspace).hget},
	"hmget":      {-3, (*Keyspace).hmget},
	"hdel":       {-3, (*Keyspace).hdel},
	"hexists":    {3, (*Keyspace).hexists},
	"hlen":       {2, (*Keyspace).hlen},
	"hgetall":    {2, (*Keyspace).hgetall},
	"hkeys":      {2, (*Keyspace).hkeys},
	"hincrby":    {4, (*Keyspace).hincrby},
	"hrandfield": {-2, (*Keyspace).hrandfield},
}

func (k *Keyspace) hset(args []string) Reply {
	if len(args)%2 == 0 {
		return Error("ERR wrong number of arguments for 'hset' command")
	}
	h, ok := made(k, args[0], newHash)
	if !ok {
		return errWrongType
	}
	var n int64
	for i := 1; i < len(args); i += 2 {
		if h.set(args[i], args[i+1]) {
			n++
		}
	}
	return n
}

func (k *Keyspace) hsetnx(args []string) Reply {
	h, ok := made(k, args[0], newHash)
	if !ok {
		return errWrongType
	}
	if _, there := h.fields[args[1]]; there {
		return int64(0)
	}
	return boolean(h.set(args[1], args[2]))
}

func (k *Keyspace) hget(args []string) Reply {
	values, ok := k.hmget(args).([]Reply)
	if !ok {
		return errWrongType
	}
	return values[0]
}

func (k *Keyspace) hmget(args []string) Reply {
	h, ok := typed[*hash](k, args[0])
	if !ok {
		return errWrongType
	}
	values := make([]Reply, len(args)-1)
	for i, field := range args[1:] {
		if h == nil {
			continue
		}
		if value, there := h.fields[field]; there {
			values[i] = value
		}
	}
	return values
}

func (k *Keyspace) hdel(args []string) Reply {
	h, ok := typed[*hash](k, args[0])
	switch {
	case !ok:
		return errWrongType
	case h == nil:
		return int64(0)
	}
	var n int64
	for _, field := range args[1:] {
		if h.remove(field) {
			n++
		}
	}
	if len(h.fields) == 0 {
		delete(k.keys, args[0])
	}
	return n
}

func (k *Keyspace) hexists(args []string) Reply {
	h, ok := typed[*hash](k, args[0])
	switch {
	case !ok:
		return errWrongType
	case h == nil:
		return int64(0)
	}
	_, there := h.fields[args[1]]
	return boolean(there)
}

func (k *Keyspace) hlen(args []string) Reply {
	h, ok := typed[*hash](k, args[0])
	switch {
	case !ok:
		return errWrongType
	case h == nil:
		return int64(0)
	}
	return int64(len(h.fields))
}

func (k *Keyspace) hgetall(args []string) Reply { return k.flat(args[0], true) }

func (k *Keyspace) hkeys(args []string) Reply { return k.flat(args[0], false) }

func (k *Keyspace) flat(key string, values bool) Reply {
	h, ok := typed[*hash](k, key)
	if !ok {
		return errWrongType
	}
	all := []Reply{}
	if h == nil {
		return all
	}
	for _, field := range h.order {
		all = append(all, field)
		if values {
			all = append(all, h.fields[field])
		}
	}
	return all
}

func (k *Keyspace) hincrby(args []string) Reply {
	n, ok := integer(args[2])
	if !ok {
		return errNotInteger
	}
	h, ok := made(k, args[0], newHash)
	if !ok {
		return errWrongType
	}
	old, ok := int64(0), true
	if text, there := h.fields[args[1]]; there {
		old, ok = integer(text)
	}
	if !ok {
		return errHash
	}
	if n > 0 && old+n < old || n < 0 && old+n > old {
		return errOverflow
	}
	h.set(args[1], strconv.FormatInt(old+n, 10))
	return old + n
}

// hrandfield knows what the scripts use: some different fields, with values.
func (k *Keyspace) hrandfield(args []string) Reply {
	h, ok := typed[*hash](k, args[0])
	if !ok {
		return errWrongType
	}
	if len(args) == 1 {
		if h == nil {
			return nil
		}
		return h.order[k.rng.IntN(len(h.order))]
	}
	n, ok := integer(args[1])
	if !ok || n < 0 {
		return errNotInteger
	}
	values := len(args) == 3 && strings.EqualFold(args[2], "withvalues")
	if len(args) > 2 && !values {
		return errSyntax
	}
	some := []Reply{}
	if h == nil {
		return some
	}
	fields := slices.Clone(h.order)
	if int(n) < len(fields) {
		k.rng.Shuffle(len(fields), func(i, j int) { fields[i], fields[j] = fields[j], fields[i] })
		fields = fields[:n]
	}
	for _, field := range fields {
		some = append(some, field)
		if values {
			some = append(some, h.fields[field])
		}
	}
	return some
}
