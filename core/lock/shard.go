package lock

import (
	"hash/maphash"
	"strconv"
	"sync"
	"time"

	"github.com/redlatch/redlatch/core/lock/internal/machine"
)

// shards is how many parts the keys of a locker have, each with its own mutex.
const shards = 64

// maxSpares is how many machines a shard keeps for its next keys.
const maxSpares = 4

// shard is a part of the keys.
type shard struct {
	*Locker

	number  uint64
	mu      sync.Mutex // guards what follows, and the entries
	entries map[string]*entry
	awake   *entry // the last that was stepped, unless it has gone
	due     agenda
	owners  machine.Owner // the last that was made
	spares  []*machine.Machine
	effects []machine.Effect
	known   int64        // of Locker.leaps
	last    machine.Time // that lock has returned
	over    bool         // Close has given up what was left
	_       [40]byte     // so that two shards share no cache line
}

var seed = maphash.MakeSeed()

func (l *Locker) shardOf(key string) *shard {
	return &l.shards[maphash.String(seed, key)%shards]
}

// lock takes the mutex, and returns the time. A step at that time follows on everything
// that the clocks have to say.
func (sh *shard) lock() machine.Time {
	for {
		sh.mu.Lock()
		t := time.Now()
		now := t.Sub(sh.epoch)
		_, notable := sh.wall.moved(t, now)
		if notable {
			sh.mu.Unlock()
			sh.leapt(t, now)
			continue
		}
		if n := sh.leaps.Load(); sh.known != n {
			sh.known = n
			sh.suspended(machine.Time(now))
		}
		sh.last = machine.Time(now)
		return sh.last
	}
}

// relock is lock for what follows on a step at once: no time has passed.
func (sh *shard) relock() machine.Time {
	sh.mu.Lock()
	return sh.last
}

// machine is one to Init.
func (sh *shard) machine() *machine.Machine {
	last := len(sh.spares) - 1
	if last < 0 {
		return new(machine.Machine)
	}
	m := sh.spares[last]
	sh.spares = sh.spares[:last]
	return m
}

// entryOf returns the entry of a key, a new one if need be.
func (sh *shard) entryOf(key string) *entry {
	e := sh.entries[key]
	if e == nil {
		e = &entry{shard: sh, key: key, row: -1}
		e.seats = e.room[:0]
		sh.entries[key] = e
	}
	return e
}

// nameOf is an owner as the store knows it.
func (sh *shard) nameOf(o machine.Owner) string {
	var room [64]byte
	name := append(room[:0], sh.client...)
	return string(strconv.AppendUint(append(name, ':'), uint64(o)*shards+sh.number, 10))
}
