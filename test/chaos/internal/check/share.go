package check

import (
	"slices"

	"github.com/redlatch/redlatch/test/chaos/internal/history"
)

// share makes one hold of what several callers have together, who name the same
// owner: it begins with the first of them, and ends with the last. What happens
// to its count between them isn't judged, as nobody can know it.
func (b *builder) share() {
	shared := make(map[string]*shares)
	of := func(e *history.Event) *shares {
		if shared[e.Owner] == nil {
			shared[e.Owner] = &shares{}
		}
		return shared[e.Owner]
	}
	b.acquired = slices.DeleteFunc(b.acquired, func(e *history.Event) bool {
		if e.Name == "" || e.Outcome != history.OK {
			return false
		}
		s := of(e)
		s.leases++
		return !s.first(e)
	})
	b.released = slices.DeleteFunc(b.released, func(e *history.Event) bool {
		if e.Name == "" {
			return false
		}
		of(e).end(e)
		return true
	})
	for id, e := range b.begun { // of a process that was killed, or something is wrong
		if _, killed := b.Kills[[2]int{id.worker, id.life}]; killed && e.Op == history.Release && e.Name != "" {
			delete(b.begun, id)
			of(e).cut(id, e)
		}
	}
	for _, s := range shared {
		if s.acquired == nil {
			continue
		}
		b.regrant(s.acquired)
		switch {
		case s.releases < s.leases: // a kill has left the hold
		case s.interrupted != nil:
			b.begun[s.call] = s.interrupted
		default:
			b.released = append(b.released, s.released)
		}
	}
}

// shares are the leases of one named owner.
type shares struct {
	acquired, released *history.Event
	leases, releases   int
	// interrupted is the last release that a kill has cut off.
	interrupted *history.Event
	call        call
}

// first makes one acquisition of those of the owner. It says whether e becomes
// that one.
func (s *shares) first(e *history.Event) bool {
	if s.acquired == nil {
		e.Holds = 1
		s.acquired = e
		return true
	}
	s.acquired.Call, s.acquired.Return = min(s.acquired.Call, e.Call), min(s.acquired.Return, e.Return)
	return false
}

// cut counts a release in that a kill has cut off. It, or one before it, may have
// ended the hold.
func (s *shares) cut(id call, e *history.Event) {
	s.releases++
	e.Holds = 0
	if s.interrupted == nil || s.interrupted.Call < e.Call {
		s.interrupted, s.call = e, id
	}
	if s.released != nil {
		s.interrupted.Call = max(s.interrupted.Call, s.released.Call)
	}
}

// end makes one release of those of the owner: the last call may be the one
// that ends the hold. One that failed may have ended it before.
func (s *shares) end(e *history.Event) {
	s.releases++
	e.Holds = 0
	r := s.released
	switch {
	case r == nil:
		s.released = e
		return
	case r.Outcome == history.OK && e.Outcome == history.OK:
		r.Call = max(r.Call, e.Call)
	case r.Outcome == history.OK:
		r.Call, r.Outcome = e.Call, e.Outcome
	case e.Outcome != history.OK:
		r.Call = min(r.Call, e.Call)
	}
	r.Return, r.Trusted = max(r.Return, e.Return), max(r.Trusted, e.Trusted)
}

// regrant makes renewals of the grants that the owner got besides its first.
func (b *builder) regrant(e *history.Event) {
	b.grants[e.Owner] = slices.DeleteFunc(b.grants[e.Owner], func(g *history.Event) bool {
		if g.Holds == 1 {
			return false
		}
		again := *g
		again.Kind, again.Outcome, again.Fence = history.Renew, history.OK, 0
		b.renews = append(b.renews, &again)
		return true
	})
}
