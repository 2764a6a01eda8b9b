package machine

import (
	"bytes"
	"fmt"
	"slices"
)

// table maps hashes of canonical forms to the numbers of states.
type table struct {
	keys []uint64
	ids  []uint32
	n    int
}

func (t *table) add(h uint64, id uint32) (old uint32, known bool) {
	if 2*t.n >= len(t.keys) {
		t.grow()
	}
	mask := uint64(len(t.keys) - 1)
	for i := h & mask; ; i = (i + 1) & mask {
		switch t.keys[i] {
		case 0:
			t.keys[i], t.ids[i] = h, id
			t.n++
			return id, false
		case h:
			return t.ids[i], true
		}
	}
}

func (t *table) grow() {
	old := *t
	n := max(1<<12, 2*len(old.keys))
	*t = table{keys: make([]uint64, n), ids: make([]uint32, n)}
	for i, k := range old.keys {
		if k != 0 {
			t.add(k, old.ids[i])
		}
	}
}

type edge struct{ from, to uint32 }

// noMove says that what was found is a state, and not a move.
const noMove = 0xffff

// explorer makes every move in every state of a scope that can be reached, the nearest
// first, so that the trace of what it finds is the shortest.
type explorer struct {
	sc      *scope
	table   table
	parent  []uint32 // of a state, and the number of the move that led to it
	move    []uint16
	states  []*world // that have not been expanded
	spare   []*world
	edges   []edge // that need no fault and no new caller
	goods   []uint32
	moves   int
	scratch world
	canon   canon
	buf1    []byte
	buf2    []byte

	id  uint32 // of the state that is expanded
	nth uint16 // its next move

	bad     string // what was found
	badFrom uint32
	badMove uint16

	pick   int // the number of the move to take; -1: all
	name   string
	picked string

	seen transitions

	// calm leaves out faults, new callers and giving up, until a clean end is found.
	calm bool

	// Audit: states that were taken for known ones must have the same successors.
	every, merged int
	sums          []uint64
	next          map[uint64]string
	suspects      []suspect
}

type suspect struct {
	id uint32
	w  *world
}

// try makes one move.
func (x *explorer) try(w *world, progress bool, name func() string, f func(v *world) bool) {
	if x.bad != "" && x.pick < 0 {
		return
	}
	n := x.nth
	x.nth++
	if x.calm && (!progress || len(x.goods) > 0) {
		return
	}
	switch {
	case x.name != "":
		if x.picked != "" || name() != x.name {
			return
		}
		x.picked = x.name
	case x.pick >= 0 && int(n) != x.pick:
		return
	case x.pick >= 0:
		x.picked = name()
	}
	v := &x.scratch
	v.set(w)
	ok := safely(v, f)
	if ok {
		v.prune()
		v.see()
		v.check(x.sc)
	}
	if x.pick >= 0 {
		return
	}
	x.moves++
	if v.bad != "" {
		x.bad, x.badFrom, x.badMove = v.bad, x.id, n
		return
	}
	if !ok {
		return
	}
	h := x.hash(v)
	if x.next != nil {
		x.next[h] = name()
		if x.every == 0 {
			return
		}
	}
	id, known := x.table.add(h, uint32(len(x.parent))) //nolint:gosec // fewer than 1<<32
	if known && x.every > 0 {
		if x.merged++; x.merged%x.every == 0 {
			c := new(world)
			c.set(v)
			x.suspects = append(x.suspects, suspect{id, c})
		}
	}
	if !known {
		x.parent, x.move = append(x.parent, x.id), append(x.move, n)
		keep := new(world)
		if k := len(x.spare); k > 0 {
			keep = x.spare[k-1]
			x.spare = x.spare[:k-1]
		}
		keep.set(v)
		x.states = append(x.states, keep)
		if v.good() {
			x.goods = append(x.goods, id)
		}
	}
	if progress && id != x.id {
		x.edges = append(x.edges, edge{x.id, id})
	}
}

// safely makes a panic of the machine a finding.
func safely(v *world, f func(v *world) bool) (ok bool) {
	defer func() {
		if r := recover(); r != nil {
			v.fail("panic: %v", r)
			ok = false
		}
	}()
	return f(v)
}

func (x *explorer) hash(v *world) uint64 {
	x.buf1 = x.canon.encode(v, x.sc, false, x.buf1)
	if x.sc.symmetric && x.every == 0 {
		x.buf2 = x.canon.encode(v, x.sc, true, x.buf2)
		if bytes.Compare(x.buf2, x.buf1) < 0 {
			return hash(x.buf2)
		}
	}
	return hash(x.buf1)
}

// explore looks at every state that can be reached, up to most.
func (sc *scope) explore(most, every int) *explorer {
	sc.classes(every > 0)
	x := &explorer{sc: sc, pick: -1, every: every, seen: transitions{}}
	if every > 0 {
		x.next = map[uint64]string{}
	}
	w := new(world)
	sc.start(w)
	if x.from(w, most) && every == 0 {
		x.stuck()
	}
	return x
}

// clean says whether a clean end can be reached from w without faults, new callers or
// giving up.
func (sc *scope) clean(w *world) bool {
	sc.classes(false)
	x := &explorer{sc: sc, pick: -1, seen: transitions{}, calm: true}
	x.from(w, 100_000)
	return len(x.goods) > 0
}

// from explores from w, and returns whether all states were expanded and nothing was found.
func (x *explorer) from(w *world, most int) bool {
	x.table.add(x.hash(w), 0)
	x.parent, x.move = append(x.parent, 0), append(x.move, 0)
	x.states = append(x.states, w)
	if w.good() {
		x.goods = append(x.goods, 0)
	}
	head := 0
	for head < len(x.states) && x.bad == "" && (most == 0 || len(x.parent) < most) {
		w := x.states[head]
		x.states[head] = nil
		x.id, x.nth = uint32(len(x.parent)-len(x.states)+head), 0 //nolint:gosec // fewer than 1<<32
		head++
		if x.every > 0 {
			clear(x.next)
		}
		x.expand(w)
		if x.every > 0 {
			x.sums = append(x.sums, sum(x.next))
		}
		x.spare = append(x.spare, w)
		if head > 1<<14 && head > len(x.states)/2 {
			x.states = append(x.states[:0:0], x.states[head:]...)
			head = 0
		}
	}
	return x.bad == "" && head == len(x.states)
}

// stuck looks for states from which no clean end can be reached without faults, new
// callers or giving up.
func (x *explorer) stuck() {
	n := len(x.parent)
	start := make([]uint32, n+2)
	for _, e := range x.edges {
		start[e.to+1]++
	}
	for i := 1; i <= n; i++ {
		start[i] += start[i-1]
	}
	back := make([]uint32, len(x.edges))
	at := append([]uint32(nil), start...)
	for _, e := range x.edges {
		back[at[e.to]] = e.from
		at[e.to]++
	}
	ends := make([]bool, n)
	todo := x.goods
	for _, g := range todo {
		ends[g] = true
	}
	for len(todo) > 0 {
		g := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, f := range back[start[g]:start[g+1]] {
			if !ends[f] {
				ends[f] = true
				todo = append(todo, f)
			}
		}
	}
	if i := slices.Index(ends, false); i >= 0 {
		x.bad, x.badFrom, x.badMove = "stuck: no clean end can be reached", uint32(i), noMove //nolint:gosec // fewer than 1<<32
	}
}

// trace replays the way to what was found.
func (x *explorer) trace() (steps []string, w *world) {
	var moves []uint16
	if x.badMove != noMove {
		moves = append(moves, x.badMove)
	}
	for id := x.badFrom; id != 0; id = x.parent[id] {
		moves = append(moves, x.move[id])
	}
	slices.Reverse(moves)
	w = new(world)
	x.sc.start(w)
	y := &explorer{sc: x.sc, seen: transitions{}}
	for _, n := range moves {
		y.nth, y.pick, y.picked = 0, int(n), ""
		at := w.now
		y.expand(w)
		steps = append(steps, fmt.Sprintf("t%d %s", at-begin, y.picked))
		w.set(&y.scratch)
	}
	return steps, w
}

// replay makes the moves of a trace, as far as they are possible, and returns how many were.
func (sc *scope) replay(steps []string) (n int, w *world) {
	sc.classes(false)
	w = new(world)
	sc.start(w)
	x := &explorer{sc: sc, seen: transitions{}}
	for n < len(steps) {
		x.nth, x.picked, x.name = 0, "", steps[n]
		x.expand(w)
		if x.picked == "" {
			return n, w
		}
		w.set(&x.scratch)
		n++
	}
	return n, w
}

// audit compares the successors of states that were merged.
func (x *explorer) audit() (checked, wrong int, example string) {
	y := &explorer{sc: x.sc, pick: -1, next: map[uint64]string{}, seen: transitions{}}
	for _, s := range x.suspects {
		if int(s.id) >= len(x.sums) {
			continue // it was not expanded
		}
		clear(y.next)
		y.nth, y.every = 0, 0
		y.noSwap(s.w)
		checked++
		if sum(y.next) != x.sums[s.id] {
			if wrong++; example == "" {
				example = x.explain(s)
			}
		}
	}
	return checked, wrong, example
}

// noSwap expands without symmetry of processes, as the audited run did.
func (x *explorer) noSwap(w *world) {
	was := x.sc.symmetric
	x.sc.symmetric = false
	x.expand(w)
	x.sc.symmetric = was
}

// explain says how the successors of two merged states differ.
func (x *explorer) explain(s suspect) string {
	x.badFrom, x.badMove = s.id, noMove
	steps, w := x.trace()
	a := &explorer{sc: x.sc, pick: -1, next: map[uint64]string{}, seen: transitions{}}
	a.noSwap(w)
	b := &explorer{sc: x.sc, pick: -1, next: map[uint64]string{}, seen: transitions{}}
	b.noSwap(s.w)
	var text []string
	for h, n := range a.next {
		if b.next[h] == "" {
			text = append(text, "first only: "+n)
		}
	}
	for h, n := range b.next {
		if a.next[h] == "" {
			text = append(text, "second only: "+n)
		}
	}
	return fmt.Sprintf("%v\n%v\nfirst: %s\nsecond: %s", steps, text, w, s.w)
}

func sum(set map[uint64]string) (n uint64) {
	for h := range set {
		n += h * 0x9e3779b97f4a7c15
	}
	return n + uint64(len(set))
}

// classes says which callers are alike: all that do the same, and that no other is inside.
func (sc *scope) classes(apart bool) {
	for p := range sc.procs {
		for s := range sc.procs[p] {
			sc.class[p][s] = byte(s)
			for o := range s {
				a, b := sc.procs[p][o], sc.procs[p][s]
				if !apart && a == b && a.inside < 0 && !sc.entered(p, o) && !sc.entered(p, s) {
					sc.class[p][s] = byte(o)
					break
				}
			}
			sc.fenced = sc.fenced || sc.procs[p][s].as.Mode.exclusive()
		}
	}
}

// entered says whether another caller comes inside the lease of s.
func (sc *scope) entered(p, s int) bool {
	for _, r := range sc.procs[p] {
		if int(r.inside) == s {
			return true
		}
	}
	return false
}

func (w *world) String() string {
	text := ""
	for p := range w.p {
		m := &w.p[p]
		if len(m.callers) == 0 {
			continue
		}
		text += fmt.Sprintf("\n process %d at %d, dead %v, due %d, watch %+v, abreast %d, callAt %d, verified %d, yield %+v, leaving %d till %d, hears %+v",
			p, w.local(p), w.dead[p], m.Due(), m.watch, m.abreast, m.callAt, m.verified, m.yield, m.leaving, m.leaveTill, w.hears[p])
		for s := range m.callers {
			text += fmt.Sprintf("\n  caller %d %s %+v seat %+v", s, m.callers[s].phase, m.callers[s], w.seats[p][s])
		}
		for i := range m.claims {
			if m.claims[i].stage != free {
				text += fmt.Sprintf("\n  claim %d %s %+v", i, m.claims[i].stage, m.claims[i])
			}
		}
	}
	text += fmt.Sprintf("\n now %d, holds %+v, places %+v, keep %d, last %d, calm %v", w.now, w.holds[:w.nh], w.queue[:w.np], w.keep, w.last, w.calm)
	for i := range w.n {
		text += fmt.Sprintf("\n message %d: %s, slow %v, sent %d, by %d", w.msgs[i].proc, w.msgs[i].text(), w.msgs[i].slow, w.msgs[i].k.Sent, w.msgs[i].k.By)
	}
	return text
}
