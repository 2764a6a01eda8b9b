//go:build !machine

package lock

import (
	"time"
)

// Fair waiters have places in the store's queue. The head of the process's queue
// asks for all of them: its calls name the ones behind it that have no place yet,
// or whose place is to be kept.

const (
	// placePoll is how long a place is left unnamed. The store gives it up after
	// several times that.
	placePoll = 2500 * time.Millisecond
	// placeLook is how long the places are not looked at, but for the new ones: a look
	// at a long queue takes a while.
	placeLook = 250 * time.Millisecond
	// maxPlaces are named in one call.
	maxPlaces = 1000
)

func (w *waiter) fair() bool { return w.of.claim.Mode == Fair }

// namePlaces makes the next call of a fair waiter name the places that are due; mu is
// held. Behind a waiter in another mode none is taken: its turn in the store would come
// before its turn here.
func (a *acquisition) namePlaces(g *gate) {
	a.named, a.claim.Places, a.namedAt = nil, nil, a.now()
	w, look := g.head, a.namedAt-g.looked >= placeLook
	if !look {
		w = g.unnamed()
		if a.waiter.kept >= 0 {
			a.name(&a.waiter)
		}
	}
	for ; w != nil && w.leading; w = w.next {
		if w != &a.waiter && a.namedAt-w.kept < placePoll-placeLook {
			continue
		}
		if len(a.named) == maxPlaces {
			a.waiter.hint = true // the others take another call
			return
		}
		a.name(w)
	}
	if look {
		g.looked = a.namedAt
	}
}

// name makes the next call name the place of w; mu is held.
func (a *acquisition) name(w *waiter) {
	a.named = append(a.named, w)
	a.claim.Places = append(a.claim.Places, w.of.claim.Owner)
}

// unnamed returns the first of the waiters behind all that have places.
func (g *gate) unnamed() (first *waiter) {
	for w := g.last; w != nil && w.kept < 0; w = w.previous {
		first = w
	}
	return first
}

// placesNamed records the result of a call that named these places; mu is held.
// For the others among them it is as if they had made it themselves.
func (a *acquisition) placesNamed(named []*waiter, err error) (kept bool) {
	kept = err == nil || isDecision(err)
	for _, w := range named {
		if w.of != a {
			claim := Claim{Key: a.claim.Key, Owner: w.of.claim.Owner, Mode: Fair, TTL: maxAcquireTTL}
			w.of.mayHaveLeft(claim, a.doubt || mayHaveRun(err), kept)
		}
	}
	return kept
}

// succeed makes next, which has places to keep, the head behind w; mu is held. It
// calls when w would have: its place is the store's business, and the store says
// when its turn has come.
func (g *gate) succeed(w, next *waiter) {
	next.askAt = w.askAt
	if w.hint || !w.fair() || g.watchPerOwner {
		next.hint = true
	}
	next.look()
}
