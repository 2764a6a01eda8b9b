package model

import (
	"slices"
	"strings"
)

// Revisit is a command of a script that names a key after the same run of the
// script has removed it, by its last member or as a whole.
//
// Such a script may take a key that it removed for one that has expired. In a
// cluster it also fails there, with half of its work done, while the slot
// migrates: the key counts as one of the other node then.
type Revisit struct {
	Key     int // n of KEYS[n]; 0: none of them
	Command string
}

// visits follows the keys of one run of a script.
type visits struct {
	keys     []string // KEYS
	removed  map[string]bool
	revisits []Revisit
}

// keysOf are the keys that a command names.
func keysOf(args []string) []string {
	switch strings.ToLower(args[0]) {
	case "ping", "time", "publish", "spublish":
		return nil
	case "exists", "del", "unlink":
		return args[1:]
	}
	return args[1:min(2, len(args))]
}

// do runs a command of the script, and notes what it removes.
func (v *visits) do(k *Keyspace, args []string) Reply {
	keys := keysOf(args)
	var there []string
	for _, key := range keys {
		if v.removed[key] {
			v.revisits = append(v.revisits, Revisit{slices.Index(v.keys, key) + 1, args[0]})
		}
		if k.Exists(key) {
			there = append(there, key)
		}
	}
	reply := k.Do(args...)
	for _, key := range there {
		if !k.Exists(key) {
			v.removed[key] = true
		}
	}
	return reply
}

// Revisits are those of the script that ran last.
func (i *Interpreter) Revisits() []Revisit { return i.visits.revisits }
