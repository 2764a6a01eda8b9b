package entry

import (
	"cmp"
	"slices"
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

// grace is how long a free key is kept for the first in its queue.
const grace = 5 * time.Second

// placeTTL is how long a place is kept for an owner that does not repeat its claim. A
// claim lengthens it only after placeAge, so that most claims change nothing: to some
// stores a change is a write.
const (
	placeTTL = 15 * time.Second
	placeAge = placeTTL / 3
)

// Queue is that of Fair waiters, first come first served.
type Queue []Place

// Place is one in a [Queue].
type Place struct {
	Owner string `json:"o"`
	// Until is when the place ends unless its owner comes back.
	Until time.Duration `json:"u"`
	// Called is set once the owner was woken for its turn.
	Called bool `json:"c,omitempty"`
}

// turn says whether no other locker is first. Which of its waiters is, the locker
// knows.
func (q Queue) turn(owner string) bool {
	return len(q) == 0 || lockerOf(q[0].Owner) == lockerOf(owner)
}

// lockerOf is the locker of an owner, or else the owner.
func lockerOf(owner string) string {
	return cmp.Or(lock.Claim{Owner: owner}.Locker(), owner)
}

// take adds a place for the owner, or keeps the one it has.
func (q *Queue) take(owner string, now time.Duration) {
	until := now + placeTTL
	for i := range *q {
		if p := &(*q)[i]; p.Owner == owner {
			if until-p.Until >= placeAge {
				p.Until = until
			}
			return
		}
	}
	*q = append(*q, Place{Owner: owner, Until: until})
}

// serve ends the place by which the owner is granted the key: its own, or else the
// first if that is of its locker.
func (q *Queue) serve(owner string) {
	if !q.leave(owner) && len(*q) > 0 && q.turn(owner) {
		*q = (*q)[1:]
	}
}

// leave reports whether the owner had a place.
func (q *Queue) leave(owner string) bool {
	n := len(*q)
	*q = slices.DeleteFunc(*q, func(p Place) bool { return p.Owner == owner })
	return len(*q) < n
}

// call makes it the turn of the first. called is false when it was before.
func (q Queue) call(now time.Duration) (owner string, called bool) {
	first := &q[0]
	if first.Called {
		return first.Owner, false
	}
	first.Called = true
	first.Until = min(first.Until, now+grace)
	return first.Owner, true
}

// recall takes back a call: somebody else was quicker.
func (q Queue) recall() {
	if len(q) > 0 {
		q[0].Called = false
	}
}
