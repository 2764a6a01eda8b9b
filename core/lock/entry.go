package lock

import (
	"github.com/redlatch/redlatch/core/lock/internal/machine"
)

// stage is what an entry has of its key.
type stage uint8

const (
	fresh   stage = iota // nothing yet
	awake                // a machine
	resting              // a machine.Rest: somebody holds the key, and nothing happens
	gone                 // nothing any longer: it was dropped
)

// entry is what a locker has of one key. The mutex of its shard guards it.
type entry struct {
	shard   *shard
	key     string
	m       *machine.Machine // nil unless it is awake
	rest    machine.Rest
	seats   []*Lease // of the callers, by slot
	room    [1]*Lease
	watch   *subscription
	owner   machine.Owner // whose name that is
	name    string
	low     machine.Slot // none before it is free
	row     int32        // in the agenda
	forcing int32        // forced releases without an answer
	stage   stage
	taken   bool // first is in use
	first   Lease
}

// awake returns the machine.
func (e *entry) awake() *machine.Machine {
	if e.stage == awake {
		return e.m
	}
	e.m = e.shard.machine()
	e.m.Init(&e.shard.params, e.shard.owners)
	if e.stage == resting {
		e.m.Wake(&e.rest)
	}
	e.stage = awake
	return e.m
}

// holds says whether an owner has the key.
func (e *entry) holds(o machine.Owner) bool {
	switch e.stage {
	case awake:
		return e.m.HeldBy(o) != machine.None
	case resting:
		return e.rest.Owner() == o
	}
	return false
}

// settle drops an entry that has nothing left, and has the timer look after the others. The
// last of a shard stays awake, as most keys are released soon.
func (e *entry) settle() {
	if e.m.Empty() && e.forcing == 0 {
		e.drop()
		return
	}
	sh := e.shard
	sh.due.set(e, e.m.Due())
	if last := sh.awake; last != e {
		sh.awake = e
		if last != nil {
			last.doze()
		}
	}
}

// doze lets the machine rest if it may.
func (e *entry) doze() {
	if len(e.seats) == 1 && e.m.Rests() {
		e.rest, e.name = e.m.Rest(), ""
		e.put(resting)
	}
}

// put gives the machine back.
func (e *entry) put(s stage) {
	if sh := e.shard; len(sh.spares) < maxSpares {
		sh.spares = append(sh.spares, e.m)
	}
	e.m, e.stage = nil, s
}

func (e *entry) drop() {
	e.put(gone)
	if e.shard.awake == e {
		e.shard.awake = nil
	}
	delete(e.shard.entries, e.key)
	e.shard.due.set(e, machine.Never)
}

// newLease is a lease for a caller. Most keys have no other than the first.
func (e *entry) newLease() *Lease {
	if e.taken {
		return new(Lease)
	}
	e.taken = true
	return &e.first
}

// seat gives a caller a slot.
func (e *entry) seat(lease *Lease) {
	s := e.low
	for int(s) < len(e.seats) && e.seats[s] != nil {
		s++
	}
	if int(s) == len(e.seats) {
		e.seats = append(e.seats, nil)
		if len(e.seats) > len(e.room) {
			e.room = [1]*Lease{} // nothing that has ended stays referenced
		}
	}
	e.seats[s], e.low = lease, s+1
	lease.entry, lease.slot, lease.seated = e, s, true
}

// unseat takes it back.
func (e *entry) unseat(s machine.Slot) {
	e.seats[s].seated = false
	e.seats[s] = nil
	e.low = min(e.low, s)
	for n := len(e.seats); n > 0 && e.seats[n-1] == nil; n-- {
		e.seats = e.seats[:n-1]
	}
}

// nameOf is an owner as the store knows it.
func (e *entry) nameOf(o machine.Owner) string {
	if e.owner != o || e.name == "" {
		e.owner, e.name = o, e.shard.nameOf(o)
	}
	return e.name
}

// reply returns the call of a caller.
func (e *entry) reply(f *machine.Effect, now machine.Time, cause error) {
	lease := e.seats[f.Caller]
	if x := lease.extension; x != nil { // it returns before its lease is released
		lease.extension = nil
		x.reply(f.Result, cause)
		return
	}
	w := lease.wait
	lease.wait = nil
	if f.Result == machine.ResGranted {
		lease.granted(f.Fence, now)
	} else {
		e.unseat(f.Caller)
		if lease.owner == 0 { // nobody has the lease: it must not keep the context
			lease.parent, lease.outer = nil, nil
		}
	}
	if w != nil {
		w.reply(f.Result, f.Why, cause)
	}
}

// granted is that the caller of an acquisition has the lease.
func (l *Lease) granted(fence machine.Fence, now machine.Time) {
	_, l.owner = l.entry.m.Hold(l.slot)
	l.fence, l.start = uint64(fence), now
	if l.first == nil || l.first.owner != l.owner {
		l.first = l
	}
}
