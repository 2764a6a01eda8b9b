package model

import "slices"

type list struct{ elements []string }

func newList() *list { return &list{} }

var listCommands = map[string]command{
	"llen":   {2, (*Keyspace).llen},
	"lindex": {3, (*Keyspace).lindex},
	"lrange": {4, (*Keyspace).lrange},
	"rpush":  {-3, func(k *Keyspace, args []string) Reply { return k.push(args, false) }},
	"lpush":  {-3, func(k *Keyspace, args []string) Reply { return k.push(args, true) }},
	"lpop":   {2, func(k *Keyspace, args []string) Reply { return k.pop(args[0], true) }},
	"rpop":   {2, func(k *Keyspace, args []string) Reply { return k.pop(args[0], false) }},
	"lrem":   {4, (*Keyspace).lrem},
	"lpos":   {3, (*Keyspace).lpos},
}

func (k *Keyspace) llen(args []string) Reply {
	l, ok := typed[*list](k, args[0])
	switch {
	case !ok:
		return errWrongType
	case l == nil:
		return int64(0)
	}
	return int64(len(l.elements))
}

func (k *Keyspace) lindex(args []string) Reply {
	l, ok := typed[*list](k, args[0])
	if !ok {
		return errWrongType
	}
	if l == nil {
		return nil
	}
	i, ok := integer(args[1])
	if !ok {
		return errNotInteger
	}
	if i < 0 {
		i += int64(len(l.elements))
	}
	if i < 0 || i >= int64(len(l.elements)) {
		return nil
	}
	return l.elements[i]
}

func (k *Keyspace) lrange(args []string) Reply {
	first, ok1 := integer(args[1])
	last, ok2 := integer(args[2])
	if !ok1 || !ok2 {
		return errNotInteger
	}
	l, ok := typed[*list](k, args[0])
	if !ok {
		return errWrongType
	}
	all := []Reply{}
	if l == nil {
		return all
	}
	from, to := bounds(first, last, len(l.elements))
	for _, element := range l.elements[from:to] {
		all = append(all, element)
	}
	return all
}

// bounds turns inclusive bounds, negative ones from the end, into a slice's.
func bounds(first, last int64, n int) (from, to int) {
	if first < 0 {
		first = max(0, first+int64(n))
	}
	if last < 0 {
		last += int64(n)
	}
	last = min(last, int64(n)-1)
	if first > last {
		return 0, 0
	}
	return int(first), int(last) + 1
}

func (k *Keyspace) push(args []string, front bool) Reply {
	l, ok := made(k, args[0], newList)
	if !ok {
		return errWrongType
	}
	for _, element := range args[1:] {
		if front {
			l.elements = slices.Insert(l.elements, 0, element)
		} else {
			l.elements = append(l.elements, element)
		}
	}
	return int64(len(l.elements))
}

func (k *Keyspace) pop(key string, front bool) Reply {
	l, ok := typed[*list](k, key)
	switch {
	case !ok:
		return errWrongType
	case l == nil:
		return nil
	}
	last := len(l.elements) - 1
	element := l.elements[last]
	if front {
		element, l.elements = l.elements[0], l.elements[1:]
	} else {
		l.elements = l.elements[:last]
	}
	if last == 0 {
		delete(k.keys, key)
	}
	return element
}

// lrem knows what the scripts use: a count that is not negative.
func (k *Keyspace) lrem(args []string) Reply {
	limit, ok := integer(args[1])
	if !ok || limit < 0 {
		return errNotInteger
	}
	l, ok := typed[*list](k, args[0])
	switch {
	case !ok:
		return errWrongType
	case l == nil:
		return int64(0)
	}
	var n int64
	l.elements = slices.DeleteFunc(l.elements, func(element string) bool {
		if element != args[2] || limit > 0 && n == limit {
			return false
		}
		n++
		return true
	})
	if len(l.elements) == 0 {
		delete(k.keys, args[0])
	}
	return n
}

func (k *Keyspace) lpos(args []string) Reply {
	l, ok := typed[*list](k, args[0])
	if !ok {
		return errWrongType
	}
	if l == nil {
		return nil
	}
	if i := slices.Index(l.elements, args[1]); i >= 0 {
		return int64(i)
	}
	return nil
}
