package machine

// yield lets other lockers call first when a run of hand-offs has ended: the callers here
// know of the release before any message can reach the others, and would win each time.
// It lasts as long as the others need, which is seen from whether they came, and ends when
// one of them has had its turn: while two yield, a third would have the key for itself.
type yield struct {
	until   Time // nobody here calls before
	after   Time // no yield begins before
	length  Time // of the next
	unused  int32
	echoes  int32 // wake-ups of the own release that are still to come
	pending bool  // nobody knows yet whether it was used
}

const (
	// maxUnused yields in a row may come too early for the others before there are fewer.
	maxUnused = 3
	// maxPause is how often the pause between them is doubled.
	maxPause = 5
)

// yieldTo begins a yield if a hold ends a run, and others listen. Where nobody knows, it is
// a short one.
func (m *Machine) yieldTo(h *claim, others int32, now Time) {
	y := &m.yield
	if !h.spent || others == 0 || y.length == 0 || now < y.after {
		return
	}
	length := y.length
	if others < 0 {
		length = m.YieldMin
	}
	y.until, y.pending, y.echoes = after(now, length), true, 0
	if m.watch.state == watchOpen && m.watch.mode == h.mode.channel() {
		y.echoes = max(0, echoes(h.mode)-m.heardSince)
	}
}

// echoes is how often a locker hears of its own release.
func echoes(mode Mode) int32 {
	if mode == Write {
		return 2 // one for readers who sleep, one for who is about to
	}
	return 1
}

// turned ends the yield if a wake-up is that of another's release.
func (m *Machine) turned(now Time) {
	m.heardSince = min(m.heardSince+1, 2)
	y := &m.yield
	switch {
	case !y.pending || now >= y.until:
	case y.echoes > 0:
		y.echoes--
	default:
		y.until = now
		m.used()
	}
}

// used is that another locker has used the yield.
func (m *Machine) used() {
	y := &m.yield
	y.pending, y.unused, y.echoes = false, 0, 0
	y.length = max(m.YieldMin, y.length-y.length/8)
}

// yielded sees by the answer to the first acquire after a yield whether another locker has
// used it. One that was too late says that the others need longer, not that they want
// nothing.
func (m *Machine) yielded(e *Event, now Time) {
	y := &m.yield
	if !y.pending || e.Call.Sent < y.until || e.Answer.failed() {
		return
	}
	if e.Answer == AnsBusy {
		m.used()
		return
	}
	y.pending, y.echoes = false, 0
	y.length = min(2*y.length, m.YieldMax)
	y.unused = min(y.unused+1, maxUnused+maxPause)
	if y.unused > maxUnused {
		y.after = after(now, m.YieldPause<<(y.unused-maxUnused))
	}
}
