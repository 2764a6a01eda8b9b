package check

import (
	"fmt"
	"slices"

	"github.com/anishathalye/porcupine"

	"github.com/redlatch/redlatch/test/chaos/internal/history"
)

// one is a hold as a model sees it. Time enters as bounds: before expLo the
// hold is certainly there, after expHi it certainly isn't.
type one struct {
	owner        string
	count        int // holds, or permits
	token        uint64
	expLo, expHi int64
	// lowering: the writer may be a reader since, as a Lower had no answer.
	lowering bool
	// releasing: the owner may have nothing since, as a release may have run. The key may
	// be taken all the same, for the rest of a minimum hold.
	releasing bool
}

// gone says whether the hold may have expired when o ran.
func (h one) gone(o op) bool { return o.to+epsilon >= h.expLo }

// ended says whether the owner may have had nothing when o ran.
func (h one) ended(o op) bool { return h.releasing || h.gone(o) }

// there says whether the hold may still have been there when o ran.
func (h one) there(o op) bool { return o.from-epsilon <= h.expHi }

func (h one) String() string { return fmt.Sprintf("%s ×%d #%d", h.owner, h.count, h.token) }

// extended is h after a call that set its TTL. A release that nobody answered may run
// later, and ends it before that.
func (h one) extended(o op) one {
	h.expHi = max(h.expHi, o.expHi)
	if !h.releasing {
		h.expLo = max(h.expLo, o.expLo)
	}
	return h
}

// left is what the release o leaves of h: nothing, or what keeps the key for the
// rest of a minimum hold, and is nobody's.
func (h one) left(o op) one {
	if o.keptHi == 0 {
		return one{}
	}
	return one{owner: h.owner + ":kept", count: h.count, token: h.token, expLo: o.keptLo, expHi: o.keptHi}
}

// leaving is h when nobody knows when the release o ran.
func (h one) leaving(o op) one {
	h.releasing = true
	h.expLo, h.expHi = min(h.expLo, max(o.from, o.keptLo)), max(h.expHi, o.keptHi)
	return h
}

// taken is a new hold by o.
func taken(o op) one {
	return one{owner: o.Owner, count: 1, token: o.Fence, expLo: o.expLo, expHi: o.expHi}
}

// holds is the state of every model: who may have the key, and the largest
// fence so far. It is never changed, only copied.
type holds struct {
	writer  one // no owner: nobody
	others  []one
	largest uint64
	turn    int // how many grants there were
}

func (s holds) equal(other holds) bool {
	return s.writer == other.writer && s.largest == other.largest && s.turn == other.turn && slices.Equal(s.others, other.others)
}

func (s holds) with(change func(*holds)) holds {
	s.others = slices.Clone(s.others)
	change(&s)
	return s
}

// next says whether o may be the next grant. As fences rise, grants can only
// have happened in their order: a search that tried another one would find out
// late.
func (s holds) next(o op) bool { return o.Fence > s.largest && o.turn == s.turn }

// grant notes that o was the next one.
func (s *holds) grant(o op) { s.largest, s.turn = o.Fence, s.turn+1 }

func (s holds) find(owner string) int {
	return slices.IndexFunc(s.others, func(h one) bool { return h.owner == owner })
}

// step says whether o may happen in s, and what comes of it.
type step func(s holds, o op) (bool, holds)

// model wraps a step for the search.
func model(next step) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return holds{} },
		Step: func(state, input, _ any) (bool, any) {
			ok, s := next(state.(holds), input.(op))
			return ok, s
		},
		Equal:             func(a, b any) bool { return a.(holds).equal(b.(holds)) },
		DescribeOperation: func(input, _ any) string { return describe(input.(op)) },
		DescribeState: func(state any) string {
			s := state.(holds)
			return fmt.Sprint("by ", s.writer, " and ", s.others, ", largest fence ", s.largest)
		},
	}
}

func describe(o op) string {
	text := fmt.Sprintf("%s %s %s: %s", o.Kind, o.Mode, o.Owner, o.Outcome)
	switch {
	case o.Kind == history.Acquire && o.Outcome == history.OK:
		text += fmt.Sprintf(" #%d", o.Fence)
	}
	if o.Nested {
		text += ", shared"
	}
	return text
}

// models of the modes. A fair lock has the exclusive one: who is next is
// checked on its own.
var models = map[string]porcupine.Model{
	"exclusive": model(exclusive),
	"fair":      model(exclusive),
	"readwrite": model(readWrite),
	"semaphore": model(semaphore),
}

// exclusive: one owner, re-entrant, with fences and leases.
func exclusive(s holds, o op) (bool, holds) {
	h := s.writer
	switch {
	case o.Kind == history.Acquire && o.Outcome == history.Busy:
		return h.owner != "" && h.there(o), s
	case o.handed:
		return handed(s, o)
	case o.first():
		if h.owner != "" && !h.gone(o) || !s.next(o) {
			return false, s
		}
		return true, s.with(func(s *holds) {
			s.grant(o)
			s.writer = taken(o)
		})
	default:
		ok, h := owned(h, o)
		return ok, s.with(func(s *holds) { s.writer = h })
	}
}

// handed: the writer goes on with a new lease. The one before was released, and the
// store has not been called.
func handed(s holds, o op) (bool, holds) {
	h := s.writer
	if h.owner != o.Owner || h.count != 0 || !h.there(o) || !s.next(o) {
		return false, s
	}
	return true, s.with(func(s *holds) {
		s.grant(o)
		s.writer.count, s.writer.token = 1, o.Fence
	})
}

// owned is what an owner does with its hold h, which may be another's by now:
// re-enter, renew, release. A lease that shares it comes and goes without the store. What
// is handed on counts 0 until the next has it.
func owned(h one, o op) (bool, one) {
	mine := h.owner == o.Owner && (o.Fence == 0 || o.Fence == h.token)
	switch {
	case o.Kind == history.Renew && o.Outcome == history.Unknown:
		if mine {
			h.expHi = max(h.expHi, o.expHi)
		}
		return true, h
	case o.Kind == history.Acquire: // re-entry
		return mine && h.there(o) && h.count > 0 && h.token == o.Fence, h
	case o.Nested:
		return o.Outcome != history.OK || mine && h.there(o) && h.count > 0, h
	case o.Outcome == history.NotHeld:
		ok := !mine || h.ended(o) || o.resent
		if mine && o.Kind == history.Release {
			h = h.leaving(o)
		}
		return ok, h
	case o.Kind == history.Renew:
		return mine && h.there(o), h.extended(o)
	case o.Outcome == history.OK: // release
		counted := h.count == 1 || o.rest && h.count == 0
		if !mine || !h.there(o) || !counted {
			return false, h
		}
		if !o.passed {
			return true, h.left(o)
		}
		h.count = 0
		return true, h
	default: // a release that may come later, or never
		if mine {
			h = h.leaving(o)
		}
		return true, h
	}
}

// readWrite: one writer, or any number of readers. A writer who reads is a writer until
// the store was called to make a reader of it.
func readWrite(s holds, o op) (bool, holds) {
	w := s.writer
	certain := func(h one) bool { return !h.gone(o) }
	switch {
	case o.Kind == history.Acquire && o.Outcome == history.Busy:
		byWriter := w.owner != "" && w.there(o) // also if it only reads by now, and o is a try to write
		byReader := o.Mode == "write" && slices.ContainsFunc(s.others, func(h one) bool { return h.there(o) })
		return byWriter || byReader, s
	case o.handed:
		return handed(s, o)
	case o.first():
		excludes := o.Mode == write || !w.lowering
		blocked := w.owner != "" && excludes && certain(w) || o.Mode == write && slices.ContainsFunc(s.others, certain)
		if blocked || !s.next(o) {
			return false, s
		}
		return true, s.with(func(s *holds) {
			s.grant(o)
			if o.Mode == write {
				s.writer, s.others = taken(o), nil
				return
			}
			if w.lowering && w.there(o) {
				s.lower(w)
			}
			s.writer, s.others = one{}, append(s.others, taken(o))
		})
	case o.Kind == history.Lowered:
		return lowered(s, o)
	case w.owner == o.Owner && w.lowering && o.notWriter() && !w.ended(o):
		return true, s.with(func(s *holds) { s.lower(w) }) // Lower has run
	case w.owner == o.Owner:
		ok, h := owned(w, o)
		return ok, s.with(func(s *holds) { s.writer = h })
	case o.Mode == write && s.find(o.Owner) >= 0: // it only reads by now
		return o.Outcome != history.OK || o.Nested, s
	default:
		return shared(s, o)
	}
}

// lower makes a reader of the writer w.
func (s *holds) lower(w one) {
	w.lowering = false
	s.writer, s.others = one{}, append(s.others, w)
}

// notWriter says whether the store found no write hold to renew.
func (o op) notWriter() bool {
	return o.Kind == history.Renew && o.Mode == write && o.Outcome == history.NotHeld
}

// lowered: the writer is a reader from now on, or was before.
func lowered(s holds, o op) (bool, holds) {
	w := s.writer
	switch mine := w.owner == o.Owner; {
	case mine && o.Outcome == history.Unknown:
		w.lowering, w.expHi = true, max(w.expHi, o.expHi)
		return true, s.with(func(s *holds) { s.writer = w })
	case mine && o.Outcome == history.OK:
		return w.there(o), s.with(func(s *holds) { s.lower(w.extended(o)) })
	case mine:
		return w.ended(o), s
	}
	renewal := o
	renewal.Kind = history.Renew
	return shared(s, renewal)
}

// shared is what one of several owners does with its hold.
func shared(s holds, o op) (bool, holds) {
	i := s.find(o.Owner)
	if i < 0 {
		ok, _ := owned(one{}, o)
		return ok, s
	}
	ok, h := owned(s.others[i], o)
	return ok, s.with(func(s *holds) {
		if h.owner == "" {
			s.others = slices.Delete(s.others, i, i+1)
		} else {
			s.others[i] = h
		}
	})
}

// semaphore: as many permits as its size.
func semaphore(s holds, o op) (bool, holds) {
	sum := func(counts func(one) bool) int {
		n := 0
		for _, h := range s.others {
			if counts(h) {
				n += h.count
			}
		}
		return n
	}
	if o.Kind != history.Acquire {
		return permits(s, o)
	}
	if o.Outcome == history.Busy {
		return sum(func(h one) bool { return h.there(o) })+o.Permits > o.Size, s
	}
	if sum(func(h one) bool { return !h.gone(o) })+o.Permits > o.Size || !s.next(o) {
		return false, s
	}
	return true, s.with(func(s *holds) {
		h := taken(o)
		h.count = o.Permits
		s.grant(o)
		s.others = append(s.others, h)
		s.evict(o)
	})
}

// evict drops what cannot have been there with o and the holds that certainly were.
// Of the others, any may be the one that has ended.
func (s *holds) evict(o op) {
	certain := 0
	for _, h := range s.others {
		if h.owner == o.Owner || !h.gone(o) {
			certain += h.count
		}
	}
	s.others = slices.DeleteFunc(s.others, func(h one) bool {
		return h.owner != o.Owner && h.gone(o) && certain+h.count > o.Size
	})
}

// permits are returned at once, not one by one.
func permits(s holds, o op) (bool, holds) {
	i := s.find(o.Owner)
	if i >= 0 && o.Kind == history.Release && o.Outcome == history.OK {
		if !s.others[i].there(o) {
			return false, s
		}
		return true, s.with(func(s *holds) {
			if s.others[i] = s.others[i].left(o); s.others[i].owner == "" {
				s.others = slices.Delete(s.others, i, i+1)
			}
		})
	}
	return shared(s, o)
}
