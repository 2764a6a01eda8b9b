package model

import (
	"maps"
	"math/rand/v2"
	"slices"
	"time"
)

// Keyspace is the data of one server. It is not safe for concurrent use: a
// server runs one command at a time.
type Keyspace struct {
	// Publish passes a message on and returns how many heard it. Nil: nobody.
	Publish func(channel, message string) int64
	// Intercept may change a command, of a client or of a script, before it
	// runs. It is how bugs are planted. Nil: none.
	Intercept func(args []string) []string

	keys map[string]*entry
	rng  *rand.Rand
	now  time.Time // of the command or script that runs
}

// entry is one key.
type entry struct {
	value   any   // string, *hash, *list or *sortedSet
	expires int64 // Unix time in ms; 0: never
}

// New returns an empty keyspace.
func New(rng *rand.Rand) *Keyspace {
	return &Keyspace{keys: make(map[string]*entry), rng: rng}
}

// SetTime sets the server's clock. A script sees one time from its beginning to
// its end.
func (k *Keyspace) SetTime(now time.Time) { k.now = now }

// Time returns the server's clock.
func (k *Keyspace) Time() time.Time { return k.now }

// Clear removes all keys.
func (k *Keyspace) Clear() { clear(k.keys) }

// Clone returns a copy of the data, as a replica has it.
func (k *Keyspace) Clone() *Keyspace {
	c := New(k.rng)
	c.Publish, c.Intercept, c.now = k.Publish, k.Intercept, k.now
	for key, e := range k.keys {
		c.keys[key] = &entry{value: cloned(e.value), expires: e.expires}
	}
	return c
}

func cloned(value any) any {
	switch v := value.(type) {
	case *hash:
		return &hash{order: slices.Clone(v.order), fields: maps.Clone(v.fields)}
	case *list:
		return &list{slices.Clone(v.elements)}
	case *sortedSet:
		return &sortedSet{scores: maps.Clone(v.scores)}
	default:
		return value
	}
}

// Keys returns the names of all keys that have not expired, sorted.
func (k *Keyspace) Keys() []string {
	var names []string
	for name := range k.keys {
		if k.find(name) != nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// find returns a key that is there; one that has expired is removed.
func (k *Keyspace) find(name string) *entry {
	e := k.keys[name]
	if e != nil && e.expires != 0 && k.now.UnixMilli() > e.expires {
		delete(k.keys, name)
		return nil
	}
	return e
}

// typed returns the value of a key if it is of type T. ok is false if the key
// is of another type; the value is the zero value if there is none.
func typed[T any](k *Keyspace, name string) (value T, ok bool) {
	e := k.find(name)
	if e == nil {
		return value, true
	}
	value, ok = e.value.(T)
	return value, ok
}

// made returns the value of a key, which it creates if it is not there.
func made[T any](k *Keyspace, name string, create func() T) (value T, ok bool) {
	e := k.find(name)
	if e == nil {
		value = create()
		k.keys[name] = &entry{value: value}
		return value, true
	}
	value, ok = e.value.(T)
	return value, ok
}

// Exists reports whether a key is there.
func (k *Keyspace) Exists(name string) bool { return k.find(name) != nil }

// Expires returns when a key ends, on the server's clock. never is true for a
// key without an end; ok is false if there is no such key.
func (k *Keyspace) Expires(name string) (at time.Time, never, ok bool) {
	e := k.find(name)
	if e == nil {
		return time.Time{}, false, false
	}
	return time.UnixMilli(e.expires), e.expires == 0, true
}

// Hash returns the fields of a hash, nil if there is none. It must not be
// changed.
func (k *Keyspace) Hash(name string) map[string]string {
	if h, ok := typed[*hash](k, name); ok && h != nil {
		return h.fields
	}
	return nil
}

// String returns the value of a string; ok is false if there is none.
func (k *Keyspace) String(name string) (text string, ok bool) {
	if k.find(name) == nil {
		return "", false
	}
	return typed[string](k, name)
}

// List returns the elements of a list, nil if there is none. It must not be
// changed.
func (k *Keyspace) List(name string) []string {
	if l, ok := typed[*list](k, name); ok && l != nil {
		return l.elements
	}
	return nil
}

// Scores returns the members of a sorted set and their scores, nil if there is
// none. It must not be changed.
func (k *Keyspace) Scores(name string) map[string]float64 {
	if z, ok := typed[*sortedSet](k, name); ok && z != nil {
		return z.scores
	}
	return nil
}
