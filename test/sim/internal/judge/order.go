package judge

import (
	"strings"
	"time"
)

// Place is a place in the queue of a fair lock.
type Place struct {
	Owner string
	Until time.Time // when it is given up
}

func (p Place) String() string { return p.Owner + " until " + p.Until.Format(clock) }

// Turn is a new owner of a fair lock, and the queue just before.
type Turn struct {
	Key, Owner string
	Handed     string // whom a release had handed the lock to, who hadn't come yet
	Queue      []Place
}

// Served is the place by which the new owner got the lock: its own, or if it has
// none the first of its locker.
func (t Turn) Served(now time.Time) (owner string) {
	for _, p := range t.Queue {
		switch {
		case p.Owner == t.Owner:
			return p.Owner
		case owner == "" && p.Until.After(now) && lockerOf(p.Owner) == lockerOf(t.Owner):
			owner = p.Owner
		}
	}
	return owner
}

// Order judges that a fair lock goes to the first in its queue that has not
// been given up, or to another waiter of the same locker: which of its waiters is
// first is for the locker to say. One that calls is there, whatever its place says. A lock
// that was handed over is the turn of that locker, also where its place has ended since: a
// clock that goes back and on again ends it first.
func Order(now time.Time, t Turn) []Finding {
	if t.Handed != "" && lockerOf(t.Handed) == lockerOf(t.Owner) {
		return nil
	}
	for _, p := range t.Queue {
		switch {
		case lockerOf(p.Owner) == lockerOf(t.Owner):
			return nil
		case p.Until.After(now):
			return []Finding{finding("fair order", now, "%s: %s got it, and %s was first in the queue: %v", t.Key, t.Owner, p.Owner, t.Queue)}
		}
	}
	return nil
}

// lockerOf is the part of an owner that it shares with the others of its locker.
func lockerOf(owner string) string {
	locker, _, _ := strings.Cut(owner, ":")
	return locker
}

// Desertion is a queue from which all waiters have gone.
type Desertion struct {
	Key      string
	Calm     time.Time // nobody waits since then, and nothing disturbs
	Clock    time.Time // of the server
	Patience time.Duration
	Queue    []Place
}

// Deserted judges that a waiter that leaves takes its place along.
func Deserted(now time.Time, d Desertion) (found []Finding) {
	for _, p := range d.Queue {
		if p.Until.After(d.Clock) && now.Sub(d.Calm) >= d.Patience {
			found = append(found, finding("place of nobody", now, "%s: %s has a place until %s, and nobody waits since %s",
				d.Key, p.Owner, p.Until.Format(clock), d.Calm.Format(clock)))
		}
	}
	return found
}
