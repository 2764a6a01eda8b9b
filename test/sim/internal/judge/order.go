package judge

import "time"

// Place is a place in the queue of a fair lock.
type Place struct {
	Owner string
	Until time.Time // when it is given up
}

// Turn is a new owner of a fair lock, and the queue just before.
type Turn struct {
	Key, Owner string
	Queue      []Place
}

// Order judges that a fair lock goes to the first in its queue that has not
// been given up. One that calls is there, whatever its place says.
func Order(now time.Time, t Turn) []Finding {
	for _, p := range t.Queue {
		switch {
		case p.Owner == t.Owner:
			return nil
		case p.Until.After(now):
			return []Finding{finding("fair order", now, "%s: %s got it, and %s was first in the queue", t.Key, t.Owner, p.Owner)}
		}
	}
	return nil
}
