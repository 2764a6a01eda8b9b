package memstore

import (
	"cmp"
	"slices"
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

// grace is how long a free key is kept for the first in its queue.
const grace = 5 * time.Second

// placeTTL is how long a place is kept for an owner that does not repeat its
// claim.
const placeTTL = 15 * time.Second

// queue is that of Fair waiters, first come first served.
type queue []place

type place struct {
	owner string
	// until is when the place ends unless its owner comes back.
	until time.Duration
	// called is set once the owner was woken for its turn.
	called bool
}

// turn says whether no other locker is first. Which of its waiters is, the locker
// knows.
func (q queue) turn(owner string) bool {
	return len(q) == 0 || lockerOf(q[0].owner) == lockerOf(owner)
}

// lockerOf is the locker of an owner, or else the owner.
func lockerOf(owner string) string {
	return cmp.Or(lock.Claim{Owner: owner}.Locker(), owner)
}

// take adds a place for the owner, or keeps the one it has.
func (q *queue) take(owner string, until time.Duration) {
	for i := range *q {
		if p := &(*q)[i]; p.owner == owner {
			p.until = until
			return
		}
	}
	*q = append(*q, place{owner: owner, until: until})
}

// serve ends the place by which the owner is granted the key: its own, or else the
// first if that is of its locker.
func (q *queue) serve(owner string) {
	if !q.leave(owner) && len(*q) > 0 && q.turn(owner) {
		*q = (*q)[1:]
	}
}

// leave reports whether the owner had a place.
func (q *queue) leave(owner string) bool {
	n := len(*q)
	*q = slices.DeleteFunc(*q, func(p place) bool { return p.owner == owner })
	return len(*q) < n
}

// call makes it the turn of the first. called is false when it was before.
func (q queue) call(now time.Duration) (owner string, called bool) {
	first := &q[0]
	if first.called {
		return first.owner, false
	}
	first.called = true
	first.until = min(first.until, now+grace)
	return first.owner, true
}

// recall takes back a call: somebody else was quicker.
func (q queue) recall() {
	if len(q) > 0 {
		q[0].called = false
	}
}
